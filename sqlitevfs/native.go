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

// An inner is what is needed of a connection of the library and not part of its interface. If a later version of the
// library has other names there is none, and a test says so.
type inner interface {
	// Slice returns the linear memory, which is nearly all that a connection takes, and which never shrinks. SQLite's own
	// counters say what is in use now, not how far the memory has grown.
	Slice() *[]byte
	// X__stack_pointer returns where C's stack ends now. It has 64 KiB, from 65536 down to 0.
	X__stack_pointer() *int32
	// Close gives the memory back, and calls nothing of SQLite.
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

// attach notes where the memory of a new connection is, and its stack while nothing runs.
func (c *conn) attach(db *sqlite3.Conn) {
	c.db = db
	if c.inner = innerOf(db); c.inner != nil {
		c.memory, c.stack = c.inner.Slice(), c.inner.X__stack_pointer()
		c.rest = *c.stack
	}
}

// atRest reports whether no call into SQLite was left by a panic. One that was leaves its part of the stack behind, and
// SQLite in any state.
func (c *conn) atRest() bool { return c.stack == nil || *c.stack == c.rest }

// nearEnd is how much of the stack is left, in bytes, when a function of SQLite finds none for itself.
const nearEnd = 16 << 10

// failure makes an error of a panic out of the library, or returns nil if it is of something else: a Reader, a Writer, this
// package. If the panic has left a call into SQLite the connection is broken: no other call is safe, and most would panic
// too.
func (c *conn) failure(p any) error {
	c.broken = c.broken || !c.atRest()
	_, fault := p.(runtime.Error)
	switch err := memoryError(p); {
	case c.file.outside:
		return nil
	case err != nil:
		return err
	case fault && c.stack == nil:
		c.broken = true
		return tooComplex()
	case fault && c.broken && *c.stack < nearEnd:
		return tooComplex()
	case c.broken || strings.HasPrefix(fmt.Sprint(p), "sqlite3: "):
		return &Error{Code: int(sqlite3.INTERNAL), Message: "SQLite has failed: " + strings.TrimPrefix(fmt.Sprint(p), "sqlite3: ")}
	}
	return nil
}

// tooComplex returns the error for a statement that needs more stack than C has.
func tooComplex() error {
	return &Error{Code: int(sqlite3.NOMEM), Message: "the statement is too complex: it is nested too deeply"}
}

// close closes the connection, whatever state it is in.
func (c *conn) close() {
	c.fs.close()
	if c.db == nil {
		return
	}
	err := errBroken
	if !c.broken {
		err = c.closeNative()
	}
	if err != nil && c.inner != nil {
		err = attempt(c.inner.Close)
	}
	if err != nil {
		c.database.pool.options.Logger.Error("a SQLite connection could not be closed, and its memory is lost",
			"database", c.database.name, "bytes", c.bytes, "error", err)
	}
}

var errBroken = errors.New("a statement was left by a panic")

func (c *conn) closeNative() error {
	// A statement that ran out of memory panics when it is closed, and is closed all the same. Each is tried once.
	_ = attempt(func() error { c.cache.close(); return nil })
	return closeNative(c.db)
}

// closeNative closes a connection and the statements that are left of it, also after it ran out of memory.
func closeNative(db *sqlite3.Conn) error {
	for _, s := range slices.Collect(db.Stmts()) {
		_ = attempt(s.Close) // the error is that of its last step
	}
	return attempt(db.Close)
}

// attempt makes an error of a panic.
func attempt(f func() error) (err error) {
	defer func() {
		if v := recover(); v != nil {
			err = fmt.Errorf("panic: %v", v)
		}
	}()
	return f()
}
