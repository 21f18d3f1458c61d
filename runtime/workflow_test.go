package runtime_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime/debug"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
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

// asNode in the environment makes TestNodeInAProcessOfItsOwn a node on the directory that it names,
// whose run does what nodeWay says. With nodeMend it resumes the run. Its function then does not
// end the process; its step does if nodeMend says so.
const (
	asNode   = "CAIRN_TEST_NODE"
	nodeWay  = "CAIRN_TEST_WAY"
	nodeMend = "CAIRN_TEST_MEND"
)

const exited = 3

// blast ends the process as the claim says.
func blast(ctx workflow.Context, c claim) (string, error) {
	switch c.How {
	case "after a timer and a step":
		if err := workflow.Sleep(ctx, "nap", 10*time.Millisecond); err != nil {
			return "", err
		}
		mend := os.Getenv(nodeMend)
		err := workflow.Do(ctx, "step", func(*workflow.StepCtx) error {
			if mend == "the step dies" {
				os.Exit(exited)
			}
			return nil
		})
		if err != nil || mend != "" {
			return "mended", err
		}
	case "never":
		_, err := workflow.Receive(ctx, "paper", office.papers)
		return "", err
	}
	os.Exit(exited)
	return "", nil
}

// TestNodeInAProcessOfItsOwn is the node of the tests below.
func TestNodeInAProcessOfItsOwn(t *testing.T) {
	dir, how := os.Getenv(asNode), os.Getenv(nodeWay)
	if dir == "" {
		t.Skip("it runs as the child of other tests")
	}
	does(how, blast)
	o := deskOptions(dir)
	o.TurnGrace = 2 * time.Minute // Close waits that long for syncs of a busy disk
	rt, err := runtime.Open(t.Context(), o)
	must(t, err)
	startClaim(t, rt, "a", how)
	if os.Getenv(nodeMend) != "" && claimStatus(t, rt, "a").Pause != nil {
		must(t, office.at(rt, "a").Resume(t.Context()))
	}
	for end := time.Now().Add(5 * time.Minute); time.Now().Before(end); {
		st := claimStatus(t, rt, "a")
		switch {
		case st.State.Over():
			fmt.Printf("%s: %+v\n", st.State, st.Failure)
			must(t, rt.Close())
			return
		case st.Pause != nil:
			must(t, errOf(office.order.Call(t.Context(), office.typ.Ref(rt, "a"), order{}))) // the node serves
			fmt.Printf("paused %s: %s\n", st.Pause.Reason, st.Pause.Text)
			must(t, rt.Close())
			return
		case how == "never" && len(st.Waiting) == 1:
			os.Exit(exited)
		}
		time.Sleep(5 * time.Millisecond)
	}
	t.Fatal("the run neither ended the process nor was paused")
}

// nodeProcess runs the node until its process ends, and returns its output. died reports whether
// its run ended it.
func nodeProcess(t *testing.T, dir, how, mend string) (out string, died bool) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), os.Args[0], "-test.run=^TestNodeInAProcessOfItsOwn$", "-test.v")
	cmd.Env = append(os.Environ(), asNode+"="+dir, nodeWay+"="+how, nodeMend+"="+mend)
	b, err := cmd.CombinedOutput()
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == exited {
		return string(b), true
	}
	fatalIf(t, err != nil, "%v\n%s", err, b)
	return string(b), false
}

// A function that ends the process ends the node at most four times after a start. Then its run is
// paused, and the node serves. Only an operator can resume the run.
func TestFunctionThatEndsTheProcessIsPausedAfterFourStarts(t *testing.T) {
	for _, how := range []string{"at once", "after a timer and a step"} {
		t.Run(how, func(t *testing.T) {
			t.Parallel()
			dir, deaths := t.TempDir(), 0
			for {
				out, died := nodeProcess(t, dir, how, "")
				if !died {
					errorIf(t,
						!strings.Contains(out, "paused crashing: the process has ended 4 times in a row while the workflow function ran"),
						"after %d deaths: %s", deaths, out)
					break
				}
				// The first death is not counted, because the run had just begun. The step did not
				// end the process, so it has attempts left.
				if deaths++; deaths > 5 {
					t.Fatalf("the node died %d times", deaths)
				}
			}
			if how == "at once" {
				errorIf(t, deaths != 5, "the node died %d times, want once at the beginning and after four starts", deaths)
				return
			}
			// It is still paused at the next start, which follows an orderly end.
			if out, died := nodeProcess(t, dir, how, ""); died || !strings.Contains(out, "paused crashing") {
				t.Errorf("died %v: %s", died, out)
			}
			// The deaths were the function's fault. So the step has attempts left, and the end of
			// the process may use one.
			if out, died := nodeProcess(t, dir, how, "the step dies"); !died {
				t.Fatal(out)
			}
			if out, died := nodeProcess(t, dir, how, "mended"); died || !strings.Contains(out, "completed") {
				t.Errorf("died %v: %s", died, out)
			}
		})
	}
}

// A run is not paused because processes end while it only waits.
func TestRunThatWaitsIsNotBlamedForTheEndOfTheProcess(t *testing.T) {
	dir := t.TempDir()
	for range 6 {
		if out, died := nodeProcess(t, dir, "never", ""); !died {
			t.Fatal(out)
		}
	}
}

