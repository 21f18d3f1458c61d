package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// The tests of this file are named after the rules of replay.

func ok(*workflow.StepCtx) error { return nil }

// recorded drives a workflow until it sleeps, closes it, and returns the host.
func recorded(t *testing.T, fn workflow.Func[none, string]) *memhost.Host {
	t.Helper()
	h := started(t, workflow.NewFunction("w", fn).Program(), none{})
	untilAsleep(t, h)
	h.Close()
	return h
}

// deploy drives the run of a host with other code, to the end or until it is paused.
func deploy(t *testing.T, h *memhost.Host, fn workflow.Func[none, string]) string {
	t.Helper()
	h.Close()
	h.Use(workflow.NewFunction("w", fn).Program())
	h.Now = h.Now.Add(10 * time.Minute) // should it be paused, it tries again
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	s := status(t, h)
	if s.Pause != nil {
		return "paused " + string(s.Pause.Reason)
	}
	return outcome(t, h)
}

// TestR01R02KindAndNameMustAgree: what is recorded is found by scope, name, kind and position.
func TestR01R02KindAndNameMustAgree(t *testing.T) {
	h := recorded(t, func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		return "", workflow.Sleep(ctx, "b", time.Hour)
	})
	if got := deploy(t, h, func(ctx workflow.Context, _ none) (string, error) {
		return "", workflow.Sleep(ctx, "a", time.Hour)
	}); got != "paused diverged" {
		t.Error(got)
	}
	wantPause(t, h, wfhost.PausedDiverged, `sleep "a"`, `step "a"`, "another name", "rules_test.go:")
}

// TestR05ResolutionsReplayInTheirOrder: what ended first is handed out first, whatever the order in which it began.
func TestR05ResolutionsReplayInTheirOrder(t *testing.T) {
	var runs []string
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		var fs []*workflow.Future[time.Time]
		for i, name := range []string{"c", "a", "d", "b"} {
			f, err := workflow.Timer(ctx, name, []time.Duration{3, 1, 4, 2}[i]*time.Minute)
			if err != nil {
				return "", err
			}
			fs = append(fs, f)
		}
		log := ""
		for i := range 4 {
			if err := workflow.Sleep(ctx, names[i], time.Minute); err != nil {
				return "", err
			}
			log += fmt.Sprint(fs[0].Done(), fs[1].Done(), fs[2].Done(), fs[3].Done(), ctx.Now().Minute(), " ")
		}
		runs = append(runs, log)
		return log, workflow.Sleep(ctx, "end", time.Hour)
	})
	h := started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return len(runs) == 1 && h.Last.Wake.After(h.Now) }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	drive(t, h)
	if len(runs) != 2 || runs[0] != runs[1] {
		t.Errorf("%q", runs)
	}
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
	if len(runs) != 2 || runs[0] != runs[1] {
		t.Errorf("%q", runs)
	}
	if n := strings.Count(lines.String(), "\n"); n != 5 || !strings.Contains(lines.String(), "workflow=w run=") {
		t.Errorf("%d lines:\n%s", n, lines.String())
	}
	if strings.Count(runs[0], "\n") != 5 || !strings.Contains(runs[0], " v7\n") {
		t.Errorf("%s", runs[0])
	}
}

// TestR09FailedAttemptsLeaveNothing: what an Update or OnCommit did before it failed is undone.
func TestR09FailedAttemptsLeaveNothing(t *testing.T) {
	set := func(tx *workflow.Tx, k string) { tx.Host().(*memhost.State).Set(k, "x") }
	tries := 0
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		_, err1 := workflow.Update(ctx, "fails", func(tx *workflow.Tx) (int, error) { set(tx, "1"); return 0, errors.New("no") })
		_, err2 := workflow.Update(ctx, "panics", func(tx *workflow.Tx) (int, error) { set(tx, "2"); panic("ouch") })
		_, err3 := workflow.Update(ctx, "too large", func(tx *workflow.Tx) ([]byte, error) { set(tx, "3"); return make([]byte, 17<<20), nil })
		var kept *workflow.Tx
		v, err4 := workflow.Update(ctx, "works", func(tx *workflow.Tx) (int, error) { set(tx, "4"); kept = tx; return 4, nil })
		if kept != nil && kept.Host() != nil {
			t.Error("a transaction is used after its function")
		}
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
	play := func(h *memhost.Host) string {
		tries = 0
		drive(t, h)
		s := h.State()
		return outcome(t, h) + fmt.Sprint("|", s.Get("1"), s.Get("2"), s.Get("3"), s.Get("4"), s.Get("5.1"), s.Get("5.2") != "" || s.Get("5.3") != "", s.Get("6"))
	}
	h := started(t, d.Program(), none{})
	want := `completed step "fails" failed: no; step "panics" failed: panic: ouch; true 4 <nil>; <nil>; step "commit fails for good" failed: panic: ouch|xtrue`
	if got := play(h); got != want {
		t.Errorf("%s\nwant %s", got, want)
	}
}

