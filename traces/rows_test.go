package traces

import (
	"bytes"
	"maps"
	"slices"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// rows are the rows of one actor.
type rows struct {
	m       map[string][]byte
	refuse  func(key []byte) error // fails a Put
	reading func() error           // fails a Scan or a Get
	keep    error                  // fails a DeleteRange
	scanned int                    // keys that scans visited
	got     int
}

func newRows() *rows { return &rows{m: map[string][]byte{}} }

func (r *rows) AppendValue(dst, key []byte) ([]byte, bool, error) {
	if r.reading != nil {
		if err := r.reading(); err != nil {
			return dst, false, err
		}
	}
	r.got++
	v, ok := r.m[string(key)]
	return append(dst, v...), ok, nil
}

func (r *rows) Scan(start, end []byte, f func(key, value []byte) bool) error {
	if r.reading != nil {
		if err := r.reading(); err != nil {
			return err
		}
	}
	for _, k := range slices.Sorted(maps.Keys(r.m)) {
		if k >= string(start) && (end == nil || k < string(end)) {
			r.scanned++
			if !f([]byte(k), r.m[k]) {
				break
			}
		}
	}
	return nil
}

func (r *rows) Put(key, value []byte) error {
	if r.refuse != nil {
		if err := r.refuse(key); err != nil {
			return err
		}
	}
	r.m[string(key)] = bytes.Clone(value)
	return nil
}

func (r *rows) DeleteRange(start, end []byte) error {
	if r.keep != nil {
		return r.keep
	}
	maps.DeleteFunc(r.m, func(k string, _ []byte) bool { return k >= string(start) && (end == nil || k < string(end)) })
	return nil
}

func (r *rows) clone() *rows { return &rows{m: maps.Clone(r.m)} }

// size returns the bytes of all rows.
func (r *rows) size() (n int64) {
	for k, v := range r.m {
		n += int64(len(k) + len(v))
	}
	return n
}

// keys returns the printed keys.
func (r *rows) keys() (list []string) {
	for _, k := range slices.Sorted(maps.Keys(r.m)) {
		list = append(list, keyspace.Format([]byte(k)))
	}
	return list
}

// hour0 is the start of an hour.
const hour0 = int64(1771891200) * second

const (
	second = int64(1e9)
	minute = 60 * second
	hour1  = 60 * minute
)

// made returns a span of a trace and a number, that lasts from start to end.
func made(n int, start, end int64) Span {
	return Span{TraceID: TraceID{15: 1}, SpanID: number(n), Name: "turn", Kind: Internal, Sampled: true, Start: start, End: end}
}

func number(n int) SpanID {
	return SpanID{4: byte(n >> 24), 5: byte(n >> 16), 6: byte(n >> 8), 7: byte(n)}
}

// flush stores the spans of a buffer.
func flush(t testing.TB, b *Buffer, r *rows, now int64) {
	t.Helper()
	must(t, b.Flush(r, r, now))
	b.Committed(nil)
}

// flushFull flushes a buffer with a full chunk.
func flushFull(t testing.TB, b *Buffer, r *rows, now int64) {
	t.Helper()
	if len(b.full) > 0 {
		flush(t, b, r, now)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
