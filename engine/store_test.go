package engine

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// openTest opens a store with small buffers that is closed with the test.
func openTest(t testing.TB, o Options) *Store {
	t.Helper()
	s := mustOpen(t, o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) && s.Err() == nil {
			t.Errorf("close: %v", err)
		}
	})
	return s
}

func mustOpen(t testing.TB, o Options) *Store {
	t.Helper()
	s, err := Open(context.Background(), small(o))
	if err != nil {
		t.Fatal(err)
	}
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
		o.MemTableBytes = 4 << 20
	}
	return o
}

// modes are the ways to commit that every guarantee is tested with.
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
	if err != nil {
		t.Fatal(err)
	}
	return sp
}

func kv(name string) []byte { return append([]byte{byte(keyspace.UserKV.Kind)}, name...) }

func put(t testing.TB, w *WriteSet, key []byte, value string) {
	t.Helper()
	if err := w.Put(key, []byte(value), PutOptions{}); err != nil {
		t.Fatalf("put %x: %v", key, err)
	}
}

// commit commits and waits until the commit is durable.
func commit(t testing.TB, sp *Space) Version {
	t.Helper()
	v, err := commitWait(sp)
	if err != nil {
		t.Fatalf("commit: %v", err)
	}
	return v
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
	if err != nil || !ok || string(e.Value) != want {
		t.Fatalf("get %x: %q (found %v, error %v), want %q", key, e.Value, ok, err, want)
	}
	return e
}

func wantAbsent(t testing.TB, g getter, key []byte) {
	t.Helper()
	if e, ok, err := g.Get(key); err != nil || ok {
		t.Fatalf("get %x: %q (error %v), want it absent", key, e.Value, err)
	}
}

func TestCommittedStateIsThereAfterReopen(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		o.Disk = NewDisk()
		s := mustOpen(t, o)
		sp := openSpace(t, s, 1)
		w := sp.Writes()
		if v := w.Advance(1000); v != 1 {
			t.Fatalf("first version is %d", v)
		}
		put(t, w, []byte{1}, "state")
		put(t, w, kv("empty"), "")
		wantValue(t, w, []byte{1}, "state")
		if v := commit(t, sp); v != 1 {
			t.Fatalf("version %d", v)
		}
		if h := sp.Head(); h != (Head{Generation: 1, Version: 1, Keys: 2, Bytes: 12, Created: 1000, Updated: 1000}) {
			t.Fatalf("head %+v", h)
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
		s = openTest(t, o)
		sp = openSpace(t, s, 1)
		e := wantValue(t, sp.Writes(), []byte{1}, "state")
		if e.Version != 1 || e.Created != 1000 || e.Updated != 1000 || e.Size != 5 {
			t.Fatalf("entry %+v", e)
		}
		if e := wantValue(t, sp.Writes(), kv("empty"), ""); e.Value == nil {
			t.Fatal("an empty value reads as nil")
		}
		if h := sp.Head(); h.Generation != 2 || h.Version != 1 || h.Keys != 2 {
			t.Fatalf("head %+v", h)
		}
	})
}

func TestOnDurableComesInCommitOrder(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s := openTest(t, o)
		const spaces, commits = 8, 300
		var wg sync.WaitGroup
		for n := range spaces {
			sp := openSpace(t, s, n)
			wg.Go(func() {
				next, told := Version(0), make(chan Version, commits)
				for i := range commits {
					w := sp.Writes()
					w.Advance(int64(i + 1))
					if i%7 != 0 {
						w.Put([]byte{1}, fmt.Appendf(nil, "state %d", i), PutOptions{})
					}
					want := Version(i + 1)
					v, err := sp.Commit(func(err error) {
						if err != nil {
							t.Errorf("version %d: %v", want, err)
						}
						told <- want
					})
					if err != nil || v != want {
						t.Errorf("commit: version %d, error %v", v, err)
						return
					}
				}
				for range commits {
					if v := <-told; v != next+1 {
						t.Errorf("told %d after %d", v, next)
					}
					next++
				}
				if v := sp.Durable(); v != commits {
					t.Errorf("durable %d", v)
				}
			})
		}
		wg.Wait()
	})
}

