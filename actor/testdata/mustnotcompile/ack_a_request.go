// want: d.Ack undefined
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, d *actor.RequestDelivery[string, int]) { d.Ack(ctx) }
