package replay_test

import (
	"errors"
	"fmt"
	"log/slog"

	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// The tests of this file are named after the rules of replay.

func ok(*workflow.StepCtx) error { return nil }

// recorded drives a workflow until it sleeps, closes it, and returns the host.
func recorded(t *testing.T, fn workflow.Func[none, string]) *memory.Actor {
	t.Helper()
	h := started(t, workflow.NewFunction("w", fn).Program(), none{})
	untilAsleep(t, h)
	h.Close()
	return h
}

// deploy drives the run of a host with other code, to the end or until it is paused.
func deploy(t *testing.T, h *memory.Actor, fn workflow.Func[none, string]) string {
	t.Helper()
	h.Close()
	h.Use(workflow.NewFunction("w", fn).Program())
	h.Now = h.Now.Add(10 * time.Minute) // should it be paused, it tries again
	pause(t, h)
	s := status(t, h)
	if s.Pause != nil {
		return "paused " + string(s.Pause.Reason)
	}
	return outcome(t, h)
}

// TestR07NowRandAndInfoReplay: so do the things that look random.
func TestR07NowRandAndInfoReplay(t *testing.T) {
	var runs []string
	var lines strings.Builder
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		log := ""
		for _, name := range names[:5] {
			i := ctx.Info()
			log += fmt.Sprintln(ctx.Now(), ctx.Rand().Uint64(), i.Resolutions, i.RunID, i.Started, i.Epoch, i.Workflow, i.Version)
			ctx.Logger().Info("at " + name)
			if err := workflow.Do(ctx, name, ok); err != nil {
				return "", err
			}
		}
		runs = append(runs, log)
		return "", workflow.Sleep(ctx, "end", time.Hour)
	}, workflow.WithVersion("v7"))
	h := started(t, d.Program(), none{})
	h.Options.Logger = func() *slog.Logger { return slog.New(slog.NewTextHandler(&lines, nil)) }
	untilAsleep(t, h)
	h.Close()
	drive(t, h)
	errorIf(t, len(runs) != 2 || runs[0] != runs[1], "%q", runs)
	if n := strings.Count(lines.String(), "\n"); n != 5 || !strings.Contains(lines.String(), "workflow=w run=") {
		t.Errorf("%d lines:\n%s", n, lines.String())
	}
	errorIf(t, strings.Count(runs[0], "\n") != 5 || !strings.Contains(runs[0], " v7\n"), "%s", runs[0])
}

// TestR09FailedAttemptsLeaveNothing: what an Update or OnCommit did before it failed is undone.
func TestR09FailedAttemptsLeaveNothing(t *testing.T) {
	set := func(tx *workflow.Tx, k string) { put(tx, k, "x") }
	tries := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		_, err1 := workflow.Update(ctx, "fails", func(tx *workflow.Tx) (int, error) { set(tx, "1"); return 0, errors.New("no") })
		_, err2 := workflow.Update(ctx, "panics", func(tx *workflow.Tx) (int, error) { set(tx, "2"); panic("ouch") })
		_, err3 := workflow.Update(ctx, "too large", func(tx *workflow.Tx) ([]byte, error) { set(tx, "3"); return make([]byte, 17<<20), nil })
		var kept *workflow.Tx
		v, err4 := workflow.Update(ctx, "works", func(tx *workflow.Tx) (int, error) { set(tx, "4"); kept = tx; return 4, nil })
		errorIf(t, kept != nil && kept.Host() != nil, "a transaction is used after its function")
		err5 := workflow.Do(ctx, "commit fails once", func(sc *workflow.StepCtx) error {
			tries++
			n := tries
			sc.OnCommit(func(tx *workflow.Tx) error { set(tx, fmt.Sprint("5.", n)); return nil })
			sc.OnCommit(func(tx *workflow.Tx) error {
				if n == 1 {
					return errors.New("conflict")
				}
				return nil
			})
			return nil
		})
		err6 := workflow.Do(ctx, "commit fails for good", func(sc *workflow.StepCtx) error {
			sc.OnCommit(func(tx *workflow.Tx) error { set(tx, "6"); panic("ouch") })
			return nil
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 1}))
		return fmt.Sprint(err1, "; ", err2, "; ", err3 != nil, v, err4, "; ", err5, "; ", err6), nil
	})
	play := func(h *memory.Actor) string {
		tries = 0
		drive(t, h)
		s := stateOf(h)
		return outcome(t, h) + fmt.Sprint("|", s["1"], s["2"], s["3"], s["4"], s["5.1"], s["5.2"] != "" || s["5.3"] != "", s["6"])
	}
	h := started(t, d.Program(), none{})
	want := `completed step "fails" failed: no; step "panics" failed: panic: ouch; true 4 <nil>; <nil>; step "commit fails for good" failed: panic: ouch|xtrue`
	if got := play(h); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// An output that no journal takes pauses the run as well: code that returns less lets it end.
func TestOutputThatIsTooLargePauses(t *testing.T) {
	size := replay.DefaultMaxPayload
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		err := workflow.Sleep(ctx, "a", time.Minute)
		return strings.Repeat("x", size), err
	})
	h := started(t, d.Program(), none{})
	pause(t, h)
	fatalIf(t, h.Last.Ended, "the run has ended with it")
	wantPause(t, h, wfhost.PausedMisuse, "the output of the function has 16777221 bytes, and the limit is 16777216")
	size = 3
	until(t, h, func() bool { return h.Last.Ended })
	wantOutput(t, h, "xxx")
}

