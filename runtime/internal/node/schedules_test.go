package node

import (
	"errors"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash lets the power fail after every write and sync around ticks, and
// looks at what is left. The handler notes each run in the state, so state and history must agree, and every tick counts.
func TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash(t *testing.T) {
	fails := func(due time.Time) bool { return due.Unix()%3 == 0 }
	puppets := &puppetType{name: "p", tick: func(p *puppet, _ host.Turn) error {
		if fails(p.tick.Due) {
			return errors.New("boom")
		}
		p.s.Log = append(p.s.Log, p.tick.Due.UTC().Format("15:04:05"))
		return nil
	}}
	bubble(t, nil, []*puppetType{puppets}, func(t *testing.T, g *stage) {
		begin := time.Now()
		g.mustVerb("a", host.ScheduleSet, host.Schedule{Name: "tick", Every: 1000, Missed: host.MissedAll, CatchUp: 1000, KeepRuns: 1000}, nil)
		cuts := 0
		afterCuts[int](g, nil, func() { time.Sleep(20500 * time.Millisecond) }, func(m *stage, _ int) {
			cuts++
			time.Sleep(3 * time.Second)
			synctest.Wait()
			var list host.ScheduleListOutput
			m.mustVerb("a", host.ScheduleList, nil, &list)
			var history host.ScheduleRunsOutput
			m.mustVerb("a", host.ScheduleRuns, host.ScheduleInput{Name: "tick"}, &history)
			var notes, want []string
			err := m.look("a", func(s *puppetState, _ host.Reader) error { notes = s.Log; return nil })
			s, runs := list.Schedules[0], history.Runs
			ticks := int(time.Since(begin) / time.Second)
			if time.Since(begin)%time.Second == 0 {
				ticks = int(s.Runs) // the last tick is being run at this very moment
			}
			fatalIf(t, err != nil || int(s.Runs) != ticks || len(runs) != min(ticks, 1000) || s.Skipped != 0,
				"%d runs, %d in the history, %d skipped, after %d ticks; %v", s.Runs, len(runs), s.Skipped, ticks, err)
			for j := range ticks {
				due, run := begin.Add(time.Duration(j+1)*time.Second).UTC(), runs[len(runs)-1-j]
				fatalIf(t, !run.Due.Equal(due) || run.Run != uint64(j+1) || (run.Result == "error") != fails(due),
					"run %d is %+v", j+1, run)
				if !fails(due) {
					want = append(want, due.Format("15:04:05"))
				}
			}
			fatalIf(t, !slices.Equal(notes, want), "the handler noted %v", notes)
		})
		errorIf(t, cuts < 12, "there were only %d cuts", cuts)
	})
}
