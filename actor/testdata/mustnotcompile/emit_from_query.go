// want: cannot use ctx (variable of type *actor.ReadContext) as *actor.Context value in argument to
// added.Emit
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { added.Emit(ctx, "x") }
