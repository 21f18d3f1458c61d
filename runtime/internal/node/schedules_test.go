package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/part/schedule"
)

// Bubbles begin at 2000-01-01 00:00:00 UTC.

func every(d time.Duration) host.Schedule {
	return host.Schedule{Name: "s", Every: d.Milliseconds()}
}

func TestScheduleRunsAtItsTicksAlsoInASleepingActorAndAfterARestart(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.must(host.ScheduleSet, host.Schedule{Name: "s", Cron: "0 3 * * *", Zone: "Europe/Zurich", Payload: host.Raw(`{"n":[1,2]}`)}, nil)
		var payload []byte
		n.hooks.onSchedule(func(d *diary, ht host.Turn, tick *host.Tick, p []byte) error {
			d.note(fmt.Sprint(tick.Due.UTC().Format("02 15:04"), " run ", tick.Run, " at ", ht.Now().Sub(tick.Due)))
			payload = slices.Clone(p)
			return nil
		})
		time.Sleep(2 * time.Hour)
		n.wantNotes("01 02:00 run 1 at 0s")
		n.stop()
		n.open()
		time.Sleep(24 * time.Hour)
		n.wantNotes("01 02:00 run 1 at 0s", "02 02:00 run 2 at 0s")
		if v, err := convertAny(0, 0, host.CBOR, payload, host.JSON, nil); err != nil || string(v) != `{"n":[1,2]}` {
			t.Error(string(v), err)
		}
		s := n.get("s")
		if string(s.Payload) != `{"n":[1,2]}` || s.Runs != 2 || s.LastResult != "ok" || s.Next.Day() != 3 || s.Missed != host.MissedOnce {
			t.Errorf("%+v", s)
		}
		if runs := n.runs("s"); len(runs) != 2 || runs[0].Run != 2 || runs[0].Result != "ok" {
			t.Errorf("%+v", runs)
		}
	})
}

func TestTicksMissedWhileTheNodeWasDown(t *testing.T) {
	for missed, want := range map[host.Missed][]string{
		host.MissedOnce: {"00:10:00+0", "01:00:00+4", "01:10:00+0"},
		host.MissedAll:  {"00:10:00+0", "00:50:00+3", "01:00:00+0", "01:10:00+0"},
		host.MissedNone: {"00:10:00+0", "01:10:00+5"},
	} {
		t.Run(string(missed), func(t *testing.T) {
			withDiaries(t, func(t *testing.T, n *diaryNode) {
				n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error {
					d.note(fmt.Sprintf("%s+%d", tick.Due.UTC().Format("15:04:05"), tick.Missed))
					return nil
				})
				s := every(10 * time.Minute)
				if s.Missed = missed; missed == host.MissedAll {
					s.CatchUp = 2
				}
				n.must(host.ScheduleSet, s, nil)
				time.Sleep(15 * time.Minute)
				n.crash(0, 50*time.Minute)
				time.Sleep(10 * time.Minute)
				n.wantNotes(want...)
				if skipped := n.get("s").Skipped; (missed == host.MissedOnce) != (skipped == 0) {
					t.Error(skipped, "ticks count as skipped")
				}
			})
		})
	}
}

func TestTicksDuringARunFollowThePolicyAndNeverOverlap(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		var running, most atomic.Int64
		n.hooks.onSchedule(func(d *diary, ht host.Turn, tick *host.Tick, _ []byte) error {
			most.Store(max(most.Load(), running.Add(1)))
			defer running.Add(-1)
			d.note(fmt.Sprintf("%s+%d", tick.Due.UTC().Format("05"), tick.Missed))
			time.Sleep(25 * time.Second)
			return nil
		})
		n.must(host.ScheduleSet, every(10*time.Second), nil)
		time.Sleep(70 * time.Second)
		n.wantNotes("10+0", "30+1") // and 50 is under way, for 40 and 50
		if most.Load() != 1 {
			t.Error(most.Load(), "runs at once")
		}
	})
}

