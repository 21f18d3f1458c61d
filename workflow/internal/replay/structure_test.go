package replay

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"
)

// A loop keeps the iterations that it is told to, deletes the others in time, and all of them when it has ended.
func TestLoopTrims(t *testing.T) {
	for _, c := range []struct{ keep, every, rows int }{{0, 1, 1}, {0, 5, 5}, {3, 1, 4}, {0, 0, 20}} {
		w := newWorld(t)
		most := 0 // iterations with rows beside the one that asks
		var h *rig
		h = w.with(0, program(func(ctx Context) (int, error) {
			return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
				if err := Do(it, "step", func(*StepCtx) error {
					n := 0
					for _, path := range h.entries() {
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
		w.run()
		h.want("completed 1")
		errorIf(t, most < c.rows-1 || most > c.rows, "Keep(%d), TrimEvery(%d): %d iterations at most", c.keep, c.every, most)
		if got := len(h.entries()); got != 1+2*c.keep { // each with its row, which has its state
			t.Errorf("Keep(%d), TrimEvery(%d): %d entries at the end: %q", c.keep, c.every, got, h.entries())
		}
	}
}

// Iterations are counted beyond what one, two and three bytes of a key hold, and a crash there loses none.
func TestManyIterations(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (int, error) {
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
	w.until(func() bool {
		if h.out.Wake.IsZero() || h.stale || waiting == h.out.Wake.String() {
			return false
		}
		waiting = h.out.Wake.String()
		w.crash()
		h.out = Outcome{}
		return false
	})
	h.want(fmt.Sprint("completed ", 65600*65601/2))
	errorIf(t, w.crashes != 8, "%d crashes", w.crashes)
	if got := h.entries(); !slices.Equal(got, []string{"loop", "loop~65599", "loop~65600"}) {
		t.Errorf("entries %q", got)
	}
}

// Branches run one at a time, so they may share variables; and again in the same order.
func TestBranchesShareVariables(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
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
		w.until(func() bool { return h.ended })
		// After the join has ended it is not entered, so only the history tells.
		return ""
	})
}

// A map of as many elements as there may be; one more is refused.
func TestLargeMap(t *testing.T) {
	items := make([]int, MaxBranches)
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (int, error) {
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
	w.until(func() bool {
		if n := w.commits / 4000; n > crashed {
			crashed = n
			w.crash()
		}
		return false
	})
	errorIf(t, w.crashes < 2, "%d crashes", w.crashes)
	h.want(fmt.Sprint("completed ", MaxBranches*(MaxBranches-1)/2))
	im, err := loadImage(h.begin())
	must(t, err)
	if n := im.names.Len(); n > 5 {
		t.Errorf("%d names", n)
	}
}

// When the history is large, containers that end drop what is inside of them, and the run goes on after a crash.
func TestLargeHistoriesCollapse(t *testing.T) {
	w := newWorld(t)
	payload := bytes.Repeat([]byte("x"), 10_000)
	h := w.with(0, program(func(ctx Context) (int, error) {
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
	w.until(func() bool {
		if n := w.commits / 20; n > crashed {
			crashed = n
			w.crash()
		}
		return false
	})
	h.want("completed 12")
	got := h.entries()
	if n := len(got); n > 60 {
		t.Errorf("%d entries: %q", n, got)
	}
	errorIf(t, !slices.Contains(got, "scope11") || slices.Contains(got, "scope11/join"), "entries %q", got)
}

// Code that cannot read what is recorded, or not write what it has, pauses the run: it undoes nothing, and code that can goes on.
func TestWrongTypesPause(t *testing.T) {
	wrong := func(ctx Context) (int, error) {
		if err := mark(ctx, "a"); err != nil {
			return 0, err
		}
		_, err := Scope(ctx, "scope", func(ctx Context) ([]string, error) { return nil, pass(ctx, "b") })
		return 0, err
	}
	unwritable := func(ctx Context) (int, error) {
		if err := mark(ctx, "a"); err != nil {
			return 0, err
		}
		_, err := Scope(ctx, "scope", func(ctx Context) (any, error) { return func() {}, pass(ctx, "b") })
		return 0, err
	}
	right := func(ctx Context) (int, error) {
		if err := mark(ctx, "a"); err != nil {
			return 0, err
		}
		v, err := Scope(ctx, "scope", func(ctx Context) (int, error) { return 5, pass(ctx, "b") })
		if err != nil {
			return 0, err
		}
		return v, Sleep(ctx, "sleep", time.Hour)
	}
	for name, fn := range map[string]func(Context) (int, error){"diverged": wrong, "misuse": unwritable} {
		w := newWorld(t)
		first := right
		if name == "misuse" {
			first = unwritable
		}
		h := w.with(0, program(first))
		w.until(func() bool { return h.paused || strings.Contains(h.history(), "sleep: sleep pending") })
		w.crash()
		h.paused = false
		w.programs["test"] = program(fn)
		w.until(func() bool { return h.paused })
		if got := h.outcome(); !strings.Contains(got, "paused "+name) {
			t.Errorf("%s: %s", name, got)
		}
		if h.state["a"] != "done" {
			t.Errorf("%s: a is %q", name, h.state["a"])
		}
		w.programs["test"] = program(right)
		w.crash()
		h.paused = false
		w.run()
		h.want("completed 5")
	}
}

// A race that is decided while it is being canceled does not wait for bodies that mind nothing.
func TestDecidedRaceGivesUpBodies(t *testing.T) {
	w := newWorld(t)
	release := make(chan struct{})
	h := w.with(0, program(func(ctx Context) (string, error) {
		winner, _, err := Race(ctx, "race",
			C("stuck", func(ctx Context) (int, error) {
				return 0, Do(ctx, "stuck", func(sc *StepCtx) error {
					at := sc.Value(attemptKey{}).(*attempting)
					at.once.Do(func() { close(at.blocked) })
					<-release
					return nil
				})
			}),
			C("wins", func(ctx Context) (int, error) {
				_ = Sleep(ctx, "sleep", time.Hour)
				return 1, nil
			}))
		return winner, err
	}))
	asked := false
	for !h.ended {
		if !asked && len(h.pending) == 1 && h.pending[0].start == nil && !h.stale {
			asked = true
			h.control(func(t Turn) error { return Cancel(t, "enough") })
		}
		if h.stale {
			h.stale = false
			h.advance()
			continue
		}
		if asked {
			break
		}
		fatalIf(t, !w.step(), "the race waits")
	}
	errorIf(t, !h.ended, "the race waits for the body of a loser")
	close(release)
}

// Undo handlers run one at a time, or as many as UndoParallel says.
func TestUndoParallel(t *testing.T) {
	for _, n := range []int{0, 1, 3} {
		everywhere(t, func(w *world) string {
			most := 0
			var h *rig
			h = w.with(0, program(func(ctx Context) (int, error) {
				return 0, sagaOf(ctx, "saga", func(ctx Context) error {
					for i := range 5 {
						_, err := Compensated(ctx, fmt.Sprint("step", i), func(*StepCtx) (int, error) { return i, nil }, func(sc *StepCtx, v int) error {
							most = max(most, len(h.pending))
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
			w.run()
			if got := h.state["order"]; got != " v4 v3 v2 v1 v0" {
				t.Errorf("UndoParallel(%d): undone:%s", n, got)
			}
			errorIf(t, w.crashes == 0 && most != max(n, 1), "UndoParallel(%d): %d at the same time", n, most)
			return ""
		})
	}
}
