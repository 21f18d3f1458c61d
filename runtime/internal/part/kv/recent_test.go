package kv

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"
	"unsafe"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

func entry(key, value string, version engine.Version) *engine.Entry {
	return &engine.Entry{Key: []byte("\x04" + key), Value: []byte(value), Version: version}
}

// An entry that is cached as of a version is valid for all versions from its own on, up to a
// change.
func TestAnEntryIsRememberedUpToItsChange(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	r := &recent{held: &held}
	is := func(version engine.Version, want string) {
		t.Helper()
		e, _, _ := r.get([]byte("\x04a"), version)
		errorIf(t, string(e.Value) != want, "as of %d it is %q and not %q", version, e.Value, want)
	}
	r.mark([]byte("a"), 3)
	is(3, "")
	r.keep(entry("a", "three", 3), 5)
	is(2, "")
	is(3, "three")
	is(9, "three")
	r.mark([]byte("a"), 10) // the turn that makes 10 runs
	is(9, "")
	r.keep(entry("a", "three", 3), 9) // read as of before it
	is(9, "")
	is(10, "")
	r.keep(entry("a", "ten", 10), 10)
	is(9, "")
	is(10, "ten")
	r.mark(nil, 11)
	is(11, "")
	r.keep(entry("a", strings.Repeat("x", recentValue+1), 12), 12)
	is(12, "")
	errorIf(t, held.Load() == 0, "nothing is held")
	r.clear()
	r.keep(entry("a", "ten", 10), 12)
	is(12, "")
	errorIf(t, held.Load() != 0, "%d bytes are held of what is closed", held.Load())
}

// Marks of a turn that was undone do not stop later caching, and earlier marks hold.
func TestMarksOfATurnThatWasUndoneCountNoLonger(t *testing.T) {
	t.Parallel()
	for _, key := range [][]byte{nil, []byte("a")} {
		for _, table := range []bool{true, false} {
			r := &recent{held: new(atomic.Int64)}
			if table {
				r.keep(entry("b", "one", 1), 1)
			}
			r.mark(key, 7)
			r.unmark(7)
			r.mark(key, 9)
			r.unmark(8)
			r.keep(entry("a", "old", 1), 6)
			_, there, _ := r.get([]byte("\x04a"), 8)
			errorIf(t, there, "%q, table %v: what was read before the change of 7 is remembered", key, table)
			r.keep(entry("a", "new", 7), 8)
			e, _, _ := r.get([]byte("\x04a"), 8)
			errorIf(t, string(e.Value) != "new", "%q, table %v: after turn 9 was undone %q is remembered", key, table, e.Value)
			r.mark(key, 9) // another turn
			_, there, _ = r.get([]byte("\x04a"), 9)
			errorIf(t, there, "%q, table %v: what turn 9 has changed is remembered", key, table)
		}
	}
}

// A mark that came before the table grew holds, even if its slot is gone.
func TestRememberingMoreForgetsNoChange(t *testing.T) {
	t.Parallel()
	r := &recent{held: new(atomic.Int64)}
	r.keep(entry("a", "one", 1), 1)
	r.mark([]byte("a"), 2)
	for n := 0; len(*r.table.Load()) == fewSlots; n++ {
		key := strings.Repeat("b", 1+n%200)
		if _, _, keep := r.get([]byte("\x04"+key), 1); keep {
			r.keep(entry(key, "one", 1), 1)
		}
	}
	r.keep(entry("a", "one", 1), 1)
	e, there, _ := r.get([]byte("\x04a"), 2)
	errorIf(t, there, "%s is of before the change", e.Value)
}

func TestAnEntryThatExpiresIsForgotten(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &recent{held: new(atomic.Int64)}
		e := entry("a", "one", 1)
		e.Expire = time.Now().Add(time.Second).UnixMilli()
		r.keep(e, 1)
		for _, want := range []bool{true, false} {
			_, there, _ := r.get(e.Key, 1)
			errorIf(t, there != want, "%v", there)
			time.Sleep(time.Second)
		}
	})
}

// When the memory of the node is used up, changed entries are cached in the room of those before
// the change.
func TestMemoryThatIsUsedUpIsUsed(t *testing.T) {
	t.Parallel()
	var held atomic.Int64
	r := &recent{held: &held}
	for i := range 40 {
		r.keep(entry(fmt.Sprint(i), "one", 1), 1)
	}
	held.Add(recentBytes - held.Load()) // other actors have the rest
	hits := func(version engine.Version) (n int) {
		for i := range 40 {
			if _, there, _ := r.get([]byte("\x04"+fmt.Sprint(i)), version); there {
				n++
			}
		}
		return n
	}
	before := hits(1)
	for i := range 40 {
		r.mark([]byte(fmt.Sprint(i)), engine.Version(2+i))
	}
	errorIf(t, held.Load() == recentBytes, "entries that no query can get are held")
	for i := range 40 {
		r.keep(entry(fmt.Sprint(i), "two", engine.Version(2+i)), 100)
	}
	after := hits(100)
	errorIf(t, after < before, "%d entries are remembered, %d after each was changed and read again", before, after)
}