func TestRecurringRunThatFailsInAnyWayIsRecordedAndWaitsForItsNextTick(t *testing.T) {
	for name, fail := range map[string]func(ht host.Turn) error{
		"error":  func(host.Turn) error { return host.Errorf(host.FailedPrecondition, "boom") },
		"secret": func(host.Turn) error { return errors.New("password") },
		"panic":  func(host.Turn) error { panic("boom") },
		"ignores its deadline": func(host.Turn) error {
			time.Sleep(limit.DefaultTurnTimeout + options.DefaultTurnGrace + 5*time.Second)
			return nil
		},
	} {
		t.Run(name, func(t *testing.T) {
			withDiaries(t, func(t *testing.T, n *diaryNode) {
				var runs atomic.Int64
				n.hooks.onSchedule(func(d *diary, ht host.Turn, tick *host.Tick, _ []byte) error {
					d.note(tick.Due.UTC().Format("15:04:05"))
					if runs.Add(1) <= 2 {
						return fail(ht)
					}
					return nil
				})
				n.must(host.ScheduleSet, every(10*time.Minute), nil)
				time.Sleep(25 * time.Minute)
				s, history := n.get("s"), n.runs("s")
				if runs.Load() != 2 || s.Runs != 2 || s.Attempts != 0 || s.LastResult != "error" || s.LastError == "" || strings.Contains(s.LastError, "password") {
					t.Fatalf("ran %d times: %+v", runs.Load(), s)
				}
				if len(history) != 2 || history[0].Result != "error" || history[0].Error == "" || history[1].Started.IsZero() {
					t.Fatalf("%+v", history)
				}
				time.Sleep(10 * time.Minute)
				n.wantNotes("00:30:00")
				if s := n.get("s"); s.LastResult != "ok" || s.LastError != "" || s.Runs != 3 {
					t.Fatalf("%+v", s)
				}
			})
		})
	}
}

func TestScheduleOfAnActorThatKeepsCrashingIsRecordedAndKept(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		var runs atomic.Int64
		n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error {
			runs.Add(1)
			panic("boom")
		})
		n.must(host.ScheduleSet, every(time.Minute), nil)
		time.Sleep(20*time.Minute + 30*time.Second)
		s := n.get("s")
		if ran := int(runs.Load()); ran < 10 || s.Runs != uint64(ran) || len(n.runs("s")) != ran || s.LastResult != "error" {
			t.Fatalf("ran %d times, recorded %d: %+v", ran, len(n.runs("s")), s)
		}
		n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error { d.note("well"); return nil })
		time.Sleep(10 * time.Minute)
		if s := n.get("s"); s.LastResult != "ok" {
			t.Fatalf("%+v", s)
		}
		if n := len(kernel.PartOf[*schedule.Part](n.Kernel).FailedRuns); n != 0 {
			t.Error(n, "failed runs are remembered")
		}
	})
}

func TestOneShotIsTriedAgainUntilItSucceedsAndLeavesNothing(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		var tries []time.Duration
		begin := time.Now()
		n.hooks.onSchedule(func(d *diary, _ host.Turn, tick *host.Tick, _ []byte) error {
			tries = append(tries, time.Since(begin))
			if tick.Attempt != len(tries) || tick.Run != 1 {
				t.Errorf("%+v", tick)
			}
			if len(tries) < 4 {
				return errors.New("boom")
			}
			d.note("done")
			return nil
		})
		at := begin.Add(time.Minute)
		n.must(host.ScheduleSet, host.Schedule{Name: "s", At: &at}, nil)
		time.Sleep(time.Minute + 2*time.Second)
		if s := n.get("s"); s.Attempts != 2 || s.LastResult != "error" || s.Runs != 0 {
			t.Errorf("%+v", s)
		}
		time.Sleep(time.Hour)
		n.wantNotes("done")
		if want := []time.Duration{60 * time.Second, 61 * time.Second, 63 * time.Second, 67 * time.Second}; !slices.Equal(tries, want) {
			t.Errorf("tried at %v", tries)
		}
		if s := n.get("s"); s.Name != "" || len(n.runs("s")) != 0 || len(n.wakes()) != 0 {
			t.Errorf("left: %+v, %v", s, n.wakes())
		}
	})
}

func TestHandlerEditsAndCancelsSchedulesInItsTurn(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.hooks.onSchedule(func(d *diary, ht host.Turn, tick *host.Tick, _ []byte) error {
			d.note(fmt.Sprintf("%s %d", tick.Name, tick.Run))
			all, err := ht.Schedules("")
			if err != nil {
				return err
			}
			switch tick.Run {
			case 1: // a failed turn changes nothing
				ht.CancelSchedule("s", "")
				return errors.New("boom")
			case 2:
				if len(all) != 1 || !all[0].Next.After(tick.Due) {
					t.Errorf("in its run, the schedule is %+v", all)
				}
				_, err = ht.SetSchedule(every(time.Minute))
				return err
			case 4:
				ok, err := ht.CancelSchedule("s", "")
				if !ok {
					t.Error("not cancelled")
				}
				return err
			}
			return nil
		})
		n.must(host.ScheduleSet, every(time.Hour), nil)
		time.Sleep(24 * time.Hour)
		n.wantNotes("s 2", "s 3", "s 4") // at 2:00, 2:01, 2:02
		if len(n.wakes()) != 0 {
			t.Error(n.wakes())
		}
		// A turn that fails sets nothing.
		err := n.do(func(d *diary, ht host.Turn) error {
			if _, err := ht.SetSchedule(every(time.Minute)); err != nil {
				t.Error(err)
			}
			return errors.New("boom")
		})
		if err == nil || n.get("s").Name != "" || len(n.wakes()) != 0 {
			t.Error(err, n.get("s"))
		}
	})
}

