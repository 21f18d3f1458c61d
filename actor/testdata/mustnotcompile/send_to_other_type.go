// want: as actor.Ref[cart] value in argument to add.Send
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { add.Send(ctx, rooms.Ref(ctx), "x") }
