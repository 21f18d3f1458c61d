package supervisor

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"strconv"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/sqlitevfs"
	"github.com/cairn-run/cairn/workflow"
)

var (
	// errGone: the activation has left memory; look the actor up again.
	errGone = errors.New("supervisor: activation is gone")
	// errAbandoned: the turn outlived its deadline and grace, and its activation was given up.
	errAbandoned = errors.New("supervisor: turn was abandoned")
)

// errDestroyed is what followers of an actor get that was destroyed.
func errDestroyed() *host.Error { return host.Errorf(host.Destroyed, "the actor was destroyed") }

// unavailable makes the error for a node that cannot take the call now and did nothing.
func unavailable(message string) *host.Error {
	return host.Errorf(host.Unavailable, "%s", message).Retry()
}

// uncertain makes the error for readers of an actor with a commit that never was durable.
func uncertain(a host.Address) *host.Error {
	return host.Errorf(host.Unavailable, "the last commit of actor %s may be lost, because the disk failed before it was durable; "+
		"restart the node to see what was kept", formatAddress(a)).With("reason", host.ReasonUncertain)
}

// damage reports whether err says that stored data is damaged. Trying again does not help then.
func damage(err error) bool {
	return errors.Is(err, engine.ErrDamaged) || errors.Is(err, &engine.CorruptError{})
}

// publicError turns any error into the one that may leave the actor. known is false for errors whose cause must be
// logged under the returned id, because it does not cross.
func publicError(err error) (e *host.Error, id string) {
	var (
		limit     *engine.LimitError
		quota     *engine.QuotaError
		passed    *sqlitevfs.LimitError
		large     *workflow.TooLargeError
		migration *sqlitevfs.MigrationError
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
		return host.OverLimit(limit.What, limit.Limit, limit.Actual), ""
	case errors.As(err, &quota):
		return host.Errorf(host.QuotaExceeded, "the actor's storage quota of %d bytes is used up", quota.Limit).
			With("limit", strconv.FormatInt(quota.Limit, 10)).With("actual", strconv.FormatInt(quota.Need, 10)), ""
	case errors.Is(err, engine.ErrCursor):
		return host.Errorf(host.InvalidArgument, "the cursor does not belong to this query").With("field", "cursor"), ""
	case errors.Is(err, engine.ErrBusy):
		return host.Errorf(host.Overloaded, "the turns that run now write more than the node has memory for").Retry(), ""
	case errors.Is(err, engine.ErrDiskFull):
		return unavailable("the disk is nearly full: writes are refused, reads go on").With("reason", "disk_full"), ""
	case errors.Is(err, engine.ErrReadOnly):
		return unavailable("the store is read-only after a disk error").With("reason", "read_only"), ""
	case damage(err): // after ErrReadOnly, which may have it for its cause
		id = newErrorID()
		return host.Errorf(host.Unavailable, "stored data is damaged (error %s); the node's log names the file", id).
			With("reason", host.ReasonDamaged).With("error_id", id), id
	case errors.Is(err, engine.ErrClosed), errors.Is(err, engine.ErrFenced):
		return unavailable("the node is shutting down"), ""
	case errors.As(err, &passed):
		return host.OverLimit(passed.What, passed.Limit, passed.Actual), ""
	case errors.As(err, &large):
		return host.OverLimit(large.What, large.Limit, large.Size), ""
	case errors.Is(err, sqlitevfs.ErrBusy): // before ErrFull, which SQLite makes of a shared bound
		return host.Errorf(host.Overloaded, "too many databases are in use at once").Retry(), ""
	case errors.Is(err, sqlitevfs.ErrFull):
		return host.Errorf(host.QuotaExceeded, "the actor's database cannot grow: its storage quota is used up"), ""
	case errors.Is(err, sqlitevfs.ErrReadOnly):
		return host.Errorf(host.ReadOnly, "a query cannot change anything"), ""
	case errors.Is(err, sqlitevfs.ErrRefused), errors.Is(err, sqlitevfs.ErrOpenTransaction):
		return host.Errorf(host.FailedPrecondition, "%s", sqlMessage(err)), ""
	case errors.Is(err, sqlitevfs.ErrClosed):
		return host.Errorf(host.FailedPrecondition, "a database handle was used after the end of its turn or query"), ""
	case errors.Is(err, context.Canceled):
		return host.Errorf(host.Canceled, "the call was canceled"), ""
	case errors.Is(err, context.DeadlineExceeded):
		return host.Errorf(host.DeadlineExceeded, "the deadline passed"), ""
	case errors.Is(err, sqlitevfs.ErrInterrupted):
		return host.Errorf(host.Canceled, "the call was canceled"), ""
	case errors.As(err, &migration):
		id = newErrorID()
		return host.Errorf(host.Internal, "the migration %q of the actor's database failed (error %s); the node's log has the cause", migration.Name, id).
			With("error_id", id).With("migration", migration.Name), id
	}
	id = newErrorID()
	return host.Errorf(host.Internal, "internal error %s; the node's log has the cause", id).With("error_id", id), id
}

// sqlMessage is what SQLite said, or else the text of the error.
func sqlMessage(err error) string {
	if e, ok := errors.AsType[*sqlitevfs.Error](err); ok && e.Message != "" {
		return e.Message
	}
	return err.Error()
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
