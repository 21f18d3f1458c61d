package replay_test

import (
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// The tests of this file cover what scripts cannot express: types, clocks, hosts, and numbers.

func ok(*StepCtx) error { return nil }

func pass(ctx Context, name string) error { return Do(ctx, name, ok) }

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// A function that returns nothing ends like others, and a nil pointer in an error is an error.
func TestNilIsAResult(t *testing.T) {
	runs := 0
	h := begun(t, func(ctx Context, _ none) (string, error) {
		done := Do(ctx, "do", func(*StepCtx) error { runs++; return nil })
		p, err1 := Step(ctx, "nil pointer", func(*StepCtx) (*int, error) { runs++; return nil, nil })
		var kept *Tx
		list, err2 := Update(ctx, "nil slice", func(tx *Tx) ([]byte, error) { kept = tx; runs++; return nil, nil })
		errorIf(t, kept != nil && kept.Host() != nil, "a transaction is used after its function")
		if err := errors.Join(done, err1, err2); err != nil || p != nil || len(list) > 0 {
			return "", fmt.Errorf("%v %v %v", err, p, list)
		}
		var none *nilError
		err1 = Do(ctx, "permanent", func(*StepCtx) error { return Permanent(none) })
		err2 = Do(ctx, "twice", func(*StepCtx) error { return none }, Retry(RetryPolicy{MaxAttempts: 2}))
		_, err3 := Update(ctx, "update", func(*Tx) (int, error) { return 0, none })
		return fmt.Sprint(err1 != nil, err2 != nil, err3 != nil), Sleep(ctx, "nap", time.Minute)
	})
	untilAsleep(t, h)
	h.Now = h.Last.Wake
	h.Close()
	drive(t, h)
	wantShown(t, h, "completed true true true")
	errorIf(t, runs != 3, "bodies ran %d times, want 3", runs)
}

// TestSuspensionCannotBeSwallowed: errors and panics that a function ignores do not make it run
// past a wait.
func TestSuspensionCannotBeSwallowed(t *testing.T) {
	careless := func(f func()) {
		defer func() { _ = recover() }()
		f()
	}
	unwound := 0
	h := begun(t, func(ctx Context, _ none) (time.Time, error) {
		defer func() {
			unwound++
			careless(func() { _ = Sleep(ctx, "in a deferred function", time.Hour) })
			careless(func() { _ = Do(ctx, "deferred step", ok) })
		}()
		careless(func() { _ = Sleep(ctx, "sleep", time.Hour) })
		careless(func() { _, _ = Receive(ctx, "receive", Inbox[int]{Name: "q"}, Within(time.Hour)) })
		careless(func() { _ = Do(ctx, "step", func(*StepCtx) error { panic("no") }) })
		return ctx.Now(), nil
	})
	began := h.Now
	for range 4 {
		h.Close() // in the middle of every wait
		wakes := h.Wakes
		until(t, h, func() bool { return h.Wakes > wakes && h.Run != nil })
	}
	drive(t, h)
	took := status(t, h).Ended.Sub(began)
	errorIf(t, took < 3*time.Hour || unwound < 4, "ended after %v, unwound %d times", took, unwound)
}

// TestJitter: with the default jitter, waits differ between runs.
func TestJitter(t *testing.T) {
	waits := map[time.Duration]bool{}
	for range 20 {
		h := begun(t, func(ctx Context, _ none) (none, error) {
			return none{}, Do(ctx, "s", func(*StepCtx) error { return errBad }, Retry(RetryPolicy{Initial: 10 * time.Second}))
		})
		untilAsleep(t, h)
		wait := h.Last.Wake.Sub(h.Now)
		errorIf(t, wait < 8*time.Second || wait > 12*time.Second, "waits %v", wait)
		waits[wait] = true
	}
	errorIf(t, len(waits) < 5, "only %d different waits in 20 runs", len(waits))
}

// TestDeferred: only a transaction with nothing but records of deferred steps need not be durable.
func TestDeferred(t *testing.T) {
	var list []bool
	h := begun(t, func(ctx Context, _ none) (none, error) {
		var err error
		for _, name := range names[:3] {
			err = errors.Join(err, Do(ctx, name, ok, Deferred()))
		}
		return none{}, errors.Join(err, Do(ctx, "plain", ok), Do(ctx, "last", ok))
	})
	until(t, h, func() bool {
		if len(h.Last.Launch) > 0 {
			list = append(list, h.Last.Deferred)
			h.Last.Launch = nil
		}
		return false
	})
	errorIf(t, fmt.Sprint(list) != "[false true true true false]", "%v", list)
}

// TestManyStepsAtOnce: more resolutions than one transaction may have, from bodies that run
// concurrently.
func TestManyStepsAtOnce(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := begun(t, func(ctx Context, _ none) (sum int, err error) {
			out, err := ForEach(ctx, "all", make([]none, 900), func(ctx Context, i int, _ none) (int, error) {
				return Step(ctx, "step", func(*StepCtx) (int, error) { return i, nil })
			})
			for _, v := range out {
				sum += v
			}
			return sum, err
		})
		h.Racing = true
		drive(t, h)
		wantShown(t, h, fmt.Sprint("completed ", 899*900/2))
	})
}

