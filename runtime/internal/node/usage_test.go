package node

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/usage"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// counting counts what actors do.
func counting(o *Options) { o.UsageOff = false }

// days reads the usage of an actor.
func (g *stage) days(key string) []usage.Day {
	g.t.Helper()
	var out usage.GetOutput
	g.mustVerb(key, host.UsageGet, usage.GetInput{}, &out)
	return out.Days
}

// storedDays are the days for which an actor has rows.
func (g *stage) storedDays(key string) (days []uint64) {
	g.t.Helper()
	id, _, err := g.store.Lookup(g.Identity(pAddr(key)))
	must(g.t, err)
	snap := g.store.Snapshot(id)
	defer snap.Close()
	start, end := keyspace.Usage.Range()
	if err := snap.Scan(start, end, func(key, _ []byte) bool {
		n, _ := keyspace.Usage.Parse(key)
		days = append(days, n)
		return true
	}); err != nil {
		g.t.Fatal(err)
	}
	return days
}

// behind changes the rows of an actor of a stopped node.
func (g *stage) behind(key string, change func(*engine.Space) error) {
	g.t.Helper()
	store, err := engine.Open(g.t.Context(), engine.Options{Dir: "store", Disk: g.disk, Logger: slog.New(slog.DiscardHandler)})
	must(g.t, err)
	defer store.Close()
	id, _, err := store.Lookup(engine.Identity{Namespace: "default", Type: "p", Key: []string{key}})
	must(g.t, err)
	space, err := store.OpenSpace(id)
	must(g.t, err)
	defer space.Close()
	must(g.t, change(space))
}

// TestUsageIsKeptForSoManyDays also sets the clock a year ahead: skipped days are gone, and future
// ones do not exist.
func TestUsageIsKeptForSoManyDays(t *testing.T) {
	const day = 24 * time.Hour
	bubble(t, counting, nil, func(t *testing.T, g *stage) {
		time.Sleep(12 * time.Hour) // work at midnight may be of the day after
		for range 2 * usage.Kept {
			g.must("a", add(1))
			time.Sleep(day)
		}
		rows := g.storedDays("a")
		d := g.days("a")
		errorIf(t, len(d) != usage.Kept || len(rows) > usage.Kept || d[0].Calls != 1 || rows[len(rows)-1]-rows[0] >= usage.Kept,
			"%d days, %d rows: %v", len(d), len(rows), rows)
		on := func(ago int64) error {
			_, err := g.Usage(context.Background(), usage.Query{Day: usage.FormatDay(usage.DayOf(time.Now()) - ago)})
			return err
		}
		if e := wantCode(t, on(usage.Kept), host.InvalidArgument); on(usage.Kept-1) != nil || e.Metadata["field"] != "day" {
			t.Errorf("%v, and %v a day later", e, on(usage.Kept-1))
		}
	})
	bubble(t, counting, nil, func(t *testing.T, g *stage) {
		for range 3 {
			g.must("a", add(1))
			time.Sleep(day)
		}
		time.Sleep(365 * day)
		g.must("a", add(1))
		time.Sleep(5 * time.Minute)
		days := g.storedDays("a")
		errorIf(t, len(days) != 4, "rows of the days %v are left", days)
	})
	bubble(t, counting, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		first := g.days("a")[0].BytesStored
		g.mustVerb("a", host.ActorSleep, nil, nil)
		g.stop()
		future, err := record.Encode([]int64{0, 0, 0, 0, 0, 7, 7})
		must(t, err)
		g.behind("a", func(space *engine.Space) error {
			key := keyspace.Usage.Append(nil, uint64(usage.DayOf(time.Now())+500))
			return space.Aside(func(a *engine.Aside) error { return a.Put(key, future) })
		})
		g.start()
		time.Sleep(2 * day)
		for _, d := range g.days("a") {
			errorIf(t, d.BytesStored != first, "%+v; it has stored %d", d, first)
		}
	})
}

func TestUsageOfManyActorsIsPagedAndWakesNone(t *testing.T) {
	bubble(t, counting, nil, func(t *testing.T, g *stage) {
		for i := range 7 {
			for range i + 1 {
				g.must(fmt.Sprint("k", i), add(1))
			}
		}
		g.restart()
		g.must("k3", add(1))
		time.Sleep(time.Hour)
		awake := g.Memory.Awake.Load()
		var calls []int64
		var cursor string
		q := usage.Query{Type: "p", Limit: 3}
		for more := true; more; more = q.Cursor != "" {
			page, err := g.Usage(context.Background(), q)
			must(t, err)
			for _, a := range page.Actors {
				calls = append(calls, a.Calls)
			}
			cursor, q.Cursor = cmp.Or(cursor, page.Cursor), page.Cursor
		}
		want := []int64{1, 2, 3, 5, 5, 6, 7}
		errorIf(t, !slices.Equal(calls, want) || g.Memory.Awake.Load() != awake, "%v, want %v", calls, want)
		date := func(days int) string { return time.Now().AddDate(0, 0, days).UTC().Format(time.DateOnly) }
		if page, err := g.Usage(context.Background(), usage.Query{Day: date(-1)}); err != nil ||
			len(page.Actors) != 0 || page.Day != date(-1) {
			t.Errorf("before their creation: %+v, %v", page, err)
		}
		for field, q := range map[string]usage.Query{"day": {Day: "tomorrow"}, "prefix": {Prefix: []string{"x"}}, "limit": {Limit: 1001},
			"cursor": {Type: "p", Day: date(-1), Cursor: cursor}} {
			_, err := g.Usage(context.Background(), q)
			wantField(t, err, field)
		}
		err := g.verb("k3", host.UsageGet, usage.GetInput{To: date(1)}, nil)
		wantField(t, err, "to")
	})
}

func TestEveryActionIsCountedOnceThoughTheActorSleeps(t *testing.T) {
	g := newStage(t, counting)
	const each = 50
	var wg, reader sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for i := range each {
				check(t, g.do("a", add(1)))
				if i%5 == 0 {
					g.verb("a", host.ActorSleep, nil, nil)
				}
			}
		})
	}
	calls := func() (n int64, err error) {
		var out usage.GetOutput
		err = g.verb("a", host.UsageGet, usage.GetInput{}, &out)
		for _, d := range out.Days {
			n += d.Calls
		}
		return n, err
	}
	var stop atomic.Bool
	reader.Go(func() {
		for last := int64(0); !stop.Load(); {
			n, err := calls()
			if err != nil {
				continue
			}
			errorIf(t, n < last, "%d calls after %d", n, last)
			last = n
		}
	})
	wg.Wait()
	stop.Store(true)
	reader.Wait()
	g.restart()
	gives[int64](t, 4*each, "calls")(calls())
}