func TestSettingAScheduleAsItIsWritesNothing(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		set := func(d *diary, ht host.Turn) error { _, err := ht.SetSchedule(every(time.Minute)); return err }
		n.mustDo(set)
		before, _ := n.Lookup(context.Background(), diaryAddress)
		time.Sleep(30 * time.Second)
		n.mustDo(set)
		after, _ := n.Lookup(context.Background(), diaryAddress)
		if after.Version != before.Version || n.get("s").Next.Sub(before.Updated) != time.Minute {
			t.Errorf("%+v then %+v", before, after)
		}
	})
}

func TestTriggeredRunComesAtOnceAndBesidesTheTicks(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.must(host.ScheduleSet, every(time.Hour), nil)
		time.Sleep(10 * time.Minute)
		var s host.Schedule
		n.must(host.ScheduleTrigger, host.ScheduleInput{Name: "s"}, &s)
		n.wantNotes("00:10:00")
		time.Sleep(time.Hour)
		n.wantNotes("00:10:00", "01:00:00")
		if err := n.call(host.ScheduleTrigger, host.ScheduleInput{Name: "none"}, nil); host.CodeOf(err) != host.NotFound {
			t.Error(err)
		}
	})
}

func TestSchedulesCountAmongTheAlarmsOfAnActorAndGoWithIt(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		n.mustDo(func(d *diary, ht host.Turn) error {
			if err := ht.SetAlarm(host.Alarm{Name: "ring", Due: ht.Now().Add(2 * time.Hour)}); err != nil {
				return err
			}
			_, err := ht.SetSchedule(every(time.Hour))
			return err
		})
		st, err := n.Lookup(context.Background(), diaryAddress)
		if err != nil || st.Alarms != 2 || st.NextAlarm == nil || st.NextAlarm.Hour() != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
		var alarms host.AlarmListOutput
		if n.must(host.AlarmList, "", &alarms); len(alarms.Alarms) != 1 || alarms.Alarms[0].Name != "ring" || alarms.Alarms[0].Due.Hour() != 2 {
			t.Fatalf("%+v", alarms)
		}
		var count host.CountOutput
		for want := int64(1); want >= 0; want-- {
			if n.must(host.AlarmCancel, host.ScheduleInput{Name: "ring"}, &count); count.Count != want {
				t.Fatal(count)
			}
		}
		if err := n.Destroy(context.Background(), diaryAddress); err != nil {
			t.Fatal(err)
		}
		if w := n.wakes(); len(w) != 0 {
			t.Fatalf("%+v", w)
		}
		for _, method := range []string{host.ScheduleList, host.ScheduleRuns, host.AlarmList, host.ScheduleCancel, host.ScheduleTrigger, host.AlarmCancel} {
			if err := n.call(method, "{}", nil); host.CodeOf(err) != host.NotFound {
				t.Errorf("%s of an actor that is not there: %v", method, err)
			}
		}
	})
}

func TestScheduleCallsThatAreWrongSayWhy(t *testing.T) {
	withDiaries(t, func(t *testing.T, n *diaryNode) {
		for in, text := range map[string]string{
			`{"name":"s"}`:                                  "exactly one",
			`{"name":"2s","every_ms":1000}`:                 `"2s" cannot name a schedule: a name is 1 to 64 characters`,
			`{"name":"*","every_ms":1000}`:                  `"*" cannot name a schedule`,
			`{"every_ms":1000}`:                             "name is missing",
			`{"name":"s","cron":"@daily","every_ms":0}`:     "every_ms: 0 is not a number from 1",
			`{"name":"s","every_ms":1000,"every_ms":2000}`:  `"every_ms" is given twice`,
			`{"Name":"s","every_ms":1000}`:                  `unknown field "Name"`,
			`{"name":"s","every_ms":10}`:                    "every_ms",
			`{"name":"s","every_ms":"x"}`:                   "every_ms",
			`{"name":"s","cron":"61 * * * *"}`:              "cron",
			`{"name":"s","every_ms":1000,"payload":"bad"}`:  "payload: it is bad",
			`{"name":"s","every_ms":1000,"more":1}`:         "more",
			`{"name":"s","cron":"* * * * *","zone":"Mars"}`: "zone",
		} {
			if err := n.call(host.ScheduleSet, in, nil); host.CodeOf(err) != host.InvalidArgument || !strings.Contains(err.Error(), text) {
				t.Errorf("%s: %v", in, err)
			}
		}
		if len(n.wakes()) != 0 {
			t.Error(n.wakes())
		}
	})
}

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
		n.must(host.ScheduleSet, every(time.Hour), nil)
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
