package kernel

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

var (
	// errGone: the Actor has left memory; look the actor up again.
	errGone = errors.New("kernel: activation is gone")
	// ErrAbandoned: the turn outlived its deadline and grace, and its Actor was given up.
	ErrAbandoned = errors.New("kernel: turn was abandoned")
)

// ErrDestroyed is what followers of an actor get that was destroyed.
func ErrDestroyed() *host.Error { return host.Errorf(host.Destroyed, "the actor was destroyed") }

// Unavailable makes the error for a node that cannot take the call now and did nothing.
func Unavailable(message string) *host.Error {
	return host.Errorf(host.Unavailable, "%s", message).Retry()
}

// uncertain makes the error for readers of an actor with a commit that never was durable.
func uncertain(a host.Address) *host.Error {
	return host.Errorf(host.Unavailable, "the last commit of actor %s may be lost, because the disk failed before it was durable; "+
		"restart the node to see what was kept", address.Format(a)).With("reason", host.ReasonUncertain)
}

// damage reports whether err says that stored data is damaged. Trying again does not help then.
func damage(err error) bool {
	return errors.Is(err, engine.ErrDamaged) || errors.Is(err, &engine.CorruptError{})
}

// PublicError turns any error into the one that may leave the actor. known is false for errors whose cause must be
// logged under the returned id, because it does not cross.
func (s *Kernel) PublicError(err error) (e *host.Error, id string) {
	return PublicError(err, s.translators)
}

// PublicError returns the error that callers see. id is the one under which the cause must be logged, or "".
func PublicError(err error, translators []Translator) (e *host.Error, id string) {
	var (
		limit *engine.LimitError
		quota *engine.QuotaError
	)
	switch {
	case err == nil:
		return nil, ""
	case errors.As(err, &e):
		if e.Code.Known() {
			return e, ""
		}
		return hidden()
	case errors.As(err, &limit):
		return host.OverLimit(limit.What, limit.Limit, limit.Actual), ""
	case errors.As(err, &quota):
		return host.Errorf(host.QuotaExceeded, "the actor's storage quota of %d bytes is used up", quota.Limit).
			With("limit", strconv.FormatInt(quota.Limit, 10)).With("actual", strconv.FormatInt(quota.Need, 10)), ""
	case errors.Is(err, engine.ErrCursor):
		return host.Errorf(host.InvalidArgument, "the cursor does not belong to this query").With("field", "cursor"), ""
	case errors.Is(err, engine.ErrBusy):
		return host.Errorf(host.Overloaded, "the turns that run now write more than the node has memory for").Retry(), ""
	case errors.Is(err, engine.ErrDiskFull):
		return Unavailable("the disk is nearly full: writes are refused, reads go on").With("reason", "disk_full"), ""
	case errors.Is(err, engine.ErrReadOnly):
		return Unavailable("the store is read-only after a disk error").With("reason", "read_only"), ""
	case damage(err): // after ErrReadOnly, which may have it for its cause
		id = NewErrorID()
		return host.Errorf(host.Unavailable, "stored data is damaged (error %s); the node's log names the file", id).
			With("reason", host.ReasonDamaged).With("error_id", id), id
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrFenced):
		return Unavailable("the node is shutting down"), ""
	}
	for _, t := range translators {
		if e, id = t.Translate(err); e != nil {
			return e, id
		}
	}
	switch {
	case errors.Is(err, context.Canceled):
		return host.Errorf(host.Canceled, "the call was canceled"), ""
	case errors.Is(err, context.DeadlineExceeded):
		return host.Errorf(host.DeadlineExceeded, "the deadline passed"), ""
	}
	return hidden()
}

// hidden makes the error for a cause that only the log shows, under id.
func hidden() (e *host.Error, id string) {
	id = NewErrorID()
	return host.Errorf(host.Internal, "internal error %s; the node's log has the cause", id).With("error_id", id), id
}

// full reports that an error says only that the node has no room now: of the store, or of a part.
func (s *Kernel) full(err error) bool {
	if _, ok := errors.AsType[*host.Error](err); ok {
		return false
	}
	e, _ := s.PublicError(err)
	return e.Code == host.Overloaded
}

// NewErrorID makes an opaque id that connects what a caller sees with what the log says.
func NewErrorID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// ContextError is the error for a caller who gave up.
func ContextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return host.Errorf(host.DeadlineExceeded, "the caller's deadline passed")
	}
	return host.Errorf(host.Canceled, "the caller gave up")
}

// NotFound returns the error for an address without an actor.
func NotFound(a host.Address) *host.Error {
	return host.Errorf(host.NotFound, "there is no actor %s", address.Format(a)).With("actor", address.Format(a))
}

// UnknownMethod returns the error for a method that the type does not have.
func UnknownMethod(typ, method string) *host.Error {
	return host.Errorf(host.UnknownMethod, "actor type %q has no method %q", typ, method).With("type", typ).With("method", method)
}

// StoreError makes the public error for a failed read, and logs its cause.
func (s *Kernel) StoreError(err error) error {
	e, id := s.PublicError(err)
	if id != "" {
		s.Logger.Error("read the store", "error_id", id, "error", err)
	}
	return e
}