// TestR11Names: what is no name is refused, and the limits are where they are said to be.
func TestR11Names(t *testing.T) {
	for _, tt := range []struct {
		name, says string
	}{
		{"", "empty"}, {strings.Repeat("x", 257), "257 bytes"}, {"\xff", "UTF-8"},
	} {
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) { return "", workflow.Do(ctx, tt.name, ok) })
		h := started(t, d.Program(), none{})
		if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
			t.Fatal(err)
		}
		wantPause(t, h, wfhost.PausedMisuse, tt.says, "rules_test.go:")
	}
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		return "", workflow.Do(ctx, strings.Repeat("x", 256), ok)
	})
	h := started(t, d.Program(), none{})
	drive(t, h)
	wantState(t, h, wfhost.StateCompleted)
}

func TestMisusePauses(t *testing.T) {
	q := workflow.Inbox[int]{Name: "q"}
	var leaked workflow.Context
	for _, tt := range []struct {
		name string
		fn   func(ctx workflow.Context) error
		says string
	}{
		{"same name twice", func(ctx workflow.Context) error { _ = workflow.Do(ctx, "a", ok); return workflow.Do(ctx, "a", ok) }, `step "a" is asked for twice`},
		{"nil function", func(ctx workflow.Context) error { return workflow.Do(ctx, "a", nil) }, `step "a": the function is nil`},
		{"nil update", func(ctx workflow.Context) error { _, err := workflow.Update[int](ctx, "a", nil); return err }, `update "a": the function is nil`},
		{"nil option", func(ctx workflow.Context) error { return workflow.Do(ctx, "a", ok, nil) }, "option 0 is nil"},
		{"bad option", func(ctx workflow.Context) error { return workflow.Do(ctx, "a", ok, workflow.Timeout(-1)) }, "negative"},
		{"bad policy", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "a", ok, workflow.Retry(workflow.RetryPolicy{MaxAttempts: -2, Jitter: 2}))
		}, "MaxAttempts -2"},
		{"nil wait option", func(ctx workflow.Context) error { _, err := workflow.Receive(ctx, "a", q, nil); return err }, "option 0 is nil"},
		{"nil source", func(ctx workflow.Context) error { _, err := workflow.Receive[int](ctx, "a", nil); return err }, "the source is nil"},
		{"no queue", func(ctx workflow.Context) error { _, err := workflow.ReceiveAny(ctx, "a", nil); return err }, "no queues"},
		{"queue without a name", func(ctx workflow.Context) error {
			_, err := workflow.Receive(ctx, "a", workflow.Inbox[int]{})
			return err
		}, "name of a queue is empty"},
		{"no messages", func(ctx workflow.Context) error { _, err := workflow.ReceiveBatch(ctx, "a", q, 0); return err }, "limit of 0"},
		{"nil probe", func(ctx workflow.Context) error { _, err := workflow.Await[int, int](ctx, "a", nil); return err }, "the function is nil"},
		{"version 0", func(ctx workflow.Context) error { workflow.Version(ctx, "a", 0); return nil }, "latest is 0"},
		{"publish", func(ctx workflow.Context) error { workflow.Publish(ctx, func() {}); return nil }, "publish"},
		{"context in a step", func(ctx workflow.Context) error {
			return workflow.Do(ctx, "a", func(*workflow.StepCtx) error { return workflow.Do(ctx, "b", ok) })
		}, "outside of its workflow function"},
		{"context after the end", func(ctx workflow.Context) error { leaked = ctx; return nil }, ""},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) { return none{}, tt.fn(ctx) })
			h := started(t, d.Program(), none{})
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
			switch {
			case tt.says != "":
				wantPause(t, h, wfhost.PausedMisuse, tt.says, "rules_test.go:")
			case leaked != nil:
				defer func() {
					if p := recover(); p == nil || !strings.Contains(fmt.Sprint(p), "outside of its workflow function") {
						t.Errorf("panic %v", p)
					}
				}()
				_ = workflow.Do(leaked, "late", ok)
			}
		})
	}
}

// The transaction in which a run that is tried again fails is undone, and the pause that it had lifted counts all the same.
func TestTriesAreCountedWhenTheyGotSomewhere(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Sleep(ctx, "a", time.Minute); err != nil {
			return "", err
		}
		panic("ouch")
	})
	h := started(t, d.Program(), none{})
	var since, next time.Time
	for tries := range uint32(4) {
		if err := h.Drive(func() bool {
			p := status(t, h).Pause
			return p != nil && !p.Next.Equal(next)
		}); err != nil {
			t.Fatal(err)
		}
		p := status(t, h).Pause
		if tries == 0 {
			since = p.Since
		}
		if wait := p.Next.Sub(next); p.Attempts != tries || !p.Since.Equal(since) || tries > 0 && wait != time.Second<<tries {
			t.Errorf("after %d tries: %+v, %v after the one before", tries, p, wait)
		}
		next = p.Next
	}
}

// A step that went well each time is not out of attempts because the function panics behind it: the run stays paused, and goes on
// when the code is mended.
func TestFunctionThatPanicsUsesUpNoAttemptsOfAStep(t *testing.T) {
	broken := true
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (int, error) {
		n, err := workflow.Step(ctx, "a", func(*workflow.StepCtx) (int, error) { return 5, nil })
		if broken {
			panic("ouch")
		}
		return n, err
	})
	h := started(t, d.Program(), none{})
	for tries := range uint32(12) { // more than maxBoots
		if err := h.Drive(func() bool {
			p := status(t, h).Pause
			return p != nil && p.Attempts == tries
		}); err != nil {
			t.Fatal(err)
		}
		wantPause(t, h, wfhost.PausedPanicked, "ouch")
	}
	broken = false
	for crashes, after := range []bool{true, false} { // while the step is executed, and before its result is committed
		h.CrashAt, h.CrashAfter = h.Commits+1, after
		if err := h.Drive(func() bool { return h.Crashes > crashes }); err != nil {
			t.Fatal(err)
		}
	}
	drive(t, h)
	wantOutput(t, h, 5)
}

// An output that no journal takes pauses the run as well: code that returns less lets it end.
func TestOutputThatIsTooLargePauses(t *testing.T) {
	size := replay.DefaultMaxPayload
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		err := workflow.Sleep(ctx, "a", time.Minute)
		return strings.Repeat("x", size), err
	})
	h := started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return h.Last.Paused || h.Last.Ended }); err != nil {
		t.Fatal(err)
	}
	if h.Last.Ended {
		t.Fatal("the run has ended with it")
	}
	wantPause(t, h, wfhost.PausedMisuse, "the output of the function has 16777221 bytes, and the limit is 16777216")
	size = 3
	if err := h.Drive(func() bool { return h.Last.Ended }); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, h, "xxx")
}

func TestPanicsPause(t *testing.T) {
	broken := true
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		if broken {
			panic("ouch")
		}
		return "fixed", nil
	})
	h := started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantPause(t, h, wfhost.PausedPanicked, "ouch", "rules_test.go:")
	broken = false
	drive(t, h)
	wantOutput(t, h, "fixed")

	d = workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		runtime.Goexit()
		return "", nil
	})
	h = started(t, d.Program(), none{})
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantPause(t, h, wfhost.PausedPanicked, "Goexit")
}

func TestUnknownWorkflowPauses(t *testing.T) {
	h := started(t, steps("a"), none{})
	h.Use()
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantPause(t, h, wfhost.PausedUnknown, `"w"`)
	h.Use(steps("a"))
	h.Close()
	drive(t, h)
	wantState(t, h, wfhost.StateCompleted)
}

