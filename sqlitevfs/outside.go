package sqlitevfs

import (
	"io"
	"reflect"
	"slices"
	"unsafe"

	"github.com/ncruces/go-sqlite3"
)

// An outside is the library's Go state of an instance, outside its memory, that use changes, with
// its values when the instance was new.
type outside struct {
	handles *[]any // Go's values that C refers to, by index: the file, functions, temporary files
	deleted *int   // how many handles were removed
	fault   *error // of the last operation of a file
	table   *[]any // the functions that C calls by index; extensions add some

	newHandles []any
	newDeleted int
	newTable   int // its length
}

// knownFields are the fields of the library's types that hold the state of an instance. A library
// with other fields may keep state that outside does not cover: then there is no outside, and a
// test reports it. regions and committed are of Unix; elsewhere a memory that has grown cannot be
// shortened, or it is not worth it.
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

// outsideOf returns the outside of a new instance, or nil if this version of the library is not
// known.
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

// fieldOf returns a pointer to a field of a structure, or nil if the field is not of type T.
func fieldOf[T any](v reflect.Value, name string) *T {
	f := v.FieldByName(name)
	if f.Type() != reflect.TypeFor[T]() {
		return nil
	}
	return (*T)(unsafe.Pointer(f.UnsafeAddr()))
}

// restore resets the Go state to that of a new instance. It reports whether it could.
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
