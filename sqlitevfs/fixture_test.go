package sqlitevfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
)

// A mapStore is a Store in a map. Commits replace the map, so a snapshot is the map of its time.
type mapStore struct {
	mu     sync.Mutex
	update sync.Mutex
	keys   map[string][]byte
}

func newMapStore() *mapStore { return &mapStore{keys: map[string][]byte{}} }

func (m *mapStore) Snapshot(context.Context) (Snapshot, error) { return m.snapshot(), nil }

func (m *mapStore) snapshot() *mapReader {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &mapReader{keys: m.keys}
}

func (m *mapStore) Update(_ context.Context, f func(Writer) error) error {
	m.update.Lock()
	defer m.update.Unlock()
	w := m.writer()
	if err := f(w); err != nil {
		return err
	}
	m.commit(w)
	return nil
}

// writer returns a writer on what is committed.
func (m *mapStore) writer() *mapWriter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &mapWriter{mapReader: mapReader{keys: maps.Clone(m.keys)}, room: 1 << 40}
}

// commit makes what a writer holds the content of the store.
func (m *mapStore) commit(w *mapWriter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = maps.Clone(w.keys)
}

// A mapReader is a Snapshot. fault is asked before every call.
type mapReader struct {
	keys  map[string][]byte
	fault func(call string, key []byte) error
	gets  int
	scans int
}

func (r *mapReader) ask(call string, key []byte) error {
	if r.fault == nil {
		return nil
	}
	return r.fault(call, key)
}

func (r *mapReader) Get(dst, key []byte) ([]byte, bool, error) {
	r.gets++
	if err := r.ask("Get", key); err != nil {
		return dst, false, err
	}
	v, ok := r.keys[string(key)]
	return append(dst, v...), ok, nil
}

func (r *mapReader) Scan(start, end []byte, f func(key, value []byte) bool) error {
	r.scans++
	if err := r.ask("Scan", start); err != nil {
		return err
	}
	var found []string
	for k := range r.keys {
		if k >= string(start) && k < string(end) {
			found = append(found, k)
		}
	}
	slices.Sort(found)
	for _, k := range found {
		if !f([]byte(k), r.keys[k]) {
			break
		}
	}
	return nil
}

func (r *mapReader) Close() error { return nil }

// A mapWriter is a Writer that holds its users to what they have to know.
type mapWriter struct {
	mapReader
	room int64
	puts int
}

func (w *mapWriter) Put(key, value []byte, old int) error {
	if err := w.ask("Put", key); err != nil {
		return err
	}
	have := -1
	need := int64(len(key) + len(value))
	if v, ok := w.keys[string(key)]; ok {
		have = len(v)
		need = int64(len(value) - len(v))
	}
	if have != old {
		return fmt.Errorf("Put(%x) says that the old value has %d bytes, and it has %d", key, old, have)
	}
	if need > 0 && need > w.room {
		return fmt.Errorf("no room for %d bytes: %w", need, ErrFull)
	}
	w.room -= need
	w.puts++
	w.keys[string(key)] = bytes.Clone(value)
	return nil
}

func (w *mapWriter) DeleteRange(start, end []byte) error {
	if err := w.ask("DeleteRange", start); err != nil {
		return err
	}
	for k, v := range w.keys {
		if k >= string(start) && k < string(end) {
			w.room += int64(len(k) + len(v))
			delete(w.keys, k)
		}
	}
	return nil
}

func (w *mapWriter) Room() int64 { return w.room }

// newTestPool returns a pool that is closed at the end of the test.
func newTestPool(t testing.TB, o Options) *Pool {
	t.Helper()
	p, err := NewPool(o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !t.Failed() { // or sessions may be left, for which Close waits
			p.Close()
		}
	})
	return p
}

// execNative runs statements on the connection of a session, below the handle.
func execNative(s *Session, text string) (err error) {
	_, err = queryNative(s, text)
	return err
}

// queryNative runs statements and returns the rows of all of them as text: columns joined by a bar, rows by a comma.
func queryNative(s *Session, text string) (rows string, err error) {
	ctx := context.Background()
	c, err := s.enter(ctx)
	if err != nil {
		return "", err
	}
	defer s.leave()
	defer func() {
		if v := recover(); v != nil {
			err = s.recovered(v)
		}
	}()
	defer func(before bool) { c.auth.internal = before }(c.auth.internal)
	c.auth.internal = true
	var out []string
	for text != "" {
		st, tail, err := c.db.Prepare(text)
		if err != nil {
			return "", s.wrap(ctx, err, text)
		}
		if st == nil {
			break
		}
		for st.Step() {
			var columns []string
			for i := range st.ColumnCount() {
				columns = append(columns, st.ColumnText(i))
			}
			out = append(out, strings.Join(columns, "|"))
		}
		err = s.wrap(ctx, st.Err(), text)
		st.Close()
		if err != nil {
			return "", err
		}
		text = tail
	}
	return strings.Join(out, ","), nil
}

// vacuumNative runs VACUUM in a session.
func vacuumNative(s *Session) error {
	c, err := s.enter(context.Background())
	if err != nil {
		return err
	}
	defer s.leave()
	return s.republish(func() error { return s.native(func() error { return c.exec("VACUUM") }) })
}

func mustExec(t testing.TB, s *Session, text string) {
	t.Helper()
	if err := execNative(s, text); err != nil {
		t.Fatalf("%s: %v", text, err)
	}
}

func wantRows(t testing.TB, s *Session, text, want string) {
	t.Helper()
	got, err := queryNative(s, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if got != want {
		t.Fatalf("%s = %q, want %q", text, got, want)
	}
}

// writeStore runs statements in a write session and commits them to the store.
func writeStore(t testing.TB, m *mapStore, d *Database, text ...string) {
	t.Helper()
	w := m.writer()
	s := d.Write(context.Background(), w)
	defer s.Rollback()
	for _, q := range text {
		mustExec(t, s, q)
	}
	if _, err := s.Commit(); err != nil {
		t.Fatal(err)
	}
	m.commit(w)
}

// readStore returns the rows of a statement in a read session on what is committed.
func readStore(t testing.TB, m *mapStore, d *Database, text string) string {
	t.Helper()
	rows, err := readFrom(m.snapshot(), d, text)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rows
}

func readFrom(r Reader, d *Database, text string) (string, error) {
	s := d.Read(context.Background(), r)
	defer s.Rollback()
	return queryNative(s, text)
}

// checkStore says whether SQLite finds the database sound.
func checkStore(t testing.TB, m *mapStore, d *Database) {
	t.Helper()
	if got := readStore(t, m, d, "PRAGMA integrity_check"); got != "ok" {
		t.Fatalf("integrity_check: %s", got)
	}
}

var errPlain = errors.New("a plain error")
