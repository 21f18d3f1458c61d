package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"log/slog"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// offline gives f the data of a node that is stopped.
func offline(t *testing.T, dir string, f func(o *runtime.Offline)) {
	t.Helper()
	o, err := runtime.Inspect(t.Context(), dir)
	must(t, err)
	f(o)
	must(t, o.Close())
}

// A run that takes the node down at each start is paused without a node, and the next start serves. What happened to the node
// before is still known after that.
func TestRunThatEndsTheProcessIsPausedOffline(t *testing.T) {
	t.Parallel()
	dir := t.TempDir()
	out, died := nodeProcess(t, dir, "after a timer and a step", "")
	fatalIf(t, !died, "%s", out)
	offline(t, dir, func(o *runtime.Offline) {
		must(t, o.ControlRun(t.Context(), deskAt("a"), host.RunControl{Verb: host.WorkflowPause, Reason: "it kills the node"}))
		page, err := o.Runs(t.Context(), host.RunQuery{Reason: wfhost.PausedOperator})
		fatalIf(t, err != nil || len(page.Runs) != 1 || page.Runs[0].Text != "it kills the node", "%+v, %v", page, err)
		log, err := o.Audit(t.Context(), audit.Query{Verb: host.WorkflowPause})
		fatalIf(t, err != nil || len(log.Records) != 1 || log.Records[0].Channel != "offline" || log.Records[0].Reason != "it kills the node" || log.Records[0].Version == 0, "%+v, %v", log, err)
	})
	s, err := engine.Open(t.Context(), engine.Options{Dir: filepath.Join(dir, "store")})
	must(t, err)
	unclean, err := s.MarkRunning()
	errorIf(t, err != nil || !unclean, "that the node ended without notice is forgotten: %v, %v", unclean, err)
	must(t, s.Close())
	for range 2 {
		out, died := nodeProcess(t, dir, "after a timer and a step", "")
		fatalIf(t, died || !strings.Contains(out, "paused operator: it kills the node"), "died %v: %s", died, out)
	}
}

// A run that is terminated offline has ended. Its parent is notified when a node runs again. No
// other process has the data meanwhile.
func TestRunThatIsTerminatedOfflineTellsItsParent(t *testing.T) {
	t.Parallel()
	does("waits offline", func(ctx workflow.Context, _ claim) (string, error) {
		_, err := workflow.Receive(ctx, "paper", office.papers)
		return "", err
	})
	does("waits for the child", func(ctx workflow.Context, _ claim) (string, error) {
		child, err := actor.SpawnRun(ctx, "sub", office.run, []string{"child"}, claim{"waits offline", 1})
		if err != nil {
			return "", err
		}
		return child.Result(ctx)
	})
	dir, ctx := t.TempDir(), t.Context()
	rt := openDir(t, dir, office.definition())
	startClaim(t, rt, "p", "waits for the child")
	for { // the message that starts the child is on its way
		_, err := rt.Lookup(ctx, deskAt("child"))
		if err == nil {
			break
		}
		fatalIf(t, host.CodeOf(err) != host.NotFound, "%v", err)
	}
	awaitWaiting(t, rt, "child")
	_, err := runtime.Inspect(ctx, dir)
	fatalIf(t, !errors.Is(err, engine.ErrLocked), "while a node runs: %v", err)
	must(t, rt.Close())
	offline(t, dir, func(o *runtime.Offline) {
		_, err := runtime.Open(ctx, runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.DiscardHandler)})
		fatalIf(t, !errors.Is(err, engine.ErrLocked), "a node while the data is open: %v", err)
		end := host.RunControl{Verb: host.WorkflowTerminate, Reason: "enough"}
		must(t, o.ControlRun(ctx, deskAt("child"), end))
		st, err := o.Lookup(ctx, deskAt("child"))
		errorIf(t, err != nil || st.Run == nil || st.Run.State != wfhost.StateTerminated, "%+v, %v", st.Run, err)
		page, err := o.Inspect(ctx, deskAt("child"), host.InspectQuery{Limit: 1000})
		waits := slices.ContainsFunc(page.Keys, func(k host.StoredKey) bool { return strings.HasPrefix(k.Text, "outgoing/") })
		errorIf(t, err != nil || !waits, "no message waits for the parent: %v, %v", page.Keys, err)
		err = o.ControlRun(ctx, deskAt("child"), end)
		errorIf(t, host.CodeOf(err) != host.FailedPrecondition, "again: %v", err)
	})
	rt = openDir(t, dir, office.definition())
	defer rt.Close()
	ctx, cancel := context.WithTimeout(ctx, 5*time.Minute)
	defer cancel()
	out, err := office.at(rt, "p").Result(ctx)
	errorIf(t, err == nil || ctx.Err() != nil, "%q, %v", out, err)
}

// Verify finds runs that diverge from the code, and runs that owe an undo which the code lacks.
func TestWorkflowVerifyFindsRunsThatDoNotFit(t *testing.T) {
	dir, ctx := t.TempDir(), t.Context()
	refunds := newBureau("papers", workflow.WithUndo("refund", func(*workflow.StepCtx, int) error { return nil }))
	options := func(b *bureau) runtime.Options {
		return runtime.Options{Dir: dir, Actors: []actor.Definition{b.definition()}}
	}
	does("owes", func(ctx workflow.Context, _ claim) (string, error) {
		err := workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("refund", 1))
		return "", errors.Join(err, workflow.Sleep(ctx, "nap", time.Hour))
	})
	does("naps", func(ctx workflow.Context, _ claim) (string, error) { return "", workflow.Sleep(ctx, "nap", time.Hour) })
	rt := openDir(t, dir, refunds.definition())
	for how, key := range map[string][]string{"owes": {"a"}, "naps": nil} {
		must(t, errOf(refunds.at(rt, key...).Start(ctx, claim{how, 1})))
		awaitWaiting(t, rt, key...)
	}
	_, err := runtime.Verify(ctx, options(refunds))
	errorIf(t, err == nil || !strings.Contains(err.Error(), "in use"), "data in use is verified: %v", err)
	must(t, rt.Close())
	verify := func() (string, error) {
		var out, errs bytes.Buffer
		p := runtime.Program{Name: "desk", Actors: options(refunds).Actors}
		err := p.Run(ctx, []string{"workflow", "verify", "--data", dir}, &out, &errs)
		return out.String(), err
	}
	out, err := verify()
	errorIf(t, err != nil || !strings.Contains(out, "2 runs fit"), "%q, %v", out, err)
	v, err := runtime.Verify(ctx, options(newBureau("papers")))
	errorIf(t, err != nil || v.Runs != 2 || len(v.Unfit) != 1 || v.Unfit[0].Reason != "undo_missing" ||
		!strings.Contains(v.Unfit[0].Report, `undo handler "refund"`), "%+v, %v", v, err)
	does("naps", func(ctx workflow.Context, _ claim) (string, error) {
		return "", workflow.Sleep(ctx, "other", time.Hour)
	})
	out, err = verify()
	errorIf(t, !errors.Is(err, runtime.ErrUnfit) || !strings.Contains(out, "desk") || !strings.Contains(out, "diverged"), "%q, %v", out, err)
	// A list is a list in JSON, also if it is empty, as the key of an actor may be.
	v, err = runtime.Verify(ctx, options(refunds))
	errorIf(t, err != nil || len(v.Unfit) != 1 || v.Unfit[0].Key == nil, "%+v, %v", v, err)
	_, err = runtime.Verify(ctx, runtime.Options{Dir: t.TempDir()})
	errorIf(t, err == nil, "no data is verified")
}