// TestUndoOfStepsWithoutContentNeedNotAsk: their result has nothing that could be missing.
func TestUndoOfStepsWithoutContentNeedNotAsk(t *testing.T) {
	undone := 0
	h := begun(t, func(ctx Context, _ none) (none, error) {
		return Compensated(ctx, "pay", func(*StepCtx) (none, error) { return none{}, errors.New("lost") },
			func(*StepCtx, none) error { undone++; return nil }, Retry(RetryPolicy{MaxAttempts: 1}))
	})
	drive(t, h)
	wantShown(t, h, `failed: step "pay" failed: lost`)
	errorIf(t, undone != 1, "undone %d times", undone)
}

// TestStepErrorIsTheSameAfterReplay compares the error of a failed step with the error after a
// replay.
func TestStepErrorIsTheSameAfterReplay(t *testing.T) {
	var sentinel = errors.New("sold out")
	var seen []string
	d := NewFunction("w", func(ctx Context, _ none) (none, error) {
		_, err := Step(ctx, "typed", func(*StepCtx) (int, error) {
			return 0, fmt.Errorf("wrapped: %w", &declined{Code: 51})
		}, Retry(RetryPolicy{MaxAttempts: 2}))
		var de *declined
		errors.As(err, &de)
		err2 := Do(ctx, "value", func(*StepCtx) error { return Permanent(sentinel) })
		seen = append(seen, fmt.Sprintf("%v; %+v; %v %v", err, *de, err2, errors.Is(err2, sentinel)))
		return none{}, Sleep(ctx, "wait", time.Hour)
	}, WithError[*declined]("declined"), WithErrorValue("sold out", sentinel))
	h := started(t, d.Program(), none{})
	until(t, h, func() bool { return len(seen) == 1 })
	h.Close()
	drive(t, h)
	wantShown(t, h, "completed map[]")
	errorIf(t, len(seen) != 2 || seen[0] != seen[1], "seen %q", seen)
	want := `step "typed" failed after 2 attempts: wrapped: declined 51; {Code:51}; step "value" failed: sold out true`
	errorIf(t, seen[0] != want, "seen %q, want %q", seen[0], want)
}

type declined struct{ Code int }

func (e *declined) Error() string { return fmt.Sprintf("declined %d", e.Code) }

// A run that is closed does nothing more.
func TestClosedRun(t *testing.T) {
	h := begun(t, func(ctx Context, _ none) (none, error) { return none{}, Sleep(ctx, "s", time.Hour) })
	untilAsleep(t, h)
	run := h.Run
	h.Close()
	_, err := run.Advance(nil)
	errorIf(t, !errors.Is(err, ErrClosed) || !errors.Is(run.Rest(nil), ErrClosed), "%v, %v", err, run.Rest(nil))
}

// TestClockThatStepsBackwards: the run's time does not step back, and deadlines are kept.
func TestClockThatStepsBackwards(t *testing.T) {
	var seen []time.Time
	h := begun(t, func(ctx Context, _ none) (none, error) {
		seen = nil
		for _, name := range names[:5] {
			seen = append(seen, ctx.Now())
			_ = pass(ctx, name)
		}
		seen = append(seen, ctx.Now())
		return none{}, Sleep(ctx, "wait", time.Hour)
	})
	steps := []time.Duration{-10 * time.Minute, 11 * time.Minute}
	until(t, h, func() bool {
		h.Now = h.Now.Add(steps[0])
		slices.Reverse(steps)
		return h.Last.Wake.After(h.Now)
	})
	errorIf(t, !slices.IsSortedFunc(seen, time.Time.Compare), "time steps back: %v", seen)
	warm := fmt.Sprint(seen)
	h.Close()
	h.Now = h.Now.Add(-24 * time.Hour)
	h.Advance()
	errorIf(t, fmt.Sprint(seen) != warm, "after replay the times are\n%s, and were\n%s", seen, warm)
	drive(t, h)
	wantShown(t, h, "completed map[]")
}

