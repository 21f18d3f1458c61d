package fault

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/rate"
)

// A Reporter makes the errors that may leave the node, and logs the causes that may not. Its
// methods take attributes of the line.
type Reporter struct {
	Logger      *slog.Logger
	Translators []Translator // asked in this order
	// commits bounds the lines about commits that fail.
	commits rate.Lines
}

// PublicError returns the error that callers see. id is the one under which the caller of this
// method must log the cause, or "".
func (r *Reporter) PublicError(err error) (e *host.Error, id string) {
	return Public(err, r.Translators)
}

// StoreError makes the public error for a failed read, and logs its cause.
func (r *Reporter) StoreError(err error) error {
	e, id := r.PublicError(err)
	if id != "" {
		r.Logger.Error("read the store", "error_id", id, "error", err)
	}
	return e
}

// TurnError makes the public error of a turn, and logs its cause. reason is what operators read:
// the error itself, even if callers get only its id.
func (r *Reporter) TurnError(addr host.Address, work, method string, err error,
	more ...slog.Attr) (e *host.Error, reason string) {
	e, id := r.PublicError(err)
	if id != "" {
		r.log(addr, "turn failed",
			append(more, slog.String("error_id", id), slog.String("work", work),
				slog.String("method", method), slog.Any("error", err))...)
		return e, fmt.Sprintf("%s (error %s)", err, id)
	}
	if e != nil {
		reason = e.Message
	}
	return e, reason
}

// QueryError makes the public error of a query, and logs its cause.
func (r *Reporter) QueryError(addr host.Address, method string, err error, more ...slog.Attr) *host.Error {
	e, id := r.PublicError(err)
	if id != "" {
		r.log(addr, "query failed",
			append(more, slog.String("error_id", id), slog.String("method", method), slog.Any("error", err))...)
	}
	return e
}

// CommitError makes the public error of a commit that failed, and logs its cause, once a second.
func (r *Reporter) CommitError(addr host.Address, err error) *host.Error {
	e, _ := r.PublicError(err)
	if errors.Is(err, engine.ErrUncertain) {
		e = host.Errorf(host.Unavailable, "the disk failed during the commit; whether it was kept is unknown")
	} else if e.Code == host.Internal {
		e = Unavailable("the commit failed; nothing of it was kept")
	}
	if !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrFenced) {
		id := e.Metadata["error_id"]
		if left, ok := r.commits.Pass(err.Error()); ok || id != "" {
			r.log(addr, "commit failed", slog.String("error_id", id), slog.Any("error", err),
				slog.Int("left_out", left))
		}
	}
	return e
}

// Full reports whether an error only means that the node has no room now: in the store, or in a
// part.
func (r *Reporter) Full(err error) bool {
	if _, ok := errors.AsType[*host.Error](err); ok {
		return false
	}
	e, _ := r.PublicError(err)
	return e.Code == host.Overloaded
}

// Contain is deferred. It turns a panic of a hook of a part, or of a value of a part, into an
// error, and logs it.
func (r *Reporter) Contain(addr host.Address, hook string, part any, err *error) {
	p := recover()
	if p == nil {
		return
	}
	id := NewID()
	r.log(addr, "part panicked", slog.String("hook", hook),
		slog.String("part", fmt.Sprintf("%T", part)), slog.String("error_id", id),
		slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))
	*err = host.Errorf(host.Internal, "a part of the node panicked (error %s)", id).With("error_id", id)
}

// Crashed makes the error for a panic of an actor's code, and logs the stack under its id.
func (r *Reporter) Crashed(addr host.Address, handler string, p any, more ...slog.Attr) *host.Error {
	id := NewID()
	r.log(addr, "handler panicked", append(more, slog.String("handler", handler), slog.String("error_id", id),
		slog.String("panic", fmt.Sprint(p)), slog.String("stack", string(debug.Stack())))...)
	return host.Errorf(host.Crashed, "the handler crashed (error %s); nothing of the turn was kept",
		id).With("error_id", id)
}

// log writes a line about an actor.
func (r *Reporter) log(addr host.Address, message string, more ...slog.Attr) {
	r.Logger.LogAttrs(context.Background(), slog.LevelError, message, append(Attrs(addr), more...)...)
}

// Attrs returns the log attributes that name an actor.
func Attrs(addr host.Address) []slog.Attr {
	return []slog.Attr{slog.String("actor_type", addr.Type), slog.Any("actor_key", addr.Key)}
}