func TestEmptyCommitWaitsForEarlierCommits(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s := openTest(t, o)
		sp := openSpace(t, s, 1)
		order := make(chan int, 2)
		put(t, sp.Writes(), []byte{1}, "a")
		if _, err := sp.Commit(func(error) { order <- 1 }); err != nil {
			t.Fatal(err)
		}
		if sp.Writes().turned {
			t.Fatal("the write set is not empty after its commit")
		}
		v, err := sp.Commit(func(error) { order <- 2 })
		if err != nil || v != 1 {
			t.Fatalf("version %d, error %v", v, err)
		}
		if a, b := <-order, <-order; a != 1 || b != 2 {
			t.Fatalf("told in the order %d, %d", a, b)
		}
		if n := s.Metrics().Commits; n != 1 {
			t.Fatalf("%d batches for one commit and one without changes", n)
		}
	})
}

func TestSecondActivationFencesTheFirst(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s := openTest(t, o)
		first := openSpace(t, s, 1)
		put(t, first.Writes(), []byte{1}, "first")
		commit(t, first)
		put(t, first.Writes(), []byte{1}, "stale")
		second := openSpace(t, s, 1)
		if g := second.Head().Generation; g != 2 {
			t.Fatalf("generation %d", g)
		}
		if _, err := first.Commit(func(error) { t.Error("told a refused commit") }); !errors.Is(err, ErrFenced) {
			t.Fatalf("commit of a fenced space: %v", err)
		}
		wantValue(t, first.Writes(), []byte{1}, "stale")
		wantValue(t, second.Writes(), []byte{1}, "first")
		put(t, second.Writes(), []byte{1}, "second")
		commit(t, second)
		first.Close()
		put(t, second.Writes(), []byte{1}, "third")
		commit(t, second)
		third := openSpace(t, s, 1)
		if g := third.Head().Generation; g != 3 {
			t.Fatalf("generation %d", g)
		}
		third.Close()
		if _, err := third.Commit(nil); !errors.Is(err, ErrClosed) {
			t.Fatalf("commit of a closed space: %v", err)
		}
	})
}

func TestTwoSpacesOfOneActorNeverBothCommit(t *testing.T) {
	s := openTest(t, Options{})
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 200 {
				sp, err := s.OpenSpace(testID(1))
				if errors.Is(err, ErrFenced) {
					continue
				}
				if err != nil {
					t.Error(err)
					return
				}
				w := sp.Writes()
				before := sp.Head().Version
				w.Advance(1)
				w.Put([]byte{1}, fmt.Appendf(nil, "%d", before+1), PutOptions{})
				if _, err := sp.Commit(nil); err != nil && !errors.Is(err, ErrFenced) {
					t.Error(err)
				}
				if before%3 == 0 {
					sp.Close()
				}
			}
		})
	}
	wg.Wait()
	sp := openSpace(t, s, 1)
	wantValue(t, sp.Writes(), []byte{1}, fmt.Sprint(sp.Head().Version))
}

func TestClosedStoreRefusesEverything(t *testing.T) {
	s := mustOpen(t, Options{})
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "a")
	commit(t, sp)
	snapshot := sp.Snapshot()
	put(t, sp.Writes(), kv("x"), "a")
	told := make(chan error, 1)
	if _, err := sp.Commit(func(err error) { told <- err }); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := <-told; err != nil {
		t.Fatalf("a commit before Close was told %v", err)
	}
	_, _, err1 := sp.Writes().Get([]byte{1})
	_, err2 := sp.Writes().List(ListQuery{})
	_, err3 := sp.Commit(nil)
	_, _, err4 := snapshot.Get([]byte{1})
	_, err5 := s.OpenSpace(testID(2))
	_, _, err6 := s.Lookup(Identity{})
	_, err7 := s.Outbox(0, 1)
	_, err8 := s.Wakes(nil, 0, 1)
	_, _, err9 := sp.Snapshot().Get([]byte{1})
	_, err10 := s.Actors(ActorsQuery{})
	for i, err := range []error{err1, err2, err3, err4, err5, err6, err7, err8, err9, err10, s.AckOutbox(nil), s.Close()} {
		if !errors.Is(err, ErrClosed) {
			t.Errorf("call %d on a closed store: %v", i+1, err)
		}
	}
	if err := snapshot.Close(); err != nil {
		t.Error(err)
	}
	sp.Close()
}

