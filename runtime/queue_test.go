package runtime_test

import (
	"context"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime"
)

// A mill grinds what is in its queues.
type mill struct {
	// Sent counts the grains that turns put into the queue, Ground the handled ones.
	Sent, Ground []string
	Attempts     map[string]int
}

// A grain is a message. How says what its handler does with it.
type grain struct {
	Name string
	How  string
}

var (
	mills  = actor.NewType[mill]("mill")
	grind  = actor.NewQueue[grain](mills, "grind", actor.QueueConfig{})
	carry  = actor.NewQueue[grain](mills, "carry", actor.QueueConfig{Workers: true})
	weigh  = actor.NewRequestQueue[grain, int](mills, "weigh", actor.QueueConfig{})
	fill   = actor.NewAction[[]grain, actor.None](mills, "fill")
	tally  = actor.NewQuery[actor.None, mill](mills, "tally")
	spills = actor.NewQuery[string, []byte](mills, "spills")

	release chan struct{} // ends handlers that hang
)

func (m *mill) fill(ctx *actor.Context, grains []grain) (actor.None, error) {
	for _, g := range grains {
		if _, err := grind.Put(ctx, g, actor.KeysIfUndelivered(tuple.Tuple{"spilled", g.Name})); err != nil {
			return actor.None{}, err
		}
		m.Sent = append(m.Sent, g.Name)
		if g.How == "refuse the call" {
			return actor.None{}, errRefused
		}
	}
	return actor.None{}, nil
}

func (m *mill) grind(ctx *actor.Context, g grain) error {
	m.Ground = append(m.Ground, g.Name)
	switch how := g.How; {
	case how == "fail":
		return errRefused
	case how == "fail once" && ctx.Message().Attempt == 1:
		return errRefused
	case how == "panic":
		panic("stone in the mill")
	case how == "panic once" && ctx.Message().Attempt == 1:
		panic("stone in the mill")
	case how == "again":
		_, err := grind.Put(ctx, grain{Name: g.Name + "'"})
		return err
	case how == "hang once" && ctx.Message().Attempt == 1:
		<-ctx.Done()
		<-release // a handler that ignores its deadline
	case how == "end":
		ctx.DestroySelf()
	}
	return nil
}

func (m *mill) weigh(ctx *actor.Context, g grain) (int, error) {
	if g.How == "fail" {
		return 0, actor.Errorf(actor.FailedPrecondition, "the scales are broken")
	}
	return len(g.Name), nil
}

func (m mill) tally(*actor.ReadContext, actor.None) (mill, error) { return m, nil }

func (m mill) spills(ctx *actor.ReadContext, name string) ([]byte, error) {
	v, _, err := ctx.KV().Get(tuple.Tuple{"spilled", name})
	return v, err
}

func millDefinition() actor.Definition {
	return actor.Define(mills, actor.Spec[mill]{IdleTimeout: time.Second, Limits: actor.Limits{TurnTimeout: 10 * time.Second}},
		actor.On(fill, (*mill).fill), actor.OnQuery(tally, mill.tally), actor.OnQuery(spills, mill.spills),
		actor.OnMessage(grind, (*mill).grind), actor.OnRequest(weigh, (*mill).weigh))
}

func withMill(t *testing.T, f func(t *testing.T, h *actortest.Harness, m actor.Ref[mill])) {
	t.Helper()
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) { f(t, h, mills.Ref(h, "a")) }, millDefinition())
}

func pour(t *testing.T, m actor.Ref[mill], grains ...grain) {
	t.Helper()
	if _, err := fill.Call(context.Background(), m, grains); err != nil {
		t.Fatal(err)
	}
}

func ground(t *testing.T, m actor.Ref[mill]) []string {
	t.Helper()
	got, err := tally.Call(context.Background(), m, actor.None{})
	if err != nil {
		t.Fatal(err)
	}
	return got.Ground
}

func queueStats(t *testing.T, stats func(context.Context) (handle.QueueStats, error)) handle.QueueStats {
	t.Helper()
	s, err := stats(context.Background())
	if err != nil {
		t.Fatal(err)
	}
	return s
}

