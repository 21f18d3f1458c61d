package replay

import (
	"context"
	"fmt"
	"log/slog"
)

// Publish sets the value that the run's status shows.
func Publish[T any](ctx Context, v T) {
	s := ctx.scope()
	s.own()
	data, err := s.run.encode(v)
	if err == nil {
		err = s.run.fits("the value", data)
	}
	if err != nil {
		s.misuse(s.owner, fmt.Sprintf("publish: %v", err))
	}
	s.run.publish = data
}

// logger returns the logger of the workflow function.
func (r *Run) logger() *slog.Logger {
	if r.log == nil {
		h := slog.Handler(slog.DiscardHandler)
		if f := r.options.Logger; f != nil {
			if l := f(); l != nil {
				h = &liveHandler{l.Handler(), r}
			}
		}
		r.log = slog.New(h).With(slog.String("workflow", r.program.name), slog.String("run", r.id()))
	}
	return r.log
}

// replaying reports whether the function is only repeating recorded operations.
func (r *Run) replaying() bool { return !r.live && !r.fresh }

// A liveHandler drops messages during a replay.
type liveHandler struct {
	slog.Handler
	run *Run
}

func (h *liveHandler) Enabled(ctx context.Context, level slog.Level) bool {
	return !h.run.replaying() && h.Handler.Enabled(ctx, level)
}

func (h *liveHandler) WithAttrs(attrs []slog.Attr) slog.Handler {
	return &liveHandler{h.Handler.WithAttrs(attrs), h.run}
}

func (h *liveHandler) WithGroup(name string) slog.Handler {
	return &liveHandler{h.Handler.WithGroup(name), h.run}
}