// TestCodecErrorsDoNotLoseTheRun: what does not decode pauses the run, and a build that agrees goes on.
func TestCodecErrorsDoNotLoseTheRun(t *testing.T) {
	step := func(fn func(ctx workflow.Context) error) workflow.Func[none, string] {
		return func(ctx workflow.Context, _ none) (string, error) {
			if err := fn(ctx); err != nil {
				return "", err
			}
			return "done", workflow.Sleep(ctx, "wait", time.Hour)
		}
	}
	text := step(func(ctx workflow.Context) error {
		_, err := workflow.Step(ctx, "a", func(*workflow.StepCtx) (string, error) { return "text", nil })
		return err
	})
	h := recorded(t, text)
	if got := deploy(t, h, step(func(ctx workflow.Context) error {
		_, err := workflow.Step(ctx, "a", func(*workflow.StepCtx) (int, error) { return 1, nil })
		return err
	})); got != "paused diverged" {
		t.Error(got)
	}
	wantPause(t, h, wfhost.PausedDiverged, `step "a"`, "int")
	if got := deploy(t, h, text); got != "completed done" {
		t.Error(got)
	}
	// An input that does not decode.
	h = started(t, workflow.NewFunction("w", func(workflow.Context, string) (string, error) { return "", nil }).Program(), "text")
	h.Use(workflow.NewFunction("w", func(workflow.Context, int) (string, error) { return "", nil }).Program())
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantPause(t, h, wfhost.PausedDiverged, "the recorded input of the run", "still decode it")
}

// TestResultsThatAreTooLarge fail what brought them, and nothing of it is kept.
func TestResultsThatAreTooLarge(t *testing.T) {
	big := func() []byte { return make([]byte, 2000) }
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		_, err1 := workflow.Step(ctx, "step", func(sc *workflow.StepCtx) ([]byte, error) {
			sc.OnCommit(func(tx *workflow.Tx) error { tx.Host().(*memhost.State).Set("x", "1"); return nil })
			return big(), nil
		})
		_, err2 := workflow.Update(ctx, "update", func(tx *workflow.Tx) ([]byte, error) {
			tx.Host().(*memhost.State).Set("x", "2")
			return big(), nil
		})
		return fmt.Sprint(err1, "; ", err2), nil
	})
	h := started(t, d.Program(), none{})
	h.Options.MaxPayload = 1000
	drive(t, h)
	wantOutput(t, h, `step "step" failed: workflow: the result has 2003 bytes, and the limit is 1000; step "update" failed: workflow: the result has 2003 bytes, and the limit is 1000`)
	if x := h.State().Get("x"); x != "" {
		t.Errorf("x is %q", x)
	}
}

func TestVersion(t *testing.T) {
	asleep := func(ctx workflow.Context, log string) (string, error) {
		return log, workflow.Sleep(ctx, "wait", time.Hour)
	}
	v1 := func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		return asleep(ctx, "old")
	}
	patched := func(ctx workflow.Context, _ none) (string, error) {
		log := fmt.Sprint(workflow.Version(ctx, "front", 3), workflow.Patched(ctx, "p"), workflow.Patched(ctx, "p"))
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		if workflow.Patched(ctx, "middle") {
			if err := workflow.Do(ctx, "b", ok); err != nil {
				return "", err
			}
			log += " b"
		}
		return asleep(ctx, log)
	}
	// Old runs take the old way.
	if got := deploy(t, recorded(t, v1), patched); got != "completed 1 false false" {
		t.Error(got)
	}
	// New runs take the new one, and stay with it, also when the code offers more.
	h := recorded(t, patched)
	if got := deploy(t, h, func(ctx workflow.Context, in none) (string, error) {
		log := fmt.Sprint(workflow.Version(ctx, "front", 9), workflow.Patched(ctx, "p"))
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		if workflow.Version(ctx, "middle", 5) == 2 {
			if err := workflow.Do(ctx, "b", ok); err != nil {
				return "", err
			}
		}
		return asleep(ctx, log)
	}); got != "completed 3 true" {
		t.Error(got)
	}
	// A gate that is gone is a divergence, unless it is said to be removed.
	without := func(remove bool) workflow.Func[none, string] {
		return func(ctx workflow.Context, _ none) (string, error) {
			if remove {
				workflow.Removed(ctx, "front", workflow.KindVersion)
				workflow.Removed(ctx, "p", workflow.KindVersion)
			}
			if err := workflow.Do(ctx, "a", ok); err != nil {
				return "", err
			}
			workflow.Removed(ctx, "middle", workflow.KindVersion)
			if err := workflow.Do(ctx, "b", ok); err != nil {
				return "", err
			}
			return asleep(ctx, "retired")
		}
	}
	if got := deploy(t, recorded(t, patched), without(false)); got != "paused diverged" {
		t.Error(got)
	}
	if got := deploy(t, recorded(t, patched), without(true)); got != "completed retired" {
		t.Error(got)
	}
	// At the frontier of a run that goes on, the gate is open.
	h = recorded(t, v1)
	if got := deploy(t, h, func(ctx workflow.Context, in none) (string, error) {
		if _, err := v1(ctx, in); err != nil {
			return "", err
		}
		return fmt.Sprint(workflow.Version(ctx, "tail", 4)), nil
	}); got != "completed 4" {
		t.Error(got)
	}
}

