package sqlitevfs

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace/testutil"
)

// A rig is a database in its own store.
type rig struct {
	t     testing.TB
	store *mapStore
	pool  *Pool
	db    *Database
}

// newRig returns a rig after executing the texts, each in its own turn.
func newRig(t testing.TB, o Options, texts ...string) *rig {
	t.Helper()
	r := (&rig{t: t, store: &mapStore{keys: keys{}}}).again(o)
	for _, text := range texts {
		r.exec(text)
	}
	return r
}

// again returns the rig of another process, with a new pool for the store.
func (r *rig) again(o Options) *rig {
	r.t.Helper()
	p, err := NewPool(o)
	must(r.t, err)
	r.t.Cleanup(func() {
		if !r.t.Failed() { // else sessions may be left, and Close waits for them
			p.Close()
		}
	})
	next := &rig{t: r.t, store: r.store, pool: p}
	next.open("test")
	return next
}

// open switches the rig to another Database of its pool.
func (r *rig) open(name string) *rig {
	r.db = r.pool.Database(name)
	r.db.EnableDecimal()
	return r
}

// on returns a rig with another Database of the pool, on a store with the writer's keys.
func (r *rig) on(w *mapWriter) *rig {
	next := &rig{t: r.t, store: &mapStore{keys: w.keys}, pool: r.pool}
	return next.open("on")
}

// A turn is a session with its handle.
type turn struct {
	*Session
	handle
	r *rig
	w *mapWriter // nil: it only reads
}

// write begins a write session, which the end of the test rolls back.
func (r *rig) write() *turn { return r.writeTo(r.store.writer()) }

func (r *rig) writeTo(w *mapWriter) *turn {
	return r.session(r.db.Write(context.Background(), w), w)
}

// read begins a read session on the last commit.
func (r *rig) read() *turn { return r.readFrom(r.store.snapshot()) }

func (r *rig) readFrom(from Reader) *turn {
	return r.session(r.db.Read(context.Background(), from), nil)
}

func (r *rig) session(s *Session, w *mapWriter) *turn {
	r.t.Cleanup(func() { s.Rollback() })
	return &turn{s, handle{r.t, s.DB()}, r, w}
}

// commit commits the session, and then its store.
func (x *turn) commit() error {
	_, err := x.Session.Commit()
	if err == nil {
		x.r.store.commit(x.w)
	}
	return err
}

// try runs f in a write session and commits it if f returns nil.
func (r *rig) try(ctx context.Context, f func(db handle) error) error {
	r.t.Helper()
	w := r.store.writer()
	s := r.db.Write(ctx, w)
	defer s.Rollback()
	err := f(handle{r.t, s.DB()})
	if err == nil {
		_, err = s.Commit()
	}
	if err == nil {
		r.store.commit(w)
	}
	return err
}

// turn is try for statements that must not fail.
func (r *rig) turn(f func(db handle)) {
	r.t.Helper()
	must(r.t, r.try(context.Background(), func(db handle) error { f(db); return nil }))
}

// tryExec executes statements in their own turn.
func (r *rig) tryExec(text string, args ...any) error {
	return r.try(context.Background(), func(db handle) error { return errOf(db.Exec(text, args...)) })
}

// exec is tryExec for statements that must not fail.
func (r *rig) exec(text string, args ...any) {
	r.t.Helper()
	must(r.t, r.tryExec(text, args...), text)
}

// view runs f in a read session.
func (r *rig) view(f func(db handle)) {
	r.t.Helper()
	s := r.db.Read(context.Background(), r.store.snapshot())
	defer s.Rollback()
	f(handle{r.t, s.DB()})
}

// ask returns the rows of a query in a read session.
func (r *rig) ask(text string, args ...any) (got string) {
	r.t.Helper()
	r.view(func(db handle) { got = db.ask(text, args...) })
	return got
}

// sound fails unless SQLite finds the database sound. queries are pairs of a query and its rows.
func (r *rig) sound(queries ...string) {
	r.t.Helper()
	r.view(func(db handle) { db.sound(queries...) })
}

// meta returns the committed metadata.
func (r *rig) meta() Metadata {
	m, _, err := ReadMetadata(r.store.snapshot())
	must(r.t, err)
	return m
}

// A handle runs SQL for a test. Rows are text: columns joined by a bar, rows by a comma.
type handle struct {
	t testing.TB
	*sql.DB
}

