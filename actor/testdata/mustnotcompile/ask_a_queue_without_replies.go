// want: jobs.Ask undefined
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { jobs.Ask(ctx, carts.Ref(n), "x") }
