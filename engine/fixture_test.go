package engine

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

var update = flag.Bool("update", false, "write the fixture store of the current format")

// The stores under testdata were written by each released format; every later version must open
// them. For a new format, add a fixture with -update and keep the old ones.

func fixtureDir(format int) string {
	return filepath.Join("testdata", fmt.Sprintf("format-%d", format))
}

// fixtureKeys are the keys of the fixture's first actor.
func fixtureKeys() map[string]string {
	return map[string]string{
		"\x01":                 "state",
		"\x04\x02users\x00":    "",
		"\x04\x01\xFF\xFF\x00": strings.Repeat("long ", 5001),
		"\x09\x00\x00":         "file",
	}
}

func writeFixture(t *testing.T, dir string) {
	o := small(Options{Dir: t.TempDir()})
	s := mustOpen(t, o)
	actor, gone := openSpace(t, s, 1), openSpace(t, s, 2)
	for n, sp := range []*Space{actor, gone} {
		w := sp.Writes()
		w.Advance(1_700_000_000_000)
		must(t, w.Create(Identity{"default", "tenant", []string{"acme", fmt.Sprint(n)}}))
		for key, value := range fixtureKeys() {
			put(t, w, []byte(key), value)
		}
		must(t, w.Put(kv("expires"), []byte("x"), PutOptions{ExpireAt: 1_800_000_000_000}))
		must(t, w.Put(kv("encoded"), []byte("y"), PutOptions{Encoding: 7}))
		must(t, w.Put(keyspace.Attribute.Append(nil, "plan"), tuple.AppendString(nil, "pro"), PutOptions{}))
		w.SetWake(1_750_000_000_000, keyspace.WakeAlarm, "remind", "a")
		w.Outbox((&ChangeSet{ID: sp.ID(), Version: 1, Changes: []Change{{Kind: ChangeEvent, Name: "added"}}}).Append(nil), nil)
		commit(t, sp)
	}
	must(t, databaseOf(s).Flush()) // some rows in a sstable, some in the log
	w := gone.Writes()
	w.Advance(1_700_000_000_500)
	put(t, w, []byte{byte(keyspace.Outgoing.Kind), 0, 0, 0, 0, 0, 0, 0, 1}, "message")
	must(t, w.Destroy(keyspace.Outgoing.Kind))
	commit(t, gone)
	must(t, s.Close())
	must(t, errors.Join(os.RemoveAll(dir), os.CopyFS(dir, os.DirFS(o.Dir))))
}

func TestStoresOfEveryFormatOpen(t *testing.T) {
	if *update {
		writeFixture(t, fixtureDir(StoreFormat))
	}
	for format := 1; format <= StoreFormat; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir := t.TempDir()
			must(t, os.CopyFS(dir, os.DirFS(fixtureDir(format))))
			s := openTest(t, Options{Dir: dir})
			checkRows(t, s)
			returns(t, format >= 4)(s.ListingBuilt())
			id, ok, err := s.Lookup(Identity{"default", "tenant", []string{"acme", "0"}})
			fatalIf(t, err != nil || !ok || id != testID(1), "lookup: %v %v %v", id, ok, err)
			sp := openSpace(t, s, 1)
			keys := int64(len(fixtureKeys()) + 1)
			if format >= 3 {
				keys++
				same(t, wantValue(t, sp.Writes(), kv("encoded"), "y").Encoding, 7)
			}
			if format >= 4 {
				keys++
			}
			h := sp.Head()
			h.Bytes, h.Updated = 0, 0
			same(t, h, Head{Generation: 2, Version: 1, Keys: keys, Created: 1_700_000_000_000})
			w := sp.Writes()
			w.Advance(1_700_000_000_001)
			for key, value := range fixtureKeys() {
				wantValue(t, w, []byte(key), value)
			}
			e := wantValue(t, w, kv("expires"), "x")
			fatalIf(t, e.Expire != 1_800_000_000_000 || e.Encoding != 0, "%+v", e)
			due, _, err := w.Expired(1_800_000_000_000, 9)
			fatalIf(t, err != nil || len(due) != 1, "expired: %v %v", due, err)
			commit(t, sp)
			tomb, ok, err := s.Tombstone(testID(2))
			fatalIf(t, err != nil || !ok || tomb.Identity.Key[1] != "1" || tomb.Destroyed != 1_700_000_000_500,
				"tombstone %+v %v %v", tomb, ok, err)
			wantValue(t, openSpace(t, s, 2).Writes(), []byte{byte(keyspace.Outgoing.Kind), 0, 0, 0, 0, 0, 0, 0, 1}, "message")
			wakes, err := s.Wakes(nil, 1<<60, 9)
			fatalIf(t, err != nil || len(wakes) != 2 || wakes[0].Name != "remind", "wakes: %+v %v", wakes, err)
			rows, err := s.Outbox(0, 9)
			fatalIf(t, err != nil || len(rows) != 2, "outbox: %+v %v", rows, err)
			read, unread, err := s.BuildListing(t.Context())
			fatalIf(t, err != nil || unread != 0 || format < 4 && read != 1, "index of %d actors, %d not: %v", read, unread, err)
			same(t, checkListing(t, s), map[bool]int{false: 2, true: 3}[format >= 4])
			same(t, formatOf(t, s), uint64(StoreFormat))
			set, err := ParseChangeSet(rows[0].Record)
			fatalIf(t, err != nil || set.ID != testID(1) || set.Changes[0].Name != "added", "change set: %+v %v", set, err)
		})
	}
}

