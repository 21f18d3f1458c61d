package engine

import (
	"context"
	"errors"
	"testing"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// openTest opens a store with small buffers that is closed with the test.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s := mustOpen(t, o)
	t.Cleanup(func() {
		err := s.Close()
		errorIf(t, err != nil && !errors.Is(err, ErrClosed) && s.Err() == nil, "close: %v", err)
	})
	return s
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), small(o))
	must(t, err)
	return s
}

// small sets buffers for tests that are not about size.
func small(o Options) Options {
	if o.Dir == "" && o.Disk == nil {
		o.Disk = NewDisk()
	}
	if o.CacheBytes == 0 {
		o.CacheBytes = 8 << 20
	}
	if o.MemTableBytes == 0 {
		o.MemTableBytes = 256 << 10
	}
	return o
}

// modes are the ways to commit; every guarantee is tested with each.
func modes() map[string]Options {
	return map[string]Options{
		"pipelined": {},
		"plain":     {PlainCommit: true},
		"no sync":   {Durability: NoSync},
	}
}

func eachMode(t *testing.T, test func(t *testing.T, o Options)) {
	for name, o := range modes() {
		t.Run(name, func(t *testing.T) { test(t, o) })
	}
}

func testID(n int) keyspace.ActorID {
	return keyspace.NewActorID(uint16(n*977%keyspace.Slots), 1_700_000_000, [10]byte{byte(n >> 8), byte(n)})
}

func openSpace(t testing.TB, s *Store, n int) *Space {
	t.Helper()
	sp, err := s.OpenSpace(testID(n))
	must(t, err)
	return sp
}

// A rig is a store that is closed with the test, and one actor in it.
type rig struct {
	*Store
	t  testing.TB
	o  Options
	sp *Space
	w  *WriteSet
}

func newRig(t testing.TB, o Options) *rig {
	t.Helper()
	r := &rig{t: t, o: small(o)}
	r.start()
	return r
}

func (r *rig) start() {
	r.t.Helper()
	r.Store = openTest(r.t, r.o)
	r.open()
}

// open opens the actor again, which fences the old space.
func (r *rig) open() {
	r.t.Helper()
	r.sp = openSpace(r.t, r.Store, 1)
	r.w = r.sp.Writes()
}

// again closes the store and opens it again.
func (r *rig) again() {
	r.t.Helper()
	must(r.t, r.Close())
	r.start()
}

// crashed returns a rig of the disk that a power cut would leave now.
func (r *rig) crashed(seed uint64, unsyncedPercent int) *rig {
	r.t.Helper()
	o := r.o
	o.Disk = r.o.Disk.Crash(seed, unsyncedPercent)
	return newRig(r.t, o)
}

// put commits a value and waits until it is durable.
func (r *rig) put(key []byte, value string) Version {
	r.t.Helper()
	return putCommit(r.t, r.sp, key, value)
}

// refused fails unless the commit of a value fails with an error.
func (r *rig) refused(key []byte, value string, target error) {
	r.t.Helper()
	put(r.t, r.w, key, value)
	wantErr(r.t, errOf(commitWait(r.sp)), target)
}

func (r *rig) want(key []byte, value string) Entry {
	r.t.Helper()
	return wantValue(r.t, r.w, key, value)
}

func (r *rig) commit() Version {
	r.t.Helper()
	return commit(r.t, r.sp)
}

func kv(name string) []byte { return append([]byte{byte(keyspace.UserKV.Kind)}, name...) }

func put(t testing.TB, w *WriteSet, key []byte, value string) {
	t.Helper()
	must(t, w.Put(key, []byte(value), PutOptions{}), key)
}

// commit commits and waits until the commit is durable.
func commit(t testing.TB, sp *Space) Version {
	t.Helper()
	v, err := commitWait(sp)
	fatalIf(t, err != nil, "commit: %v", err)
	return v
}

// putCommit commits a value and waits until it is durable.
func putCommit(t testing.TB, sp *Space, key []byte, value string) Version {
	t.Helper()
	put(t, sp.Writes(), key, value)
	return commit(t, sp)
}

func commitWait(sp *Space) (Version, error) {
	done := make(chan error, 1)
	v, err := sp.Commit(func(err error) { done <- err })
	if err != nil {
		return v, err
	}
	return v, <-done
}

type getter interface {
	Get([]byte) (Entry, bool, error)
}

func wantValue(t testing.TB, g getter, key []byte, want string) Entry {
	t.Helper()
	e, ok, err := g.Get(key)
	fatalIf(t, err != nil || !ok || string(e.Value) != want,
		"get %x: %q (found %v, error %v), want %q", key, e.Value, ok, err, want)
	return e
}

func wantAbsent(t testing.TB, g getter, key []byte) {
	t.Helper()
	e, ok, err := g.Get(key)
	fatalIf(t, err != nil || ok, "get %x: %q (error %v), want it absent", key, e.Value, err)
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

// returns ends the test unless a call returns want and no error: returns(t, 3)(f()).
func returns[T comparable](t testing.TB, want T, where ...any) func(T, error) {
	return func(got T, err error) {
		t.Helper()
		must(t, err, where...)
		same(t, got, want, where...)
	}
}

// errOf3 returns the error of a call that also returns two values.
func errOf3[A, B any](_ A, _ B, err error) error { return err }
