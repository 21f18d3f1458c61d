package engine

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
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
	must(t, err)
	return sp
}

// testSpace opens a store that is closed with the test, and a space.
func testSpace(t testing.TB, o Options) (*Store, *Space) {
	s := openTest(t, o)
	return s, openSpace(t, s, 1)
}

// mustSpace opens a store and a space.
func mustSpace(t testing.TB, o Options) (*Store, *Space) {
	s := mustOpen(t, o)
	return s, openSpace(t, s, 1)
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
						errorIf(t, err != nil, "version %d: %v", want, err)
						told <- want
					})
					if err != nil || v != want {
						t.Errorf("commit: version %d, error %v", v, err)
						return
					}
				}
				for range commits {
					v := <-told
					errorIf(t, v != next+1, "told %d after %d", v, next)
					next++
				}
				v := sp.Durable()
				errorIf(t, v != commits, "durable %d", v)
			})
		}
		wg.Wait()
	})
}

func TestEmptyCommitWaitsForEarlierCommits(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s, sp := testSpace(t, o)
		order := make(chan int, 2)
		put(t, sp.Writes(), []byte{1}, "a")
		must(t, errOf(sp.Commit(func(error) { order <- 1 })))
		fatalIf(t, sp.Writes().turned, "the write set is not empty after its commit")
		v, err := sp.Commit(func(error) { order <- 2 })
		fatalIf(t, err != nil || v != 1, "version %d, error %v", v, err)
		a, b := <-order, <-order
		fatalIf(t, a != 1 || b != 2, "told in the order %d, %d", a, b)
		same(t, s.Metrics().Commits, 1)
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
				_, err = sp.Commit(nil)
				errorIf(t, err != nil && !errors.Is(err, ErrFenced), "%v", err)
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
	s, sp := mustSpace(t, Options{})
	putCommit(t, sp, []byte{1}, "a")
	snapshot := sp.Snapshot()
	put(t, sp.Writes(), kv("x"), "a")
	told := make(chan error, 1)
	must(t, errOf(sp.Commit(func(err error) { told <- err })))
	must(t, s.Close())
	must(t, <-told)
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
		errorIf(t, !errors.Is(err, ErrClosed), "call %d on a closed store: %v", i+1, err)
	}
	check(t, snapshot.Close())
	sp.Close()
}

func TestNewerFormatIsRefused(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	must(t, s.db.Set(keyspace.AppendMetaRow(nil, "format"), []byte{StoreFormat + 1}, pebble.Sync))
	s.Close()
	wantErr(t, errOf(Open(t.Context(), o)), ErrFormat)
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
		_, err := Open(t.Context(), o)
		errorIf(t, !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), marker), "open: %v", err)
	}
	after := slices.Sorted(slices.Values(m.names(t)))
	errorIf(t, !slices.Equal(before, after), "%v became %v", before, after)
}

func TestStoreWithRowsButNoFormatIsRefused(t *testing.T) {
	o := small(Options{})
	s, sp := mustSpace(t, o)
	putCommit(t, sp, []byte{1}, "a")
	must(t, s.db.Delete(keyspace.AppendMetaRow(nil, "format"), pebble.Sync))
	s.Close()
	wantErr(t, errOf(Open(t.Context(), o)), &CorruptError{})
}

func TestOptionsReportEveryFault(t *testing.T) {
	err := Options{Durability: 9, CacheBytes: -1, MemTableBytes: 1, Limits: Limits{MaxKey: -1, MaxValue: 1 << 30, Quota: -1}}.Validate()
	var joined interface{ Unwrap() []error }
	fatalIf(t, !errors.As(err, &joined) || len(joined.Unwrap()) != 5, "validate: %v", err)
	_, err = Open(t.Context(), Options{})
	fatalIf(t, err == nil, "a store without a directory was opened")
	must(t, (Options{Dir: "x"}).Validate())
}

func TestOneDirectoryIsOpenOnce(t *testing.T) {
	t.Run("memory", func(t *testing.T) {
		o := small(Options{})
		s := mustOpen(t, o)
		wantErr(t, errOf(Open(t.Context(), o)), ErrLocked)
		s.Close()
		openTest(t, o)
	})
	t.Run("disk", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir()})
		openTest(t, o)
		wantErr(t, errOf(Open(t.Context(), o)), ErrLocked)
	})
	t.Run("process", func(t *testing.T) {
		o := small(Options{Dir: t.TempDir()})
		openTest(t, o)
		child := exec.Command(os.Args[0], "-test.run=^TestChildOpensDirectory$")
		child.Env = append(os.Environ(), "ENGINE_TEST_DIR="+o.Dir)
		out, err := child.CombinedOutput()
		fatalIf(t, err != nil, "the other process: %v\n%s", err, out)
	})
}

