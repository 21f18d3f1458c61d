package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// must ends the test if err is not nil.
func must(t testing.TB, err error) {
	if err != nil {
		t.Helper()
		t.Fatal(err)
	}
}

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// fatalIf ends the test with a message if something is wrong.
func fatalIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Fatalf(format, args...)
	}
}

// errorIf is fatalIf for a test that goes on.
func errorIf(t testing.TB, wrong bool, format string, args ...any) {
	if wrong {
		t.Helper()
		t.Errorf(format, args...)
	}
}

// wantResult checks what the run of a desk returns.
func wantResult(t *testing.T, d actor.Ref[desk], want string) {
	t.Helper()
	got := claimResult(t, d)
	errorIf(t, got != want, "the run returned %q, want %q", got, want)
}

// overHTTP calls a built-in method of the desk through the gateway's handler.
func overHTTP(t *testing.T, h *actortest.Harness, method, body string) (int, string) {
	t.Helper()
	w := httptest.NewRecorder()
	r := httptest.NewRequest(http.MethodPost, "/actors/desk/a/-/call/"+method, strings.NewReader(body))
	r.Header.Set("Content-Type", "application/json")
	h.Runtime().Handler().ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

func TestWorkflowIsStartedAndCancelledOverHTTP(t *testing.T) {
	var cleaned atomic.Bool
	does("cancelled", func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (int, error) {
			<-sc.Done()
			return 0, sc.Err()
		}, workflow.Timeout(0))
		if errors.Is(err, workflow.ErrCanceled) {
			_, uerr := pay(workflow.Detach(ctx), "clean", 5)
			cleaned.Store(uerr == nil)
		}
		return "", err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		if code, body := overHTTP(t, h, "workflow.start", `{"workflow":"handle","input":{"How":"cancelled","N":1}}`); code != 200 || !strings.Contains(body, `"started":true`) {
			t.Fatal(code, body)
		}
		h.Settle()
		if code, body := overHTTP(t, h, "workflow.status", ``); code != 200 || !strings.Contains(body, `"state":"running"`) {
			t.Error(code, body)
		}
		if code, body := overHTTP(t, h, "workflow.cancel", `{"reason":"no longer needed"}`); code != 200 && code != 204 {
			t.Fatal(code, body)
		}
		_, err := deskRun.Of(d).Result(context.Background())
		errorIf(t, actor.CodeOf(err) != actor.Canceled, "%v", err)
		if st := claimStatus(t, d); st.State != wfhost.StateCancelled || !cleaned.Load() {
			t.Errorf("%+v, cleaned %v", st, cleaned.Load())
		}
		if code, body := overHTTP(t, h, "workflow.result", ``); code != 200 || !strings.Contains(body, `"state":"cancelled"`) {
			t.Error(code, body)
		}
		if code, body := overHTTP(t, h, "workflow.start", `{"workflow":"nothing"}`); code != 404 {
			t.Error(code, body)
		}
		if code, body := overHTTP(t, h, "workflow.deliver", `{}`); code != 404 {
			t.Error("a run's messages can be forged:", code, body)
		}
		if got := deskOf(t, d); got.Paid != 5 {
			t.Errorf("%+v", got)
		}
	})
}

func TestWorkflowStandsStillWhileItOrItsActorIsPaused(t *testing.T) {
	var bodies atomic.Int64
	does("paused", func(ctx workflow.Context, c claim) (string, error) {
		for i := range 3 {
			if err := workflow.Sleep(ctx, fmt.Sprint("nap", i), time.Minute); err != nil {
				return "", err
			}
			if _, err := workflow.Step(ctx, fmt.Sprint("s", i), func(*workflow.StepCtx) (int, error) { bodies.Add(1); return 0, nil }); err != nil {
				return "", err
			}
		}
		return "done", nil
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		startClaim(t, d, claim{"paused", 1})
		h.Settle()
		askDesk(t, h, host.ActorPause, &host.PauseInput{Reason: "stocktaking"}, nil)
		time.Sleep(time.Hour)
		h.Settle()
		if n := bodies.Load(); n != 0 {
			t.Fatalf("%d steps while the actor was paused", n)
		}
		askDesk(t, h, host.ActorResume, nil, nil)
		h.Settle()
		if n := bodies.Load(); n != 1 {
			t.Fatalf("%d steps after it", n)
		}
		must(t, deskRun.Of(d).Pause(ctx, "audit"))
		time.Sleep(time.Hour)
		h.Restart()
		h.Settle()
		if st := claimStatus(t, d); bodies.Load() != 1 || st.State != wfhost.StatePaused || st.Pause.Text != "audit" {
			t.Fatalf("%d steps, %+v", bodies.Load(), st)
		}
		must(t, deskRun.Of(d).Resume(ctx))
		if got := claimResult(t, d); got != "done" || bodies.Load() != 3 {
			t.Errorf("%q, %d", got, bodies.Load())
		}
		if err := deskRun.Of(d).Pause(ctx, ""); actor.CodeOf(err) != actor.FailedPrecondition {
			t.Error("a run that has ended is paused:", err)
		}
	})
}

