// want: does not implement actor.WorkOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

func _(ctx context.Context, n actor.Node) { mail.Work(ctx, carts.Ref(n), 1, nil, actor.Max(1)) }