// TestChildOpensDirectory is run by TestOneDirectoryIsOpenOnce in a process of
// its own; otherwise there is no directory to open.
func TestChildOpensDirectory(t *testing.T) {
	dir := os.Getenv("ENGINE_TEST_DIR")
	if dir == "" {
		return
	}
	wantErr(t, errOf(Open(t.Context(), small(Options{Dir: dir}))), ErrLocked)
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

// A store tells whether the node before ended in order; a store that was only looked at does not change that.
func TestMarkRunningTellsAnUncleanEnd(t *testing.T) {
	o := small(Options{})
	run := func(want bool, stop bool) {
		t.Helper()
		s := mustOpen(t, o)
		unclean, err := s.MarkRunning()
		fatalIf(t, err != nil || unclean != want, "unclean %v, %v, want %v", unclean, err, want)
		if stop {
			must(t, s.MarkStopped())
		}
		must(t, s.Close())
	}
	run(false, true)
	run(false, false)
	if err := mustOpen(t, o).Close(); err != nil { // a tool
		t.Fatal(err)
	}
	run(true, false)
	run(true, true)
	run(false, true)
}

// Notes are kept under their names, and are no other metadata of the store.
func TestNotesAreKept(t *testing.T) {
	o := small(Options{})
	s := mustOpen(t, o)
	must(t, s.SetNote("running", []byte("far")))
	unclean, err := s.MarkRunning()
	fatalIf(t, err != nil || unclean, "%v %v", unclean, err)
	must(t, s.Close())
	s = mustOpen(t, o)
	note, err := s.Note("running")
	errorIf(t, string(note) != "far" || err != nil, "%q, %v", note, err)
	if note, err := s.Note("other"); note != nil || err != nil {
		t.Errorf("%q, %v", note, err)
	}
}

// TestCompactDropsWhatWasOverwritten writes the same keys many times over, and compares the size of the tables.
func TestCompactDropsWhatWasOverwritten(t *testing.T) {
	s := openTest(t, Options{})
	const actors, times = 20, 30
	for n := range actors {
		sp := openSpace(t, s, n)
		for i := range times {
			for k := range 5 {
				put(t, sp.Writes(), kv(fmt.Sprint("key-", k)), fmt.Sprintf("%d %s", i, strings.Repeat(fmt.Sprint(n, i, k), 100)))
			}
			commit(t, sp)
			sp.Writes().Advance(0)
		}
		sp.Close()
		if n%5 == 4 { // several tables
			must(t, s.db.Flush())
		}
	}
	before := s.db.Metrics().Total().TablesSize
	must(t, s.Compact(t.Context()))
	if m := s.db.Metrics(); m.Total().TablesSize > before || m.ReadAmp() != 1 { // it may have compacted itself meanwhile
		t.Errorf("%d bytes before and %d after, in %d runs", before, m.Total().TablesSize, m.ReadAmp())
	}
	for n := range actors {
		sp := openSpace(t, s, n)
		page, err := sp.Writes().List(ListQuery{Prefix: kv("")})
		fatalIf(t, err != nil || len(page.Entries) != 5, "actor %d has %d entries: %v", n, len(page.Entries), err)
		for _, e := range page.Entries {
			errorIf(t, !strings.HasPrefix(string(e.Value), fmt.Sprint(times-1, " ")),
				"actor %d: %q is %q", n, e.Key, e.Value)
		}
		sp.Close()
	}
}

func TestCompactEndsWithItsContextAndRefusesAClosedStore(t *testing.T) {
	s, sp := testSpace(t, Options{})
	putCommit(t, sp, kv("a"), "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, s.Compact(ctx), context.Canceled)
	sp.Close()
	must(t, s.Close())
	wantErr(t, s.Compact(t.Context()), ErrClosed)
}

func TestWriteSetsShareTheirMemory(t *testing.T) {
	t.Parallel()
	s, err := Open(t.Context(), Options{Disk: NewDisk(), WriteBytes: 1 << 20, Limits: Limits{MaxValue: 1 << 20}})
	must(t, err)
	defer s.Close()
	open := func(key string) *Space {
		sp, err := s.OpenSpace(s.NewActorID(Identity{Namespace: "n", Type: "t", Key: []string{key}}))
		must(t, err)
		t.Cleanup(sp.Close)
		return sp
	}
	first, second := open("1"), open("2")
	put := func(sp *Space, key byte, size int) error {
		return sp.Writes().Put([]byte{4, key}, make([]byte, size), PutOptions{})
	}
	// What cannot fit even alone is too large, and no reason to try again.
	err = put(first, 1, 1<<20)
	fatalIf(t, !errors.Is(err, &LimitError{}) || errors.Is(err, ErrBusy), "more than there can be: %v", err)
	before := first.Writes().Savepoint()
	must(t, put(first, 1, 700_000))
	must(t, put(second, 1, 10_000))
	size := second.Writes().Bytes()
	wantErr(t, put(second, 2, 500_000), ErrBusy)
	got := second.Writes().Bytes()
	fatalIf(t, got != size, "the refused write took %d bytes", got-size)
	first.Writes().Rollback(before)
	must(t, put(second, 2, 500_000))
	must(t, errOf(second.Commit(nil)))
	same(t, s.Metrics().WriteBytes, 0)
}

func TestFilesOfAStoreArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes of files")
	}
	above := filepath.Join(t.TempDir(), "data")
	o := small(Options{Dir: filepath.Join(above, "store"), MemTableBytes: 64 << 10})
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s, sp := mustSpace(t, o)
	for range 4 {
		putCommit(t, sp, []byte{1}, strings.Repeat("x", 30_000))
	}
	must(t, s.db.Flush())
	must(t, s.Close())
	files := 0
	err := filepath.Walk(above, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := fileMode
		if info.IsDir() {
			want = dirMode
		} else {
			files++
		}
		errorIf(t, info.Mode().Perm() != want, "%s has mode %v", path, info.Mode())
		return nil
	})
	errorIf(t, err != nil || files < 6, "%d files, %v", files, err)
	errorIf(t, strings.Contains(log.String(), "chmod -R go= "+o.Dir), "logged: %s", &log)
	must(t, os.Chmod(o.Dir, 0o755))
	openTest(t, o)
	errorIf(t, !strings.Contains(log.String(), "chmod -R go= "+o.Dir),
		"a directory that is open to others is not told of: %s", &log)
}