// Two keys of one slot are both remembered. A third one that is missed twice takes the place of the
// older one.
func TestKeysOfOneSlotAreRemembered(t *testing.T) {
	t.Parallel()
	r := &recent{held: new(atomic.Int64)}
	r.keep(entry("first", "one", 1), 1)
	table := *r.table.Load()
	of, _ := slotOf(table, []byte("first"))
	keys := []string{"first"}
	for i := 0; len(keys) < 3; i++ {
		if s, _ := slotOf(table, []byte(fmt.Sprint(i))); s == of {
			keys = append(keys, fmt.Sprint(i))
		}
	}
	ask := func(key string) (there, keep bool) {
		_, there, keep = r.get([]byte("\x04"+key), 1)
		if keep {
			r.keep(entry(key, "one", 1), 1)
		}
		return there, keep
	}
	for _, c := range []struct {
		key         string
		there, keep bool
	}{
		{keys[1], false, true}, {keys[0], true, false}, {keys[1], true, false},
		{keys[2], false, false}, {keys[0], true, false}, {keys[1], true, false},
		{keys[2], false, true}, {keys[2], true, false}, {keys[1], true, false}, {keys[0], false, false},
	} {
		there, keep := ask(c.key)
		errorIf(t, there != c.there || keep != c.keep, "%s is remembered: %v, to be kept: %v", c.key, there, keep)
	}
	want := int64(fewSlots)*int64(unsafe.Sizeof(slot{})) + sizeOf(entry(keys[1], "one", 1)) + sizeOf(entry(keys[2], "one", 1))
	errorIf(t, r.held.Load() != want, "%d bytes are held and not %d", r.held.Load(), want)
}

// A key that is put again stays at its place, and a mark forgets both keys of a slot.
func TestAKeyIsAtOnePlaceOfItsSlot(t *testing.T) {
	t.Parallel()
	r, a, b := crowdedSlot(t)
	before := r.held.Load()
	for _, key := range []string{b, a, b} {
		r.keep(entry(key, "one", 1), 1)
	}
	errorIf(t, r.held.Load() != before, "%d bytes are held of two keys, and %d after each was read again", before, r.held.Load())
	r.mark([]byte(a), 2)
	for _, key := range []string{a, b} {
		_, there, _ := r.get([]byte("\x04"+key), 2)
		errorIf(t, there, "%s is remembered", key)
	}
	errorIf(t, r.held.Load() != before-sizeOf(entry(a, "one", 1))-sizeOf(entry(b, "one", 1)), "%d bytes are held of no key", r.held.Load())
}

// In the last memory of the node a key that is missed twice takes the place of an unread one.
func TestUsedUpMemoryGoesToKeysThatAreRead(t *testing.T) {
	t.Parallel()
	r, a, b := crowdedSlot(t)
	r.mark([]byte(a), 2)
	r.keep(entry(a, "one", 1), 2)
	r.held.Add(recentBytes - r.held.Load())
	for i, want := range []bool{false, true} {
		_, _, keep := r.get([]byte("\x04"+b), 2)
		errorIf(t, keep != want, "missed %d times it is to be kept: %v", i+1, keep)
	}
	r.keep(entry(b, "one", 1), 2)
	_, there, _ := r.get([]byte("\x04"+b), 2)
	errorIf(t, !there, "it is not remembered")
	r.keep(entry(b, "old", 1), 1) // read by a query that began before the mark
	e, _, _ := r.get([]byte("\x04"+b), 2)
	errorIf(t, string(e.Value) != "one", "%q is remembered", e.Value)
}

// Readers beside a writer, and several keys of each slot: each reads the state of its version. A
// version v writes v to one key, or to all.
func TestReadersBesideAWriterReadTheirVersion(t *testing.T) {
	t.Parallel()
	const keys, versions, all = 3 * fewSlots, 5_000, -1
	var wrote [versions + 1]int // the key that a version writes
	var applied atomic.Uint64
	r := &recent{held: new(atomic.Int64)}
	var hits atomic.Int64
	var readers sync.WaitGroup
	for n := range 4 {
		readers.Go(func() {
			for rng := rand.New(rand.NewPCG(uint64(n), 0)); ; {
				view := applied.Load()
				if view == versions {
					return
				}
				key := rng.IntN(keys)
				wrote, is := wrote[:view+1], view
				for is > 0 && wrote[is] != key && wrote[is] != all {
					is--
				}
				runtime.Gosched() // the writer may go on
				e, there, keep := r.get([]byte("\x04"+strconv.Itoa(key)), engine.Version(view))
				if there {
					hits.Add(1)
					if want := fmt.Sprint(is); string(e.Value) != want || e.Version != engine.Version(is) {
						t.Errorf("as of %d key %d is %q and not %q", view, key, e.Value, want)
						return
					}
				} else if keep {
					r.keep(entry(strconv.Itoa(key), fmt.Sprint(is), engine.Version(is)), engine.Version(view))
				}
			}
		})
	}
	for v, rng := 1, rand.New(rand.NewPCG(9, 9)); v <= versions; v++ {
		if rng.IntN(3) == 0 { // a turn that is undone
			r.mark([]byte(strconv.Itoa(rng.IntN(keys))), engine.Version(v))
			if rng.IntN(50) == 0 {
				r.mark(nil, engine.Version(v))
			}
			runtime.Gosched()
			r.unmark(engine.Version(v - 1))
		}
		if wrote[v] = rng.IntN(keys); rng.IntN(200) == 0 {
			wrote[v] = all
			r.mark(nil, engine.Version(v))
		} else {
			r.mark([]byte(strconv.Itoa(wrote[v])), engine.Version(v))
		}
		applied.Store(uint64(v))
		runtime.Gosched()
	}
	readers.Wait()
	errorIf(t, hits.Load() == 0, "nothing was remembered")
}

// crowdedSlot returns two keys of one slot, which are remembered.
func crowdedSlot(t *testing.T) (r *recent, a, b string) {
	t.Helper()
	r = &recent{held: new(atomic.Int64)}
	a = "first"
	r.keep(entry(a, "one", 1), 1)
	table := *r.table.Load()
	of, _ := slotOf(table, []byte(a))
	for i := 0; ; i++ {
		b = fmt.Sprint(i)
		if s, _ := slotOf(table, []byte(b)); s == of {
			r.keep(entry(b, "one", 1), 1)
			return r, a, b
		}
	}
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf
