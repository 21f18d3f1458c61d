package replay_test

import (
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
)

// toTheEnd runs p with an input to its end.
func toTheEnd(b *testing.B, p *wfhost.Program, in any) {
	b.Helper()
	h := memhost.New(p)
	if err := h.Start(p, in); err != nil {
		b.Fatal(err)
	}
	if err := h.Drive(nil); err != nil {
		b.Fatal(err)
	}
	if !h.Last.Ended {
		b.Fatalf("%+v", h.Last)
	}
	h.Close()
}

// BenchmarkLoopIterations is one iteration with one step, with trimming. Short and long loops should take the same time.
func BenchmarkLoopIterations(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		return workflow.Loop(ctx, "loop", 0, func(it *workflow.Iter[int, int]) error {
			if it.Iteration() == n {
				return it.Break(it.State)
			}
			v, err := workflow.Step(it, "step", func(*workflow.StepCtx) (int, error) { return 1, nil })
			it.State += v
			return err
		})
	})
	for _, n := range []int{100, 1_000, 10_000, 100_000} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			for i := 0; i < b.N; i += n {
				toTheEnd(b, d.Program(), min(n, b.N-i))
			}
		})
	}
}

// BenchmarkJoin64 is a join of 64 branches of one step each.
func BenchmarkJoin64(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		out := make([]int, n)
		branches := make([]workflow.Branch, n)
		for i := range out {
			branches[i] = workflow.B(names[i], &out[i], func(ctx workflow.Context) (int, error) {
				return workflow.Step(ctx, "step", func(*workflow.StepCtx) (int, error) { return i, nil })
			})
		}
		return n, workflow.Join(ctx, "join", branches...)
	})
	b.ReportAllocs()
	for b.Loop() {
		toTheEnd(b, d.Program(), 64)
	}
}

// BenchmarkMap10000 is a map of 10,000 elements of one step each.
func BenchmarkMap10000(b *testing.B) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, n int) (int, error) {
		out, err := workflow.ForEach(ctx, "map", make([]int, n), func(ctx workflow.Context, i, _ int) (int, error) {
			return workflow.Step(ctx, "step", func(*workflow.StepCtx) (int, error) { return i, nil })
		}, workflow.Concurrency(256))
		return len(out), err
	})
	b.ReportAllocs()
	for b.Loop() {
		toTheEnd(b, d.Program(), 10_000)
	}
}
