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
)

var update = flag.Bool("update", false, "write the fixture store of the current format")

// The stores under testdata were written by each format that was released; every
// later version must open them. Of a new format, add a fixture with -update and
// keep the old ones.

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
		if err := w.Create(Identity{"default", "tenant", []string{"acme", fmt.Sprint(n)}}); err != nil {
			t.Fatal(err)
		}
		for key, value := range fixtureKeys() {
			put(t, w, []byte(key), value)
		}
		if err := w.Put(kv("expires"), []byte("x"), PutOptions{ExpireAt: 1_800_000_000_000}); err != nil {
			t.Fatal(err)
		}
		w.SetWake(1_750_000_000_000, keyspace.WakeAlarm, "remind", "a")
		w.Outbox((&ChangeSet{ID: sp.ID(), Version: 1, Changes: []Change{{Kind: ChangeEvent, Name: "added"}}}).Append(nil), nil)
		commit(t, sp)
	}
	if err := s.db.Flush(); err != nil { // some rows in a sstable, some in the log
		t.Fatal(err)
	}
	w := gone.Writes()
	w.Advance(1_700_000_000_500)
	put(t, w, []byte{byte(keyspace.Outgoing.Kind), 0, 0, 0, 0, 0, 0, 0, 1}, "message")
	if err := w.Destroy(keyspace.Outgoing.Kind); err != nil {
		t.Fatal(err)
	}
	commit(t, gone)
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	copyDir(t, o.Dir, dir)
}