func TestNewerFormatIsRefused(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	if err := s.db.Set(keyspace.AppendMetaRow(nil, "format"), []byte{StoreFormat + 1}, pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(t.Context(), o); !errors.Is(err, ErrFormat) {
		t.Fatalf("open: %v", err)
	}
}

// A store of a later version of Pebble is refused by the name of the file that says so, and is left as it is.
func TestNewerFormatOfFilesIsRefused(t *testing.T) {
	o := small(Options{})
	mustOpen(t, o).Close()
	m := &image{disk: o.Disk}
	const marker = "marker.format-version.000099.099"
	m.set(t, marker, nil)
	before := slices.Sorted(slices.Values(m.names(t)))
	for _, accept := range []bool{false, true} {
		o.AcceptDataLoss = accept
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), marker) {
			t.Errorf("open: %v", err)
		}
	}
	if after := slices.Sorted(slices.Values(m.names(t))); !slices.Equal(before, after) {
		t.Errorf("%v became %v", before, after)
	}
}

func TestStoreWithRowsButNoFormatIsRefused(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	put(t, sp.Writes(), []byte{1}, "a")
	commit(t, sp)
	if err := s.db.Delete(keyspace.AppendMetaRow(nil, "format"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := Open(t.Context(), o); !errors.Is(err, &CorruptError{}) {
		t.Fatalf("open: %v", err)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	err := Options{Durability: 9, CacheBytes: -1, MemTableBytes: 1, Limits: Limits{MaxKey: -1, MaxValue: 1 << 30, Quota: -1}}.Validate()
	var joined interface{ Unwrap() []error }
	if !errors.As(err, &joined) || len(joined.Unwrap()) != 5 {
		t.Fatalf("validate: %v", err)
	}
	if _, err := Open(t.Context(), Options{}); err == nil {
		t.Fatal("a store without a directory was opened")
	}
	if err := (Options{Dir: "x"}).Validate(); err != nil {
		t.Fatalf("zero options: %v", err)
	}
}

func TestOneDirectoryIsOpenOnce(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
			t.Fatalf("second open: %v", err)
		}
		s.Close()
		openTest(t, o)
	})
	t.Run("disk", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir()})
		openTest(t, o)
		if _, err := Open(t.Context(), o); !errors.Is(err, ErrLocked) {
			t.Fatalf("second open: %v", err)
		}
	})
	t.Run("process", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir()})
		openTest(t, o)
		child := exec.Command(os.Args[0], "-test.run=^TestChildOpensDirectory$")
		child.Env = append(os.Environ(), "ENGINE_TEST_DIR="+o.Dir)
		if out, err := child.CombinedOutput(); err != nil {
			t.Fatalf("the other process: %v\n%s", err, out)
		}
	})
}

// TestChildOpensDirectory is run by TestOneDirectoryIsOpenOnce in a process of
// its own; otherwise there is no directory to open.
func TestChildOpensDirectory(t *testing.T) {
	dir := os.Getenv("ENGINE_TEST_DIR")
	if dir == "" {
		return
	}
	if _, err := Open(t.Context(), small(Options{Dir: dir})); !errors.Is(err, ErrLocked) {
		t.Fatalf("open of a directory that another process has open: %v", err)
	}
}
