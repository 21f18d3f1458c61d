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
	until(t, h, func() bool { return len(status(t, h).Waiting) == 1 })
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
	until(t, h, func() bool { return len(status(t, h).Waiting) == 1 })
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
