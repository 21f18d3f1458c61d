// want: cannot use "x" (untyped string constant) as int value in argument to d.Reply
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, d *actor.RequestDelivery[string, int]) { d.Reply(ctx, "x") }
