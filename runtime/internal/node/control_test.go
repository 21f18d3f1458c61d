package node

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// sends is a deed that sends messages to another puppet, each of which runs a closure.
func sends(to string, n int, f deed) deed {
	input := remember(f)
	return func(_ *puppet, t host.Turn) error {
		for range n {
			if err := t.Send(&host.Message{Type: "p", Key: []string{to}, Method: "do", Input: input}); err != nil {
				return err
			}
		}
		return nil
	}
}

// rings is a deed that sets an alarm.
func rings(instance string, in time.Duration) deed {
	return func(_ *puppet, t host.Turn) error {
		return t.SetAlarm(host.Alarm{Name: "ring", Instance: instance, Due: t.Now().Add(in)})
	}
}

// counts makes a puppet type whose alarms add 1.
func counts() []*puppetType { return []*puppetType{{name: "p", alarm: add(1)}} }

func TestPausedActorRefusesCallsAndAnswersQueries(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(7))
		var pause host.Pause
		g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: "migration"}, &pause)
		if pause.Reason != "migration" || !pause.Since.Equal(time.Now()) {
			t.Fatalf("%+v", pause)
		}
		for range 2 {
			e := wantCode(t, g.do("a", add(1)), host.ActorPaused)
			if !e.Retryable || e.Metadata["reason"] != "migration" || !strings.Contains(e.Message, "p/a") {
				t.Fatalf("%+v", e)
			}
			wantCode(t, g.do("b", func(_ *puppet, h host.Turn) error { // from an actor, too
				_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: "do", Input: remember(add(1))})
				return err
			}), host.ActorPaused)
			st := g.status("a")
			if st.State != host.Paused || st.Pause == nil || *st.Pause != pause {
				t.Fatalf("%+v", st)
			}
			if n := g.n("a"); n != 7 {
				t.Fatal(n)
			}
			time.Sleep(time.Hour) // it sleeps; the query wakes it without its hook
			g.restart()
		}
		g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: "still"}, &pause)
		if want := g.status("a").Pause; want.Reason != "still" || !want.Since.Before(time.Now().Add(-time.Hour)) {
			t.Fatalf("pausing it again made it %+v", want)
		}
		var count host.CountOutput
		g.mustVerb("a", host.ActorResume, nil, &count)
		if count.Count != 1 {
			t.Fatal(count)
		}
		g.must("a", add(1))
		g.mustVerb("a", host.ActorResume, nil, &count)
		if count.Count != 0 {
			t.Fatal(count)
		}
		g.restart()
		g.must("a", add(1))
		if n, st := g.n("a"), g.status("a"); n != 9 || st.State != host.Awake || st.Pause != nil {
			t.Fatalf("%d %+v", n, st)
		}
	})
}

func TestPausingRunsNoCodeOfTheActor(t *testing.T) {
	var hooks atomic.Int64
	hook := func(*puppet, host.Turn) error { hooks.Add(1); return nil }
	bubble(t, nil, []*puppetType{{name: "p", wake: hook, sleep: hook}}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		before := hooks.Load()
		g.mustVerb("a", host.ActorPause, nil, nil)
		g.n("a")
		wantCode(t, g.do("a", add(1)), host.ActorPaused)
		time.Sleep(time.Hour)
		g.mustVerb("a", host.ActorResume, nil, nil)
		if n := hooks.Load() - before; n != 0 {
			t.Fatalf("%d hooks ran", n)
		}
		g.must("a", add(1))
		if n := hooks.Load() - before; n != 1 {
			t.Fatalf("%d hooks ran, not the wake hook alone", n)
		}
	})
}

