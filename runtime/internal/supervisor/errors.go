package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

var (
	// errGone: the activation has left memory; look the actor up again.
	errGone = errors.New("supervisor: activation is gone")
	// errAbandoned: the turn outlived its deadline and grace, and its activation was given up.
	errAbandoned = errors.New("supervisor: turn was abandoned")
)

// unavailable makes the error for a node that cannot take the call now and did nothing.
func unavailable(message string) *host.Error {
	return host.Errorf(host.Unavailable, "%s", message).Retry()
}

func tooLarge(what string, limit, actual int64) *host.Error {
	return host.Errorf(host.TooLarge, "%s: %d is over the limit of %d", what, actual, limit).
		With("what", what).With("limit", strconv.FormatInt(limit, 10)).With("actual", strconv.FormatInt(actual, 10))
}

// publicError turns any error into the one that may leave the actor. known is false for errors whose cause must be
// logged under the returned id, because it does not cross.
func publicError(err error) (e *host.Error, id string) {
	var (
		limit *engine.LimitError
		quota *engine.QuotaError
	)
	switch {
	case err == nil:
		return nil, ""
	case errors.As(err, &e):
		if !e.Code.Known() {
			break
		}
		return e, ""
	case errors.As(err, &limit):
		return tooLarge(limit.What, limit.Limit, limit.Actual), ""
	case errors.As(err, &quota):
		return host.Errorf(host.QuotaExceeded, "the actor's storage quota of %d bytes is used up", quota.Limit).
			With("limit", strconv.FormatInt(quota.Limit, 10)).With("actual", strconv.FormatInt(quota.Need, 10)), ""
	case errors.Is(err, engine.ErrCursor):
		return host.Errorf(host.InvalidArgument, "the cursor does not belong to this query"), ""
	case errors.Is(err, engine.ErrDiskFull):
		return unavailable("the disk is nearly full: writes are refused, reads go on").With("reason", "disk_full"), ""
	case errors.Is(err, engine.ErrReadOnly):
		return unavailable("the store is read-only after a disk error").With("reason", "read_only"), ""
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrFenced):
		return unavailable("the node is shutting down"), ""
	case errors.Is(err, context.Canceled):
		return host.Errorf(host.Canceled, "the call was canceled"), ""
	case errors.Is(err, context.DeadlineExceeded):
		return host.Errorf(host.DeadlineExceeded, "the deadline passed"), ""
	}
	id = newErrorID()
	return host.Errorf(host.Internal, "internal error %s; the node's log has the cause", id).With("error_id", id), id
}

// newErrorID makes an opaque id that connects what a caller sees with what the log says.
func newErrorID() string {
	var b [8]byte
	rand.Read(b[:])
	return hex.EncodeToString(b[:])
}

// contextError is the error for a caller who gave up.
func contextError(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return host.Errorf(host.DeadlineExceeded, "the caller's deadline passed")
	}
	return host.Errorf(host.Canceled, "the caller gave up")
}

func notFound(a host.Address) *host.Error {
	return host.Errorf(host.NotFound, "there is no actor %s", formatAddress(a)).With("actor", formatAddress(a))
}

func unknownMethod(typ, method string) *host.Error {
	return host.Errorf(host.UnknownMethod, "actor type %q has no method %q", typ, method).With("type", typ).With("method", method)
}
