package node

import (
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// Bubbles begin at 2000-01-01 00:00:00 UTC.

// changes collects what is published.
type changes struct{ data []map[string]any }

func (c *changes) Committed(_ uint64, cs *engine.ChangeSet) {
	for _, ch := range cs.Changes {
		if ch.Kind == engine.ChangeAlarm {
			m := map[string]any{"kind": ch.Kind.String(), "name": ch.Name}
			json.Unmarshal(ch.Data, &m)
			c.data = append(c.data, m)
		}
	}
}
func (*changes) Life(*engine.ChangeSet) {}
func (*changes) Refuse() error          { return nil }

func TestChangesOfSchedulesArePublishedAsThoseOfAlarms(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sink := &changes{}
		n := &diaryNode{t: t, disk: engine.NewDisk(), sink: sink}
		n.hooks.onSchedule(func(*diary, host.Turn, *host.Tick, []byte) error { return nil })
		n.open()
		n.must(host.ScheduleSet, host.Schedule{Name: "s", Every: time.Hour.Milliseconds()}, nil)
		time.Sleep(90 * time.Minute)
		n.must(host.ScheduleCancel, host.ScheduleInput{Name: "s"}, nil)
		n.stop()
		var ops []string
		for _, m := range sink.data {
			ops = append(ops, fmt.Sprint(m["kind"], m["name"], m["op"], m["due"]))
		}
		if want := []string{"alarmsset2000-01-01T01:00:00Z", "alarmsfired2000-01-01T01:00:00Z", "alarmscancel<nil>"}; !slices.Equal(ops, want) {
			t.Errorf("%q", ops)
		}
	})
}

// TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash lets the power fail after every write and sync around ticks, and
// looks at what is left. The handler notes each run in the state, so state and history must agree, and every tick counts.
func TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		fail := func(tick *host.Tick) bool { return tick.Due.Unix()%3 == 0 }
		n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error {
			if fail(tick) {
				return errors.New("boom")
			}
			d.note(tick.Due.UTC().Format("15:04:05"))
			return nil
		})
		begin := time.Now()
		n.must(host.ScheduleSet, host.Schedule{Name: "s", Every: 1000, Missed: host.MissedAll, CatchUp: 1000, KeepRuns: 1000}, nil)
		var clones []*engine.Disk
		moment := make(chan struct{})
		n.disk.Fail(func(op, _ string) error {
			if op == "sync" || op == "write" {
				moment <- struct{}{}
				<-moment
			}
			return nil
		})
		stop := time.After(20500 * time.Millisecond)
		for open := true; open; {
			select {
			case <-moment:
				clones = append(clones, n.disk.Crash(uint64(len(clones)), 35*(len(clones)%4)))
				moment <- struct{}{}
			case <-stop:
				open = false
			}
		}
		n.disk.Fail(nil)
		t.Logf("%d crashes", len(clones))
		if len(clones) < 40 {
			t.Fatal("too few")
		}
		for i, disk := range clones {
			if i%3 != 0 && !long() {
				continue
			}
			m := &diaryNode{t: t, disk: disk}
			m.hooks.onSchedule(n.hooks.scheduled())
			m.open()
			time.Sleep(3 * time.Second)
			synctest.Wait()
			ticks := int(time.Since(begin) / time.Second)
			if time.Since(begin)%time.Second == 0 {
				ticks = int(m.get("s").Runs) // the last tick is being run at this very moment
			}
			s, notes, runs := m.get("s"), m.notes(), m.runs("s")
			if int(s.Runs) != ticks || len(runs) != min(ticks, 1000) || s.Skipped != 0 {
				t.Fatalf("crash %d: %d runs, %d in the history, %d skipped, after %d ticks", i, s.Runs, len(runs), s.Skipped, ticks)
			}
			var want []string
			for j := range ticks {
				due := begin.Add(time.Duration(j+1) * time.Second).UTC()
				run := runs[len(runs)-1-j]
				failed := fail(&host.Tick{Due: due})
				if !run.Due.Equal(due) || run.Run != uint64(j+1) || (run.Result == "error") != failed {
					t.Fatalf("crash %d: run %d is %+v", i, j+1, run)
				}
				if !failed {
					want = append(want, due.Format("15:04:05"))
				}
			}
			if !slices.Equal(notes, want) {
				t.Fatalf("crash %d: the handler noted %v", i, notes)
			}
			m.stop()
		}
	})
}
