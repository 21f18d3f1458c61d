package schedulerows

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

var actorID = keyspace.ActorID{1, 2, 3, 4, 5, 6, 0x8f, 8, 0x80, 10}

// begin is the time at which tests begin: a full hour.
var begin = time.Date(2026, 2, 24, 0, 0, 0, 0, time.UTC)

// A node is an actor's schedules on a store in memory, and the clock that fires them.
type node struct {
	t     testing.TB
	store *engine.Store
	space *engine.Space
	rows  *engine.WriteSet
	now   time.Time
	// started is since when the node runs, took how long the handler takes, run what it does.
	started time.Time
	took    time.Duration
	run     func(tick host.Tick, payload string, b *Book) error
	ticks   []string
}

func newNode(t testing.TB) *node {
	t.Helper()
	store, err := engine.Open(context.Background(),
		engine.Options{Dir: "store", Disk: engine.NewDisk(), Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	space, err := store.OpenSpace(actorID)
	must(t, err)
	return &node{t: t, store: store, space: space, rows: space.Writes(), now: begin, started: begin}
}

func (n *node) book() *Book {
	n.rows.Advance(n.now.UnixMilli())
	return New(n.rows, n.now)
}

func (n *node) commit() {
	n.t.Helper()
	done := make(chan error, 1)
	_, err := n.space.Commit(func(err error) { done <- err })
	must(n.t, err)
	must(n.t, <-done)
}

func (n *node) set(s host.Schedule) host.Schedule {
	n.t.Helper()
	out, _, err := n.book().Set(s)
	must(n.t, err)
	n.commit()
	return out
}

func (n *node) get(name string) host.Schedule {
	n.t.Helper()
	s, _, err := Get(n.rows, name, "")
	must(n.t, err)
	return s
}

func (n *node) runs(name string) []host.ScheduleRun {
	n.t.Helper()
	runs, err := Runs(n.rows, name, "")
	must(n.t, err)
	return runs
}

// wakes checks that the wake index agrees with the schedules, and returns it.
func (n *node) wakes() []engine.Wake {
	n.t.Helper()
	rows, err := n.store.Wakes(nil, 1<<60, 10_000)
	must(n.t, err)
	want, err := Wakes(n.rows)
	must(n.t, err)
	texts := func(wakes []engine.Wake) (all []string) {
		for _, w := range wakes {
			all = append(all, fmt.Sprint(w.Due, w.Kind, w.Name, w.Instance))
		}
		slices.Sort(all)
		return all
	}
	if a, b := texts(rows), texts(want); !slices.Equal(a, b) {
		n.t.Fatalf("the wake index has %v, the schedules say %v", a, b)
	}
	return rows
}

// until fires what is due up to a time.
func (n *node) until(end time.Time) {
	n.t.Helper()
	for {
		rows := n.wakes()
		if len(rows) == 0 || rows[0].Due > end.UnixMilli() {
			n.now = maxOf(n.now, end)
			return
		}
		n.now = maxOf(n.now, time.UnixMilli(rows[0].Due))
		n.fire(rows[0])
		n.commit()
	}
}

func maxOf(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b.UTC()
}

func (n *node) fire(w engine.Wake) {
	n.t.Helper()
	f, err := Due(n.rows, w.Name, w.Instance, w.Due, n.now, n.started)
	fatalIf(n.t, err != nil || f == nil, "%v %v %v", w, f, err)
	if f.Skip {
		must(n.t, n.book().Skip(f))
		return
	}
	at, started := n.rows.Savepoint(), n.now
	b := n.book()
	n.ticks = append(n.ticks, fmt.Sprintf("%s#%d.%d+%d", f.Tick.Due.Format("15:04:05"), f.Tick.Run, f.Tick.Attempt, f.Tick.Missed))
	must(n.t, b.Begin(f))
	if n.run != nil {
		err = n.run(f.Tick, string(f.Payload), b)
	}
	n.now = n.now.Add(n.took)
	if err == nil {
		err = b.Done(f, started, n.now)
	} else {
		n.rows.Rollback(at)
		err = n.book().Failed(f, host.Errorf(host.FailedPrecondition, "%v", err), "", started, n.now)
	}
	must(n.t, err)
}

// down stops the node for a while.
func (n *node) down(d time.Duration) {
	n.now = n.now.Add(d)
	n.started = n.now
}

func (n *node) want(ticks ...string) {
	n.t.Helper()
	errorIf(n.t, !slices.Equal(n.ticks, ticks), "the handler ran for %q, want %q", n.ticks, ticks)
	n.ticks = nil
}

const minute, hour = time.Minute, time.Hour

// TestTicksThatAreLateOrMissed has an actor that is busy for a while, a handler that takes a time,
// and a node that is up, then down and up again. Schedules every ten minutes are tried as
// expressions, too.
func TestTicksThatAreLateOrMissed(t *testing.T) {
	const tenMinutes, tenSeconds = 600_000, 10_000
	at, past := begin.Add(10*minute), begin.Add(-hour)
	for _, c := range []struct {
		s                          host.Schedule
		busy, took, up, down, then time.Duration
		want                       string
		skipped                    uint64
	}{
		{s: host.Schedule{Every: tenMinutes, Missed: host.MissedOnce}, up: 15 * minute, down: 50 * minute, then: 10 * minute,
			want: "00:10:00#1.1+0 01:00:00#2.1+4 01:10:00#3.1+0"},
		{s: host.Schedule{Every: tenMinutes}, up: 15 * minute, down: 50 * minute, then: 10 * minute,
			want: "00:10:00#1.1+0 01:00:00#2.1+4 01:10:00#3.1+0"},
		{s: host.Schedule{Every: tenMinutes, Missed: host.MissedAll}, up: 15 * minute, down: 50 * minute, then: 10 * minute,
			want: "00:10:00#1.1+0 00:20:00#2.1+0 00:30:00#3.1+0 00:40:00#4.1+0 00:50:00#5.1+0 01:00:00#6.1+0 01:10:00#7.1+0"},
		{s: host.Schedule{Every: tenMinutes, Missed: host.MissedAll, CatchUp: 2}, up: 15 * minute, down: 50 * minute, then: 10 * minute,
			want: "00:10:00#1.1+0 00:50:00#2.1+3 01:00:00#3.1+0 01:10:00#4.1+0", skipped: 3},
		{s: host.Schedule{Every: tenMinutes, Missed: host.MissedNone}, up: 15 * minute, down: 50 * minute, then: 10 * minute,
			want: "00:10:00#1.1+0 01:10:00#2.1+5", skipped: 5},

		{s: host.Schedule{Every: tenSeconds, Missed: host.MissedOnce}, took: 35 * time.Second, up: minute,
			want: "00:00:10#1.1+0 00:00:40#2.1+2 00:01:20#3.1+3"},
		{s: host.Schedule{Every: tenSeconds, Missed: host.MissedAll}, took: 35 * time.Second, up: minute / 2,
			want: "00:00:10#1.1+0 00:00:20#2.1+0 00:00:30#3.1+0"},
		{s: host.Schedule{Every: tenSeconds, Missed: host.MissedNone}, took: 35 * time.Second, up: 95 * time.Second,
			want: "00:00:10#1.1+0 00:00:50#2.1+3 00:01:30#3.1+3", skipped: 9},
		// late, and not missed
		{s: host.Schedule{Every: tenSeconds, Missed: host.MissedNone}, busy: 25 * time.Second, want: "00:00:20#1.1+1", skipped: 1},

		{s: host.Schedule{At: &at, Missed: host.MissedOnce}, down: hour, then: hour, want: "00:10:00#1.1+0"},
		{s: host.Schedule{At: &at, Missed: host.MissedAll}, down: hour, then: hour, want: "00:10:00#1.1+0"},
		{s: host.Schedule{At: &at, Missed: host.MissedNone}, down: hour, then: hour, want: ""},
		{s: host.Schedule{At: &past, Missed: host.MissedNone}, want: "23:00:00#1.1+0"}, // set for the past: nothing was missed
	} {
		run := func(s host.Schedule) {
			n := newNode(t)
			s.Name, n.took = "s", c.took
			n.set(s)
			n.now = n.now.Add(c.busy)
			n.until(n.now.Add(c.up))
			if c.down > 0 {
				n.down(c.down)
				n.until(n.now.Add(c.then))
			}
			left, got := n.get("s"), strings.Join(n.ticks, " ")
			errorIf(t, got != c.want || left.Skipped != c.skipped, "%+v: %q, and %d skipped", s, got, left.Skipped)
			errorIf(t, s.At != nil && (len(n.wakes()) != 0 || left.Name != ""), "%+v: it is still there", s)
		}
		run(c.s)
		if c.s.Every == tenMinutes {
			c.s.Every, c.s.Cron, c.s.Zone = 0, "*/10 * * * *", "Europe/Zurich"
			run(c.s)
		}
	}
}

func TestOneShotThatFailsIsTriedAgainWithGrowingPausesAndEndsWithItsRun(t *testing.T) {
	n := newNode(t)
	at := begin.Add(minute)
	fail := true
	n.run = func(host.Tick, string, *Book) error {
		if fail {
			return fmt.Errorf("boom")
		}
		return nil
	}
	n.set(host.Schedule{Name: "s", At: &at})
	n.until(begin.Add(minute + 8*time.Second))
	n.want("00:01:00#1.1+0", "00:01:00#1.2+0", "00:01:00#1.3+0", "00:01:00#1.4+0") // at 60, 61, 63, 67 s
	s := n.get("s")
	fatalIf(t, s.Attempts != 4 || s.Runs != 0 || s.LastResult != "error" ||
		s.LastError != "failed_precondition: boom" || !s.Next.Equal(at), "%+v", s)
	runs := n.runs("s")
	fatalIf(t, len(runs) != 1 || runs[0].Attempt != 4, "%+v", runs)
	// The payload can be changed meanwhile.
	n.set(host.Schedule{Name: "s", At: &at, Payload: host.Raw("new")})
	fatalIf(t, n.get("s").Attempts != 4, "a new payload changed the attempts")
	n.down(hour)
	fail = false
	n.until(n.now.Add(hour))
	n.want("00:01:00#1.5+0")
	if keys := n.rows.Keys(); keys != 1 || len(n.wakes()) != 0 { // the count
		t.Fatal(keys, "keys are left")
	}
}

func TestSameRuleKeepsTheNextTickAndTheCounts(t *testing.T) {
	n := newNode(t)
	n.set(host.Schedule{Name: "s", Every: 600_000, Payload: host.Raw("a")})
	n.until(begin.Add(25 * minute))
	before := n.get("s")
	_, changed, err := n.book().Set(host.Schedule{Name: "s", Every: 600_000, Payload: host.Raw("a")})
	fatalIf(t, changed || err != nil, "setting what is so writes something %v", err)
	s := n.set(host.Schedule{Name: "s", Every: 600_000, Payload: host.Raw("b"), Missed: host.MissedAll, KeepRuns: 1})
	if !s.Next.Equal(*before.Next) || s.Runs != 2 || string(s.Payload) != "b" ||
		s.CatchUp != host.DefaultScheduleCatchUp || len(n.runs("s")) != 1 {
		t.Fatalf("%+v of %+v", s, before)
	}
	s = n.set(host.Schedule{Name: "s", Every: 900_000, Payload: host.Raw("b")})
	fatalIf(t, !s.Next.Equal(begin.Add(40*minute)) || s.Runs != 2, "%+v", s)
	var payload string
	n.run = func(_ host.Tick, p string, _ *Book) error { payload = p; return nil }
	n.until(begin.Add(hour))
	fatalIf(t, payload != "b", "%v", payload)
	n.want("00:10:00#1.1+0", "00:20:00#2.1+0", "00:40:00#3.1+0", "00:55:00#4.1+0")
}

func TestHandlerMayChangeAndCancelItsOwnSchedule(t *testing.T) {
	at, later := begin.Add(hour), begin.Add(3*hour)
	for _, c := range []struct {
		name string
		do   func(b *Book) error
		next *time.Time // nil: it is gone
		runs uint64
	}{
		{"cancel", func(b *Book) error { _, err := b.Cancel("s", ""); return err }, nil, 0},
		{"another rule", func(b *Book) error { _, _, err := b.Set(host.Schedule{Name: "s", At: &later}); return err }, &later, 1},
		{"the same rule",
			func(b *Book) error {
				_, _,
					err := b.Set(host.Schedule{Name: "s", Every: 3_600_000})
				return err
			}, timeOf(begin.Add(2 * hour).UnixMilli()), 1},
		{"cancel and set", func(b *Book) error {
			b.Cancel("s", "")
			_, _, err := b.Set(host.Schedule{Name: "s", Every: 1_800_000})
			return err
		}, timeOf(begin.Add(90 * minute).UnixMilli()), 0},
		{"the moment that it is", func(b *Book) error { _, _, err := b.Set(host.Schedule{Name: "s", At: &at}); return err }, &at, 1},
		{"trigger", func(b *Book) error { _, err := b.Trigger("s", ""); return err }, timeOf(begin.Add(2 * hour).UnixMilli()), 1},
	} {
		t.Run(c.name, func(t *testing.T) {
			n := newNode(t)
			n.set(host.Schedule{Name: "s", Every: 3_600_000})
			n.run = func(_ host.Tick, _ string, b *Book) error { return c.do(b) }
			n.now = begin.Add(hour)
			n.fire(n.wakes()[0])
			n.commit()
			n.wakes()
			s := n.get("s")
			switch {
			case c.next == nil:
				fatalIf(t, s.Name != "" || n.rows.Keys() != 1, "%+v, %d keys", s, n.rows.Keys())
			case s.Next == nil || !s.Next.Equal(*c.next) || s.Runs != c.runs || uint64(len(n.runs("s"))) != c.runs:
				t.Fatalf("%+v with %d runs in the history, want %v and %d", s, len(n.runs("s")), c.next, c.runs)
			}
		})
	}
}

func TestOneShotMaySetItselfAnew(t *testing.T) {
	n := newNode(t)
	at := begin.Add(minute)
	n.set(host.Schedule{Name: "s", At: &at})
	n.run = func(tick host.Tick, _ string, b *Book) error {
		if tick.Run < 3 {
			_, _, err := b.Set(host.Schedule{Name: "s", At: &at}) // for the same moment, which is now
			return err
		}
		return nil
	}
	n.until(begin.Add(hour))
	n.want("00:01:00#1.1+0", "00:01:00#2.1+0", "00:01:00#3.1+0")
	fatalIf(t, n.get("s").Name != "" || len(n.wakes()) != 0, "it is still there")
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
