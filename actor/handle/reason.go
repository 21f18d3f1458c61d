package handle

import (
	"context"

	"github.com/cairn-run/cairn/actor/host/audit"
)

// WithReason returns a context for calls that are made for a reason, of at most 1,000 characters.
// The audit log of the node shows it with what an operator does, and some methods demand one. Over
// a network it goes with each call.
func WithReason(ctx context.Context, reason string) context.Context {
	return audit.WithReason(ctx, reason)
}
