package sqlitevfs

import (
	"io"
	"reflect"
	"slices"
	"unsafe"

	"github.com/ncruces/go-sqlite3"
)

// An outside is what the library knows of an instance in Go, outside the memory of it, that its use
// changes, and how it was when the instance was new.
type outside struct {
	handles *[]any // Go's values that C refers to: the file, functions, temporary files; by index
	deleted *int   // of handles, how many were removed
	fault   *error // of the last operation of a file
	table   *[]any // the functions that C calls by index, to which extensions add

	newHandles []any
	newDeleted int
	newTable   int // its length
}

// knownFields are the fields of the library's types that hold the state of an instance. A library
// that has others may keep something that outside does not know of: then there is none, and a test
// says so. regions and committed are those of Unix; elsewhere a memory that has grown cannot be
// made shorter, or is not worth it.
func knownFields() [][]string {
	return [][]string{
		{"wrp", "interrupt", "stmts", "busy", "log", "collation", "wal", "trace", "authorizer",
			"update", "commit", "rollback",
			"preupdate", "busy1st", "busylst", "arena", "handle", "gosched"}, // of sqlite3.Conn
		{"sqlt", "ptrs", "base", "next"},                                             // of its arena
		{"Module", "Memory", "DB", "SysError", "handles", "deleted"},                 // of its wrp, a pointer
		{"Buf", "Max", "regions", "committed"},                                       // of its Memory, a pointer
		{"t0", "elements", "memory", "memImp", "maxMem", "___stack_pointer", "_env"}, // of its Module, a pointer
		{"c", "err", "sql", "handle"},                                                // of sqlite3.Stmt
	}
}

// outsideOf returns the outside of an instance that is new, or nil if the library is not one that
// is known.
func outsideOf(db *sqlite3.Conn) *outside {
	known := knownFields()
	conn := reflect.ValueOf(db).Elem()
	if !hasFields(conn.Type(), known[0]) ||
		!hasFields(conn.FieldByName("arena").Type(), known[1]) ||
		!hasFields(reflect.TypeFor[sqlite3.Stmt](), known[5]) {
		return nil
	}
	pointer := conn.FieldByName("wrp")
	if pointer.Kind() != reflect.Pointer || !hasFields(pointer.Type().Elem(), known[2]) {
		return nil
	}
	wrapper := pointer.Elem()
	for i, name := range []string{"Memory", "Module"} {
		if p := wrapper.FieldByName(name); p.Kind() != reflect.Pointer || !hasFields(p.Type().Elem(), known[3+i]) {
			return nil
		}
	}
	o := &outside{
		handles: fieldOf[[]any](wrapper, "handles"), deleted: fieldOf[int](wrapper,
			"deleted"), fault: fieldOf[error](wrapper, "SysError"),
		table: fieldOf[[]any](wrapper.FieldByName("Module").Elem(), "t0"),
	}
	if o.handles == nil || o.deleted == nil || o.fault == nil || o.table == nil {
		return nil
	}
	o.newHandles, o.newDeleted, o.newTable = slices.Clone(*o.handles), *o.deleted, len(*o.table)
	return o
}

// hasFields reports whether a structure has exactly the fields.
func hasFields(t reflect.Type, names []string) bool {
	if t.Kind() != reflect.Struct || t.NumField() != len(names) {
		return false
	}
	for i := range t.NumField() {
		if !slices.Contains(names, t.Field(i).Name) {
			return false
		}
	}
	return true
}

// fieldOf returns a pointer to a field of a structure, or nil if that is not of the type.
func fieldOf[T any](v reflect.Value, name string) *T {
	f := v.FieldByName(name)
	if f.Type() != reflect.TypeFor[T]() {
		return nil
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// restore makes what is outside that of a new instance. It reports whether it could.
func (o *outside) restore() bool {
	if len(*o.handles) < len(o.newHandles) || len(*o.table) < o.newTable {
		return false
	}
	for _, h := range (*o.handles)[len(o.newHandles):] {
		if c, ok := h.(io.Closer); ok { // a temporary file
			if attempt(c.Close) != nil {
				return false
			}
		}
	}
	clear((*o.handles)[copy(*o.handles, o.newHandles):])
	*o.handles = (*o.handles)[:len(o.newHandles)]
	clear((*o.table)[o.newTable:])
	*o.table = (*o.table)[:o.newTable]
	*o.deleted, *o.fault = o.newDeleted, nil
	return true
}
