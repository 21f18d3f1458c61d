package schedulerows

import (
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
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
