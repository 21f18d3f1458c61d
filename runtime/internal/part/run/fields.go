package run

import (
	"bytes"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// fields are the sizes of what the store has of the fields of an actor's run, so that a turn which
// writes one does not look for the old one. They are known from the last scan of all fields on,
// which each run begins with.
type fields struct {
	known bool
	asOf  engine.Version                 // of the write set, when they were last changed
	bytes [keyspace.FieldPause + 1]int32 // of each value; -1 for none
}

// The range of the fields of a run.
var fieldsStart, fieldsEnd = keyspace.WorkflowField.Range()

// fieldOf returns the field that a key of a run is; ok is false for others.
func fieldOf(key []byte) (f keyspace.Field, ok bool) {
	if !keyspace.WorkflowField.Has(key) {
		return 0, false
	}
	f, err := keyspace.WorkflowField.Parse(key)
	return f, err == nil
}

// begin notes that a scan of all fields begins: fields without a row are absent.
func (f *fields) begin() {
	for i := range f.bytes {
		f.bytes[i] = -1
	}
}

// options adds what is known of a field to the options of a Put.
func (f *fields) options(field keyspace.Field, o engine.PutOptions) engine.PutOptions {
	if f.known {
		o.Known, o.Old = true, int(f.bytes[field])
	}
	return o
}

// wrote notes that a turn has written a field of so many bytes, or deleted it.
func (f *fields) wrote(field keyspace.Field, bytes int, as engine.Version) {
	f.bytes[field], f.asOf = int32(bytes), as
}

// cleared notes that a turn has deleted a range of keys.
func (f *fields) cleared(start, end []byte, as engine.Version) {
	if bytes.Compare(start, fieldsEnd) < 0 && bytes.Compare(fieldsStart, end) < 0 {
		f.known, f.asOf = false, as
	}
}

// forget forgets the fields if turns after a version have changed them.
func (f *fields) forget(version engine.Version) {
	if f.asOf > version {
		f.known = false
	}
}
