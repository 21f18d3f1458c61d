package runtime_test

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// What comes for a run while its actor is paused and out of memory is looked at when the actor is resumed.
func TestWorkflowTakesWhatCameWhileItsActorWasPaused(t *testing.T) {
	does("parked", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"parked", 1})
		h.Settle()
		askDesk(t, h, host.ActorPause, &host.PauseInput{Reason: "stocktaking"}, nil)
		h.Restart()
		h.Settle()
		sendPapers(t, d, "deed")
		h.Settle()
		if st := claimStatus(t, d); st.State.Over() {
			t.Fatalf("it went on: %+v", st)
		}
		askDesk(t, h, host.ActorResume, nil, nil)
		h.Settle()
		wantResult(t, d, "deed")
	})
}

// What comes for a run between the end of its actor's tasks and the actor's sleep brings the actor back.
func TestWorkflowTakesWhatCameWhileItsActorFellAsleep(t *testing.T) {
	var asked atomic.Bool
	stop := make(chan struct{})
	does("drowsy", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		stop = make(chan struct{})
		startClaim(t, d, claim{"drowsy", 1})
		chores.Store(func(task *actor.Task) error { // it takes its time when it is told to return
			<-task.Done()
			asked.Store(true)
			<-stop
			return nil
		})
		must(t, errOf(chore.Call(context.Background(), d, actor.None{})))
		h.Settle()
		slept := make(chan error)
		go func() {
			_, err := h.Call(context.Background(), &host.Request{Address: host.Address{Type: "desk", Key: []string{"a"}}, Method: host.ActorSleep, Codec: host.JSON})
			slept <- err
		}()
		h.Settle()
		fatalIf(t, !asked.Load(), "the task was not asked to return")
		sendPapers(t, d, "deed")
		close(stop)
		must(t, <-slept)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if got, err := deskRun.Of(d).Result(ctx); err != nil || got != "deed" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// An attempt whose turn is not durable yet does not begin when the run is terminated meanwhile, and the next run does not wait
// for it.
func TestWorkflowThatIsTerminatedBeginsNoAttempt(t *testing.T) {
	var bodies atomic.Int64
	does("too late", func(ctx workflow.Context, c claim) (string, error) {
		if c.N > 0 {
			return "next", nil
		}
		return workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (string, error) {
			bodies.Add(1)
			<-sc.Done()
			return "", sc.Err()
		}, workflow.Timeout(0))
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		must(t, errOf(unlock.Call(ctx, d, actor.None{})))
		synced := make(chan struct{})
		h.Disk().Fail(func(op, _ string) error {
			if op == "sync" {
				<-synced
			}
			return nil
		})
		errs := make(chan error, 2)
		go func() { _, err := deskRun.Of(d).Start(ctx, claim{"too late", 0}); errs <- err }()
		h.Settle()
		go func() { errs <- deskRun.Of(d).Terminate(ctx, "a mistake") }()
		h.Settle()
		close(synced)
		for range 2 {
			must(t, <-errs)
		}
		h.Disk().Fail(nil)
		h.Settle()
		if n := bodies.Load(); n != 0 {
			t.Errorf("%d bodies of a run that is over", n)
		}
		must(t, errOf(deskRun.Of(d).Start(ctx, claim{"too late", 1}, handle.Replace())))
		ctx, cancel := context.WithTimeout(ctx, time.Hour)
		defer cancel()
		if got, err := deskRun.Of(d).Result(ctx); err != nil || got != "next" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// childOfDesk spawns a claim at another desk.
func childOfDesk(ctx workflow.Context, key string, c claim) (string, error) {
	child, err := actor.SpawnRun(ctx, "sub", deskRun, []string{key}, c)
	if err != nil {
		return "", err
	}
	return child.Result(ctx)
}

func TestWorkflowChildrenWhoseActorsAreDestroyed(t *testing.T) {
	does("naps", func(ctx workflow.Context, c claim) (string, error) {
		return "napped", workflow.Sleep(ctx, "nap", time.Hour)
	})
	does("mother", func(ctx workflow.Context, c claim) (string, error) { return childOfDesk(ctx, "b", claim{"naps", 1}) })
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		b := desks.Ref(h, "b")
		startClaim(t, d, claim{"mother", 1})
		h.Settle()
		must(t, b.Destroy(ctx))
		if out, err := deskRun.Of(d).Result(ctx); err == nil || !strings.Contains(err.Error(), "destroyed") {
			t.Fatalf("the child's actor is gone: %q, %v", out, err)
		}
		// A child that its actor refuses.
		startClaim(t, b, claim{"naps", 7})
		must(t, errOf(deskRun.Of(d).Start(ctx, claim{"mother", 1}, handle.Replace())))
		if out, err := deskRun.Of(d).Result(ctx); err == nil || !strings.Contains(err.Error(), "refused") {
			t.Fatalf("the child's actor has another run: %q, %v", out, err)
		}
		must(t, deskRun.Of(b).Terminate(ctx, ""))
		// The parent's actor is destroyed: the child ends with it, and what it has to say does not bring the actor back.
		m := desks.Ref(h, "m")
		does("mother of c", func(ctx workflow.Context, c claim) (string, error) { return childOfDesk(ctx, "c", claim{"naps", 1}) })
		startClaim(t, m, claim{"mother of c", 1})
		h.Settle()
		must(t, m.Destroy(ctx))
		h.Settle()
		if st := claimStatus(t, desks.Ref(h, "c")); st.State != wfhost.StateCancelled {
			t.Errorf("the child is %s", st.State)
		}
		time.Sleep(2 * time.Hour)
		h.Settle()
		if _, err := h.Lookup(ctx, host.Address{Type: "desk", Key: []string{"m"}}); actor.CodeOf(err) != actor.NotFound {
			t.Errorf("the parent's actor is back: %v", err)
		}
	})
}

// A child of a type that the node does not host cannot stop its parent.
func TestWorkflowChildThatCannotBeSent(t *testing.T) {
	def := workflow.NewFunction("handle", runClaim)
	does("nowhere", func(ctx workflow.Context, c claim) (string, error) {
		child, err := workflow.Spawn(ctx, "sub", def, claim{"naps", c.N}, workflow.OnActor(workflow.Destination{Type: "unknown", Key: []string{"b"}}))
		if err != nil {
			return "", err
		}
		if _, err = child.Result(ctx); err == nil {
			return "", fmt.Errorf("it was started")
		}
		return "told", nil
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"nowhere", 1})
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		if got, err := deskRun.Of(d).Result(ctx); err != nil || got != "told" {
			t.Errorf("%q, %v", got, err)
		}
	})
}

