package replay_test

import (
	"errors"
	"fmt"
	"testing"
	"time"

	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A map of as many elements as there may be; one more is refused.
func TestLargeMap(t *testing.T) {
	items := make([]int, MaxBranches)
	h := start(t, newActor(t), 0, program(func(ctx Context) (int, error) {
		out, err := ForEach(ctx, "map", items, func(ctx Context, i, _ int) (int, error) {
			return Step(ctx, "step", func(*StepCtx) (int, error) { return i, nil })
		}, Concurrency(100))
		sum := 0
		for i, v := range out {
			if v != i {
				return 0, fmt.Errorf("element %d is %d", i, v)
			}
			sum += v
		}
		if err != nil {
			return 0, err
		}
		if _, err := ForEach(ctx, "too many", append(items, 0), func(Context, int, int) (int, error) { return 0, nil }); err == nil {
			return 0, errors.New("a map of more elements was accepted")
		}
		return sum, Sleep(ctx, "sleep", time.Hour)
	}))
	crashed := 0
	until(t, h, func() bool {
		if n := h.Commits / 4000; n > crashed {
			crashed = n
			h.Crash()
		}
		return false
	})
	errorIf(t, h.Crashes < 2, "%d crashes", h.Crashes)
	want(t, h, fmt.Sprint("completed ", MaxBranches*(MaxBranches-1)/2))
	errorIf(t, status(t, h).Names > 5, "%d names", status(t, h).Names)
}

// program makes a program without input.
func program[Out any](fn func(ctx Context) (Out, error), options ...Option) *Program {
	return NewFunction("test", func(ctx Context, _ int) (Out, error) { return fn(ctx) }, options...).Program()
}

// mark is a step that leaves a mark in the state, with an undo that replaces it.
func mark(ctx Context, name string) error {
	_, err := Compensated(ctx, name, func(sc *StepCtx) (string, error) {
		note(sc, name, "done")
		return name, nil
	}, func(sc *StepCtx, was string) error {
		note(sc, was, "undone")
		return nil
	})
	return err
}

// note sets a key of the actor's state in the transaction of a step. "undone" also appends to the order of undoing.
func note(sc *StepCtx, key, value string) {
	sc.OnCommit(func(tx *Tx) error {
		put(tx, key, value)
		if value == "undone" {
			(*tx.Host().(*state))["order"] += " " + key
		}
		return nil
	})
}

func pass(ctx Context, name string) error {
	return Do(ctx, name, func(*StepCtx) error { return nil })
}

var errBad = errors.New("bad")

func fail(ctx Context, name string) error {
	return Do(ctx, name, func(*StepCtx) error { return Permanent(errBad) })
}
