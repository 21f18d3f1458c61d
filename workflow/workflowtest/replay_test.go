package workflowtest_test

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/workflowtest"
)

// booking is a workflow in its first version and in later ones, right and wrong. "a" is a step,
// "?a" a step that a patch adds, "-a" a removed one, "a>b" a renamed one, "~" sleeps, and "!"
// fails.
func booking(operations string) *workflow.Function[none, none] {
	return workflow.NewFunction("booking", func(ctx workflow.Context, _ none) (none, error) {
		var err error
		for _, op := range strings.Fields(operations) {
			name := strings.TrimLeft(op, "?-")
			from, to, renamed := strings.Cut(op, ">")
			switch {
			case op == "~":
				err = workflow.Sleep(ctx, "cool down", time.Hour)
			case op == "!":
				err = errBusy
			case renamed:
				workflow.Renamed(ctx, from, to)
			case op[0] == '-':
				workflow.Removed(ctx, name, workflow.KindStep)
			case op[0] != '?' || workflow.Patched(ctx, "patch of "+name):
				_, err = step(ctx, name, name)
			}
			if err != nil {
				return none{}, err
			}
		}
		return none{}, nil
	})
}

const bookingV1 = "reserve charge ~ mail archive"

func TestChangedFunctionsReplay(t *testing.T) {
	env := workflowtest.New(t, booking(bookingV1)).Start(none{})
	env.Settle()
	sleeping := env.Export()
	env.Wait()
	over := env.Export()
	for _, tt := range []struct{ what, operations, sleeping, over string }{ // texts in the reports; "" if it replays
		{"the same", bookingV1, "", ""},
		{"a step more, patched", "reserve ?check charge ~ mail archive", "", ""},
		{"a step more", "reserve check charge", "the code asks for: step \"check\" (", `if workflow.Patched(ctx, "…")`},
		{"a step renamed", "charge>payment reserve payment ~ mail archive", "", ""},
		{"a step renamed without a word", "reserve charged", `the history also has "charge", which it is perhaps`,
			`the history also has "charge"`},
		{"a step removed", "reserve -charge ~ mail archive", "", ""},
		{"a step removed without a word", "reserve ~", `the code asks for: sleep "cool down"`, `the history has:   step "charge"`},
		{"the end removed without a word", "reserve charge ~ mail", "", `the history has:   step "archive"`},
		{"a step more at the end", bookingV1 + " survey", "", "the function goes on to something that the history does not have"},
		{"another error", bookingV1 + " !", "", "the function now fails: busy"},
		{"another order", "charge reserve", `"charge" is recorded further on`, "the order was changed"},
	} {
		for rec, want := range map[*wfhost.Recording]string{sleeping: tt.sleeping, over: tt.over} {
			text := failing(t, func(t testing.TB) { workflowtest.Replay(t, booking(tt.operations), rec) })
			if errorIf(t, (want == "") != (text == ""), "%s: %q", tt.what, text); want != "" {
				wantText(t, text, want)
			}
			if tt.what == "a step more" { // the place, too
				wantText(t, text, "env_test.go:",
					`the history has:   step "charge" (completed) at position 1, begun 2026-06-01 09:00:00.000 UTC`)
			}
		}
	}
}

// TestPatchedRunGoesOn deploys the new version under a run of the old one.
func TestPatchedRunGoesOn(t *testing.T) {
	env := workflowtest.New(t, booking(bookingV1)).Start(none{})
	env.Settle()
	rec := env.Export()
	env.Deploy(booking("reserve check charge").Program())
	if s := env.Wait(); s.State != wfhost.StatePaused || s.Pause.Reason != wfhost.PausedDiverged ||
		!strings.Contains(s.Pause.Text, `step "check"`) {
		t.Fatalf("%+v", s)
	}
	patched := booking("reserve ?check charge ~ mail archive")
	env.Deploy(patched.Program())
	env.Advance(10 * time.Minute) // it tries again by itself
	end(t, env, "{}")
	errorIf(t, env.Calls("check") != 0 || env.Calls("archive") != 1, "%d checks, %d archived", env.Calls("check"), env.Calls("archive"))
	// A recording goes on in the same way, elsewhere.
	other := workflowtest.New(t, patched)
	must(t, other.Restore(rec))
	end(t, other, "{}")
	errorIf(t, other.Calls("*") != 2, "%d calls", other.Calls("*"))
}

func TestReplayOfAnotherOutput(t *testing.T) {
	define := func(factor int) *workflow.Function[int, int] {
		return workflow.NewFunction("w", func(ctx workflow.Context, in int) (int, error) {
			v, err := step(ctx, "s", in)
			return v * factor, err
		})
	}
	env := workflowtest.New(t, define(2)).Start(21)
	env.Wait()
	workflowtest.Replay(t, define(2), env.Export())
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, define(3), env.Export()) }),
		"the run returned 42, and the function now returns 63")
	other := workflow.NewFunction("other", func(ctx workflow.Context, in int) (int, error) { return in, nil })
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, other, env.Export()) }), `no workflow "w"`)
}

