package schedulerows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

func TestTriggeredRunsComeBesidesTheTicks(t *testing.T) {
	n := newNode(t)
	n.set(host.Schedule{Name: "s", Every: 600_000})
	n.now = begin.Add(5 * minute)
	b := n.book()
	for range 2 {
		s, err := b.Trigger("s", "")
		fatalIf(t, err != nil || !s.Next.Equal(begin.Add(10*minute)), "%v %v", s, err)
	}
	n.commit()
	fail := true
	n.run = func(host.Tick, string, *Book) error {
		if fail {
			fail = false
			return fmt.Errorf("boom")
		}
		return nil
	}
	n.until(begin.Add(15 * minute))
	n.want("00:05:00#1.1+0", "00:05:00#2.1+0", "00:10:00#3.1+0")
	runs := n.runs("s")
	fatalIf(t, len(runs) != 3 || runs[2].Result != "error", "%+v", runs)
	if _, err := n.book().Trigger("none", ""); host.CodeOf(err) != host.NotFound {
		t.Fatal(err)
	}
	at := begin.Add(hour)
	n.set(host.Schedule{Name: "once", At: &at})
	b = n.book()
	for range maxTriggers {
		_, err := b.Trigger("once", "")
		must(t, err)
	}
	_, err := b.Trigger("once", "")
	fatalIf(t, host.CodeOf(err) != host.Overloaded, "%v", err)
	n.commit()
	n.until(begin.Add(30 * minute))
	if s := n.get("once"); s.Runs != maxTriggers || s.LastResult != "ok" || !s.Next.Equal(at) {
		t.Fatalf("%+v", s)
	}
	n.until(at)
	if s := n.get("once"); s.Name != "" {
		t.Fatalf("%+v", s)
	}
}

func TestHistoryKeepsTheLastRuns(t *testing.T) {
	for keep, want := range map[int]int{0: 100, 5: 5, 1: 1, -1: 0} {
		n := newNode(t)
		n.set(host.Schedule{Name: "s", Every: 1000, KeepRuns: keep})
		ticks := want + 10
		n.until(begin.Add(time.Duration(ticks) * time.Second))
		runs := n.runs("s")
		fatalIf(t, len(runs) != want || int(n.rows.Keys()) != want+2, "keep %d: %d runs, %d keys", keep, len(runs), n.rows.Keys())
		for i, r := range runs {
			fatalIf(t, r.Run != uint64(ticks-i) || r.Result != "ok", "%+v", r)
		}
	}
	n := newNode(t)
	n.set(host.Schedule{Name: "s", Every: 1000, KeepRuns: 1000})
	n.until(begin.Add(500 * time.Second))
	n.set(host.Schedule{Name: "s", Every: 1000, KeepRuns: 10})
	fatalIf(t, len(n.runs("s")) != 10, "a lower limit is in force at once")
	n.until(begin.Add(501 * time.Second))
	keys := n.rows.Keys()
	fatalIf(t, keys != 501+2-trimMost, "%v keys are left after one more run", keys)
	n.until(begin.Add(520 * time.Second))
	keys = n.rows.Keys()
	fatalIf(t, keys != 10+2, "%v", keys)
}

func TestLongDowntimesAreCountedInBoundedTime(t *testing.T) {
	n := newNode(t)
	for _, s := range []host.Schedule{
		{Name: "once", Cron: "* * * * * *"}, {Name: "all", Cron: "* * * * * *", Missed: host.MissedAll, CatchUp: 3},
		{Name: "none", Cron: "* * * * * *", Missed: host.MissedNone}, {Name: "every", Every: 1000},
	} {
		n.set(s)
	}
	n.down(10 * 365 * 24 * hour)
	began := time.Now()
	for _, w := range n.wakes() {
		f, err := Due(n.rows, w.Name, "", w.Due, n.now, n.started)
		must(t, err)
		late := n.now.Sub(f.Tick.Due)
		switch w.Name {
		case "once", "every":
			errorIf(t, late != 0 || f.Tick.Missed < countMost-1, "%+v", f.Tick)
		case "all":
			errorIf(t, late != 2*time.Second || f.skipped != countMost-3, "%+v", f)
		case "none":
			errorIf(t, late != 0 || f.Tick.Missed != countMost, "%+v", f)
		}
	}
	took := time.Since(began)
	errorIf(t, took > 5*time.Minute, "it took %v", took)
}

