// want: does not implement actor.SendOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { jobs.Send(ctx, carts.Ref(n), "x", actor.TTL(1)) }