func TestRemovedAndRenamed(t *testing.T) {
	q := workflow.Inbox[int]{Name: "q"}
	old := func(ctx workflow.Context, _ none) (string, error) {
		if err := workflow.Do(ctx, "a", ok); err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "s", time.Millisecond); err != nil {
			return "", err
		}
		if _, err := workflow.Receive(ctx, "r", q, workflow.Within(0)); !errors.Is(err, workflow.ErrTimeout) {
			return "", err
		}
		if err := workflow.Do(ctx, "b", ok); err != nil {
			return "", err
		}
		return "old", workflow.Sleep(ctx, "wait", time.Hour)
	}
	newer := func(ctx workflow.Context, _ none) (string, error) {
		workflow.Removed(ctx, "a", workflow.KindStep)
		workflow.Removed(ctx, "s", workflow.KindSleep)
		workflow.Removed(ctx, "r", workflow.KindReceive)
		workflow.Renamed(ctx, "b", "better")
		if err := workflow.Do(ctx, "better", ok); err != nil {
			return "", err
		}
		workflow.Removed(ctx, "wait", workflow.KindSleep)
		return "new", nil
	}
	h := started(t, workflow.NewFunction("w", old).Program(), none{})
	if err := h.Drive(func() bool { return h.Last.Wake.Sub(h.Now) > time.Minute }); err != nil {
		t.Fatal(err)
	}
	if got := deploy(t, h, newer); got != "completed new" {
		t.Error(got)
	}
	// For new runs they do nothing.
	h = started(t, workflow.NewFunction("w", newer).Program(), none{})
	drive(t, h)
	wantOutput(t, h, "new")
}

func TestRestart(t *testing.T) {
	var seen []string
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (string, error) {
		seen = append(seen, fmt.Sprint(n, ctx.Info().Epoch, ctx.Info().Resolutions))
		key := ""
		if err := workflow.Do(ctx, "a", func(sc *workflow.StepCtx) error { key = sc.IdempotencyKey(); return nil }); err != nil {
			return "", err
		}
		seen = append(seen, key)
		if n < 3 {
			return "", workflow.Restart(ctx, n+1)
		}
		return fmt.Sprint("done ", n), nil
	})
	h := started(t, d.Program(), 1)
	drive(t, h)
	wantOutput(t, h, "done 3")
	if len(seen) != 6 || seen[0] != "1 0 0" || seen[2] != "2 1 0" || seen[4] != "3 2 0" || seen[1] == seen[3] {
		t.Errorf("%q", seen)
	}
	if s := status(t, h); s.Entries != 1 || s.Epoch != 2 {
		t.Errorf("%+v", s)
	}
	everywhere(t, d.Program(), 1, func(h *memhost.Host) string {
		drive(t, h)
		return outcome(t, h)
	})
}

