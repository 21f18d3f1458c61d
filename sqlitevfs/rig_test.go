package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
)

// A rig is a database in a store of its own.
type rig struct {
	t     testing.TB
	store *mapStore
	pool  *Pool
	db    *Database
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	p := newTestPool(t, o)
	d := p.Database("test")
	d.EnableDecimal()
	return &rig{t: t, store: newMapStore(), pool: p, db: d}
}

// writer returns a writer on what is committed.
func (r *rig) writer() *mapWriter {
	w := r.store.writer()
	w.room = 1 << 40
	return w
}

// ended rolls a session back at the end of the test.
func ended(t testing.TB, s *Session) *Session {
	t.Cleanup(func() { s.Rollback() })
	return s
}

// try runs f in a write session and commits it if f returns nil.
func (r *rig) try(ctx context.Context, f func(db *sql.DB) error) error {
	r.t.Helper()
	w := r.writer()
	s := r.db.Write(ctx, w)
	defer s.Rollback()
	err := f(s.DB())
	if err == nil {
		_, err = s.Commit()
	}
	if err == nil {
		r.store.commit(w)
	}
	return err
}

// turn is try for what must not fail.
func (r *rig) turn(f func(db *sql.DB)) {
	r.t.Helper()
	must(r.t, r.try(context.Background(), func(db *sql.DB) error { f(db); return nil }))
}

// exec runs statements in a turn of their own.
func (r *rig) exec(text string, args ...any) {
	r.t.Helper()
	must(r.t, r.try(context.Background(), func(db *sql.DB) error { _, err := db.Exec(text, args...); return err }), text)
}

// view runs f in a read session.
func (r *rig) view(f func(db *sql.DB)) {
	r.t.Helper()
	s := r.db.Read(context.Background(), r.store.snapshot())
	defer s.Rollback()
	f(s.DB())
}

// asker is a *sql.DB, *sql.Tx or *sql.Conn.
type asker interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

// ask returns the rows of a query as text: columns joined by a bar, rows by a comma.
func ask(t testing.TB, db asker, text string, args ...any) string {
	t.Helper()
	got, err := answer(db, text, args...)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return got
}

func answer(db asker, text string, args ...any) (string, error) {
	rows, err := db.QueryContext(context.Background(), text, args...)
	if err != nil {
		return "", err
	}
	defer rows.Close()
	columns, err := rows.Columns()
	if err != nil {
		return "", err
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	var out []string
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return "", err
		}
		var row []string
		for _, v := range values {
			switch v := v.(type) {
			case nil:
				row = append(row, "NULL")
			case []byte:
				row = append(row, fmt.Sprintf("x'%x'", v))
			case time.Time:
				row = append(row, v.Format(time.RFC3339Nano))
			default:
				row = append(row, fmt.Sprint(v))
			}
		}
		out = append(out, strings.Join(row, "|"))
	}
	if err := rows.Err(); err != nil {
		return "", err
	}
	return strings.Join(out, ","), rows.Close()
}

// run executes statements that must not fail.
func run(t testing.TB, db asker, text string, args ...any) sql.Result {
	t.Helper()
	r, err := db.ExecContext(context.Background(), text, args...)
	fatalIf(t, err != nil, "%s: %v", text, err)
	return r
}

// wantError fails unless err is target and contains text.
func wantError(t testing.TB, err, target error, text string) {
	t.Helper()
	if err == nil || target != nil && !errors.Is(err, target) || !strings.Contains(err.Error(), text) {
		t.Fatalf("the error is %v; want one that is %v and says %q", err, target, text)
	}
}

func wantText(t testing.TB, got, want string) {
	t.Helper()
	if got != want {
		t.Fatalf("got %q, want %q", got, want)
	}
}

// must ends the test if err is not nil. Like the others, it says where it is.
func must(t testing.TB, err error, where ...any) {
	if err != nil {
		t.Helper()
		t.Fatal(append(where, err)...)
	}
}

// check is must for goroutines of a test, which goes on.
func check(t testing.TB, err error, where ...any) {
	if err != nil {
		t.Helper()
		t.Error(append(where, err)...)
	}
}

// fatalIf ends the test with a message if something is wrong.
func fatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// errorIf is fatalIf for a test that goes on.
func errorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// same ends the test unless got is want.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Fatalf("got %v, want %v %v", got, want, where)
	}
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// wantErr ends the test unless err is target.
func wantErr(t testing.TB, err, target error, where ...any) {
	if !errors.Is(err, target) {
		t.Helper()
		t.Fatalf("the error is %v, want %v %v", err, target, where)
	}
}

// A mapStore is a Store in a map. Commits replace the map, so a snapshot is the map of its time.
type mapStore struct {
	mu     sync.Mutex
	update sync.Mutex
	keys   keys
}

func newMapStore() *mapStore { return &mapStore{keys: keys{}} }

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

// keys are a Snapshot, and a Writer that believes its user.
type keys map[string][]byte

func (k keys) Get(dst, key []byte) ([]byte, bool, error) {
	v, ok := k[string(key)]
	return append(dst, v...), ok, nil
}

func (k keys) Scan(start, end []byte, f func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if key >= string(start) && key < string(end) && !f([]byte(key), k[key]) {
			break
		}
	}
	return nil
}

func (k keys) Put(key, value []byte, _ int) error {
	k[string(key)] = bytes.Clone(value)
	return nil
}

func (k keys) DeleteRange(start, end []byte) error {
	maps.DeleteFunc(k, func(key string, _ []byte) bool { return key >= string(start) && key < string(end) })
	return nil
}

func (k keys) Room() int64 { return math.MaxInt64 }

func (k keys) Close() error { return nil }

// A mapReader is a Snapshot that counts its calls. fault is asked before every call.
type mapReader struct {
	keys  keys
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
	return r.keys.Get(dst, key)
}

func (r *mapReader) Scan(start, end []byte, f func(key, value []byte) bool) error {
	r.scans++
	if err := r.ask("Scan", start); err != nil {
		return err
	}
	return r.keys.Scan(start, end, f)
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
	must(t, err)
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
	must(t, execNative(s, text), text)
}

func wantRows(t testing.TB, s *Session, text, want string) {
	t.Helper()
	got, err := queryNative(s, text)
	fatalIf(t, err != nil, "%s: %v", text, err)
	fatalIf(t, got != want, "%s = %q, want %q", text, got, want)
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
	must(t, errOf(s.Commit()))
	m.commit(w)
}

// readStore returns the rows of a statement in a read session on what is committed.
func readStore(t testing.TB, m *mapStore, d *Database, text string) string {
	t.Helper()
	rows, err := readFrom(m.snapshot(), d, text)
	fatalIf(t, err != nil, "%s: %v", text, err)
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
	same(t, readStore(t, m, d, "PRAGMA integrity_check"), "ok")
}

var errPlain = errors.New("a plain error")