func TestLeftoverRowsOfTheWakeIndexMeanNothing(t *testing.T) {
	n := newNode(t)
	s := n.set(host.Schedule{Name: "s", Every: 1000})
	for _, c := range []struct {
		name string
		due  int64
	}{{"s", s.Next.UnixMilli() + 1}, {"none", 5}} {
		f, err := Due(n.rows, c.name, "", c.due, n.now, n.started)
		errorIf(t, f != nil || err != nil, "%v %v", f, err)
	}
}

func TestSchedulesThatAreRefusedSayWhy(t *testing.T) {
	n := newNode(t)
	at := begin
	late := time.Date(10_000, 1, 1, 0, 0, 0, 0, time.UTC)
	for _, c := range []struct {
		s    host.Schedule
		text string
	}{
		{host.Schedule{Every: 1000}, "name"},
		{host.Schedule{Name: "s"}, "exactly one"},
		{host.Schedule{Name: "s", Every: 1000, At: &at}, "exactly one"},
		{host.Schedule{Name: "s", Every: 999}, "every_ms"},
		{host.Schedule{Name: "s", Every: -1}, "every_ms"},
		{host.Schedule{Name: "s", Every: 1 << 60}, "every_ms"},
		{host.Schedule{Name: "s", At: &late}, "at"},
		{host.Schedule{Name: "s", Every: 1000, Zone: "UTC"}, "zone"},
		{host.Schedule{Name: "s", Cron: "x"}, "cron"},
		{host.Schedule{Name: "s", Cron: "0 0 31 2 *"}, "never ticks"},
		{host.Schedule{Name: "s", Cron: "0 0 30 2 *", Zone: "Europe/Zurich"}, "never ticks"},
		{host.Schedule{Name: "s", Cron: "* * * * *", Zone: "x"}, "zone"},
		{host.Schedule{Name: "s", Every: 1000, Missed: "some"}, "missed"},
		{host.Schedule{Name: "s", Every: 1000, CatchUp: 1}, "catch_up"},
		{host.Schedule{Name: "s", Every: 1000, Missed: host.MissedAll, CatchUp: host.MaxScheduleCatchUp + 1}, "catch_up"},
		{host.Schedule{Name: "s", Every: 1000, KeepRuns: host.MaxScheduleRuns + 1}, "keep_runs"},
		{host.Schedule{Name: "s", Every: 1000, Instance: "\xff"}, "instance"},
		{host.Schedule{Name: "s", Every: 1000, Instance: strings.Repeat("x", 257)}, "limit of 256"},
		{host.Schedule{Name: "s", Every: 1000, Payload: make([]byte, maxPayload+1)}, "payload"},
	} {
		_, _, err := n.book().Set(c.s)
		code := host.CodeOf(err)
		errorIf(t, (code != host.InvalidArgument && code != host.TooLarge) || !strings.Contains(err.Error(), c.text), "%+v: %v", c.s, err)
	}
	n.commit()
	errorIf(t, n.rows.Keys() != 0 || len(n.wakes()) != 0, "something was written")
}