// older returns the options of a store that has the format of an earlier version.
func older(t *testing.T) Options {
	t.Helper()
	r := newRig(t, Options{})
	r.put(kv("a"), "value")
	must(t, errors.Join(databaseOf(r.Store).Set(keyspace.AppendMetaRow(nil, formatRow), []byte{1}, pebble.Sync),
		databaseOf(r.Store).Delete(keyspace.AppendMetaRow(nil, firstFormatRow), pebble.Sync), r.Close()))
	return r.o
}

// A store of format 2 may have rows of format 1. Its first commits as format 3 must not lose that.
func TestAStoreThatBeganWithFormat1IsOneOfThemForGood(t *testing.T) {
	for first, chunked := range map[byte]bool{0: true, 1: true, 2: false} { // 0: the row is absent
		r := newRig(t, Options{})
		row := keyspace.AppendMetaRow(nil, firstFormatRow)
		must(t, databaseOf(r.Store).Set(keyspace.AppendMetaRow(nil, formatRow), []byte{2}, pebble.Sync))
		if first > 0 {
			must(t, databaseOf(r.Store).Set(row, []byte{first}, pebble.Sync))
		} else {
			must(t, databaseOf(r.Store).Delete(row, pebble.Sync))
		}
		for range 2 {
			r.again()
			same(t, r.chunked, chunked, first)
			r.put(kv("a"), "value")
		}
		same(t, formatOf(t, r.Store), uint64(StoreFormat))
	}
}

// formatOf returns the format that the rows of an open store say.
func formatOf(t *testing.T, s *Store) uint64 {
	t.Helper()
	format, ok, err := s.number(keyspace.AppendMetaRow(nil, formatRow))
	fatalIf(t, err != nil || !ok, "%v %v", ok, err)
	return format
}

// A backup that a newer version has read can still be restored for an older one.
func TestReadingAStoreDoesNotChangeItsFormat(t *testing.T) {
	for want, o := range map[uint64]Options{1: older(t), StoreFormat: small(Options{})} {
		for range 2 {
			r := newRig(t, o)
			if want == 1 {
				r.want(kv("a"), "value")
			}
			must(t, errOf(commitWait(r.sp))) // without changes
			format := formatOf(t, r.Store)
			fatalIf(t, format != want || r.chunked != (want == 1), "format %d, want %d, chunked %v", format, want, r.chunked)
			r.Close()
		}
	}
}

// After a power cut during the first commits, rows of the current format come with the row that
// says so.
func TestFirstCommitsOfAnOlderStoreCarryTheFormat(t *testing.T) {
	kept := 0
	for seed := range uint64(16) {
		r := newRig(t, older(t))
		var all sync.WaitGroup
		for n := range 4 { // at once: several find the old format
			sp := openSpace(t, r.Store, n+2)
			put(t, sp.Writes(), kv("b"), "new")
			all.Go(func() { check(t, errOf(sp.Commit(nil))) })
		}
		all.Wait()
		after := r.crashed(seed, 50)
		r.Close()
		format, rows := formatOf(t, after.Store), 0
		for n := range 4 {
			rows += int(openSpace(t, after.Store, n+2).Head().Version)
		}
		errorIf(t, rows > 0 && format != StoreFormat ||
			!after.chunked, "seed %d: %d commits were kept; format %d, chunked %v", seed, rows, format, after.chunked)
		kept += rows
		after.put(kv("c"), "more")
		after.again()
		errorIf(t, formatOf(t, after.Store) != StoreFormat || !after.chunked, "seed %d: after a commit chunked %v", seed, after.chunked)
		after.Close()
	}
	errorIf(t, kept == 0, "no power cut has kept a commit")
}

