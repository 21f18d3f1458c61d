package replay_test

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// A loop keeps the iterations that it is told to, deletes the others in time, and all of them when it has ended.
func TestLoopTrims(t *testing.T) {
	for _, c := range []struct{ keep, every, rows int }{{0, 1, 1}, {0, 5, 5}, {3, 1, 4}, {0, 0, 20}} {
		most := 0 // iterations with rows beside the one that asks
		var h *memory.Actor
		h = start(t, newActor(t), 0, program(func(ctx Context) (int, error) {
			return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
				if err := Do(it, "step", func(*StepCtx) error {
					n := 0
					for _, path := range entries(t, h) {
						if strings.Contains(path, "step") {
							n++
						}
					}
					most = max(most, n)
					return nil
				}); err != nil || it.Iteration() < 60 {
					return err
				}
				return it.Break(1)
			}, Keep(c.keep), TrimEvery(c.every))
		}))
		drive(t, h)
		want(t, h, "completed 1")
		errorIf(t, most < c.rows-1 || most > c.rows, "Keep(%d), TrimEvery(%d): %d iterations at most", c.keep, c.every, most)
		if got := len(entries(t, h)); got != 1+2*c.keep { // each with its row, which has its state
			t.Errorf("Keep(%d), TrimEvery(%d): %d entries at the end: %q", c.keep, c.every, got, entries(t, h))
		}
	}
}

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

// Branches run one at a time, so they may share variables; and again in the same order.
func TestBranchesShareVariables(t *testing.T) {
	everywhere(t, func(h *memory.Actor) string {
		start(t, h, 0, program(func(ctx Context) (string, error) {
			var log []string
			branch := func(name string, d ...time.Duration) Branch {
				return B[int](name, nil, func(ctx Context) (int, error) {
					for i, d := range d {
						if err := Sleep(ctx, fmt.Sprint("s", i), d); err != nil {
							return 0, err
						}
						log = append(log, fmt.Sprint(name, i))
					}
					_, err := Step(ctx, fmt.Sprint("after ", strings.Join(log, " ")), func(*StepCtx) (int, error) { return 0, nil })
					return 0, err
				})
			}
			out := ""
			err := Join(ctx, "join", branch("a", 1*time.Second, 5*time.Second), branch("b", 2*time.Second, 2*time.Second, 2*time.Second),
				B("c", &out, func(ctx Context) (string, error) {
					return strings.Join(log, " "), Sleep(ctx, "sleep", time.Minute)
				}))
			return strings.Join(log, " "), err
		}))
		drive(t, h)
		// After the join has ended it is not entered, so only the history tells.
		return ""
	})
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

// A race that is decided while it is being canceled does not wait for bodies that mind nothing.
func TestDecidedRaceGivesUpBodies(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		release := make(chan struct{})
		h := start(t, newActor(t), 0, program(func(ctx Context) (string, error) {
			winner, _, err := Race(ctx, "race",
				C("stuck", func(ctx Context) (int, error) {
					return 0, Do(ctx, "stuck", func(*StepCtx) error { <-release; return nil })
				}),
				C("wins", func(ctx Context) (int, error) {
					_ = Sleep(ctx, "sleep", time.Hour)
					return 1, nil
				}))
			return winner, err
		}))
		until(t, h, func() bool { return h.Running() == 1 && h.Idle() })
		cancel(t, h)
		began := time.Now()
		until(t, h, func() bool { return h.Last.Ended || time.Since(began) > time.Minute })
		errorIf(t, !h.Last.Ended || h.Running() != 1, "the race waits for the body of a loser")
		close(release)
	})
}

// Undo handlers run one at a time, or as many as UndoParallel says.
func TestUndoParallel(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		everywhere(t, func(h *memory.Actor) string {
			most := 0
			start(t, h, 0, program(func(ctx Context) (int, error) {
				return 0, sagaOf(ctx, "saga", func(ctx Context) error {
					for i := range 5 {
						_, err := Compensated(ctx, fmt.Sprint("step", i), func(*StepCtx) (int, error) { return i, nil }, func(sc *StepCtx, v int) error {
							most = max(most, h.Launched())
							note(sc, fmt.Sprint("v", v), "undone")
							return nil
						})
						if err != nil {
							return err
						}
					}
					return fail(ctx, "bad")
				}, UndoParallel(n))
			}))
			drive(t, h)
			if got := stateOf(h)["order"]; got != " v4 v3 v2 v1 v0" {
				t.Errorf("UndoParallel(%d): undone:%s", n, got)
			}
			errorIf(t, h.Crashes == 0 && most != max(n, 1), "UndoParallel(%d): %d at the same time", n, most)
			return ""
		})
	}
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

// sagaOf is a saga without a result.
func sagaOf(ctx Context, name string, fn func(ctx Context) error, options ...SagaOption) error {
	_, err := Saga(ctx, name, func(ctx Context) (any, error) { return nil, fn(ctx) }, options...)
	return err
}

var errBad = errors.New("bad")

func fail(ctx Context, name string) error {
	return Do(ctx, name, func(*StepCtx) error { return Permanent(errBad) })
}
