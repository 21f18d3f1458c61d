package handle

import (
	"context"

	"github.com/cairn-run/cairn/actor/host/audit"
)

// WithReason returns a context whose calls have a reason, of up to 1,000 characters. The audit log
// of the node shows it with an operator's actions, and some methods require one. It is sent with
// each call over a network.
func WithReason(ctx context.Context, reason string) context.Context {
	return audit.WithReason(ctx, reason)
}
