// want: cannot use rooms.Ref(n) (value of struct type actor.Ref[room]) as actor.Ref[cart] value
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { add.Call(ctx, rooms.Ref(n), "x") }