// age rewrites the rows of the store that pick chooses, or all, in format 1.
func age(t *testing.T, s *Store, pick func() bool) {
	t.Helper()
	b := databaseOf(s).NewBatch()
	defer b.Close()
	it, err := databaseOf(s).NewIter(nil)
	must(t, err)
	defer it.Close()
	for ok := it.First(); ok; ok = it.Next() {
		row, err := keyspace.ParseRow(it.Key())
		must(t, err)
		if row.Type != keyspace.RowMetadata || pick != nil && !pick() {
			continue
		}
		key, value := clone(it.Key()), it.Value()
		old := func(m metadata, inline []byte) {
			if m.chunks == 0 && m.size > 0 {
				b.Set(keyspace.AppendDataRow(nil, row.ID, row.Key, 0), inline, nil)
			}
			b.Set(key, chunkedMetadata(&m), nil)
		}
		if value[0] == metadataFormat {
			m, inline, err := parseMetadata(value)
			must(t, err)
			old(m, inline)
		} else if value[0] == rootFormat {
			r, err := parseRoot(value)
			must(t, err)
			b.Set(keyspace.AppendHeadRow(nil, row.ID), r.head.append([]byte{headFormat}, 0), nil)
			if b.Delete(key, nil); r.state.exists {
				old(r.state.meta, r.state.value)
			}
		}
	}
	must(t, b.Commit(pebble.Sync))
	s.chunked = true
}

// A damaged store may be opened without the lost rows. An actor whose head was lost must not begin
// anew over the rest of its rows.
func TestAnActorWithoutItsHeadIsDamaged(t *testing.T) {
	for _, old := range []bool{false, true} {
		r := newRig(t, Options{})
		s := r.Store
		must(t, r.w.Create(Identity{Type: "room", Key: []string{"1"}}))
		put(t, r.w, stateKey(), "old state")
		r.put(kv("a"), "old value")
		r.sp.Close()
		lost := keyspace.AppendMetadataRow(nil, testID(1), stateKey())
		if old {
			age(t, s, nil)
			lost = keyspace.AppendHeadRow(nil, testID(1))
			must(t, databaseOf(s).Delete(keyspace.AppendIdentityRow(nil, testID(1)), pebble.Sync)) // only the state is left
		}
		must(t, databaseOf(s).Delete(lost, pebble.Sync))
		must(t, s.ResetListing()) // as accepted damage does: of an actor that lost its name, too, it has rows
		wantErr(t, errOf(s.OpenSpace(testID(1))), &CorruptError{}, old)
		page, err := s.Actors(ActorsQuery{})
		errorIf(t, err != nil || len(page.Actors) != 1, "format 1: %v: listed %d, error %v", old, len(page.Actors), err)
		sp, err := s.NewSpace(testID(1)) // destroying it needs no reads
		must(t, err)
		sp.Writes().Advance(2000)
		must(t, sp.Writes().Destroy(keyspace.UserKV.Kind))
		commit(t, sp)
		checkRows(t, s)
		wantErr(t, errOf(s.OpenSpace(testID(1))), ErrDestroyed, old)
		prefix := keyspace.AppendActorPrefix(nil, testID(1))
		same(t, countRows(t, s, prefix, keyspace.Successor(prefix)), 0, old)
		must(t, s.Close())
	}
}

// New for a key that exists breaks a promise. Its old row must not be read as its value.
func TestAStaleDataRowIsNoValue(t *testing.T) {
	r := newRig(t, Options{})
	r.put(kv("a"), "old")
	r.sp.Close()
	age(t, r.Store, nil)
	r.open()
	must(t, r.w.Put(kv("a"), []byte("new"), PutOptions{New: true}))
	r.commit()
	r.want(kv("a"), "new")
	wantErr(t, r.w.Scan(nil, nil, func(_, value []byte) bool {
		t.Errorf("scan: %q", value)
		return true
	}), &CorruptError{})
}
