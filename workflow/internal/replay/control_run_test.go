package replay_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

// A run that another engine wrote goes on.
func TestARunOfForm1GoesOn(t *testing.T) {
	executed := 0
	once := func(v int) func(*workflow.StepCtx) (int, error) {
		return func(*workflow.StepCtx) (int, error) { executed++; return v, nil }
	}
	p := workflow.NewFunction("old", func(ctx workflow.Context, _ any) (string, error) {
		charge, err := workflow.Step(ctx, "charge", once(-1))
		if err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "void", func(*workflow.StepCtx) error { executed++; return nil }); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "w", workflow.Inbox[map[string]int]{Name: "q"}, workflow.Within(time.Hour))
		if err != nil {
			return "", err
		}
		var x, y int
		err = workflow.Join(ctx, "both",
			workflow.B("x", &x, func(workflow.Context) (int, error) { return 1, nil }),
			workflow.B("y", &y, func(workflow.Context) (int, error) { return 2, nil }))
		if err != nil {
			return "", err
		}
		sum, err := workflow.Loop(ctx, "serve", 0, func(it *workflow.Iter[int, int]) error {
			v, err := workflow.Step(it, "tick", once(10))
			if it.State += v; it.Iteration() == 3 {
				return it.Break(it.State)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		flaky, err := workflow.Step(ctx, "flaky", once(7))
		return fmt.Sprint(charge, m.Body["n"], x, y, sum, flaky), err
	}).Program()
	rows := replay.Form1Rows(t)
	h := newActor(t, p)
	t.Cleanup(h.Close)
	h.Load(rows)
	recorded, err := wfhost.Export(h.Rows)
	must(t, err)
	recorded.Manifest.Workflow = "old"
	h = newActor(t, p)
	t.Cleanup(h.Close)
	must(t, h.Transact(func(turn *memory.Turn) error {
		_, err := wfhost.Import(turn, recorded, wfhost.StartOptions{})
		return err
	}))
	pause(t, h)
	wantOutput(t, h, "42 1 1 2 15 7")
	if executed != 2 { // the fourth tick, and flaky
		t.Errorf("%d steps were executed", executed)
	}
}