// What a step has brought is kept although the actor is full, and the step is not executed again; a function inside a turn is
// refused what it wants to store, and the run decides what that means.
func TestWorkflowKeepsWhatAStepBroughtInAFullActor(t *testing.T) {
	var bodies atomic.Int64
	does("full", func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Sleep(ctx, "nap", time.Minute); err != nil {
			return "", err
		}
		s, err := workflow.Step(ctx, "big", func(*workflow.StepCtx) (string, error) {
			bodies.Add(1)
			return strings.Repeat("x", 4<<10), nil
		})
		if err != nil {
			return "", err
		}
		_, err = actor.UpdateState(ctx, "store", func(d *desk, ctx *actor.Context) (actor.None, error) {
			d.Paid++
			return actor.None{}, ctx.KV().Put(tuple.Tuple{"more"}, make([]byte, 4<<10))
		})
		if err == nil || !strings.Contains(err.Error(), "quota") {
			return "", fmt.Errorf("the update ended with %v", err)
		}
		return fmt.Sprint(len(s)), nil
	})
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx := context.Background()
		d := desks.Ref(h, "a")
		startClaim(t, d, claim{"full", 1})
		h.Settle()
		used := h.Status("desk", "a").Bytes
		must(t, errOf(stuff.Call(ctx, d, int(64<<10-used-512))))
		time.Sleep(time.Hour)
		h.Settle()
		if got := claimResult(t, d); got != "4096" || bodies.Load() != 1 {
			t.Errorf("%q after %d bodies", got, bodies.Load())
		}
		if got := deskOf(t, d); got.Paid != 0 {
			t.Errorf("%+v", got)
		}
	}, limitedDesk(actor.Limits{StorageBytes: 64 << 10}))
}