func TestFilesOfRecordings(t *testing.T) {
	dir := t.TempDir()
	env := workflowtest.New(t, booking(bookingV1)).Start(none{})
	env.Settle()
	file := filepath.Join(dir, "v1", "sleeping.rec")
	t.Setenv(workflowtest.RecordVariable, "")
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Record(t, file, env.Export()) }), "CAIRN_RECORD=1")
	t.Setenv(workflowtest.RecordVariable, "1")
	workflowtest.Record(t, file, env.Export())
	first, err := os.ReadFile(file)
	must(t, err)
	env.Wait()
	workflowtest.Record(t, file, env.Export())
	second, err := os.ReadFile(file)
	errorIf(t, err != nil || string(second) != string(first), "a released recording was replaced: %v", err)
	workflowtest.ReplayDir(t, booking(bookingV1), filepath.Join(dir, "*", "*.rec"))
	text := failing(t, func(t testing.TB) { workflowtest.ReplayDir(t, booking(""), filepath.Join(dir, "*", "*.rec")) })
	wantText(t, text, file, `step "reserve"`)
	wantText(t, failing(t,
		func(t testing.TB) { workflowtest.ReplayDir(t, booking(bookingV1), filepath.Join(dir, "*.none")) }), "no recording")
	must(t, os.WriteFile(file, first[:len(first)-9], 0o666))
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Load(t, file) }), file)
}

func TestDiff(t *testing.T) {
	a := workflowtest.New(t, booking(bookingV1)).Start(none{})
	a.Wait()
	b := workflowtest.New(t, booking("reserve check charge"),
		workflowtest.WithClock(time.Date(2030, 1, 1, 0, 0, 0, 0, time.UTC))).Start(none{})
	b.Stub("charge", func(*workflow.StepCtx) (any, error) { return "other", nil })
	b.Wait()
	want := strings.Join([]string{
		`+ step "check" at position 1: completed: "check"`,
		`- step "charge" at position 1: completed: "charge"`,
		`+ step "charge" at position 2: completed: "other"`,
		`- sleep "cool down" at position 2: completed`,
		`- step "mail" at position 3: completed: "mail"`,
		`- step "archive" at position 4: completed: "archive"`, "",
	}, "\n")
	diff := workflowtest.Diff(a.Export(), b.Export())
	errorIf(t, diff != want, "%s\nwant:\n%s", diff, want)
	diff = workflowtest.Diff(a.Export(), a.Export())
	errorIf(t, diff != "", "a recording differs from itself:\n%s", diff)
}

// TestHistoryOfForm1Replays is about testdata/form1.rec, a run in the first documented encoding of
// histories, which is only read. The run also continues from there.
func TestHistoryOfForm1Replays(t *testing.T) {
	type state struct {
		N int `cbor:"n"`
	}
	define := func(charge string) *workflow.Function[string, string] {
		return workflow.NewFunction("form1", func(ctx workflow.Context, in string) (string, error) {
			amount, err := step(ctx, charge, 0)
			if err != nil {
				return "", err
			}
			note := workflow.Do(ctx, "note", func(*workflow.StepCtx) error { return nil })
			if err := errors.Join(note, workflow.Sleep(ctx, "nap", time.Hour)); err != nil {
				return "", err
			}
			m, err := workflow.Receive(ctx, "w", workflow.Inbox[state]{Name: "q"}, workflow.Within(time.Hour))
			if err != nil {
				return "", err
			}
			var x, y int
			branch := func(ctx workflow.Context) (int, error) { return step(ctx, "job", 0) }
			joined := workflow.Join(ctx, "both", workflow.B("x", &x, branch), workflow.B("y", &y, branch))
			won, v, err := workflow.Race(ctx, "first", workflow.C("fast", branch), workflow.C("slow", branch))
			if err = errors.Join(joined, err); err != nil {
				return "", err
			}
			gate := workflow.Version(ctx, "gate", 3)
			sum, err := workflow.Loop(ctx, "ticks", state{}, func(it *workflow.Iter[state, int]) error {
				if it.State.N == 4 {
					return it.Break(it.State.N)
				}
				n, err := step(it, "tick", 1)
				it.State.N += n - min(n, 4)
				if n < 5 {
					it.State.N++
				}
				return err
			})
			return fmt.Sprint(in, amount, m.Body.N, x, y, won, v, gate, sum), err
		})
	}
	rec := workflowtest.Load(t, "testdata/form1.rec")
	workflowtest.Replay(t, define("charge"), rec)
	wantText(t, failing(t, func(t testing.TB) { workflowtest.Replay(t, define("bill"), rec) }), `step "charge"`)
	env := workflowtest.New(t, define("charge"))
	must(t, env.Restore(rec))
	end(t, env, "tea42 1 1 2fast1 1 4")
	errorIf(t, env.Calls("*") != 1, "%d calls", env.Calls("*"))
}
