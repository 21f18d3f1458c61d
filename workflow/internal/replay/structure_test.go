package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// Iterations are counted beyond what one, two and three bytes of a key hold, and a crash there loses none.
func TestManyIterations(t *testing.T) {
	h := start(t, newActor(t), 0, program(func(ctx Context) (int, error) {
		return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
			it.State += it.Iteration()
			switch it.Iteration() {
			case 254, 255, 256, 257, 65534, 65535, 65536, 65537:
				if err := Sleep(it, "sleep", time.Second); err != nil {
					return err
				}
				if err := pass(it, "step"); err != nil {
					return err
				}
			case 65600:
				return it.Break(it.State)
			}
			return nil
		}, Keep(2))
	}))
	waiting := ""
	until(t, h, func() bool {
		if !h.Last.Wake.IsZero() && h.Idle() && waiting != h.Last.Wake.String() {
			waiting = h.Last.Wake.String()
			h.Crash()
		}
		return false
	})
	want(t, h, fmt.Sprint("completed ", 65600*65601/2))
	errorIf(t, h.Crashes != 8, "%d crashes", h.Crashes)
	if got := entries(t, h); !slices.Equal(got, []string{"loop", "loop~65599", "loop~65600"}) {
		t.Errorf("entries %q", got)
	}
}

// entries returns the paths of what is recorded.
func entries(t testing.TB, h *memory.Actor) (list []string) {
	for _, e := range listed(t, h) {
		list = append(list, e.Path)
	}
	return list
}

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

// When the history is large, containers that end drop what is inside of them, and the run goes on after a crash.
func TestLargeHistoriesCollapse(t *testing.T) {
	payload := bytes.Repeat([]byte("x"), 10_000)
	h := start(t, newActor(t), 0, program(func(ctx Context) (int, error) {
		sum := 0
		for i := range 12 {
			n, err := Scope(ctx, fmt.Sprint("scope", i), func(ctx Context) (int, error) {
				var a int
				err := Join(ctx, "join", B("a", &a, func(ctx Context) (int, error) {
					for j := range 10 {
						if _, err := Step(ctx, fmt.Sprint("step", j), func(*StepCtx) ([]byte, error) { return append(payload, byte(i), byte(j)), nil }); err != nil {
							return 0, err
						}
					}
					return 1, nil
				}))
				return a, err
			})
			if err != nil {
				return 0, err
			}
			sum += n
			if err := Sleep(ctx, fmt.Sprint("sleep", i), time.Second); err != nil {
				return 0, err
			}
		}
		return sum, nil
	}))
	crashed := 0
	until(t, h, func() bool {
		if n := h.Commits / 20; n > crashed {
			crashed = n
			h.Crash()
		}
		return false
	})
	want(t, h, "completed 12")
	got := entries(t, h)
	if n := len(got); n > 60 {
		t.Errorf("%d entries: %q", n, got)
	}
	errorIf(t, !slices.Contains(got, "scope11") || slices.Contains(got, "scope11/join"), "entries %q", got)
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
