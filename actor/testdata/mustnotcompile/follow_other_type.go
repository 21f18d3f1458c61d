// want: as actor.Ref[cart] value in argument to tokens.Follow
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { tokens.Follow(ctx, rooms.Ref(n), 0) }
