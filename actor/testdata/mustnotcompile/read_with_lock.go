// want: does not implement actor.ReadOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { tokens.Read(ctx, carts.Ref(n), 0, actor.Lock(1)) }
