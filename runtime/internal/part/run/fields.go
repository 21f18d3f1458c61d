package run

import (
	"bytes"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// fields are the sizes of the stored fields of an actor's run, so that a turn that writes one does
// not look for the old one. They are known after the last scan of all fields; each run begins with
// one.
type fields struct {
	known bool
	asOf  engine.Version                 // of the write set, when they were last changed
	bytes [keyspace.FieldPause + 1]int32 // of each value; -1 for none
}

// The range of the fields of a run.
var fieldsStart, fieldsEnd = keyspace.WorkflowField.Range()

// fieldOf returns the field of a key of a run; ok is false for other keys.
func fieldOf(key []byte) (f keyspace.Field, ok bool) {
	if !keyspace.WorkflowField.Has(key) {
		return 0, false
	}
	f, err := keyspace.WorkflowField.Parse(key)
	return f, err == nil
}

// begin records that a scan of all fields begins: fields without a row are absent.
func (f *fields) begin() {
	for i := range f.bytes {
		f.bytes[i] = -1
	}
}

// options adds the known size of a field to the options of a Put.
func (f *fields) options(field keyspace.Field, o engine.PutOptions) engine.PutOptions {
	if f.known {
		o.Known, o.Old = true, int(f.bytes[field])
	}
	return o
}

// wrote records that a turn has written a field of so many bytes, or deleted it.
func (f *fields) wrote(field keyspace.Field, bytes int, as engine.Version) {
	f.bytes[field], f.asOf = int32(bytes), as
}

// cleared records that a turn has deleted a range of keys.
func (f *fields) cleared(start, end []byte, as engine.Version) {
	if bytes.Compare(start, fieldsEnd) < 0 && bytes.Compare(fieldsStart, end) < 0 {
		f.known, f.asOf = false, as
	}
}

// forget forgets the fields if turns after a version changed them.
func (f *fields) forget(version engine.Version) {
	if f.asOf > version {
		f.known = false
	}
}