func TestWorkflowEndsWithItsActor(t *testing.T) {
	does("destroyed", func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Step(ctx, "long", func(sc *workflow.StepCtx) (int, error) { <-sc.Done(); return 0, sc.Err() }, workflow.Timeout(0))
		return "", err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		startClaim(t, d, claim{"destroyed", 1})
		h.Settle()
		must(t, d.Destroy(ctx))
		h.Settle()
		if _, err := deskRun.Of(d).Status(ctx); actor.CodeOf(err) != actor.NotFound {
			t.Error(err)
		}
		if _, err := begin.Call(ctx, d, claim{"steps", 1}); err != nil {
			t.Error("the next life has a run:", err)
		}
		h.Restart()
		h.Settle()
	})
}

func TestWorkflowGoesOnWhenThereIsRoomAgain(t *testing.T) {
	does("filled", func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Sleep(ctx, "nap", time.Minute); err != nil {
			return "", err
		}
		return workflow.Step(ctx, "big", func(*workflow.StepCtx) (string, error) { return "done", nil })
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"filled", 1})
		h.Settle()
		h.Disk().SetFree(1 << 10)
		time.Sleep(10 * time.Minute)
		h.Settle()
		h.Disk().SetFree(1 << 40)
		wantResult(t, d, "done")
	})
}

func TestWorkflowStartsAChildInAnotherActor(t *testing.T) {
	does("child", func(ctx workflow.Context, c claim) (string, error) {
		if err := workflow.Sleep(ctx, "nap", time.Hour); err != nil {
			return "", err
		}
		if c.N < 0 {
			return "", actor.Errorf(actor.NotFound, "no such claim")
		}
		return fmt.Sprint("child of ", c.N), nil
	})
	def := workflow.NewFunction("handle", runClaim)
	does("parent", func(ctx workflow.Context, c claim) (string, error) {
		child, err := workflow.Spawn(ctx, "sub", def, claim{"child", c.N}, workflow.OnActor(workflow.Destination{Type: "desk", Key: []string{"b"}}))
		if err != nil {
			return "", err
		}
		return child.Result(ctx)
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"parent", 4})
		h.Settle()
		h.Crash()
		wantResult(t, d, "child of 4")
		b := desks.Ref(h, "b")
		wantResult(t, b, "child of 4")
	})
}

func TestWorkflowStepReachesItsActorAndOthers(t *testing.T) {
	does("reaches", func(ctx workflow.Context, c claim) (string, error) {
		return workflow.Step(ctx, "reach", func(sc *workflow.StepCtx) (string, error) {
			task := actor.StepTask(sc)
			if _, err := unlock.Call(sc, desks.Ref(task, "other"), actor.None{}); err != nil {
				return "", err
			}
			err := actor.Enter(task, func(d *desk, _ *actor.Context) error { d.Notes = append(d.Notes, "entered"); return nil })
			return task.Type() + task.Key()[0], err
		})
	})
	does("fails", func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Step(ctx, "fail", func(sc *workflow.StepCtx) (string, error) {
			return "", actor.Errorf(actor.QuotaExceeded, "too much").With("limit", "3") // not tried again
		})
		var e *actor.Error
		if !errors.As(err, &e) || e.Metadata["limit"] != "3" {
			return fmt.Sprint("lost: ", err), nil
		}
		return "", e
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"reaches", 1})
		wantResult(t, d, "deska")
		if got := deskOf(t, d); len(got.Notes) != 1 {
			t.Errorf("%+v", got)
		}
		errorIf(t, !deskOf(t, desks.Ref(h, "other")).Open, "the call was not made")
		f := desks.Ref(h, "f")
		startClaim(t, f, claim{"fails", 1})
		out, err := deskRun.Of(f).Result(context.Background())
		if e, ok := errors.AsType[*actor.Error](err); !ok || e.Code != actor.QuotaExceeded || e.Metadata["limit"] != "3" || e.Metadata["state"] != "failed" {
			t.Errorf("%q, %+v", out, err)
		}
	})
}

