package engine

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

func trace(name string) []byte { return append([]byte{byte(keyspace.KindTraces)}, name...) }

func putAside(t testing.TB, sp *Space, key []byte, value string) {
	t.Helper()
	must(t, sp.Aside(func(a *Aside) error { return a.Put(key, []byte(value)) }), key)
}

func TestWhatIsWrittenAsideCountsForNothing(t *testing.T) {
	r := newRig(t, Options{})
	wantErr(t, r.sp.Aside(func(a *Aside) error { return nil }), ErrNotAside) // the actor does not exist yet
	version := r.put(kv("a"), "1")
	before := r.sp.Head()
	long := strings.Repeat("x", 3*ChunkSize+1)
	putAside(t, r.sp, trace("short"), "s")
	putAside(t, r.sp, trace("long"), long)
	same(t, r.sp.Head(), before)
	r.want(trace("short"), "s")
	r.want(trace("long"), long)
	must(t, r.sp.Aside(func(a *Aside) error {
		value, ok, err := a.AppendValue(nil, trace("long"))
		same(t, string(value), long, ok, err)
		n := 0
		must(t, a.Scan(trace(""), trace("\xff"), func(_, value []byte) bool { n += len(value); return true }))
		same(t, n, len(long)+1)
		return nil
	}))

	returns(t, int64(1))(r.w.DeleteRange([]byte{0}, nil))
	same(t, r.commit(), version+1)
	same(t, r.sp.Head().Keys, 0)
	r.put(kv("b"), "2")
	r.again()
	r.want(trace("long"), long)

	must(t, r.sp.Aside(func(a *Aside) error { return a.Put(keyspace.Usage.Append(nil, 1), []byte("u")) }))
	start, end := keyspace.KindTraces.Range()
	must(t, r.sp.Aside(func(a *Aside) error { return a.DeleteRange(start, end) }))
	returns(t, int64(1))(r.w.DeleteRange([]byte{0}, nil))
	r.put(kv("b"), "2")
	r.want(keyspace.Usage.Append(nil, 1), "u")
	wantAbsent(t, r.w, trace("long"))
	r.want(kv("b"), "2")
}

func TestOnlyTracesAreWrittenAside(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "1")
	_, end := keyspace.KindTraces.Range()
	for name, write := range map[string]func(a *Aside) error{
		"another kind":         func(a *Aside) error { return a.Put(kv("a"), nil) },
		"no key":               func(a *Aside) error { return a.Put(nil, nil) },
		"a range before":       func(a *Aside) error { return a.DeleteRange(kv("a"), end) },
		"a range without end":  func(a *Aside) error { return a.DeleteRange(trace(""), nil) },
		"a range that goes on": func(a *Aside) error { return a.DeleteRange(trace(""), append(end, 0)) },
	} {
		wantErr(t, r.sp.Aside(func(a *Aside) error {
			must(t, a.Put(trace("b"), nil))
			return write(a)
		}), ErrNotAside, name)
		wantAbsent(t, r.w, trace("b"))
	}
	wantErr(t, r.w.Put(trace("a"), nil, PutOptions{}), ErrReserved)
	sp := r.sp
	r.open()
	wantErr(t, sp.Aside(func(a *Aside) error { return a.Put(trace("b"), nil) }), ErrFenced)
}

// A power cut takes back aside batches after the last commit, until they are synced: a little
// later, or by Close.
func TestWhatWasWrittenAsideIsSyncedSoon(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, Options{})
		r.put(kv("a"), "1")
		putAside(t, r.sp, trace("1"), "1")
		r.put(kv("a"), "2")
		for _, name := range []string{"2", "3"} {
			putAside(t, r.sp, trace(name), name)
			c := r.crashed(1, 0)
			c.want(kv("a"), "2")
			c.want(trace("1"), "1")
			wantAbsent(t, c.w, trace(name))
			time.Sleep(asideDelay)
			synctest.Wait()
			r.crashed(1, 0).want(trace(name), name)
		}
		syncs := 0
		r.o.Disk.Fail(func(op, _ string) error {
			if op == "sync" {
				syncs++
			}
			return nil
		})
		time.Sleep(10 * asideDelay)
		same(t, syncs, 0, "of a store that nothing is written to")
		putAside(t, r.sp, trace("4"), "4")
		r.again() // before the sync
		time.Sleep(2 * asideDelay)
		r.want(trace("4"), "4")
	})
}

