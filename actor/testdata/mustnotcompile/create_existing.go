// want: does not implement actor.CreateOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { opening.Call(ctx, carts.Ref(n), "x", actor.Existing()) }
