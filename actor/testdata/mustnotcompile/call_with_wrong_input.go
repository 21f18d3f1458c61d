// want: cannot use 7 (untyped int constant) as string value in argument to add.Call
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { add.Call(ctx, carts.Ref(n), 7) }
