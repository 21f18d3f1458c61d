// want: as actor.Ref[cart] value in argument to jobs.Send
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { jobs.Send(ctx, rooms.Ref(n), "x") }
