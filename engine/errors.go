package engine

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/keyspace"
)

// Errors of a store. Test for them with errors.Is.
var (
	// ErrClosed is returned by every call on a closed store, space or snapshot.
	ErrClosed = errors.New("engine: closed")

	// ErrFenced is returned to a space that is no longer the latest one opened
	// for its actor. It can never commit again.
	ErrFenced = errors.New("engine: fenced by a newer activation of the actor")

	// ErrExists is returned by Commit when the name of an actor is taken, and by
	// Create when the actor has a name.
	ErrExists = errors.New("engine: an actor with this name exists")

	// ErrDestroyed is returned for an actor that was destroyed.
	ErrDestroyed = errors.New("engine: the actor was destroyed")

	// ErrDiskFull is returned by Commit while the disk has less free space than
	// Options.MinFreeBytes. Nothing was written; the write set is kept and the commit can be tried
	// again. Reads continue, and so do commits that make their actor smaller, while a quarter of
	// MinFreeBytes is free.
	ErrDiskFull = errors.New("engine: the disk is nearly full")

	// ErrBusy is returned for a write while the write sets of all actors hold
	// Options.WriteBytes. The call changed nothing.
	ErrBusy = errors.New("engine: too much is being written at once")

	// ErrReadOnly is returned by Commit after an I/O error: the content of the disk is then
	// unknown, so nothing is written until the store is opened again. The returned error wraps the
	// cause too; see Store.Err.
	ErrReadOnly = errors.New("engine: the store is read-only after an I/O error")

	// ErrFormat is returned by Open for a store written by a newer version.
	ErrFormat = errors.New("engine: the store has a newer format than this version understands")

	// ErrLocked is returned by Open while another process, or another Store of
	// this one, has the directory open.
	ErrLocked = errors.New("engine: the directory is in use by another process")

	// ErrUncertain is returned by Commit, together with ErrReadOnly, if Pebble failed in the middle
	// of it. Whether the commit was kept is unknown until the store is opened again.
	ErrUncertain = errors.New("engine: whether the commit was kept is unknown")

	// ErrCursor is returned by Actors for a cursor that is not of an earlier page of the same
	// query.
	ErrCursor = errors.New("engine: the cursor does not belong to this query")

	// ErrReserved is returned for a write to a key that the engine maintains
	// itself (keyspace.Expiry.Kind) or that is written aside, and for an empty key.
	ErrReserved = errors.New("engine: the key is reserved")
)

// Values of LimitError.What.
const (
	LimitKey      = "key"
	LimitValue    = "value"
	LimitWriteSet = "write set"
)

// LimitError is returned when something is larger than the store allows. The
// call that returned it changed nothing.
type LimitError struct {
	What   string // LimitKey, LimitValue or LimitWriteSet
	Limit  int64  // bytes
	Actual int64  // bytes
}

func (e *LimitError) Error() string {
	return fmt.Sprintf("engine: %s of %d bytes is over the limit of %d", e.What, e.Actual, e.Limit)
}

// Is reports whether target is a LimitError about the same thing. An empty What
// in target matches every limit.
func (e *LimitError) Is(target error) bool {
	t, ok := target.(*LimitError)
	return ok && (t.What == "" || t.What == e.What)
}

// QuotaError is returned by Put when the actor's keys and values would take more
// than its quota. The call changed nothing.
type QuotaError struct {
	Limit int64 // bytes that the actor may have
	Used  int64 // bytes that it has, this write set included
	Need  int64 // bytes that it would have
}

func (e *QuotaError) Error() string {
	return fmt.Sprintf("engine: the actor would have %d bytes, its quota is %d", e.Need, e.Limit)
}

// Is reports whether target is a QuotaError.
func (e *QuotaError) Is(target error) bool {
	_, ok := target.(*QuotaError)
	return ok
}

// CorruptError is returned for a row that the engine cannot have written.
type CorruptError struct {
	Row    []byte // nil if unknown
	Reason string
}

func (e *CorruptError) Error() string {
	if e.Row == nil {
		return "engine: corrupt row: " + e.Reason
	}
	return fmt.Sprintf("engine: corrupt row %s: %s", keyspace.FormatRow(e.Row), e.Reason)
}

// Is reports whether target is a CorruptError.
func (e *CorruptError) Is(target error) bool {
	_, ok := target.(*CorruptError)
	return ok
}

// ErrDamaged is in the error of Open for a store with damaged or missing files; Open then changes
// nothing. Every read also returns it for a damaged table that Open did not read. If the files are
// known, the error is a DamageError, or several joined.
var ErrDamaged = errors.New("engine: the store is damaged")

// DamageError names a file of the store that is damaged or missing.
type DamageError struct {
	File   string // in the store's directory; the stem of a marker's name if the marker is missing
	Offset int64  // first byte that cannot be trusted; -1 if the file is missing
	Reason string
	cause  error // of Pebble, if it found the damage
}

// Unwrap returns the error of Pebble, or nil.
func (e *DamageError) Unwrap() error { return e.cause }

func (e *DamageError) Error() string {
	if e.Offset < 0 {
		return fmt.Sprintf("engine: damaged store: %s: %s", e.File, e.Reason)
	}
	return fmt.Sprintf("engine: damaged store: %s, byte %d: %s", e.File, e.Offset, e.Reason)
}

// Is reports whether target is ErrDamaged.
func (e *DamageError) Is(target error) bool { return target == ErrDamaged }

// at returns err with the row set, if it is a CorruptError.
func at(row []byte, err error) error {
	if err == nil {
		return nil
	}
	var corrupt *CorruptError
	if errors.As(err, &corrupt) && corrupt.Row == nil {
		corrupt.Row = append([]byte(nil), row...)
	}
	return err
}

// spoiled reports whether an error says that the rows or files read are damaged.
func spoiled(err error) bool {
	corrupt := (*CorruptError)(nil)
	return errors.As(err, &corrupt) || errors.Is(err, ErrDamaged)
}
