package replay_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// charge is a helper, whose line alone says little.
func charge(ctx workflow.Context, name string) error {
	return workflow.Do(ctx, name, func(*workflow.StepCtx) error { return nil })
}

// A report of an operation that a helper asks for names the lines that call the helper, too.
func TestReportThroughAHelperNamesTheCaller(t *testing.T) {
	program := func(name string) *wfhost.Program {
		return workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			if err := charge(ctx, name); err != nil {
				return "", err
			}
			return "", workflow.Sleep(ctx, "nap", time.Hour)
		}).Program()
	}
	h := started(t, program("a"), none{})
	if err := h.Drive(func() bool { return len(status(t, h).Waiting) == 1 }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Use(program("b"))
	pause(t, h)
	wantPause(t, h, wfhost.PausedDiverged, `step "b"`, "report_test.go:14, called at", "report_test.go:21)")
	if text := status(t, h).Pause.Text; strings.Count(text, "called at") != 1 {
		t.Error(text)
	}
}

// An input that the function no longer takes is reported as that, although the function has asked for nothing.
func TestChangedInputIsNotReportedAsALeftover(t *testing.T) {
	h := started(t, workflow.NewFunction("w", func(ctx workflow.Context, _ string) (string, error) {
		return "", workflow.Sleep(ctx, "nap", time.Hour)
	}).Program(), "text")
	if err := h.Drive(func() bool { return len(status(t, h).Waiting) == 1 }); err != nil {
		t.Fatal(err)
	}
	h.Close()
	h.Use(workflow.NewFunction("w", func(ctx workflow.Context, _ int) (string, error) {
		return "", workflow.Sleep(ctx, "nap", time.Hour)
	}).Program())
	pause(t, h)
	wantPause(t, h, wfhost.PausedDiverged, "the recorded input of the run is not what the function takes", "still decode it")
	if text := status(t, h).Pause.Text; strings.Contains(text, "end of the scope") || strings.Contains(text, "Removed") {
		t.Error(text)
	}
}

// Verify lists the undos that a run owes and new code no longer has.
func TestVerifyListsUndosThatTheCodeNoLongerHas(t *testing.T) {
	program := func(o ...workflow.Option) *wfhost.Program {
		return workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			if err := workflow.Do(ctx, "pay", func(*workflow.StepCtx) error { return nil }, workflow.UndoBy("refund", 7)); err != nil {
				return "", err
			}
			return "", workflow.Sleep(ctx, "nap", time.Hour)
		}, o...).Program()
	}
	whole := program(workflow.WithUndo("refund", func(*workflow.StepCtx, int) error { return nil }))
	h := started(t, whole, none{})
	if err := h.Drive(func() bool { return len(status(t, h).Waiting) == 1 }); err != nil {
		t.Fatal(err)
	}
	for p, want := range map[*wfhost.Program]string{whole: "", program(): `undo handler "refund"`} {
		rep, err := wfhost.Verify(h.Reader(), func(string) *wfhost.Program { return p })
		if err != nil || rep.Problem != nil || strings.Join(rep.MissingUndos, ", ") != want {
			t.Errorf("%+v, %v, want %q", rep, err, want)
		}
	}
}