func TestPublish(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		workflow.Publish(ctx, "first")
		if err := workflow.Sleep(ctx, "a", time.Hour); err != nil {
			return none{}, err
		}
		workflow.Publish(ctx, "second")
		return none{}, workflow.Sleep(ctx, "b", time.Hour)
	})
	h := started(t, d.Program(), none{})
	untilAsleep(t, h)
	if got := string(status(t, h).Published); got != "efirst" {
		t.Errorf("%q", got)
	}
	wakes := h.Wakes
	if err := h.Drive(func() bool { return h.Wakes > wakes && h.Last.Wake.After(h.Now) }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	commits := h.Commits
	if err := h.Advance(); err != nil {
		t.Fatal(err)
	}
	if got := string(status(t, h).Published); got != "fsecond" {
		t.Errorf("%q", got)
	}
	if h.Commits != commits {
		t.Error("a replay wrote something")
	}
}

// TestVerify: a replay that writes nothing tells whether code agrees with what is recorded.
func TestVerify(t *testing.T) {
	h := started(t, steps("a", "b"), none{})
	untilAsleep(t, h)
	h.Close()
	before := h.Rows()
	verify := func(p *wfhost.Program) wfhost.Report {
		rep, err := wfhost.Verify(h.Reader(), func(string) *wfhost.Program { return p })
		if err != nil {
			t.Fatal(err)
		}
		return rep
	}
	if rep := verify(steps("a", "b")); rep.Problem != nil || rep.Resolutions != 2 || rep.Workflow != "w" || rep.State != wfhost.StateRunning {
		t.Errorf("%+v", rep)
	}
	if rep := verify(steps("a")); rep.Problem == nil || rep.Problem.Reason != wfhost.PausedDiverged {
		t.Errorf("%+v", rep)
	}
	if rep := verify(nil); rep.Problem == nil || rep.Problem.Reason != wfhost.PausedUnknown {
		t.Errorf("%+v", rep)
	}
	if got := fmt.Sprint(h.Rows()); got != fmt.Sprint(before) {
		t.Error("a verification wrote")
	}
	if _, err := wfhost.Verify(memhost.New().Reader(), func(string) *wfhost.Program { return nil }); !errors.Is(err, wfhost.ErrNoRun) {
		t.Error(err)
	}
	// A paused run is judged by what it would do.
	if err := h.Drive(func() bool { h.Use(steps("x")); return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	if rep := verify(steps("a", "b")); rep.Problem != nil {
		t.Errorf("%+v", rep)
	}
	h.Close()
	h.Use(steps("a", "b"))
	drive(t, h)
	if rep := verify(steps("other")); rep.Problem != nil || rep.State != wfhost.StateCompleted {
		t.Errorf("%+v", rep)
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
		if err == nil || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%v, want %q", err, tt.says)
		}
		if serr := memhost.New(tt.d.Program()).Start(tt.d.Program(), none{}); serr == nil {
			t.Errorf("started in spite of %v", err)
		}
	}
}

// TestContextsOfOtherScopes: the Context of an enclosing function is refused where the inner one has its own.
func TestContextsOfOtherScopes(t *testing.T) {
	for _, tt := range []struct {
		name string
		fn   func(ctx workflow.Context) error
		says string
	}{
		{"scope", func(ctx workflow.Context) error {
			_, err := workflow.Scope(ctx, "inner", func(workflow.Context) (int, error) { return 0, workflow.Do(ctx, "a", ok) })
			return err
		}, `used inside of "inner"`},
		{"loop", func(ctx workflow.Context) error {
			_, err := workflow.Loop(ctx, "inner", 0, func(it *workflow.Iter[int, int]) error { return workflow.Do(ctx, "a", ok) })
			return err
		}, `used inside of "inner"`},
		{"branch", func(ctx workflow.Context) error {
			var n int
			return workflow.Join(ctx, "inner", workflow.B("b", &n, func(workflow.Context) (int, error) { return 0, workflow.Do(ctx, "a", ok) }))
		}, "a Context of its own"},
		{"after its end", func(ctx workflow.Context) error {
			var kept workflow.Context
			if _, err := workflow.Scope(ctx, "inner", func(inner workflow.Context) (int, error) { kept = inner; return 0, nil }); err != nil {
				return err
			}
			return workflow.Do(kept, "a", ok)
		}, "after its function returned"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) { return none{}, tt.fn(ctx) }).Program(), none{})
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
			wantPause(t, h, wfhost.PausedMisuse, tt.says, "rules_test.go:")
		})
	}
}