func TestMessagesOfATurnAreHandledInOrderAndThoseOfAFailedOneAreNot(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		pour(t, m, grain{Name: "1"}, grain{Name: "2", How: "again"}, grain{Name: "3"})
		_, err := fill.Call(t.Context(), m, []grain{{Name: "4"}, {Name: "5", How: "refuse the call"}})
		wantCode(t, err, actor.FailedPrecondition)
		h.Settle()
		if got := ground(t, m); !slices.Equal(got, []string{"1", "2", "3", "2'"}) {
			t.Fatal(got)
		}
		if s := queueStats(t, grind.Of(m).Stats); s.Done != 4 || s.Sent != 4 || s.Pending+s.Delayed+s.Processing+s.Dead != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestMessageThatFailsIsTriedAfterItsPausesAndThenSetAside(t *testing.T) {
	for how, text := range map[string]string{"fail": "refused", "panic": "crashed"} {
		t.Run(how, func(t *testing.T) {
			withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
				begun := time.Now()
				pour(t, m, grain{Name: "bad", How: how}, grain{Name: "good"})
				h.Settle()
				if got := ground(t, m); !slices.Equal(got, []string{"good"}) {
					t.Fatalf("a message that fails must not hold up the next: %v", got)
				}
				for _, at := range []time.Duration{time.Second, 6 * time.Second} {
					time.Sleep(at - time.Since(begun) + 10*time.Millisecond)
					if s := queueStats(t, grind.Of(m).Stats); s.Delayed != 1 || s.Dead != 0 {
						t.Fatalf("after %v: %+v", at, s)
					}
				}
				time.Sleep(16*time.Second - time.Since(begun) + 10*time.Millisecond)
				h.Settle()
				if s := queueStats(t, grind.Of(m).Stats); s.Delayed != 0 || s.Dead != 1 || s.Failed != 1 {
					t.Fatalf("%+v", s)
				}
				for l, err := range grind.Of(m).DeadLetters().List(t.Context()) {
					if err != nil || l.Body.Name != "bad" || l.Attempts != 4 || !strings.Contains(l.Error, text) {
						t.Fatalf("%+v %v", l, err)
					}
				}
				if v, err := spills.Call(t.Context(), m, "bad"); err != nil || len(v) == 0 {
					t.Fatalf("the key for undelivered messages holds %q (%v)", v, err)
				}
				if got := ground(t, m); !slices.Equal(got, []string{"good"}) {
					t.Fatalf("attempts that failed left a trace: %v", got)
				}
				if n, err := grind.Of(m).DeadLetters().RequeueAll(t.Context()); n != 1 || err != nil {
					t.Fatal(n, err)
				}
			})
		})
	}
}

func TestMessageWhoseHandlerHangsCountsAsAnAttempt(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		release = make(chan struct{})
		pour(t, m, grain{Name: "1", How: "hang once"}, grain{Name: "2"})
		defer close(release)
		time.Sleep(time.Minute)
		got := ground(t, m) // by the second attempt: the first has not returned
		slices.Sort(got)
		if !slices.Equal(got, []string{"1", "2"}) {
			t.Fatal(got)
		}
	})
}

func TestHandlerMayDestroyItsActor(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		grindLater := func(name string) {
			if _, err := grind.Of(m).Send(t.Context(), grain{Name: name}, actor.Delay(time.Hour)); err != nil {
				t.Fatal(err)
			}
		}
		grindLater("late")
		pour(t, m, grain{Name: "1", How: "end"}, grain{Name: "2"})
		h.Settle()
		if keys := h.Inspect("mill", "a"); len(keys) != 0 {
			t.Fatalf("%d keys are left, the first is %s", len(keys), keys[0].Text)
		}
		time.Sleep(2 * time.Hour)
		h.Settle()
		if _, err := m.Lookup(t.Context()); actor.CodeOf(err) != actor.NotFound {
			t.Fatal("a message of a destroyed actor brought it back:", err)
		}
	})
}

func TestDelayedMessageWakesItsActor(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		if _, err := grind.Of(m).Send(t.Context(), grain{Name: "1"}, actor.Delay(time.Hour)); err != nil {
			t.Fatal(err)
		}
		time.Sleep(30 * time.Minute)
		if st := h.Status("mill", "a"); st.State != host.Asleep {
			t.Fatalf("%+v", st)
		}
		h.Crash()
		time.Sleep(31 * time.Minute)
		h.Settle()
		if got := ground(t, m); len(got) != 1 {
			t.Fatal(got)
		}
	})
}

func TestWorkersLockEndsAtItsTimeAndCountsAsAnAttempt(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		ctx := t.Context()
		if _, err := carry.Of(m).Send(ctx, grain{Name: "1"}); err != nil {
			t.Fatal(err)
		}
		for attempt := 1; attempt <= 4; attempt++ {
			d, err := carry.Of(m).Receive(ctx, handle.ReceiveConfig{Wait: time.Minute})
			if err != nil || len(d) != 1 || d[0].Attempt != attempt {
				t.Fatalf("attempt %d: %+v %v", attempt, d, err)
			}
			if attempt == 2 {
				h.Crash() // the lock outlives the node
				m = mills.Ref(h, "a")
			}
			time.Sleep(29 * time.Second)
			if s := queueStats(t, carry.Of(m).Stats); s.Processing != 1 {
				t.Fatalf("the lock ended early: %+v", s)
			}
			time.Sleep(1100 * time.Millisecond)
			if s := queueStats(t, carry.Of(m).Stats); s.Processing != 0 {
				t.Fatalf("the lock did not end: %+v", s)
			}
			if err := d[0].Ack(ctx, actor.None{}); err == nil {
				t.Fatal("a message whose lock has ended was acknowledged")
			}
		}
		if s := queueStats(t, carry.Of(m).Stats); s.Dead != 1 || s.Pending+s.Delayed != 0 {
			t.Fatalf("%+v", s)
		}
	})
}

