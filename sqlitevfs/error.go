package sqlitevfs

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// The kinds of errors of this package, for errors.Is.
var (
	ErrFull   = errors.New("database or disk is full") // quota, TurnBytes, Temporary
	ErrMemory = errors.New("out of memory")            // ConnMemory, C's stack
	// MaxLength, the length and the depth of a statement
	ErrTooBig          = errors.New("string or blob too big")
	ErrBusy            = errors.New("busy")                          // MaxOpen; or a second write session
	ErrInterrupted     = errors.New("interrupted")                   // wraps the cause of the context too
	ErrReadOnly        = errors.New("read-only")                     // a write in a read session
	ErrClosed          = errors.New("the session is over")           // or the database, or the pool
	ErrOpenTransaction = errors.New("a transaction was left open")   // at Commit
	ErrRefused         = errors.New("not allowed here")              // ATTACH, VACUUM INTO, pragmas, host files
	ErrConstraint      = errors.New("constraint failed")             // all SQLITE_CONSTRAINT codes
	ErrUnique          = errors.New("unique constraint failed")      // SQLITE_CONSTRAINT_UNIQUE, _PRIMARYKEY, _ROWID
	ErrForeignKey      = errors.New("foreign key constraint failed") // SQLITE_CONSTRAINT_FOREIGNKEY
	ErrCorrupt         = errors.New("the database is corrupt")       // SQLITE_CORRUPT, SQLITE_NOTADB, a missing page
)

// A LimitError says which bound is exceeded, and by what value.
type LimitError struct {
	Err           error  // [ErrFull], [ErrMemory] or [ErrTooBig]
	What          string // the object that is too large, as in "pages that the turn changes"
	Limit, Actual int64  // bytes, or a depth or count; Actual is Limit+1 if SQLite stopped there, because the real value is unknown
}

// Error returns the bound and the actual value.
func (e *LimitError) Error() string {
	return fmt.Sprintf("%s: %d bytes are over the limit of %d", e.What, e.Actual, e.Limit)
}

// Unwrap returns Err.
func (e *LimitError) Unwrap() error { return e.Err }

// An Error is an error of SQLite. It is one of the variables above for errors.Is.
type Error struct {
	Code    int    // SQLite's extended result code, https://sqlite.org/rescode.html
	Message string // SQLite's message, as in "UNIQUE constraint failed: note.id"
	SQL     string // from the error on, up to 200 bytes; may be empty
	Err     error  // the cause: of a Reader or Writer, of a context; may be nil
}

// maxErrorSQL bounds the part of a statement that an error quotes, in bytes.
const maxErrorSQL = 200

// Error returns the message and the cause.
func (e *Error) Error() string {
	if e.Err != nil {
		return e.Message + ": " + e.Err.Error()
	}
	return e.Message
}

// Unwrap returns the cause.
func (e *Error) Unwrap() error { return e.Err }

// Is reports whether target is the variable of this package for the code.
func (e *Error) Is(target error) bool {
	switch target {
	case ErrUnique:
		return e.Code == int(sqlite3.CONSTRAINT_UNIQUE) || e.Code == int(sqlite3.CONSTRAINT_PRIMARYKEY) ||
			e.Code == int(sqlite3.CONSTRAINT_ROWID)
	case ErrForeignKey:
		return e.Code == int(sqlite3.CONSTRAINT_FOREIGNKEY)
	case ErrCorrupt:
		if e.Code == int(sqlite3.IOERR_CORRUPTFS) || e.Code == int(sqlite3.IOERR_DATA) {
			return true
		}
	}
	return target != nil && target == sentinel(sqlite3.ErrorCode(e.Code&0xff))
}

// sentinel returns the variable for a primary result code, or nil.
func sentinel(code sqlite3.ErrorCode) error {
	switch code {
	case sqlite3.FULL:
		return ErrFull
	case sqlite3.NOMEM:
		return ErrMemory
	case sqlite3.TOOBIG:
		return ErrTooBig
	case sqlite3.BUSY:
		return ErrBusy
	case sqlite3.INTERRUPT:
		return ErrInterrupted
	case sqlite3.READONLY:
		return ErrReadOnly
	case sqlite3.AUTH, sqlite3.PERM:
		return ErrRefused
	case sqlite3.CONSTRAINT:
		return ErrConstraint
	case sqlite3.CORRUPT, sqlite3.NOTADB:
		return ErrCorrupt
	}
	return nil
}

