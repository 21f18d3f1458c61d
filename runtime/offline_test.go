package runtime_test

import (
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// openDesks starts a node with desks and households on a directory.
func openDesks(t *testing.T, dir string) *runtime.Runtime {
	t.Helper()
	parents := actor.Define(households, actor.Spec[household]{}, actor.On(knock, func(*household, *actor.Context, actor.None) (int, error) {
		return 0, nil
	}), actor.OnRun(awaitClaim, func(ctx workflow.Context, c claim) (string, error) {
		return childOfDesk(ctx, "child", c)
	}))
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition(), parents}, Logger: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	return rt
}

// offline gives f the data of a node that is stopped.
func offline(t *testing.T, dir string, f func(o *runtime.Offline)) {
	t.Helper()
	o, err := runtime.Inspect(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	f(o)
	if err := o.Close(); err != nil {
		t.Fatal(err)
	}
}

var childAt = host.Address{Type: "desk", Key: []string{"child"}}

// A run that takes the node down at each start is paused without a node, and the next start serves. What happened to the node
// before is still known after that.
func TestRunThatEndsTheProcessIsPausedOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	if out, died := nodeProcess(t, dir, "after a step", ""); !died {
		t.Fatal(out)
	}
	offline(t, dir, func(o *runtime.Offline) {
		at := host.Address{Type: "mine", Key: []string{"a"}}
		if err := o.ControlRun(t.Context(), at, host.RunControl{Verb: host.WorkflowPause, Reason: "it kills the node"}); err != nil {
			t.Fatal(err)
		}
		page, err := o.Runs(t.Context(), host.RunQuery{Reason: wfhost.PausedOperator})
		if err != nil || len(page.Runs) != 1 || page.Runs[0].Text != "it kills the node" {
			t.Fatalf("%+v, %v", page, err)
		}
	})
	s, err := engine.Open(t.Context(), engine.Options{Dir: filepath.Join(dir, "store")})
	if err != nil {
		t.Fatal(err)
	}
	if unclean, err := s.MarkRunning(); err != nil || !unclean {
		t.Errorf("that the node ended without notice is forgotten: %v, %v", unclean, err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if out, died := nodeProcess(t, dir, "after a step", ""); died || !strings.Contains(out, "paused operator: it kills the node") {
			t.Fatalf("died %v: %s", died, out)
		}
	}
}

// A run that is paused offline goes on when it is resumed on a node.
func TestRunThatIsPausedOfflineGoesOnWhenItIsResumed(t *testing.T) {
	t.Parallel()
	var entered atomic.Int32
	does("enters offline", func(ctx workflow.Context, c claim) (string, error) {
		entered.Add(1)
		m, err := workflow.Receive(ctx, "paper", papers)
		return m.Body, err
	})
	dir, ctx := t.TempDir(), t.Context()
	rt := openDesks(t, dir)
	startClaim(t, desks.Ref(rt, "child"), claim{"enters offline", 1})
	st := awaitWaiting(t, rt, childAt)
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	offline(t, dir, func(o *runtime.Offline) {
		other := host.RunControl{Verb: host.WorkflowPause, Run: strings.Repeat("0", 32)}
		if err := o.ControlRun(ctx, childAt, other); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("a run that is not there any more: %v", err)
		}
		if err := o.ControlRun(ctx, childAt, host.RunControl{Verb: host.WorkflowPause, Run: st.ID}); err != nil {
			t.Error(err)
		}
		if err := o.ControlRun(ctx, childAt, host.RunControl{Verb: host.WorkflowResume}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("resume: %v", err)
		}
		for _, at := range []host.Address{{Type: "desk", Key: []string{"nobody"}}, {Type: "stranger", Key: []string{"a"}}} {
			if err := o.ControlRun(ctx, at, host.RunControl{Verb: host.WorkflowPause}); host.CodeOf(err) != host.NotFound {
				t.Errorf("%v: %v", at, err)
			}
		}
	})
	rt = openDesks(t, dir)
	defer rt.Close()
	d := desks.Ref(rt, "child")
	if _, err := papers.Of(d).Send(ctx, "went on"); err != nil {
		t.Fatal(err)
	}
	if now, err := deskRun.Of(d).Status(ctx); err != nil || now.Pause == nil || now.Pause.Reason != wfhost.PausedOperator || entered.Load() != 1 {
		t.Fatalf("entered %d times: %+v, %v", entered.Load(), now, err)
	}
	if _, err := rt.Call(ctx, &host.Request{Address: childAt, Method: host.WorkflowResume, Codec: host.JSON}); err != nil {
		t.Fatal(err)
	}
	if got := claimResult(t, d); got != "went on" {
		t.Error(got)
	}
}

