package streamrows

import (
	"context"
	"log/slog"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

var actorID = keyspace.ActorID{1, 2, 3, 4, 5, 6, 0x8f, 8, 0x80, 10}

// begin is the time at which tests begin.
var begin = time.UnixMilli(1_771_891_200_000).UTC()

// An actorStore is the space of one actor on a disk in memory.
type actorStore struct {
	t     testing.TB
	disk  *engine.Disk
	store *engine.Store
	space *engine.Space
	rows  *engine.WriteSet
}

func open(t testing.TB, disk *engine.Disk) *actorStore {
	t.Helper()
	store, err := engine.Open(context.Background(), engine.Options{Dir: "store", Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	space, err := store.OpenSpace(actorID)
	must(t, err)
	return &actorStore{t: t, disk: disk, store: store, space: space, rows: space.Writes()}
}

func newStore(t testing.TB) *actorStore {
	t.Helper()
	s := open(t, engine.NewDisk())
	t.Cleanup(func() { s.store.Close() })
	return s
}

// commit makes what was written durable.
func (s *actorStore) commit() {
	s.t.Helper()
	done := make(chan error, 1)
	_, err := s.space.Commit(func(err error) { done <- err })
	must(s.t, err)
	must(s.t, <-done)
}

// log begins a turn.
func (s *actorStore) log(now time.Time) *Log {
	s.rows.Advance(now.UnixMilli())
	return New(s.rows, now)
}

// wakes returns the rows of the wake index.
func (s *actorStore) wakes() []engine.Wake {
	s.t.Helper()
	rows, err := s.store.Wakes(nil, 1<<60, 1000)
	must(s.t, err)
	return rows
}

// stored counts the rows of items.
func (s *actorStore) stored() int {
	s.t.Helper()
	start, end := keyspace.StreamItem.Range()
	page, err := s.rows.List(engine.ListQuery{Start: start, End: end, KeysOnly: true})
	must(s.t, err)
	fatalIf(s.t, page.Next != nil, "more items than one listing")
	return len(page.Entries)
}

func config(s host.Stream) *host.Stream {
	s.EnsureDefaults()
	return &s
}

func items(values ...string) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i] = []byte(v)
	}
	return out
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf

// A release lowers the Age of a stream: items that are appended after it go when that has passed.
func TestALowerAgeHoldsForItemsAppendedSince(t *testing.T) {
	s := newStore(t)
	now := begin
	month, hour := config(host.Stream{Name: "s", Age: 30 * 24 * time.Hour}), config(host.Stream{Name: "s", Age: time.Hour})
	appends := func(cfg *host.Stream) {
		t.Helper()
		_, err := s.log(now).Append(cfg, "s", items(`"a"`))
		must(t, err)
		s.commit()
	}
	fire := func(cfg *host.Stream) {
		for _, w := range s.wakes() {
			if w.Due <= now.UnixMilli() {
				must(t, s.log(now).Purge(cfg, "s", w.Due))
				s.commit()
			}
		}
	}
	appends(month)
	now = now.Add(24 * time.Hour) // the release
	for range 3 {
		appends(hour)
		now = now.Add(time.Minute)
	}
	for range 30 {
		now = now.Add(time.Hour)
		fire(hour)
	}
	if n := s.stored(); n > 0 {
		t.Errorf("%d items are stored 30 hours after the last append, the stream's age is 1 hour; the next wake is in %v", n,
			time.UnixMilli(s.wakes()[0].Due).Sub(now))
	}
}