// run executes statements that must not fail.
func (h handle) run(text string, args ...any) {
	h.t.Helper()
	must(h.t, errOf(h.Exec(text, args...)), text)
}

func (h handle) ask(text string, args ...any) string {
	h.t.Helper()
	return ask(h.t, h.DB, text, args...)
}

// want fails unless a query has these rows.
func (h handle) want(text, want string, args ...any) {
	h.t.Helper()
	same(h.t, h.ask(text, args...), want, text)
}

// fails fails unless statements fail with an error that is target and contains a text.
func (h handle) fails(target error, says, text string, args ...any) {
	h.t.Helper()
	wantError(h.t, errOf(answer(h.DB, text, args...)), target, says)
}

func (h handle) sound(queries ...string) {
	h.t.Helper()
	h.want("PRAGMA integrity_check", "ok")
	for q := range slices.Chunk(queries, 2) {
		h.want(q[0], q[1])
	}
}

// asker is a *sql.DB, *sql.Tx or *sql.Conn.
type asker interface {
	QueryContext(ctx context.Context, text string, args ...any) (*sql.Rows, error)
	ExecContext(ctx context.Context, text string, args ...any) (sql.Result, error)
}

func ask(t testing.TB, db asker, text string, args ...any) string {
	t.Helper()
	got, err := answer(db, text, args...)
	fatalIf(t, err != nil, "%s: %v", text, err)
	return got
}

func answer(db asker, text string, args ...any) (string, error) {
	rows, err := db.QueryContext(context.Background(), text, args...)
	if err != nil {
		return "", err
	}
	return allOf(rows)
}

// allOf reads and closes rows.
func allOf(rows *sql.Rows) (string, error) {
	_, out, err := readRows(rows, "%s")
	return strings.Join(out, ","), err
}

// readRows reads and closes rows. verb is the format of texts.
func readRows(rows *sql.Rows, verb string) (columns, out []string, err error) {
	defer rows.Close()
	if columns, err = rows.Columns(); err != nil {
		return nil, nil, err
	}
	values, dest := make([]any, len(columns)), make([]any, len(columns))
	for i := range values {
		dest[i] = &values[i]
	}
	for rows.Next() {
		if err := rows.Scan(dest...); err != nil {
			return nil, nil, err
		}
		out = append(out, rowText(values, verb))
	}
	return columns, out, cmp.Or(rows.Err(), rows.Close())
}

// rowText returns the columns of a row, joined by a bar.
func rowText(values []any, verb string) string {
	var row []string
	for _, v := range values {
		switch v := v.(type) {
		case nil:
			row = append(row, "NULL")
		case string:
			row = append(row, fmt.Sprintf(verb, v))
		case []byte:
			row = append(row, fmt.Sprintf("x'%x'", v))
		case time.Time:
			row = append(row, v.Format(time.RFC3339Nano))
		default:
			row = append(row, fmt.Sprint(v))
		}
	}
	return strings.Join(row, "|")
}

// wantError fails unless err is target and contains text.
func wantError(t testing.TB, err, target error, text string) {
	t.Helper()
	fatalIf(t, err == nil || target != nil && !errors.Is(err, target) || !strings.Contains(err.Error(), text),
		"the error is %v; want one that is %v and says %q", err, target, text)
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

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

// writer returns a writer on the last commit.
func (m *mapStore) writer() *mapWriter {
	m.mu.Lock()
	defer m.mu.Unlock()
	return &mapWriter{mapReader: mapReader{keys: maps.Clone(m.keys)}, room: 1 << 40}
}

// commit makes the keys of a writer the content of the store.
func (m *mapStore) commit(w *mapWriter) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.keys = maps.Clone(w.keys)
}

// keys are a Reader.
type keys map[string][]byte

func (k keys) Get(dst, key []byte) ([]byte, bool, error) {
	v, ok := k[string(key)]
	return append(dst, v...), ok, nil
}

func (k keys) Scan(start, end []byte, f func(key, value []byte) bool) error {
	var within []string
	for key := range k {
		if key >= string(start) && key < string(end) {
			within = append(within, key)
		}
	}
	slices.Sort(within)
	for _, key := range within {
		if !f([]byte(key), k[key]) {
			break
		}
	}
	return nil
}

// A mapReader is a Snapshot that counts its calls. It calls fault before every call.
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

// A mapWriter is a Writer that checks the lengths that its users pass, and its room.
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

var errPlain = errors.New("a plain error")
