// want: cannot use ctx (variable of type *actor.ReadContext) as *actor.Context value in argument to
// add.Send
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { add.Send(ctx, carts.Ref(ctx), "x") }