// A message that is no string fails its receive, and is removed.
func TestReceiveOfAnotherType(t *testing.T) {
	q := Inbox[string]{Name: "q"}
	h := begun(t, func(ctx Context, _ none) (string, error) {
		_, err := Receive(ctx, "m", q)
		var ve *CodecError
		next, nextErr := Receive(ctx, "n", q)
		return fmt.Sprint(errors.As(err, &ve), " ", next.Body), nextErr
	})
	send(t, h, "q", 5)
	send(t, h, "q", "a")
	drive(t, h)
	wantShown(t, h, "completed true a")
}

// A map of the maximum number of elements; one more is refused.
func TestLargeMap(t *testing.T) {
	items := make([]int, MaxBranches)
	h := begun(t, func(ctx Context, _ none) (int, error) {
		out, err := ForEach(ctx, "map", items, func(ctx Context, i, _ int) (int, error) {
			if i%8 > 0 { // most have nothing to wait for
				return i, nil
			}
			return Step(ctx, "step", func(*StepCtx) (int, error) { return i, nil })
		}, Concurrency(100))
		sum := 0
		for i, v := range out {
			if v != i {
				return 0, fmt.Errorf("element %d is %d", i, v)
			}
			sum += v
		}
		if _, more := ForEach(ctx, "too many", append(items, 0),
			func(Context, int, int) (int, error) { return 0, nil }); err == nil && more == nil {
			err = errors.New("a map of more elements was accepted")
		}
		return sum, errors.Join(err, Sleep(ctx, "sleep", time.Hour))
	})
	h.CrashAt = 700
	drive(t, h)
	errorIf(t, h.Crashes == 0, "no crash")
	wantShown(t, h, fmt.Sprint("completed ", MaxBranches*(MaxBranches-1)/2))
	errorIf(t, status(t, h).Names > 5, "%d names", status(t, h).Names)
}

// Cancellations of children that have ended are not kept.
func TestSpawnForgetsCancellations(t *testing.T) {
	d := NewFunction("child", func(ctx Context, _ int) (int, error) { return 0, nil })
	most := 0
	h := begun(t, func(ctx Context, _ none) (int, error) {
		return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
			c, err := Spawn(it, "child", d, 0)
			if err != nil {
				return err
			}
			if _, err := c.Result(it); err != nil || it.Iteration() < 50 {
				most = max(most, Cancellations(it))
				return err
			}
			return it.Break(1)
		})
	})
	h.Programs["child"] = d.Program()
	drive(t, h)
	wantShown(t, h, "completed 1")
	errorIf(t, most > 2, "%d cancellations", most)
}

// TestNowRandAndInfoReplay: values that look random are the same in a replay.
func TestNowRandAndInfoReplay(t *testing.T) {
	var runs []string
	var lines strings.Builder
	d := NewFunction("w", func(ctx Context, _ none) (string, error) {
		log := ""
		for _, name := range names[:5] {
			i := ctx.Info()
			log += fmt.Sprintln(ctx.Now(), ctx.Rand().Uint64(), i.Resolutions, i.RunID, i.Started, i.Epoch, i.Workflow, i.Version)
			ctx.Logger().Info("at " + name)
			_ = pass(ctx, name)
		}
		runs = append(runs, log)
		return "", Sleep(ctx, "end", time.Hour)
	}, WithVersion("v7"))
	h := started(t, d.Program(), none{})
	h.Options.Logger = func() *slog.Logger { return slog.New(slog.NewTextHandler(&lines, nil)) }
	untilAsleep(t, h)
	h.Close()
	drive(t, h)
	errorIf(t, len(runs) != 2 || runs[0] != runs[1], "%q", runs)
	n := strings.Count(lines.String(), "\n")
	errorIf(t, n != 5 || !strings.Contains(lines.String(), "workflow=w run="), "%d lines:\n%s", n, lines.String())
	errorIf(t, strings.Count(runs[0], "\n") != 5 || !strings.Contains(runs[0], " v7\n"), "%s", runs[0])
}

