package node

import (
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// hangsOnce is a type whose first tick takes 35 s, longer than its limit of 25 s. It records its
// ticks.
func hangsOnce(ticks *[]string) *puppetType {
	began := time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC) // of every bubble
	var mu sync.Mutex
	return &puppetType{name: "p", limits: host.Limits{TurnTimeout: 25 * time.Second}, tick: func(p *puppet, _ host.Turn) error {
		mu.Lock()
		*ticks = append(*ticks, fmt.Sprintf("%v+%d", p.tick.Due.Sub(began), p.tick.Missed))
		first := len(*ticks) == 1
		mu.Unlock()
		if first {
			time.Sleep(35 * time.Second)
		}
		return nil
	}}
}

func schedules(s host.Schedule) deed {
	s.Name = "tick"
	return func(_ *puppet, h host.Turn) error { _, err := h.SetSchedule(s); return err }
}

// Ticks that came during a run that timed out share the next run.
func TestTicksDuringARunThatTimesOutShareTheNextRun(t *testing.T) {
	var ticks []string
	bubble(t, nil, []*puppetType{hangsOnce(&ticks)}, func(t *testing.T, g *stage) {
		g.must("a", schedules(host.Schedule{Every: 10_000}))
		time.Sleep(49 * time.Second)
		synctest.Wait()
		var out host.ScheduleRunsOutput
		g.mustVerb("a", host.ScheduleRuns, host.ScheduleInput{Name: "tick"}, &out)
		first := out.Runs[len(out.Runs)-1]
		errorIf(t, len(ticks) < 2 || ticks[1] != "40s+2", "the runs are %v; the ticks of 20, 30 and 40 s share none", ticks)
		errorIf(t, first.Due.Second() != 10 || first.Missed != 0, "the failed run is recorded as due %v, missed %d", first.Due, first.Missed)
	})
}

// A trigger that was answered runs, even if the only tick of the schedule runs first.
func TestATriggerOfAnOverdueScheduleRuns(t *testing.T) {
	runs := 0
	p := &puppetType{name: "p", tick: func(*puppet, host.Turn) error { runs++; return nil }}
	bubble(t, nil, []*puppetType{p}, func(t *testing.T, g *stage) {
		at := time.Now().Add(time.Minute)
		g.must("a", schedules(host.Schedule{At: &at}))
		g.stop()
		time.Sleep(time.Hour)
		g.start()
		want := 2
		if err := g.verb("a", host.ScheduleTrigger, host.ScheduleInput{Name: "tick"}, nil); err != nil {
			same(t, host.CodeOf(err), host.NotFound) // the tick came first, and with it the end of the schedule
			want = 1
		}
		time.Sleep(time.Hour)
		synctest.Wait()
		same(t, runs, want)
	})
}

// The instance of an alarm is text, so that operators can name it.
func TestTheInstanceOfAnAlarmIsText(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		err := g.do("a", func(_ *puppet, h host.Turn) error {
			return h.SetAlarm(host.Alarm{Name: "ring", Instance: "\xff", Due: h.Now().Add(time.Hour)})
		})
		same(t, host.CodeOf(err), host.InvalidArgument)
	})
}