func TestPauseOfOneThatFailedOrIsNotThere(t *testing.T) {
	var broken atomic.Bool
	d := &puppetType{name: "p", wake: func(*puppet, host.Turn) error {
		if broken.Load() {
			return errors.New("does not wake")
		}
		return nil
	}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		for _, verb := range []string{host.ActorPause, host.ActorResume, host.ActorWake, host.ActorSleep, host.ActorRetry, host.ActorWhy} {
			wantCode(t, g.verb("nobody", verb, nil, nil), host.NotFound)
		}
		wantCode(t, g.verb("nobody", host.SendSkip, host.SendSkipInput{Type: "p", Key: []string{"x"}}, nil), host.NotFound)
		if _, err := g.Lookup(context.Background(), pAddr("nobody")); host.CodeOf(err) != host.NotFound {
			t.Fatal("a verb created an actor")
		}
		g.must("a", add(1))
		broken.Store(true)
		g.restart()
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: "broken"}, nil)
		if st := g.status("a"); st.State != host.Failed || st.Failure == nil || st.Pause == nil {
			t.Fatalf("%+v: it has failed and is paused", st)
		}
		wantCode(t, g.do("a", add(1)), host.ActorPaused)
		broken.Store(false)
		g.mustVerb("a", host.ActorResume, nil, nil)
		var count host.CountOutput
		g.mustVerb("a", host.ActorRetry, nil, &count)
		if count.Count != 1 {
			t.Fatal(count)
		}
		g.must("a", add(1))
		if n := g.n("a"); n != 2 {
			t.Fatal(n)
		}
		wantCode(t, g.verb("a", host.ActorPause, host.PauseInput{Reason: strings.Repeat("x", 1025)}, nil), host.TooLarge)
		wantCode(t, g.verb("a", host.ActorPause, map[string]any{"raison": "x"}, nil), host.InvalidArgument)
	})
}

func TestAlarmsOfAPausedActorWaitAndFireAtOnceWhenItIsResumed(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			bubble(t, nil, counts(), func(t *testing.T, g *stage) {
				for i := range 10 {
					g.must("a", rings(fmt.Sprint(i), time.Duration(i)*time.Second))
				}
				g.must("b", rings("", time.Hour))
				time.Sleep(4500 * time.Millisecond)
				g.mustVerb("a", host.ActorPause, nil, nil)
				before := g.n("a")
				time.Sleep(2 * time.Hour)
				if n := g.n("a"); n != before || before != 5 {
					t.Fatalf("%d alarms fired, %d before", n, before)
				}
				if n := g.n("b"); n != 1 {
					t.Fatal("the alarms of others do not fire")
				}
				if restart {
					g.restart()
					time.Sleep(time.Second)
				}
				g.mustVerb("a", host.ActorResume, nil, nil)
				synctest.Wait()
				if n := g.n("a"); n != 10 {
					t.Fatalf("%d alarms have fired", n)
				}
			})
		})
	}
}

func TestPauseThatCrossesWorkLosesNothing(t *testing.T) {
	bubble(t, nil, counts(), func(t *testing.T, g *stage) {
		// Everything waits in the mailbox behind one turn when the pause takes effect.
		hold := make(chan struct{})
		g.must("a", rings("", time.Second))
		replies := make(chan error, 2)
		go func() { replies <- g.do("a", func(*puppet, host.Turn) error { <-hold; return nil }) }()
		synctest.Wait()
		paused := make(chan error, 1)
		go func() { paused <- g.verb("a", host.ActorPause, nil, nil) }()
		synctest.Wait()
		second := make(chan struct{})
		go func() { replies <- g.do("a", func(*puppet, host.Turn) error { <-second; return nil }) }()
		synctest.Wait()
		time.Sleep(2 * time.Second) // the alarm comes
		g.must("s", sends("a", 3, add(10)))
		close(hold)
		if err := errors.Join(<-replies, <-paused); err != nil {
			t.Fatal(err)
		}
		// The turn that had begun when the pause became durable is not interrupted.
		close(second)
		if err := <-replies; err != nil && host.CodeOf(err) != host.ActorPaused {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Hour)
		if n := g.n("a"); n != 0 {
			t.Fatalf("n is %d while it is paused", n)
		}
		g.mustVerb("a", host.ActorResume, nil, nil)
		synctest.Wait()
		if n := g.n("a"); n != 31 {
			t.Fatalf("n is %d", n)
		}
	})
}

func TestPauseSurvivesACrashIfItWasAcknowledged(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		for i := range 5 {
			g.must("a", add(1))
			g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: fmt.Sprint(i)}, nil)
			g.crash()
			if st := g.status("a"); st.State != host.Paused || st.Pause.Reason != fmt.Sprint(i) {
				t.Fatalf("%+v", st)
			}
			wantCode(t, g.do("a", add(1)), host.ActorPaused)
			g.mustVerb("a", host.ActorResume, nil, nil)
			g.crash()
			if st := g.status("a"); st.Pause != nil {
				t.Fatalf("%+v", st)
			}
		}
		g.must("a", add(1))
	})
}

