// want: d.Reply undefined
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, d *actor.Delivery[string]) { d.Reply(ctx, 1) }