// TestCodecErrorsDoNotLoseTheRun: what does not decode pauses the run and undoes nothing. A build that agrees goes on.
func TestCodecErrorsDoNotLoseTheRun(t *testing.T) {
	code := func(fn func(ctx workflow.Context) error) workflow.Func[none, string] {
		return func(ctx workflow.Context, _ none) (string, error) {
			if err := errors.Join(mark(ctx, "a"), fn(ctx)); err != nil {
				return "", err
			}
			return "done", workflow.Sleep(ctx, "wait", time.Hour)
		}
	}
	right := code(func(ctx workflow.Context) error {
		_, err := workflow.Scope(ctx, "scope", func(ctx workflow.Context) (int, error) {
			_, err := workflow.Step(ctx, "b", func(*workflow.StepCtx) (string, error) { return "text", nil })
			return 5, err
		})
		return err
	})
	for _, v := range []struct {
		what        string
		first, then workflow.Func[none, string]
		says        string
	}{
		{"a scope of another type", right, code(func(ctx workflow.Context) error {
			_, err := workflow.Scope(ctx, "scope", func(ctx workflow.Context) ([]string, error) { return nil, pass(ctx, "b") })
			return err
		}), "[]string"},
		{"a step of another type", code(func(ctx workflow.Context) error {
			_, err := workflow.Step(ctx, "b", func(*workflow.StepCtx) (string, error) { return "text", nil })
			return err
		}), code(func(ctx workflow.Context) error {
			_, err := workflow.Step(ctx, "b", func(*workflow.StepCtx) (int, error) { return 1, nil })
			return err
		}), `step "b"`},
	} {
		t.Run(v.what, func(t *testing.T) {
			h := recorded(t, v.first)
			got := deploy(t, h, v.then)
			errorIf(t, got != "paused diverged", "%s", got)
			wantPause(t, h, wfhost.PausedDiverged, v.says)
			errorIf(t, stateOf(h)["a"] != "done", "a is %q", stateOf(h)["a"])
			got = deploy(t, h, v.first)
			errorIf(t, got != "completed done", "%s", got)
		})
	}
}

// TestResultsThatAreTooLarge fail what brought them, and nothing of it is kept.
func TestResultsThatAreTooLarge(t *testing.T) {
	big := func() []byte { return make([]byte, 2000) }
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		_, err1 := workflow.Step(ctx, "step", func(sc *workflow.StepCtx) ([]byte, error) {
			sc.OnCommit(func(tx *workflow.Tx) error { put(tx, "x", "1"); return nil })
			return big(), nil
		})
		_, err2 := workflow.Update(ctx, "update", func(tx *workflow.Tx) ([]byte, error) {
			put(tx, "x", "2")
			return big(), nil
		})
		return fmt.Sprint(err1, "; ", err2), nil
	})
	h := started(t, d.Program(), none{})
	h.Options.MaxPayload = 1000
	drive(t, h)
	wantOutput(t, h, `step "step" failed: workflow: the result has 2003 bytes, and the limit is 1000; step "update" failed: workflow: the result has 2003 bytes, and the limit is 1000`)
	if x := stateOf(h)["x"]; x != "" {
		t.Errorf("x is %q", x)
	}
}

func TestDefineSaysWhatIsWrong(t *testing.T) {
	fn := func(workflow.Context, none) (none, error) { return none{}, nil }
	for _, tt := range []struct {
		d    *workflow.Function[none, none]
		says string
	}{
		{workflow.NewFunction("", fn), "empty"},
		{workflow.NewFunction(strings.Repeat("x", 300), fn), "300 bytes"},
		{workflow.NewFunction[none, none]("w", nil), "the function is nil"},
		{workflow.NewFunction("w", fn, nil), "option 0 is nil"},
		{workflow.NewFunction("w", fn, workflow.WithCodec(nil)), "WithCodec: nil"},
		{workflow.NewFunction("w", fn, workflow.WithStepDefaults(workflow.Timeout(-1))), "negative"},
		{workflow.NewFunction("w", fn, workflow.WithStepDefaults(nil)), "option 0 is nil"},
		{workflow.NewFunction("w", fn, workflow.WithError[*declined]("d"), workflow.WithError[*declined]("d")), "twice"},
		{workflow.NewFunction("w", fn, workflow.WithError[error]("d")), "interface"},
		{workflow.NewFunction("w", fn, workflow.WithErrorValue("d", nil)), "nil"},
		{workflow.NewFunction("w", fn, workflow.WithVersion(strings.Repeat("x", 300))), "300 bytes"},
	} {
		err := tt.d.Program().Err()
		errorIf(t, err == nil || !strings.Contains(err.Error(), tt.says), "%v, want %q", err, tt.says)
		if serr := newActor(t).Start(tt.d.Program(), none{}, wfhost.StartOptions{}); serr == nil {
			t.Errorf("started in spite of %v", err)
		}
	}
}