func TestReplyOutlivesTheNode(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		n, err := weigh.Of(m).Ask(t.Context(), grain{Name: "abc"})
		if err != nil || n != 3 {
			t.Fatal(n, err)
		}
		_, err = weigh.Of(m).Ask(t.Context(), grain{How: "fail"}, actor.Backoff())
		if e := wantCode(t, err, actor.FailedPrecondition); e.Message != "the scales are broken" {
			t.Fatal(err)
		}
		answer := make(chan string, 1)
		go func() {
			n, err := weigh.Of(m).Ask(context.Background(), grain{Name: "abcd"}, actor.Delay(time.Minute))
			answer <- fmt.Sprint(n, err)
		}()
		h.Settle()
		time.Sleep(time.Second)
		h.Crash()
		if got := <-answer; got != "4 <nil>" {
			t.Fatal(got)
		}
	})
}

func TestPausedActorKeepsItsMessagesUntilItIsResumed(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		ctx := t.Context()
		pour(t, m, grain{Name: "0"})
		h.Settle()
		call := func(method string) {
			if _, err := h.Call(ctx, &host.Request{Address: host.Address{Type: "mill", Key: []string{"a"}}, Method: method, Codec: host.JSON}); err != nil {
				t.Fatal(method, err)
			}
		}
		call(host.ActorPause)
		for i := range 3 {
			if _, err := grind.Of(m).Send(ctx, grain{Name: fmt.Sprint(i + 1)}); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		h.Crash()
		time.Sleep(time.Minute)
		if s := queueStats(t, grind.Of(m).Stats); s.Pending != 3 {
			t.Fatalf("%+v", s)
		}
		call(host.ActorResume)
		h.Settle()
		if got := ground(t, m); !slices.Equal(got, []string{"0", "1", "2", "3"}) {
			t.Fatal(got)
		}
	})
}

// TestMessageIsNeitherLostNorHandledTwiceWhateverSyncThePowerFailsAt lets the power fail at every sync around messages that
// the actor handles, and looks at what is left.
func TestMessageIsNeitherLostNorHandledTwiceWhateverSyncThePowerFailsAt(t *testing.T) {
	withMill(t, func(t *testing.T, h *actortest.Harness, m actor.Ref[mill]) {
		var clones []*engine.Disk
		disk := h.Disk()
		taking := make(chan struct{}, 1)
		disk.Fail(func(op, path string) error {
			if op == "sync" || op == "write" {
				select {
				case taking <- struct{}{}:
				default:
				}
			}
			return nil
		})
		for i := range 10 {
			done := make(chan struct{})
			go func() {
				defer close(done)
				how := []string{"", "fail once", "panic once", "fail"}[i%4]
				fill.Call(context.Background(), m, []grain{{Name: fmt.Sprint(i), How: how}, {Name: fmt.Sprint(i, "b")}})
				time.Sleep(1001 * time.Millisecond)
			}()
			for open := true; open; {
				select {
				case <-taking:
					clones = append(clones, disk.Crash(uint64(len(clones)), 30*(len(clones)%4)))
				case <-done:
					open = false
				}
			}
		}
		disk.Fail(nil)
		time.Sleep(time.Hour)
		for i, d := range clones {
			rt, err := runtime.Open(context.Background(), runtime.Options{Dir: "data", Disk: d, Actors: []actor.Definition{millDefinition()}, Logger: slog.New(slog.DiscardHandler)})
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
			synctest.Wait()
			ref := mills.Ref(rt, "a")
			got, err := tally.Call(context.Background(), ref, actor.None{}, actor.Existing())
			if err != nil && actor.CodeOf(err) != actor.NotFound {
				t.Fatal(err)
			}
			if err == nil {
				for l, err := range grind.Of(ref).DeadLetters().List(context.Background()) {
					if err != nil {
						t.Fatal(err)
					}
					got.Ground = append(got.Ground, l.Body.Name)
				}
			}
			slices.Sort(got.Sent)
			slices.Sort(got.Ground)
			if !slices.Equal(got.Sent, got.Ground) {
				t.Errorf("crash %d: sent %v, handled or set aside %v", i, got.Sent, got.Ground)
			}
			if err := rt.Close(); err != nil {
				t.Fatal(err)
			}
		}
		t.Logf("%d crashes", len(clones))
	})
}