func copyDir(t *testing.T, from, to string) {
	t.Helper()
	if err := os.MkdirAll(to, 0o755); err != nil {
		t.Fatal(err)
	}
	files, err := os.ReadDir(from)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(from, f.Name()))
		if err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(filepath.Join(to, f.Name()), b, 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

func TestStoresOfEveryFormatOpen(t *testing.T) {
	if *update {
		writeFixture(t, fixtureDir(StoreFormat))
	}
	for format := 1; format <= StoreFormat; format++ {
		t.Run(fmt.Sprint(format), func(t *testing.T) {
			dir := t.TempDir()
			copyDir(t, fixtureDir(format), dir)
			s := openTest(t, Options{Dir: dir})
			checkRows(t, s)
			id, ok, err := s.Lookup(Identity{"default", "tenant", []string{"acme", "0"}})
			if err != nil || !ok || id != testID(1) {
				t.Fatalf("lookup: %v %v %v", id, ok, err)
			}
			sp := openSpace(t, s, 1)
			if h := sp.Head(); h.Generation != 2 || h.Version != 1 || h.Keys != int64(len(fixtureKeys())+1) || h.Created != 1_700_000_000_000 {
				t.Fatalf("head %+v", h)
			}
			w := sp.Writes()
			w.Advance(1_700_000_000_001)
			for key, value := range fixtureKeys() {
				wantValue(t, w, []byte(key), value)
			}
			if e := wantValue(t, w, kv("expires"), "x"); e.Expire != 1_800_000_000_000 {
				t.Fatalf("%+v", e)
			}
			if due, err := w.Expired(1_800_000_000_000, 9); err != nil || len(due) != 1 {
				t.Fatalf("expired: %q %v", due, err)
			}
			commit(t, sp)
			tomb, ok, err := s.Tombstone(testID(2))
			if err != nil || !ok || tomb.Identity.Key[1] != "1" || tomb.Destroyed != 1_700_000_000_500 {
				t.Fatalf("tombstone %+v %v %v", tomb, ok, err)
			}
			wantValue(t, openSpace(t, s, 2).Writes(), []byte{byte(keyspace.Outgoing.Kind), 0, 0, 0, 0, 0, 0, 0, 1}, "message")
			if wakes, err := s.Wakes(nil, 1<<60, 9); err != nil || len(wakes) != 2 || wakes[0].Name != "remind" {
				t.Fatalf("wakes: %+v %v", wakes, err)
			}
			rows, err := s.Outbox(0, 9)
			if err != nil || len(rows) != 2 {
				t.Fatalf("outbox: %+v %v", rows, err)
			}
			if set, err := ParseChangeSet(rows[0].Record); err != nil || set.ID != testID(1) || set.Changes[0].Name != "added" {
				t.Fatalf("change set: %+v %v", set, err)
			}
		})
	}
}

func TestRowsOfFormat1AreRewrittenAsTheyAreUsed(t *testing.T) {
	dir := t.TempDir()
	copyDir(t, fixtureDir(1), dir)
	for start := range 3 { // the store is one of the current format from the first commit on
		s := mustOpen(t, small(Options{Dir: dir}))
		if format, _, err := s.number(keyspace.AppendMetaRow(nil, "format")); err != nil || (start > 0) != (format == StoreFormat) || !s.chunked {
			t.Fatalf("start %d: format %d, chunked %v, error %v", start, format, s.chunked, err)
		}
		sp := openSpace(t, s, 1)
		if before := sp.oldHead; before != (start == 0) {
			t.Fatalf("start %d: the head is a row of its own: %v", start, before)
		}
		w := sp.Writes()
		w.Advance(1_700_000_000_001 + int64(start))
		long := []byte("\x04\x01\xFF\xFF\x00")
		switch start {
		case 0: // the state stays where it is
			put(t, w, kv("new"), "small")
			if err := w.Put(kv("expires"), []byte("y"), PutOptions{Known: true, Old: 1, ExpireAt: 1_800_000_000_000}); err != nil {
				t.Fatal(err)
			}
			put(t, w, long, "short")
		case 1:
			put(t, w, []byte("\x01"), "another state")
			if _, err := w.Delete([]byte("\x09\x00\x00")); err != nil {
				t.Fatal(err)
			}
		case 2:
			wantValue(t, w, []byte("\x01"), "another state")
			wantValue(t, w, kv("expires"), "y")
			wantValue(t, w, long, "short")
			page, err := w.List(ListQuery{Reverse: true})
			if err != nil || len(page.Entries) != 6 { // with the index of what expires
				t.Fatalf("%d entries, error %v", len(page.Entries), err)
			}
		}
		commit(t, sp)
		checkRows(t, s)
		if start == 2 {
			if err := w.Destroy(); err != nil {
				t.Fatal(err)
			}
			commit(t, sp)
			checkRows(t, s)
			if a, ok, err := readRoot(s.db, sp.id, false); ok || err != nil {
				t.Fatalf("the head of a destroyed actor: %+v, %v", a, err)
			}
		}
		if err := s.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

// older makes a store that an earlier version wrote, as far as its format says.
func older(t *testing.T) Options {
	t.Helper()
	o := small(Options{})
	s := mustOpen(t, o)
	put(t, openSpace(t, s, 1).Writes(), kv("a"), "value")
	commit(t, s.spaces.byID[testID(1)])
	if err := errors.Join(s.db.Set(keyspace.AppendMetaRow(nil, formatRow), []byte{1}, pebble.Sync),
		s.db.Delete(keyspace.AppendMetaRow(nil, firstFormatRow), pebble.Sync), s.Close()); err != nil {
		t.Fatal(err)
	}
	return o
}

// formatOf returns the format that the rows of an open store say.
func formatOf(t *testing.T, s *Store) uint64 {
	t.Helper()
	format, ok, err := s.number(keyspace.AppendMetaRow(nil, formatRow))
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	return format
}

// A backup that is looked at with a newer version can still be restored for an older one.
func TestReadingAnOlderStoreDoesNotChangeItsFormat(t *testing.T) {
	o := older(t)
	for range 2 {
		s := mustOpen(t, o)
		sp := openSpace(t, s, 1)
		wantValue(t, sp.Writes(), kv("a"), "value")
		if _, err := commitWait(sp); err != nil { // without changes
			t.Fatal(err)
		}
		if format := formatOf(t, s); format != 1 || !s.chunked {
			t.Fatalf("format %d, chunked %v", format, s.chunked)
		}
		s.Close()
	}
}

// Whatever a power cut leaves of the first commits, rows of the current format come with the row that says so.
func TestFirstCommitsOfAnOlderStoreCarryTheFormat(t *testing.T) {
	kept := 0
	for seed := range uint64(40) {
		o := older(t)
		s := mustOpen(t, o)
		var all sync.WaitGroup
		for n := range 4 { // at once: several find the old format
			sp := openSpace(t, s, n+2)
			put(t, sp.Writes(), kv("b"), "new")
			all.Go(func() {
				if _, err := sp.Commit(nil); err != nil {
					t.Error(err)
				}
			})
		}
		all.Wait()
		o.Disk = o.Disk.Crash(seed, 50)
		s.Close()
		s = mustOpen(t, o)
		format, rows := formatOf(t, s), 0
		for n := range 4 {
			if _, ok, err := openSpace(t, s, n+2).Writes().Get(kv("b")); err != nil {
				t.Fatal(err)
			} else if ok {
				rows++
			}
		}
		if rows > 0 && format != StoreFormat || !s.chunked {
			t.Errorf("seed %d: %d commits were kept; format %d, chunked %v", seed, rows, format, s.chunked)
		}
		if rows > 0 {
			kept++
		}
		put(t, openSpace(t, s, 9).Writes(), kv("c"), "more")
		commit(t, s.spaces.byID[testID(9)])
		s.Close()
		if s = mustOpen(t, o); formatOf(t, s) != StoreFormat || !s.chunked {
			t.Errorf("seed %d: format %d, chunked %v after a commit", seed, formatOf(t, s), s.chunked)
		}
		s.Close()
	}
	if kept == 0 {
		t.Error("no power cut has kept a commit")
	}
}

func TestNewStoreHasNoRowsOfAnOlderFormat(t *testing.T) {
	o := small(Options{})
	for range 2 {
		s := mustOpen(t, o)
		if s.chunked || formatOf(t, s) != StoreFormat {
			t.Errorf("format %d, chunked %v", formatOf(t, s), s.chunked)
		}
		s.Close()
	}
}

func TestNewSpaceIsTheOnlyOneThatCommits(t *testing.T) {
	s := openTest(t, Options{})
	before := openSpace(t, s, 1)
	sp, err := s.NewSpace(testID(1))
	if err != nil {
		t.Fatal(err)
	}
	put(t, before.Writes(), kv("a"), "old")
	if _, err := before.Commit(nil); !errors.Is(err, ErrFenced) {
		t.Errorf("the space before: %v", err)
	}
	put(t, sp.Writes(), kv("a"), "new")
	commit(t, sp)
	checkRows(t, s)
	again := openSpace(t, s, 1)
	wantValue(t, again.Writes(), kv("a"), "new")
	if again.Head().Generation <= sp.Head().Generation || again.Head().Keys != 1 {
		t.Errorf("%+v after %+v", again.Head(), sp.Head())
	}
}