// TestRemovedLockFileLetsNobodyIn runs itself as the second process, which finds no lock file.
func TestRemovedLockFileLetsNobodyIn(t *testing.T) {
	const second = "CAIRN_TEST_SECOND_PROCESS"
	if dir := os.Getenv(second); dir != "" {
		s, err := Open(t.Context(), small(Options{Dir: dir}))
		if err == nil {
			s.Close()
		}
		fatalIf(t, !errors.Is(err, ErrLocked), "opened by a second process: %v", err)
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	dir := t.TempDir()
	openTest(t, Options{Dir: dir})
	must(t, os.Remove(filepath.Join(dir, "LOCK")))
	cmd := exec.Command(os.Args[0], "-test.run=^TestRemovedLockFileLetsNobodyIn$")
	cmd.Env = append(os.Environ(), second+"="+dir)
	out, err := cmd.CombinedOutput()
	errorIf(t, err != nil, "%v: %s", err, out)
}

func TestNearlyFullDiskLetsThroughWhatMakesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 100_000})
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		for _, name := range []string{"a", "b", "c", "d"} {
			put(t, sp.Writes(), kv(name), strings.Repeat("x", 1000))
		}
		commit(t, sp)
		remove := func(name string) {
			t.Helper()
			ok, err := sp.Writes().Delete(kv(name))
			fatalIf(t, !ok || err != nil, "%v %v", ok, err)
		}
		o.Disk.SetFree(99_999)
		time.Sleep(freeSpaceInterval)
		remove("a")
		commit(t, sp)
		before := sp.Writes().Savepoint()
		remove("b")
		put(t, sp.Writes(), kv("e"), strings.Repeat("x", 2000))
		wantErr(t, errOf(sp.Commit(nil)), ErrDiskFull)
		sp.Writes().Rollback(before)
		o.Disk.SetFree(24_999)
		time.Sleep(freeSpaceInterval)
		remove("b")
		wantErr(t, errOf(sp.Commit(nil)), ErrDiskFull)
		o.Disk.SetFree(99_999)
		time.Sleep(freeSpaceInterval)
		must(t, sp.Writes().Destroy())
		commit(t, sp)
	})
}