// awaitWaiting returns the status of the run of an actor when it waits for something.
func awaitWaiting(t *testing.T, rt *runtime.Runtime, at host.Address) wfhost.RunStatus {
	t.Helper()
	in := host.WorkflowWatchInput{WaitMS: 30_000}
	for {
		var out host.WorkflowWatchOutput
		askOf(t, rt, at, host.WorkflowWatch, &in, &out)
		if len(out.Status.Waiting) > 0 {
			return out.Status
		}
		in.After = out.Version
	}
}

// A run that is terminated offline has ended. Its parent is notified when a node runs again. No
// other process has the data meanwhile.
func TestRunThatIsTerminatedOfflineTellsItsParent(t *testing.T) {
	t.Parallel()
	does("waits offline", func(ctx workflow.Context, c claim) (string, error) {
		_, err := workflow.Receive(ctx, "paper", papers)
		return "", err
	})
	dir, ctx := t.TempDir(), t.Context()
	rt := openDesks(t, dir)
	if _, err := awaitClaim.Of(households.Ref(rt, "p")).Start(ctx, claim{"waits offline", 1}); err != nil {
		t.Fatal(err)
	}
	for { // the message that starts the child is on its way
		if _, err := rt.Lookup(ctx, childAt); err == nil {
			break
		} else if host.CodeOf(err) != host.NotFound {
			t.Fatal(err)
		}
	}
	awaitWaiting(t, rt, childAt)
	if _, err := runtime.Inspect(ctx, dir); !errors.Is(err, engine.ErrLocked) {
		t.Fatalf("while a node runs: %v", err)
	}
	if err := rt.Close(); err != nil {
		t.Fatal(err)
	}
	offline(t, dir, func(o *runtime.Offline) {
		if _, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: []actor.Definition{deskDefinition()}, Logger: slog.New(slog.DiscardHandler)}); !errors.Is(err, engine.ErrLocked) {
			t.Fatalf("a node while the data is open: %v", err)
		}
		end := host.RunControl{Verb: host.WorkflowTerminate, Reason: "enough"}
		if err := o.ControlRun(ctx, childAt, end); err != nil {
			t.Fatal(err)
		}
		if st, err := o.Lookup(ctx, childAt); err != nil || st.Run == nil || st.Run.State != wfhost.StateTerminated {
			t.Errorf("%+v, %v", st.Run, err)
		}
		page, err := o.Inspect(ctx, childAt, host.InspectQuery{Limit: 1000})
		if err != nil || !slices.ContainsFunc(page.Keys, func(k host.StoredKey) bool { return strings.HasPrefix(k.Text, "outgoing/") }) {
			t.Errorf("no message waits for the parent: %v, %v", page.Keys, err)
		}
		if err := o.ControlRun(ctx, childAt, end); host.CodeOf(err) != host.FailedPrecondition {
			t.Errorf("again: %v", err)
		}
	})
	rt = openDesks(t, dir)
	defer rt.Close()
	ctx, cancel := context.WithTimeout(ctx, time.Minute)
	defer cancel()
	if out, err := awaitClaim.Of(households.Ref(rt, "p")).Result(ctx); err == nil || ctx.Err() != nil {
		t.Errorf("%q, %v", out, err)
	}
}
