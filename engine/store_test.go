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
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// Each commit is notified when it is durable, in order. So is one without changes, which waits for
// those before.
func TestOnDurableComesInCommitOrder(t *testing.T) {
	eachMode(t, func(t *testing.T, o Options) {
		s := openTest(t, o)
		const spaces, commits = 8, 300
		var wg sync.WaitGroup
		for n := range spaces {
			sp := openSpace(t, s, n)
			wg.Go(func() {
				told := make(chan int, commits)
				version := Version(0)
				for i := range commits {
					if i%7 != 6 {
						version++
						put(t, sp.Writes(), []byte{1}, fmt.Sprint("state ", i))
					}
					v, err := sp.Commit(func(err error) {
						check(t, err)
						told <- i
					})
					errorIf(t, err != nil || v != version, "commit %d: version %d, error %v", i, v, err)
				}
				for i := range commits {
					got := <-told
					errorIf(t, got != i, "told %d, not %d", got, i)
				}
				errorIf(t, sp.Durable() != version, "durable %d", sp.Durable())
			})
		}
		wg.Wait()
		same(t, s.Metrics().Commits, spaces*(commits-commits/7))
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
				if check(t, err); err != nil {
					return
				}
				before := sp.Head().Version
				put(t, sp.Writes(), []byte{1}, fmt.Sprint(before+1))
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

// A snapshot continues where a visit was stopped, except for other keys. No iterator is left when
// it is closed, or the store is.
func TestAVisitOfOtherKeysDoesNotGoOnWhereOneWasStopped(t *testing.T) {
	for _, end := range []string{"snapshot", "store", "place", "in a visit"} {
		r := newRig(t, Options{})
		for _, key := range []string{"0", "a", "a\x00b", "c", "d"} {
			put(t, r.w, kv(key), "v")
		}
		r.commit()
		sn := r.sp.Snapshot()
		visit := func(q ListQuery, most int) string {
			var got []string
			must(t, sn.Each(q, func(e *Entry) bool { got = append(got, string(e.Key[1:])); return len(got) < most }))
			return strings.Join(got, " ")
		}
		stop := func() {
			end := kv("e")
			visit(ListQuery{After: kv("0"), End: end}, 1)
			end[1] = 'd' // the caller may use it again
			same(t, string(sn.place.c.(*cursor).key), string(kv("a")), "an iterator is where the visit was stopped")
		}
		same(t, visit(ListQuery{}, 1), "0")
		errorIf(t, sn.place.c != nil, "the first page left an iterator")
		for want, q := range map[string]ListQuery{
			"a\x00b c":   {After: kv("a"), End: kv("d")},
			"a\x00b":     {After: kv("a"), End: kv("b")},
			"a\x00b c d": {After: kv("a"), End: nil},
			"c d":        {Start: kv("a\x01"), End: kv("e")},
			"d":          {After: kv("c"), End: kv("e")},
			"d c a\x00b": {Start: kv("a\x00"), End: kv("e"), Reverse: true},
		} {
			stop()
			same(t, visit(q, 9), want)
		}
		stop()
		same(t, visit(ListQuery{After: kv("a"), End: kv("e")}, 2), "a\x00b c")
		same(t, string(sn.place.c.(*cursor).key), string(kv("c")))
		same(t, visit(ListQuery{After: kv("c"), End: kv("e")}, 9), "d")
		stop()
		switch end {
		case "snapshot":
			must(t, sn.Close())
		case "place":
			sn.DropPlace()
			errorIf(t, sn.place.c != nil, "an iterator is left")
		case "in a visit": // not allowed
			must(t, sn.Each(ListQuery{After: kv("a"), End: kv("e")}, func(*Entry) bool { sn.Close(); return false }))
		}
		must(t, r.Close()) // Pebble refuses it while there is an iterator
		must(t, sn.Close())
		sn.DropPlace()
	}
}

func TestClosedStoreRefusesEverything(t *testing.T) {
	r := newRig(t, Options{})
	r.put([]byte{1}, "a")
	snapshot := r.sp.Snapshot()
	put(t, r.w, kv("x"), "a")
	told := make(chan error, 1)
	must(t, errOf(r.sp.Commit(func(err error) { told <- err })))
	must(t, r.Close())
	must(t, <-told)
	_, _, get := r.w.Get([]byte{1})
	_, _, before := snapshot.Get([]byte{1})
	_, _, after := r.sp.Snapshot().Get([]byte{1})
	_, _, lookup := r.Lookup(Identity{})
	for i, err := range []error{
		get, before, after, lookup, errOf(r.w.List(ListQuery{})), errOf(r.sp.Commit(nil)), errOf(r.OpenSpace(testID(2))), errOf(r.Outbox(0, 1)),
		errOf(r.Wakes(nil, 0, 1)), errOf(r.Actors(ActorsQuery{})), r.AckOutbox(nil), r.Compact(t.Context()), r.Close(),
	} {
		wantErr(t, err, ErrClosed, i)
	}
	check(t, snapshot.Close())
	r.sp.Close()
}

func TestStoreOfAnotherFormatIsRefused(t *testing.T) {
	format := keyspace.AppendMetaRow(nil, "format")
	for want, damage := range map[error]func(*Store) error{
		ErrFormat:       func(s *Store) error { return databaseOf(s).Set(format, []byte{StoreFormat + 1}, pebble.Sync) },
		&CorruptError{}: func(s *Store) error { return databaseOf(s).Delete(format, pebble.Sync) }, // there are rows
	} {
		r := newRig(t, Options{})
		r.put([]byte{1}, "a")
		must(t, damage(r.Store))
		must(t, r.Close())
		wantErr(t, errOf(Open(t.Context(), r.o)), want)
	}
	// A store of a later version of Pebble is refused, with the name of the file that shows it, and
	// is left as it is.
	m := newLogImage(t)
	const marker = "marker.format-version.000099.099"
	m.set(t, marker, nil)
	for _, accept := range []bool{false, true} {
		_, disk, err := m.open(t, Options{AcceptDataLoss: accept})
		fatalIf(t, !errors.Is(err, ErrFormat) || !strings.Contains(err.Error(), marker), "open: %v", err)
		m.unchanged(t, disk)
	}
}

func TestOptionsReportEveryFault(t *testing.T) {
	err := Options{Durability: 9, CacheBytes: -1, MemTableBytes: 1, Limits: Limits{MaxKey: -1, MaxValue: 1 << 30, Quota: -1}}.Validate()
	var joined interface{ Unwrap() []error }
	fatalIf(t, !errors.As(err, &joined) || len(joined.Unwrap()) != 5, "validate: %v", err)
	_, err = Open(t.Context(), Options{})
	fatalIf(t, err == nil, "a store without a directory was opened")
	must(t, (Options{Dir: "x"}).Validate())
}

// TestOneDirectoryIsOpenOnce runs itself as a second process, even after the lock file was removed.
func TestOneDirectoryIsOpenOnce(t *testing.T) {
	const second = "ENGINE_TEST_DIR"
	refused := func(o Options) { wantErr(t, errOf(Open(t.Context(), small(o))), ErrLocked) }
	if dir := os.Getenv(second); dir != "" {
		refused(Options{Dir: dir})
		return
	}
	memory := newRig(t, Options{})
	refused(memory.o)
	memory.again()
	dir := t.TempDir()
	openTest(t, Options{Dir: dir})
	refused(Options{Dir: dir})
	for range 2 {
		child := exec.Command(os.Args[0], "-test.run=^TestOneDirectoryIsOpenOnce$")
		child.Env = append(os.Environ(), second+"="+dir)
		out, err := child.CombinedOutput()
		fatalIf(t, err != nil, "the other process: %v\n%s", err, out)
		if runtime.GOOS == "windows" {
			break // an open file cannot be removed
		}
		must(t, os.RemoveAll(filepath.Join(dir, "LOCK")))
	}
}

// A store reports whether the previous node ended in order; only reading a store does not change
// that. Notes are no other metadata of the store.
func TestMarkRunningTellsAnUncleanEnd(t *testing.T) {
	r := newRig(t, Options{})
	must(t, r.SetNote("running", []byte("far")))
	for i, run := range []struct{ look, unclean, stop bool }{{stop: true}, {}, {look: true}, {unclean: true},
		{unclean: true, stop: true}, {stop: true}} {
		if !run.look { // as a tool does
			returns(t, run.unclean, i)(r.MarkRunning())
		}
		if run.stop {
			must(t, r.MarkStopped())
		}
		r.again()
		note, err := r.Note("running")
		same(t, string(note), "far", err)
		none, err := r.Note("other")
		errorIf(t, none != nil || err != nil, "%q, %v", none, err)
	}
}

// TestCompactDropsWhatWasOverwritten writes the same keys many times over, and compares the size of
// the tables.
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
			must(t, databaseOf(s).Flush())
		}
	}
	before := databaseOf(s).Metrics().Total().TablesSize
	must(t, s.Compact(t.Context()))
	if m := databaseOf(s).Metrics(); m.Total().TablesSize > before || m.ReadAmp() != 1 { // it may have compacted itself meanwhile
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

func TestCompactEndsWithItsContext(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "1")
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	wantErr(t, r.Compact(ctx), context.Canceled)
}

func TestWriteSetsShareTheirMemory(t *testing.T) {
	t.Parallel()
	s := openTest(t, Options{WriteBytes: 1 << 20, Limits: Limits{MaxValue: 1 << 20}})
	first, second := openSpace(t, s, 1), openSpace(t, s, 2)
	put := func(sp *Space, key byte, size int) error {
		return sp.Writes().Put([]byte{4, key}, make([]byte, size), PutOptions{})
	}
	// A value that does not fit even alone is too large, and no reason to try again.
	err := put(first, 1, 1<<20)
	fatalIf(t, !errors.Is(err, &LimitError{}) || errors.Is(err, ErrBusy), "more than there can be: %v", err)
	before := first.Writes().Savepoint()
	must(t, put(first, 1, 700_000))
	must(t, put(second, 1, 10_000))
	size := second.Writes().Bytes()
	wantErr(t, put(second, 2, 500_000), ErrBusy)
	same(t, second.Writes().Bytes(), size)
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
	r := newRig(t, o)
	for range 4 {
		r.put([]byte{1}, strings.Repeat("x", 30_000))
	}
	must(t, databaseOf(r.Store).Flush())
	must(t, r.Close())
	files := 0
	must(t, filepath.Walk(above, func(path string, info os.FileInfo, err error) error {
		must(t, err)
		want := dirMode
		if !info.IsDir() {
			want = fileMode
			files++
		}
		same(t, info.Mode().Perm(), want, path)
		return nil
	}))
	errorIf(t, files < 6, "%d files", files)
	told := func() bool { return strings.Contains(log.String(), "chmod -R go= "+o.Dir) }
	errorIf(t, told(), "logged: %s", &log)
	must(t, os.Chmod(o.Dir, 0o755))
	openTest(t, o)
	errorIf(t, !told(), "a directory that is open to others is not told of: %s", &log)
}