func TestWorkflowIsWatchedExportedAndForked(t *testing.T) {
	does("forked", func(ctx workflow.Context, c claim) (string, error) {
		a, err := workflow.Step(ctx, "one", func(*workflow.StepCtx) (int, error) { return 1, nil })
		if err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "paper", papers)
		return fmt.Sprint(a, m.Body), err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		startClaim(t, d, claim{"forked", 1})
		h.Settle()
		fork := desks.Ref(h, "fork")
		if out, err := deskRun.Of(d).Fork(ctx, deskRun.Of(fork)); err != nil || !out.Started {
			t.Fatal(out, err)
		}
		var seen []string
		watched := make(chan error)
		go func() {
			for c, err := range deskRun.Of(d).Watch(ctx, 0) {
				if err != nil {
					watched <- err
					return
				}
				for _, e := range c.Changed {
					seen = append(seen, e.Path+" "+e.Status.String())
				}
			}
			watched <- nil
		}()
		h.Settle()
		for ref, paper := range map[*actor.Ref[desk]]string{&d: "x", &fork: "y"} {
			must(t, errOf(papers.Of(*ref).Send(ctx, paper)))
			if got := claimResult(t, *ref); got != "1"+paper && got != "1 "+paper {
				t.Errorf("%q", got)
			}
		}
		if err := <-watched; err != nil || len(seen) < 3 || !slices.Contains(seen, "paper pending") || !slices.Contains(seen, "paper completed") {
			t.Errorf("%q, %v", seen, err)
		}
		n := 0
		for e, err := range deskRun.Of(d).History(ctx) {
			if n++; err != nil || !e.Status.Over() {
				t.Errorf("%+v, %v", e, err)
			}
		}
		errorIf(t, n != 2, "%d entries", n)
	})
}

// TestAForkNeedsTheRecordedWorkflow: a recording of a workflow that the actor's type does not have is refused, and changes nothing.
func TestAForkNeedsTheRecordedWorkflow(t *testing.T) {
	does("recorded", func(ctx workflow.Context, c claim) (string, error) {
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		ctx := context.Background()
		startClaim(t, d, claim{"recorded", 1})
		h.Settle()
		file, err := deskRun.Of(d).Export(ctx)
		must(t, err)
		rec, err := wfhost.DecodeRecording(file)
		must(t, err)
		for i := range rec.Rows {
			rec.Rows[i].Value = bytes.ReplaceAll(rec.Rows[i].Value, []byte("handle"), []byte("wooden"))
		}
		if file, err = rec.Encode(); err != nil {
			t.Fatal(err)
		}
		other := desks.Ref(h, "other")
		if out, err := deskRun.Of(other).Import(ctx, file); actor.CodeOf(err) != actor.NotFound || !strings.Contains(err.Error(), `no workflow "wooden"`) {
			t.Errorf("%+v, %v", out, err)
		}
		if st, err := deskRun.Of(other).Status(ctx); actor.CodeOf(err) != actor.NotFound {
			t.Errorf("%+v, %v", st, err)
		}
	})
}

// Verify finds runs that diverge from the code, and runs that owe an undo which the code lacks.
func TestWorkflowVerifyFindsRunsThatDoNotFit(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	options := func(o ...workflow.Option) runtime.Options {
		return runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition(o...)}}
	}
	refund := workflow.WithUndo("refund", func(*workflow.StepCtx, int) error { return nil })
	does("owes", func(ctx workflow.Context, _ claim) (string, error) {
		err := workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("refund", 1))
		return "", errors.Join(err, workflow.Sleep(ctx, "nap", time.Hour))
	})
	does("naps", func(ctx workflow.Context, _ claim) (string, error) { return "", workflow.Sleep(ctx, "nap", time.Hour) })
	rt, err := runtime.Open(ctx, options(refund))
	must(t, err)
	for how, key := range map[string][]string{"owes": {"a"}, "naps": nil} {
		startClaim(t, desks.Ref(rt, key...), claim{how, 1})
		awaitWaiting(t, rt, host.Address{Type: "desk", Key: key})
	}
	if _, err := runtime.Verify(ctx, options(refund)); err == nil || !strings.Contains(err.Error(), "in use") {
		t.Error("data in use is verified:", err)
	}
	must(t, rt.Close())
	verify := func() (string, error) {
		var out, errs bytes.Buffer
		p := runtime.Program{Name: "desk", Actors: options(refund).Actors}
		err := p.Run(ctx, []string{"workflow", "verify", "--data", dir}, &out, &errs)
		return out.String(), err
	}
	if out, err := verify(); err != nil || !strings.Contains(out, "2 runs fit") {
		t.Errorf("%q, %v", out, err)
	}
	v, err := runtime.Verify(ctx, options())
	if err != nil || v.Runs != 2 || len(v.Unfit) != 1 || v.Unfit[0].Reason != "undo_missing" || !strings.Contains(v.Unfit[0].Report, `undo handler "refund"`) {
		t.Errorf("%+v, %v", v, err)
	}
	does("naps", func(ctx workflow.Context, _ claim) (string, error) {
		return "", workflow.Sleep(ctx, "other", time.Hour)
	})
	if out, err := verify(); !errors.Is(err, runtime.ErrUnfit) || !strings.Contains(out, "desk") || !strings.Contains(out, "diverged") {
		t.Errorf("%q, %v", out, err)
	}
	// A list is a list in JSON, also if it is empty, as the key of an actor is.
	v, err = runtime.Verify(ctx, options(refund))
	errorIf(t, err != nil || len(v.Unfit) != 1 || v.Unfit[0].Key == nil, "%+v, %v", v, err)
	if _, err := runtime.Verify(ctx, runtime.Options{Dir: t.TempDir()}); err == nil {
		t.Error("no data is verified")
	}
}