// touch calls an action of the desk a.
func touch(t *testing.T, n actor.Node) {
	t.Helper()
	must(t, errOf(office.order.Call(t.Context(), office.typ.Ref(n, "a"), order{What: "open"})))
}

// In real time a function may wait for anything, even a mutex.
func TestFunctionThatWaitsForAMutexIsPaused(t *testing.T) {
	var mu sync.Mutex
	mu.Lock()
	does("mutex", func(workflow.Context, claim) (string, error) {
		mu.Lock()
		defer mu.Unlock()
		return "late", nil
	})
	rt := openDir(t, t.TempDir(), office.definition())
	startClaim(t, rt, "a", "mutex")
	for touch(t, rt); claimStatus(t, rt, "a").Pause == nil; touch(t, rt) {
		time.Sleep(10 * time.Millisecond)
	}
	p := claimStatus(t, rt, "a").Pause
	errorIf(t, p.Reason != wfhost.PausedMisuse || !strings.Contains(p.Text, "sync.(*Mutex).Lock"), "%+v", p)
	mu.Unlock()
	must(t, rt.Close())
}

// A long computation in a function is no misuse.
func TestFunctionThatComputesIsNotPaused(t *testing.T) {
	does("compute", func(workflow.Context, claim) (string, error) {
		n := 0
		for begun := time.Now(); time.Since(begun) < 3*time.Second; n++ {
		}
		return "done", nil
	})
	rt := openDir(t, t.TempDir(), office.definition())
	defer rt.Close()
	startClaim(t, rt, "a", "compute")
	wantResult(t, rt, "a", "done")
}

// A function whose operation waits for the disk is not at fault.
func TestFunctionThatWaitsForTheStoreIsNotPaused(t *testing.T) {
	does("read", func(ctx workflow.Context, _ claim) (string, error) {
		var read string
		for _, name := range []string{"a", "b"} {
			large, err := workflow.Step(ctx, name, func(*workflow.StepCtx) (string, error) { return strings.Repeat(name, 1<<20), nil })
			if err != nil {
				return "", err
			}
			read += large[:1]
		}
		_, err := workflow.Receive(ctx, "paper", office.papers)
		return read, err
	})
	for name, limit := range map[string]time.Duration{"longer than an operation may take": 10 * time.Second,
		"longer than a turn": time.Second} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			n := newNode()
			rt := n.open(t, func(o *runtime.Options) { o.Actors = []actor.Definition{office.definition()} })
			startClaim(t, rt, "a", "read")
			awaitWaiting(t, rt, "a")
			must(t, rt.Close())
			rt = n.open(t, func(o *runtime.Options) {
				o.Actors, o.TurnGrace = []actor.Definition{office.definition()}, 3*time.Second
				o.TypeLimits = map[string]actor.Limits{"desk": {TurnTimeout: limit}}
			})
			var reads atomic.Int64
			n.disk.Fail(func(op, _ string) error {
				if op == "read" && bytes.Contains(debug.Stack(), []byte("replay.(*coroutine).main(")) && reads.Add(1) <= 64 {
					time.Sleep(100 * time.Millisecond) // a payload is more than 32 reads
				}
				return nil
			})
			send := func() error { return errOf(office.papers.Of(office.typ.Ref(rt, "a")).Send(t.Context(), "paper")) }
			err := send()
			for actor.CodeOf(err) == actor.DeadlineExceeded { // on a slow machine this, too, exceeds the time of a turn
				err = send()
			}
			must(t, err)
			for st := claimStatus(t, rt, "a"); st.State != wfhost.StateCompleted; st = claimStatus(t, rt, "a") {
				time.Sleep(100 * time.Millisecond)
				fatalIf(t, st.Pause != nil, "after %d reads: %+v", reads.Load(), st.Pause)
			}
			errorIf(t, reads.Load() < 64, "%d reads", reads.Load())
			n.disk.Fail(nil)
			must(t, rt.Close())
		})
	}
}

// offline calls f with the data of a stopped node.
func offline(t *testing.T, dir string, f func(o *runtime.Offline)) {
	t.Helper()
	o, err := runtime.Inspect(t.Context(), dir)
	must(t, err)
	f(o)
	must(t, o.Close())
}

// A run that ends the node at each start is paused without a node, and the next start serves. The
// record of the earlier deaths remains.
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
		fatalIf(t, err != nil || len(log.Records) != 1 || log.Records[0].Channel != "offline" ||
			log.Records[0].Reason != "it kills the node" || log.Records[0].Version == 0, "%+v, %v", log, err)
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
// other process can open the data meanwhile.
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
		_, err := runtime.Open(ctx,
			runtime.Options{Dir: dir, Actors: []actor.Definition{office.definition()}, Logger: slog.New(slog.DiscardHandler)})
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

// Verify finds runs that diverge from the code, and runs that need an undo that the code lacks.
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
	errorIf(t, !errors.Is(err, runtime.ErrUnfit) || !strings.Contains(out, "desk") ||
		!strings.Contains(out, "diverged"), "%q, %v", out, err)
	// A list is a list in JSON even if it is empty, as the key of an actor may be.
	v, err = runtime.Verify(ctx, options(refunds))
	errorIf(t, err != nil || len(v.Unfit) != 1 || v.Unfit[0].Key == nil, "%+v, %v", v, err)
	_, err = runtime.Verify(ctx, runtime.Options{Dir: t.TempDir()})
	errorIf(t, err == nil, "no data is verified")
}