func TestTasksOfAPausedActorEnterNoTurns(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		begin, errs := make(chan struct{}), make(chan error)
		g.must("a", goes("x", func(task host.Task) error {
			for range begin {
				errs <- task.Turn(task, adds(1))
			}
			return nil
		}))
		g.mustVerb("a", host.ActorPause, nil, nil)
		begin <- struct{}{}
		wantCode(t, <-errs, host.ActorPaused)
		g.mustVerb("a", host.ActorResume, nil, nil)
		begin <- struct{}{}
		if err := <-errs; err != nil {
			t.Fatal(err)
		}
		close(begin)
	})
}

func TestPausedActorCanBeDestroyedAndItsSuccessorIsNotPaused(t *testing.T) {
	var destroyed atomic.Bool
	d := &puppetType{name: "p", onDestroy: func(*puppet, host.Turn) error { destroyed.Store(true); return nil }}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.ActorPause, nil, nil)
		g.must("s", sends("a", 2, add(1)))
		g.restart()
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		if !destroyed.Load() {
			t.Error("the destroy hook did not run")
		}
		g.must("a", add(5))
		time.Sleep(time.Hour)
		if n, st := g.n("a"), g.status("s"); n != 5 || st.PendingSends != 0 || st.FailedSends != 2 {
			t.Fatalf("n is %d, and the sender %+v", n, st)
		}
		g.restart()
		g.must("a", add(1))
		if rows, err := g.store.Wakes(nil, 0, 10); err != nil || len(rows) != 0 {
			t.Fatalf("%v %v are left", rows, err)
		}
	})
}

func TestOperatorWakesAndPutsToSleep(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		for range 2 {
			g.mustVerb("a", host.ActorSleep, nil, nil)
			if st := g.status("a"); st.State != host.Asleep {
				t.Fatalf("%+v", st)
			}
		}
		for range 2 {
			g.mustVerb("a", host.ActorWake, nil, nil)
			if st := g.status("a"); st.State != host.Awake {
				t.Fatalf("%+v", st)
			}
		}
		g.mustVerb("a", host.ActorPause, nil, nil)
		wantCode(t, g.verb("a", host.ActorWake, nil, nil), host.ActorPaused)
		g.mustVerb("a", host.ActorSleep, nil, nil)
		if st := g.status("a"); st.State != host.Paused {
			t.Fatalf("%+v", st)
		}
	})
}

func TestActorIsNotPutToSleepWhileItsMessagesAreOnTheirWay(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", sends("b", 1, func(*puppet, host.Turn) error { return errors.New("not now") }))
		synctest.Wait()
		e := wantCode(t, g.verb("a", host.ActorSleep, nil, nil), host.FailedPrecondition)
		if e.Metadata["why"] != string(host.WhySends) {
			t.Fatalf("%+v", e)
		}
	})
}

func TestSleepUnderLoadEndsAndNothingIsLost(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", wake: goes("x", untilTold)}}, func(t *testing.T, g *stage) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if err := g.do("a", add(1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			if err := g.verb("a", host.ActorSleep, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
				t.Error(err)
			}
		}
		wg.Wait()
		if n := g.n("a"); n != 800 {
			t.Fatal(n)
		}
		synctest.Wait()
		if st := g.status("a"); st.Tasks != 1 {
			t.Fatalf("an awake actor has %d tasks", st.Tasks)
		}
	})
}

func TestRetryForgetsFailuresAndFiresAlarmsThatWaited(t *testing.T) {
	var broken atomic.Bool
	d := &puppetType{name: "p", alarm: add(1), wake: func(*puppet, host.Turn) error {
		if broken.Load() {
			return errors.New("does not wake")
		}
		return nil
	}}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		g.must("a", rings("", time.Minute))
		broken.Store(true)
		g.restart()
		for range 8 {
			err := g.do("a", add(1))
			e := wantCode(t, err, host.ActorFailed)
			at, _ := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"])
			time.Sleep(time.Until(at))
		}
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		time.Sleep(time.Second) // the alarm was tried, or waits for the end of the actor's backoff
		broken.Store(false)
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		var count host.CountOutput
		g.mustVerb("a", host.ActorRetry, nil, &count)
		synctest.Wait()
		if n := g.n("a"); n != 1 || count.Count != 1 {
			t.Fatalf("n is %d, count %d", n, count.Count)
		}
		if st := g.status("a"); st.Failure != nil {
			t.Fatalf("%+v", st)
		}
		g.mustVerb("a", host.ActorRetry, nil, &count)
		if count.Count != 0 {
			t.Fatal(count)
		}
	})
}