// The power fails at each sync of the disk in turn, right before it or right after it, once in a run that uses everything that a
// turn of an actor has. The end is the same.
func TestWorkflowSurvivesAPowerCutAtEverySync(t *testing.T) {
	does("everything", func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Saga(ctx, "saga", func(ctx workflow.Context) (string, error) {
			_, err := workflow.Compensated(ctx, "book", func(*workflow.StepCtx) (int, error) { return 3, nil },
				func(sc *workflow.StepCtx, n int) error {
					actor.OnCommit(sc, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, fmt.Sprint("undone ", n)); return nil })
					return nil
				})
			if err != nil {
				return "", err
			}
			if _, err := pay(ctx, "pay", 5); err != nil {
				return "", err
			}
			if err := workflow.Sleep(ctx, "nap", time.Minute); err != nil {
				return "", err
			}
			m, err := workflow.Receive(ctx, "paper", papers)
			if err != nil {
				return "", err
			}
			return "", workflow.Permanent(fmt.Errorf("refused %s", m.Body))
		})
		if err == nil {
			return "", fmt.Errorf("the saga has not failed")
		}
		if _, err := pay(ctx, "note", 1); err != nil {
			return "", err
		}
		return "end", nil
	})
	ctx := context.Background()
	// scenario runs it with a power cut at the n-th sync, and reports whether there was one.
	scenario := func(t *testing.T, n int64, before bool) (cut bool) {
		withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
			must(t, errOf(stuff.Call(ctx, d, 0)))
			var syncs atomic.Int64
			now := make(chan struct{})
			dead := make(chan struct{})
			h.Disk().Fail(func(op, _ string) error {
				if op != "sync" {
					return nil
				}
				switch k := syncs.Add(1); {
				case before && k == n, !before && k == n+1:
					close(now)
					<-dead
				case k > n:
					<-dead
				}
				return nil
			})
			over := make(chan struct{})
			go func() {
				for {
					if _, err := deskRun.Of(d).Start(ctx, claim{"everything", 1}); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
				for {
					if _, err := papers.Of(d).Send(ctx, "deed", actor.DedupID("1")); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
				close(over)
			}()
			done := make(chan struct{})
			go func() {
				<-over
				for {
					if _, err := deskRun.Of(d).Result(ctx); err == nil {
						break
					}
					time.Sleep(time.Second)
				}
				close(done)
			}()
			disk := h.Disk()
			select {
			case <-now:
				cut = true
				go func() { time.Sleep(time.Millisecond); close(dead) }()
				h.Crash()
			case <-done:
				close(dead)
			}
			disk.Fail(nil)
			<-done
			h.Settle()
			if got := claimResult(t, d); got != "end" {
				t.Errorf("cut %d: %q", n, got)
			}
			if got := deskOf(t, d); got.Paid != 6 || strings.Join(sorted(got.Notes), ",") != "tidings of note,tidings of pay,undone 3" {
				t.Errorf("cut %d: %+v", n, got)
			}
			rows, err := rowsOf.Call(ctx, d, actor.None{})
			errorIf(t, err != nil || strings.Join(rows, ",") != "pay,note", "cut %d: %q, %v", n, rows, err)
		})
		return cut
	}
	for _, before := range []bool{true, false} {
		n := int64(1)
		for ; n < 100 && scenario(t, n, before); n++ {
		}
		if n < 3 || n == 100 { // commits share syncs, as it happens
			t.Errorf("the power was cut at %d syncs only", n)
		}
		t.Logf("%d power cuts", n-1)
	}
}

func sorted(s []string) []string { s = slices.Clone(s); slices.Sort(s); return s }

// A waiter for an answer of a run that ends is told that none will come.
func TestWorkflowThatEndsAnswersThoseWhoWait(t *testing.T) {
	does("forgets", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "ask", consent)
		if err != nil {
			return "", err
		}
		return m.Body, workflow.Sleep(ctx, "nap", time.Hour)
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
		defer cancel()
		for _, end := range []func(){func() {}, func() { deskRun.Of(d).Terminate(ctx, "a mistake") }} {
			must(t, errOf(deskRun.Of(d).Start(ctx, claim{"forgets", 1}, handle.Replace())))
			asked := make(chan error)
			go func() { _, err := consent.Of(d).Ask(ctx, "please"); asked <- err }()
			h.Settle()
			end()
			if err := <-asked; actor.CodeOf(err) != actor.FailedPrecondition {
				t.Errorf("the sender got %v", err)
			}
		}
	})
}
