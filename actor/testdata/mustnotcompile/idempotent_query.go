// want: does not implement actor.QueryOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) {
	count.Call(ctx, carts.Ref(n), actor.None{}, actor.IdempotencyKey("k"))
}