func TestVerbsOfOperatorsAreActionsAndNotForQueries(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		inputs := map[string][]byte{host.SendSkip: []byte(`{"type":"puppet","key":["c"]}`)}
		for _, verb := range []string{host.ActorPause, host.ActorResume, host.ActorWake, host.ActorSleep, host.ActorRetry, host.SendSkip} {
			_, err := g.Call(context.Background(), &host.Request{Address: pAddr("b"), Method: "look", Codec: host.JSON,
				Input: remember(glance(func(_ *puppetState, r host.Reader) error {
					_, err := r.Call(r, &host.Request{Address: pAddr("a"), Method: verb, Codec: host.JSON, Input: inputs[verb]})
					return err
				}))})
			if host.CodeOf(err) != host.ReadOnly {
				t.Errorf("%s in a query: %v", verb, err)
			}
		}
		wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
			_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.ActorSleep, Codec: host.JSON})
			return err
		}), host.FailedPrecondition)
	})
}

// changeLog is a ChangeSink that keeps what it gets.
type changeLog struct {
	mu     sync.Mutex
	life   []string
	refuse atomic.Pointer[host.Error]
}

func (l *changeLog) Committed(_ uint64, cs *engine.ChangeSet) { l.Life(cs) }

func (l *changeLog) Life(cs *engine.ChangeSet) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, c := range cs.Changes {
		if c.Kind != engine.ChangeLife {
			continue
		}
		var data struct{ Reason string }
		if err := json.Unmarshal(c.Data, &data); err != nil {
			panic(err)
		}
		l.life = append(l.life, strings.TrimSpace(c.Name+" "+data.Reason))
	}
}

func (l *changeLog) Refuse() error {
	if e := l.refuse.Load(); e != nil {
		return e
	}
	return nil
}

func TestPauseAndResumeArePublished(t *testing.T) {
	var log changeLog
	bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		for _, reason := range []string{"one", "two"} {
			g.mustVerb("a", host.ActorPause, host.PauseInput{Reason: reason}, nil)
		}
		g.mustVerb("a", host.ActorResume, nil, nil)
		g.mustVerb("a", host.ActorSleep, nil, nil)
		synctest.Wait()
		log.mu.Lock()
		defer log.mu.Unlock()
		if want := []string{"created", "paused one", "resumed", "slept"}; !slices.Equal(log.life, want) {
			t.Fatalf("%q were published, not %q", log.life, want)
		}
	})
}

func TestActorSleepsAlthoughWhoeverAskedDoesNotWaitForItsTasks(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", goes("slow", func(task host.Task) error { <-task.Done(); time.Sleep(2 * time.Second); return nil }))
		ctx, cancel := context.WithTimeout(context.Background(), time.Second)
		defer cancel()
		_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: host.ActorSleep, Codec: host.JSON})
		wantCode(t, err, host.DeadlineExceeded)
		time.Sleep(5 * time.Second)
		if st := g.status("a"); st.State != host.Asleep {
			t.Fatalf("%+v: awake without its tasks", st)
		}
	})
}

// A handler that goes on although SetAlarm was refused keeps the alarm that it had.
func TestAlarmThatIsRefusedLeavesTheOldOne(t *testing.T) {
	bubble(t, func(o *Options) { o.Limits.StorageBytes = 10_000 }, counts(), func(t *testing.T, g *stage) {
		g.must("a", rings("", time.Hour))
		g.must("a", func(_ *puppet, h host.Turn) error {
			err := h.SetAlarm(host.Alarm{Name: "ring", Due: h.Now().Add(2 * time.Hour), Payload: make([]byte, 20_000)})
			if err == nil {
				t.Error("an alarm over the quota was set")
			}
			return nil
		})
		time.Sleep(24 * time.Hour)
		if n := g.n("a"); n != 1 {
			t.Fatalf("the alarm fired %d times: %+v", n, g.status("a"))
		}
	})
}
