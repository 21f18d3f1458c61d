// want: cannot use ctx (variable of type *actor.Context) as *actor.Task value in argument to
// actor.Enter
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { actor.Enter(ctx, func(*cart, *actor.Context) error { return nil }) }