func TestDestroyRemovesWhatWasWrittenAside(t *testing.T) {
	for keys := range 4 { // one, or many
		keys, fresh := 1+(2*pointDeletes-1)*(keys%2), keys >= 2 // in the life that wrote aside, or in a later one
		r := newRig(t, Options{})
		for i := range keys {
			put(t, r.w, kv(string(rune('a'+i))), "1")
		}
		r.commit()
		for i := range 2 * pointDeletes {
			putAside(t, r.sp, trace(string(rune('a'+i))), strings.Repeat("x", ChunkSize+1))
			putAside(t, r.sp, keyspace.Usage.Append(nil, uint64(i)), "x")
		}
		if fresh {
			r.open()
		}
		must(t, r.w.Destroy())
		if !fresh {
			putAside(t, r.sp, trace("late"), "1") // after the plan of the destruction, before its commit
		}
		r.commit()
		wantErr(t, r.sp.Aside(func(a *Aside) error { return a.Put(trace("b"), nil) }), ErrDestroyed)
		it, err := newCursor(databaseOf(r.Store), r.sp.id, nil, nil, false)
		must(t, err)
		errorIf(t, it.valid, "the key %x is left", it.key)
		must(t, it.close())
	}
}

func TestWritingAsideBesideCommits(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "1")
	var wg sync.WaitGroup
	for i := range 2 {
		wg.Go(func() {
			for range 100 {
				check(t, r.sp.Aside(func(a *Aside) error { return a.Put(trace(string(rune('a'+i))), []byte("1")) }))
			}
		})
	}
	for range 100 {
		r.put(kv("a"), "2")
	}
	wg.Wait()
	same(t, r.sp.Head().Keys, 1)
}

// TestAsideOfWritesForActorsThatAreNotOpen has an actor that sleeps, an open one, a destroyed one,
// one that never existed, one whose head cannot be read, and one with another row that cannot be
// read.
func TestAsideOfWritesForActorsThatAreNotOpen(t *testing.T) {
	s := listingStore(t, 6)
	key := keyspace.Usage.Append(nil, 7)
	var ids []keyspace.ActorID
	for i := range 6 {
		sp := openSpace(t, s, i)
		ids = append(ids, sp.ID())
		if i == 2 {
			must(t, sp.Writes().Destroy())
			commit(t, sp)
		}
		if i != 1 {
			sp.Close()
		}
	}
	ids[3] = testID(99)
	must(t, databaseOf(s).Set(keyspace.AppendMetadataRow(nil, ids[4], stateKey()), []byte{rootFormat}, pebble.Sync))
	must(t, databaseOf(s).Set(keyspace.AppendMetadataRow(nil, ids[5], key), []byte{0xff}, pebble.Sync))
	var written []int
	late, refused := false, error(nil)
	put := func(i int, a *Aside) error {
		bytes, created := a.Size()
		fatalIf(t, bytes == 0 || created != int64(i)*60_000, "%d bytes, created at %d", bytes, created)
		if late {
			must(t, a.Put(trace("a"), []byte("half")))
		}
		if _, _, err := a.AppendValue(nil, key); err != nil {
			return err
		}
		written = append(written, i)
		must(t, a.Put(key, fmt.Append(nil, "u", refused)))
		return refused
	}
	open, err := s.AsideOf(ids, put)
	must(t, err)
	same(t, fmt.Sprint(open, written), "[1] [0]")
	late = true // keys written before the damaged row are not taken back
	wantErr(t, errOf(s.AsideOf(ids, put)), &CorruptError{})
	refused = errors.New("refused")
	open, err = s.AsideOf(ids[:2], put)
	wantErr(t, err, refused)
	same(t, fmt.Sprint(open), "[1]")
	sp := openSpace(t, s, 0) // nothing fences it
	wantValue(t, sp.Writes(), key, "u<nil>")
	putCommit(t, sp, kv("a"), "1")
	same(t, s.Metrics().Spaces, 2)
}

// TestAnActorIsNotOpenedWhileSomethingIsWrittenAside opens actors that AsideOf has begun with.
func TestAnActorIsNotOpenedWhileSomethingIsWrittenAside(t *testing.T) {
	s := listingStore(t, 1)
	sp := openSpace(t, s, 0)
	sp.Close()
	key := keyspace.Usage.Append(nil, 7)
	opened := make(chan *Space)
	_, err := s.AsideOf([]keyspace.ActorID{sp.ID()}, func(_ int, a *Aside) error {
		go func() {
			next, err := s.OpenSpace(sp.ID())
			check(t, err)
			opened <- next
		}()
		return a.Put(key, []byte("u"))
	})
	must(t, err)
	next := <-opened
	wantValue(t, next.Writes(), key, "u")
	must(t, next.Writes().Destroy())
	commit(t, next)
	wantAbsent(t, s.Snapshot(sp.ID()), key)
}