func TestDefineSaysWhatIsWrong(t *testing.T) {
	fn := func(Context, none) (none, error) { return none{}, nil }
	for d, says := range map[*Function[none, none]]string{
		NewFunction("", fn):                                                        "empty",
		NewFunction(strings.Repeat("x", 300), fn):                                  "300 bytes",
		NewFunction[none, none]("w", nil):                                          "the function is nil",
		NewFunction("w", fn, nil):                                                  "option 0 is nil",
		NewFunction("w", fn, WithCodec(nil)):                                       "WithCodec: nil",
		NewFunction("w", fn, WithStepDefaults(Timeout(-1))):                        "negative",
		NewFunction("w", fn, WithStepDefaults(nil)):                                "option 0 is nil",
		NewFunction("w", fn, WithError[*declined]("d"), WithError[*declined]("d")): "twice",
		NewFunction("w", fn, WithError[error]("d")):                                "interface",
		NewFunction("w", fn, WithErrorValue("d", nil)):                             "nil",
		NewFunction("w", fn, WithVersion(strings.Repeat("x", 300))):                "300 bytes",
	} {
		err := d.Program().Err()
		errorIf(t, err == nil || !strings.Contains(err.Error(), says), "%v, want %q", err, says)
		errorIf(t, newActor(t).Start(d.Program(), none{}, StartOptions{}) == nil, "started in spite of %v", err)
	}
}

// diverged starts a run, deploys another program while it is asleep, and checks the text of the
// pause.
func diverged(t *testing.T, first *Program, in any, then *Program, says ...string) *memory.Actor {
	t.Helper()
	h := started(t, first, in)
	untilAsleep(t, h)
	h.Close()
	h.Use(then)
	pause(t, h)
	wantPause(t, h, PausedDiverged, says...)
	return h
}

// TestCodecErrorsDoNotLoseTheRun: a value that cannot be decoded pauses the run and undoes nothing.
// With a build that agrees, the run goes on.
func TestCodecErrorsDoNotLoseTheRun(t *testing.T) {
	scope := func(inner func(ctx Context) error) func(ctx Context) error {
		return func(ctx Context) error {
			return errOf(Scope(ctx, "scope", func(ctx Context) (int, error) { return 5, inner(ctx) }))
		}
	}
	text := func(ctx Context) error { return errOf(Step(ctx, "b", body("text"))) }
	number := func(ctx Context) error { return errOf(Step(ctx, "b", body(1))) }
	list := func(ctx Context) error {
		return errOf(Scope(ctx, "scope", func(ctx Context) ([]string, error) { return nil, text(ctx) }))
	}
	for _, v := range []struct {
		first, then func(ctx Context) error
		says        string
	}{{scope(text), list, "[]string"}, {text, number, `step "b"`}} {
		undone := 0
		p := func(fn func(ctx Context) error) *Program {
			return code(func(ctx Context, _ none) (string, error) {
				_, err := Compensated(ctx, "a", body("done"), func(*StepCtx, string) error { undone++; return nil })
				if err = errors.Join(err, fn(ctx)); err != nil {
					return "", err
				}
				return "done", Sleep(ctx, "wait", time.Hour)
			})
		}
		h := diverged(t, p(v.first), none{}, p(v.then), v.says)
		h.Close()
		h.Use(p(v.first))
		h.Now = h.Now.Add(10 * time.Minute) // it tries again
		drive(t, h)
		wantShown(t, h, "completed done")
		errorIf(t, undone != 0, "it was undone")
	}
}

// A report of an operation in a helper also names the lines that call the helper.
func TestReportThroughAHelperNamesTheCaller(t *testing.T) {
	line := 0
	program := func(name string) *Program {
		return code(func(ctx Context, _ none) (string, error) {
			_, _, line, _ = runtime.Caller(0)
			if err := pass(ctx, name); err != nil { // in the next line
				return "", err
			}
			return "", Sleep(ctx, "nap", time.Hour)
		})
	}
	h := diverged(t, program("a"), none{}, program("b"), `step "b"`, ", called at")
	text := status(t, h).Pause.Text
	errorIf(t, strings.Count(text, "called at") != 1 || !strings.Contains(text, fmt.Sprint("lives_test.go:", line+1)), "%s", text)
}

// An input that the function no longer accepts is reported as such, even if the function has called
// no operation.
func TestChangedInputIsNotReportedAsALeftover(t *testing.T) {
	text := NewFunction("w", func(ctx Context, _ string) (string, error) { return "", Sleep(ctx, "nap", time.Hour) })
	number := NewFunction("w", func(ctx Context, _ int) (string, error) { return "", Sleep(ctx, "nap", time.Hour) })
	h := diverged(t, text.Program(), "text", number.Program(), "the recorded input of the run is not what the function takes")
	says := status(t, h).Pause.Text
	errorIf(t, strings.Contains(says, "end of the scope") || strings.Contains(says, "Removed"), "%s", says)
}
