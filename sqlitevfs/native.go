package sqlitevfs

import (
	"errors"
	"fmt"
	"io"
	"reflect"
	"runtime"
	"slices"
	"strings"
	"unsafe"

	"github.com/ncruces/go-sqlite3"
)

// An inner is the part of a connection that is needed and not in the library's interface. If a
// later version of the library has other names there is no inner, and a test reports it.
type inner interface {
	// Slice returns the linear memory, which is nearly all memory of a connection and never
	// shrinks. SQLite's own counters give the memory in use now, not the size that it has grown to.
	Slice() *[]byte
	// X__stack_pointer returns the current end of C's stack of 64 KiB, from 65536 down to 0.
	X__stack_pointer() *int32
	// Close gives the memory back, without calling SQLite.
	io.Closer
}

// innerOf returns the inner of a connection, or nil.
func innerOf(db *sqlite3.Conn) inner {
	v := reflect.ValueOf(db).Elem().FieldByName("wrp")
	if !v.IsValid() || !v.CanAddr() {
		return nil
	}
	in, _ := reflect.NewAt(v.Type(), unsafe.Pointer(v.UnsafeAddr())).Elem().Interface().(inner)
	return in
}

// attach stores the addresses of a new connection's memory and stack, and the stack's idle value.
func (in *instance) attach(db *sqlite3.Conn) {
	in.db = db
	if in.inner = innerOf(db); in.inner != nil {
		in.memory, in.stack = in.inner.Slice(), in.inner.X__stack_pointer()
		in.rest = *in.stack
		in.stop.attach(in.memory)
		in.max = growth(db)
	}
}

// atRest reports whether no call into SQLite was left by a panic. Such a call leaves its part of
// the stack behind, and SQLite in any state.
func (in *instance) atRest() bool { return in.stack == nil || *in.stack == in.rest }

// stackBytes is how large C's stack is.
const stackBytes = 64 << 10

// nearEnd is the rest of the stack, in bytes, below which a function of SQLite may find no room.
const nearEnd = 16 << 10

// failure turns a panic of the library into an error. It returns nil if the panic is from
// elsewhere: a Reader, a Writer, this package. If the panic has left a call into SQLite, the
// connection is broken: no other call is safe, and most would panic too.
func (in *instance) failure(p any) error {
	if err := in.stop.stopped(); err != nil {
		in.broken = true
		return err
	}
	in.broken = in.broken || !in.atRest()
	_, fault := p.(runtime.Error)
	switch err := memoryError(p); {
	case in.file.outside:
		return nil
	case err != nil:
		return err
	case fault && in.stack == nil:
		in.broken = true
		return tooComplex()
	case fault && in.broken && *in.stack < nearEnd:
		return tooComplex()
	case in.broken || strings.HasPrefix(fmt.Sprint(p), "sqlite3: "):
		return &Error{Code: int(sqlite3.INTERNAL),
			Message: "SQLite has failed: " + strings.TrimPrefix(fmt.Sprint(p), "sqlite3: ")}
	}
	return nil
}

// tooComplex returns the error for a statement that needs more stack than C has.
func tooComplex() error {
	return &Error{Code: int(sqlite3.NOMEM), Message: "the statement is too complex: it is nested too deeply",
		Err: &LimitError{ErrMemory, "SQL stack", stackBytes, stackBytes + 1}}
}

var errBroken = errors.New("a statement was left by a panic")

// closeNative closes a connection and its remaining statements, even after it ran out of memory.
func closeNative(db *sqlite3.Conn) error {
	for _, s := range slices.Collect(db.Stmts()) {
		_ = attempt(s.Close) // the error is that of its last step
	}
	return attempt(db.Close)
}

// attempt turns a panic into an error.
func attempt(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