func TestSchedulesOfAnActorAreBounded(t *testing.T) {
	n := newNode(t)
	b := n.book()
	for i := range host.MaxSchedules {
		_, _, err := b.Set(host.Schedule{Name: "s", Instance: fmt.Sprint(i), Every: 1000})
		must(t, err)
	}
	n.commit()
	b = n.book()
	_, _, err := b.Set(host.Schedule{Name: "s", Every: 1000})
	fatalIf(t, host.CodeOf(err) != host.QuotaExceeded, "%v", err)
	_, _, err = b.Set(host.Schedule{Name: "s", Instance: "7", Every: 2000})
	fatalIf(t, err != nil, "a schedule that is there cannot be changed %v", err)
	ok, err := b.Cancel("s", "8")
	fatalIf(t, !ok || err != nil, "%v %v", ok, err)
	_, _, err = b.Set(host.Schedule{Name: "s", Every: 1000})
	must(t, err)
	n.commit()
	all, err := List(n.rows, "s")
	fatalIf(t, err != nil || len(all) != host.MaxSchedules, "%v %v", len(all), err)
	fatalIf(t, len(n.wakes()) != host.MaxSchedules, "rows in the wake index")
}

// BenchmarkArm arms schedules, 10,000 per actor, a hundred a commit: ten operations of it are
// 100,000.
func BenchmarkArm10000(b *testing.B) {
	for _, rule := range []host.Schedule{{Every: 60_000}, {Cron: "0 3 * * *", Zone: "Europe/Zurich"}} {
		b.Run(rule.Cron, func(b *testing.B) {
			b.ReportAllocs()
			for range b.N {
				b.StopTimer()
				n := newNode(b)
				b.StartTimer()
				for i := range host.MaxSchedules {
					s := rule
					s.Name, s.Instance = "s", fmt.Sprint(i)
					_, _, err := n.book().Set(s)
					must(b, err)
					if i%100 == 99 {
						n.commit()
					}
				}
			}
		})
	}
}

// BenchmarkFire runs one tick: what is due, the run, the next tick.
func BenchmarkFire(b *testing.B) {
	n := newNode(b)
	n.set(host.Schedule{Name: "s", Cron: "*/5 * * * *", Zone: "Europe/Zurich"})
	b.ReportAllocs()
	for range b.N {
		rows := n.wakes()
		n.now = *timeOf(rows[0].Due)
		n.fire(rows[0])
		n.commit()
		n.ticks = nil
	}
}

// oneRow is an actor with nothing but one schedule.
type oneRow struct{ value []byte }

func (r oneRow) Get(key []byte) (engine.Entry, bool, error) {
	return engine.Entry{Key: key, Value: r.value}, keyspace.Kind(key[0]) == keyspace.Schedule.Kind, nil
}

func (r oneRow) List(engine.ListQuery) (engine.Page, error) {
	return engine.Page{Entries: []engine.Entry{{Key: keyspace.Schedule.Append(nil, "s", ""), Value: r.value}}}, nil
}

// FuzzRecord reads and fires schedules that were never set.
func FuzzRecord(f *testing.F) {
	for _, r := range []scheduleRecord{
		{Every: 1000, Missed: host.MissedNone, KeepRuns: 100, Next: 5000, Wake: 5000, Runs: 3},
		{At: 5000, Missed: host.MissedOnce, Next: 5000, Retry: 7000, Wake: 7000, Attempts: 2, Failed: true, Error: "e"},
		{Cron: "*/5 * * * *", Zone: "UTC", Missed: host.MissedAll, CatchUp: 3, Next: 300_000, Wake: 300_000, Triggers: []int64{5, 6}},
	} {
		value, err := record.Encode(&r)
		must(f, err)
		f.Add(value, int64(400_000), int64(100))
	}
	f.Fuzz(func(t *testing.T, value []byte, now, able int64) {
		rows := oneRow{value}
		wakes, err := Wakes(rows)
		if err != nil {
			return
		}
		all, err := List(rows, "")
		fatalIf(t, err != nil || len(all) != 1, "%v %v", all, err)
		now %= 1e8 // days, so that missed ticks take no time to count
		for _, w := range wakes {
			Due(rows, "s", "", w.Due, time.UnixMilli(now), time.UnixMilli(able%1e8))
		}
	})
}

func (oneRow) Each(engine.ListQuery, func(*engine.Entry) bool) error { return nil }