// wrap turns an error of the library into an *Error. It returns others, and nil, as they are, even
// an error of a Reader or Writer that wraps one of the library. It quotes sql if SQLite gives no
// position of the error.
func wrap(err error, sql string) error {
	e := &Error{SQL: sql}
	switch err := err.(type) {
	case *sqlite3.Error:
		e.Code, e.Err = int(err.ExtendedCode()), err.Unwrap()
		e.Message = strings.TrimPrefix(err.Error(), err.ExtendedCode().Error())
		if e.Err != nil {
			e.Message = strings.TrimSuffix(e.Message, ": "+e.Err.Error())
		}
		e.Message = strings.TrimPrefix(e.Message, ": ")
		if s := err.SQL(); s != "" {
			e.SQL = s
		}
	case sqlite3.ExtendedErrorCode:
		e.Code = int(err)
	case sqlite3.ErrorCode:
		e.Code = int(err)
	default:
		return err
	}
	if e.Message == "" {
		e.Message = strings.TrimPrefix(sqlite3.ExtendedErrorCode(e.Code).Error(), "sqlite3: ")
	}
	if len(e.SQL) > maxErrorSQL {
		n := maxErrorSQL
		for n > 0 && !utf8.RuneStart(e.SQL[n]) {
			n--
		}
		e.SQL = e.SQL[:n]
	}
	return e
}

// outOfMemory reports whether a recovered panic is the library's panic for a full heap of a
// connection.
func outOfMemory(p any) bool {
	err, ok := p.(error)
	if !ok {
		return false
	}
	// The library's value has an internal type, so only its text identifies it; a test checks the
	// text.
	return err.Error() == "sqlite3: out of memory" || errors.Is(err, syscall.ENOMEM)
}

// memoryError returns the error for such a panic, or nil for any other.
func memoryError(p any) error {
	err, ok := p.(error)
	switch {
	case !outOfMemory(p):
		return nil
	case ok && errors.Is(err, syscall.ENOMEM): // the machine has no memory left; this is no bound of a connection
		return &Error{Code: int(sqlite3.BUSY), Message: "the machine has no memory left", Err: err}
	}
	return &Error{Code: int(sqlite3.NOMEM), Message: ErrMemory.Error()}
}

// limited adds the bound to an error of SQLite about an exceeded limit, unless the error has a
// cause. statement and value are the lengths of the text that was compiled and of the longest
// argument; 0 if there was none.
func limited(err error, l Limits, statement, value int) error {
	e, ok := err.(*Error)
	if !ok || e.Err != nil {
		return err
	}
	switch sqlite3.ErrorCode(e.Code & 0xff) {
	case sqlite3.NOMEM:
		e.Err = &LimitError{ErrMemory, "SQL memory", l.ConnMemory, l.ConnMemory + 1}
	case sqlite3.TOOBIG:
		limit := int64(l.MaxLength)
		e.Err = &LimitError{ErrTooBig, "SQL value", limit, max(limit+1, int64(value))}
		if statement > maxStatement {
			e.Err = &LimitError{ErrTooBig, "SQL statement", maxStatement, int64(statement)}
		}
	case sqlite3.ERROR:
		// SQLite has no code for these.
		switch {
		case e.Message == "Recursion limit":
			e.Err = &LimitError{ErrTooBig, "SQL parser depth", maxDepth, maxDepth + 1}
		case strings.HasPrefix(e.Message, "Expression tree is too large"):
			e.Err = &LimitError{ErrTooBig, "SQL expression depth", maxDepth, maxDepth + 1}
		case e.Message == "too many terms in compound SELECT":
			e.Err = &LimitError{ErrTooBig, "terms of a compound SELECT", maxCompound, maxCompound + 1}
		}
	}
	return err
}

// interrupted returns the error of a context that has ended, or nil.
func interrupted(ctx context.Context) error {
	if ctx == nil || ctx.Err() == nil {
		return nil
	}
	return &Error{Code: int(sqlite3.INTERRUPT), Message: ErrInterrupted.Error(), Err: context.Cause(ctx)}
}
