package fault

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// Damage reports whether err says that stored data is damaged. Trying again does not help then.
func Damage(err error) bool {
	return errors.Is(err, engine.ErrDamaged) || errors.Is(err, &engine.CorruptError{})
}

// A Translator returns the public form of a part's own errors; nil for others. id is the one under
// which the cause must be logged, or "".
type Translator interface {
	Translate(err error) (e *host.Error, id string)
}

// Public returns the error that callers see. id is the one under which the cause must be logged, or
// "".
func Public(err error, translators []Translator) (e *host.Error, id string) {
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
		return host.Errorf(host.Overloaded,
			"the turns that run now write more than the node has memory for").Retry(), ""
	case errors.Is(err, engine.ErrDiskFull):
		return Unavailable("the disk is nearly full: writes are refused, reads go on").With("reason", "disk_full"), ""
	case errors.Is(err, engine.ErrReadOnly):
		return Unavailable("the store is read-only after a disk error").With("reason", "read_only"), ""
	case Damage(err): // after ErrReadOnly, which may have it for its cause
		id = NewID()
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
	id = NewID()
	return host.Errorf(host.Internal, "internal error %s; the node's log has the cause", id).With("error_id", id), id
}

// NewID makes an opaque id that connects an error of a caller with a line of the log.
func NewID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}
