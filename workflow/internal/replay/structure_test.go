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

// Containers that return nothing are as finished as others.
func TestVoidResults(t *testing.T) {
	everywhere(t, func(w *world) string {
		ran := map[string]int{}
		h := w.with(0, program(func(ctx Context) (struct{}, error) {
			none := struct{}{}
			_, err1 := Scope(ctx, "scope", func(ctx Context) (struct{}, error) { return none, pass(ctx, "a") })
			_, err2 := Loop(ctx, "loop", none, func(it *Iter[struct{}, struct{}]) error {
				if err := pass(it, "a"); err != nil || it.Iteration() < 2 {
					return err
				}
				return it.Break(none)
			})
			err3 := Join(ctx, "join", B[any]("b", nil, func(ctx Context) (any, error) { return nil, pass(ctx, "a") }))
			_, _, err4 := Race(ctx, "race", C("c", func(ctx Context) (any, error) { return nil, pass(ctx, "a") }))
			_, err5 := ForEach(ctx, "map", []int{1}, func(ctx Context, _, _ int) (any, error) { return nil, pass(ctx, "a") })
			err6 := sagaOf(ctx, "saga", func(ctx Context) error { return pass(ctx, "a") })
			_, err7 := ForEach(ctx, "empty map", []int{}, func(ctx Context, _, _ int) (any, error) { return nil, nil })
			err8 := Join(ctx, "empty join")
			if err := pass(ctx, "last"); err != nil {
				return none, err
			}
			ran["end"]++
			return none, errors.Join(err1, err2, err3, err4, err5, err6, err7, err8)
		}))
		w.run()
		h.want("completed map[]")
		return ""
	})
}

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
		if most < c.rows-1 || most > c.rows {
			t.Errorf("Keep(%d), TrimEvery(%d): %d iterations at most", c.keep, c.every, most)
		}
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
	if w.crashes != 8 {
		t.Errorf("%d crashes", w.crashes)
	}
	if got := h.entries(); !slices.Equal(got, []string{"loop", "loop~65599", "loop~65600"}) {
		t.Errorf("entries %q", got)
	}
}

// Errors of iterations end the loop, and what Break returned counts only if the body returns it.
func TestLoopErrors(t *testing.T) {
	everywhere(t, func(w *world) string {
		var texts []string
		h := w.with(0, program(func(ctx Context) (string, error) {
			_, err := Loop(ctx, "fails", 0, func(it *Iter[int, int]) error {
				if it.Iteration() == 2 {
					return fail(it, "bad")
				}
				return nil
			})
			var step *StepError
			a := fmt.Sprint(err != nil, errors.As(err, &step))
			_, err = Loop(ctx, "forgets", 0, func(it *Iter[int, int]) error {
				if it.Iteration() == 3 {
					return errBad
				}
				return nil
			})
			_, err2 := Loop(ctx, "negative", 0, func(it *Iter[int, int]) error { return it.Break(1) }, Keep(-1))
			texts = []string{a, err.Error(), err2.Error()}
			return strings.Join(texts, "; "), pass(ctx, "end")
		}))
		w.run()
		h.want("completed true false; bad; workflow: Keep(-1): negative")
		return ""
	})
}

// A version gate is decided for each iteration.
func TestVersionsInIterations(t *testing.T) {
	w := newWorld(t)
	code := func(latest int) *Program {
		return program(func(ctx Context) (string, error) {
			return Loop(ctx, "loop", "", func(it *Iter[string, string]) error {
				if latest > 1 {
					it.State += fmt.Sprint(Version(it, "gate", latest))
				} else {
					it.State += "-"
				}
				if err := Sleep(it, "sleep", time.Hour); err != nil || it.Iteration() < 3 {
					return err
				}
				return it.Break(it.State)
			})
		})
	}
	h := w.with(0, code(1))
	w.until(func() bool { return strings.Contains(h.history(), "loop~1/sleep: sleep pending") })
	w.crash()
	w.programs["test"] = code(2)
	w.run()
	h.want("completed -122")
}

// A join waits for all and tells of each failure; a fast one cancels the others at the first.
func TestJoinErrors(t *testing.T) {
	for _, fast := range []bool{false, true} {
		everywhere(t, func(w *world) string {
			h := w.with(0, program(func(ctx Context) (string, error) {
				join := Join
				if fast {
					join = JoinFast
				}
				out := "unset"
				err := join(ctx, "join",
					B("slow", &out, func(ctx Context) (string, error) { return "slow", Sleep(ctx, "sleep", time.Hour) }),
					B[int]("bad", nil, func(ctx Context) (int, error) { return 0, fail(ctx, "bad") }),
					B[int]("worse", nil, func(ctx Context) (int, error) {
						if err := Sleep(ctx, "sleep", time.Minute); err != nil {
							return 0, err
						}
						return 0, errors.New("worse")
					}))
				var je *JoinError
				if !errors.As(err, &je) {
					return "", fmt.Errorf("join returned %v", err)
				}
				text := out + "; first " + je.First().Branch + ";"
				for _, b := range je.Failed {
					text += fmt.Sprintf(" %s %v", b.Branch, errors.Is(b, ErrCanceled))
				}
				return fmt.Sprintf("%s; %v", text, errors.Is(err, ErrCanceled)), pass(ctx, "end")
			}))
			start := w.now
			w.run()
			if fast {
				h.want("completed unset; first bad; slow true bad false worse true; false")
			} else {
				h.want("completed slow; first bad; bad false worse false; false")
			}
			if took := w.now.Sub(start); (took >= time.Hour) == fast {
				t.Errorf("fast %v: took %v", fast, took)
			}
			return ""
		})
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

// If nobody wins a race, its error has the error of each case.
func TestRaceAllFail(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
			_, _, err := Race(ctx, "race",
				C("a", func(ctx Context) (int, error) { return 0, fail(ctx, "bad") }),
				C("b", func(ctx Context) (int, error) {
					if err := Sleep(ctx, "sleep", time.Second); err != nil {
						return 0, err
					}
					return 0, errors.New("worse")
				}))
			var re *RaceError
			if !errors.As(err, &re) || len(re.Failed) != 2 {
				return "", fmt.Errorf("race returned %v", err)
			}
			_, _, err2 := Race[int](ctx, "none")
			return re.Error() + "; " + err2.Error(), pass(ctx, "end")
		}))
		w.run()
		h.want(`completed workflow: nobody won race: branch a: step "bad" failed: bad (and 1 more); workflow: a race needs cases`)
		return ""
	})
}

// The losers of a race leave nothing: no rows, no results of bodies that still run, and what they did is undone, their own
// sagas' steps included.
func TestRaceLosersLeaveNothing(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
			winner, _, err := Race(ctx, "race",
				C("stuck", func(ctx Context) (int, error) {
					if err := mark(ctx, "one"); err != nil {
						return 0, err
					}
					return 0, sagaOf(ctx, "saga", func(ctx Context) error {
						if err := mark(ctx, "two"); err != nil {
							return err
						}
						return Do(ctx, "blocks", func(sc *StepCtx) error {
							_ = block(sc)
							note(sc, "late", "committed")
							return nil
						})
					})
				}),
				C("failed", func(ctx Context) (int, error) {
					if err := mark(ctx, "three"); err != nil {
						return 0, err
					}
					return 0, fail(ctx, "bad")
				}),
				C("cleans", func(ctx Context) (int, error) {
					err := Sleep(ctx, "long", 100*time.Hour)
					if errors.Is(err, ErrCanceled) {
						err = Do(Detach(ctx), "clean", func(sc *StepCtx) error { note(sc, "clean", "done"); return nil })
					}
					return 0, err
				}),
				C("wins", func(ctx Context) (int, error) {
					if err := Sleep(ctx, "sleep", time.Hour); err != nil {
						return 0, err
					}
					return 0, mark(ctx, "four")
				}))
			if err != nil {
				return "", err
			}
			return winner, pass(ctx, "end")
		}))
		w.run()
		h.want("completed wins")
		if got := h.state["order"]; got != " two three one" && got != " two one three" {
			t.Errorf("undone:%s", got)
		}
		if h.state["late"] != "" || h.state["clean"] != "done" || h.state["four"] != "done" {
			t.Errorf("state %v", h.state)
		}
		for _, e := range h.entries() {
			if strings.HasPrefix(e, "race/") && !strings.HasPrefix(e, "race/wins") {
				t.Errorf("left over: %s", e)
			}
		}
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
	if w.crashes < 2 {
		t.Errorf("%d crashes", w.crashes)
	}
	h.want(fmt.Sprint("completed ", MaxBranches*(MaxBranches-1)/2))
	im, err := loadImage(h.begin())
	if err != nil {
		t.Fatal(err)
	}
	if n := im.names.Len(); n > 5 {
		t.Errorf("%d names", n)
	}
}

// Elements of a map that fail do not disturb the others, whose results are there.
func TestMapErrors(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
			out, err := ForEach(ctx, "map", []string{"a", "b", "c"}, func(ctx Context, i int, s string) (string, error) {
				if i == 1 {
					return "", fail(ctx, "bad")
				}
				return s + s, pass(ctx, "good")
			}, Concurrency(2))
			var je *JoinError
			if !errors.As(err, &je) {
				return "", fmt.Errorf("map returned %v", err)
			}
			return fmt.Sprintf("%q %s", out, je.First().Branch), pass(ctx, "end")
		}))
		w.run()
		h.want(`completed ["aa" "" "cc"] 1`)
		return ""
	})
}

// Undo handlers by name outlive the iterations that owe them, which are trimmed.
func TestUndoByNameAfterTrimming(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
				if it.Iteration() == 4 {
					return fail(it, "bad")
				}
				name := fmt.Sprint("n", it.Iteration())
				return Do(it, "step", func(sc *StepCtx) error { note(sc, name, "done"); return nil }, UndoBy("undo", name))
			}, TrimEvery(1))
		}, WithUndo("undo", func(sc *StepCtx, name string) error { note(sc, name, "undone"); return nil })))
		w.run()
		if got := h.state["order"]; got != " n3 n2 n1 n0" {
			t.Errorf("undone:%s", got)
		}
		if got := h.entries(); !slices.Equal(got, []string{"loop"}) {
			t.Errorf("entries %q", got)
		}
		return ""
	})
}

// An undo handler that keeps failing pauses the run, which is not lost: when it is resumed, it is tried again.
func TestUndoThatFailsPauses(t *testing.T) {
	for _, permanent := range []bool{false, true} {
		w := newWorld(t)
		broken, tries := true, 0
		h := w.with(0, program(func(ctx Context) (int, error) {
			return 0, sagaOf(ctx, "saga", func(ctx Context) error {
				if err := mark(ctx, "first"); err != nil {
					return err
				}
				_, err := Compensated(ctx, "second", func(sc *StepCtx) (int, error) { return 1, nil }, func(sc *StepCtx, v int) error {
					if tries++; broken && permanent {
						return Permanent(errBad)
					} else if broken {
						return errBad
					}
					note(sc, "second", "undone")
					return nil
				})
				if err != nil {
					return err
				}
				return fail(ctx, "third")
			}, UndoRetry(RetryPolicy{MaxAttempts: 3}))
		}))
		w.run()
		got := h.outcome()
		if !strings.HasPrefix(got, "rolling_back paused exhausted") || !strings.Contains(got, "second") {
			t.Errorf("outcome %q", got)
		}
		want := 3
		if permanent {
			want = 1
		}
		if tries != want {
			t.Errorf("%d attempts", tries)
		}
		if h.state["first"] != "done" {
			t.Errorf("first is %q: undone before what came after it", h.state["first"])
		}
		// Its own failure is visible.
		im, err := loadImage(h.begin())
		if err != nil {
			t.Fatal(err)
		}
		seen := false
		for i := range im.records {
			if e, err := im.records[i].decode(); err == nil && e.ID != 0 && im.names.Path(im.records[i].loc) == "saga/second" {
				m := im.metadata(e.ID)
				seen = m != nil && m.UndoFailure != nil && m.UndoFailure.Message == "bad" && m.Undone.IsZero()
			}
		}
		if !seen {
			t.Error("the failure of the undo handler is not recorded")
		}
		w.crash()
		w.run()
		if !h.paused || tries != want {
			t.Errorf("after a crash: paused %v, %d attempts", h.paused, tries)
		}
		h.control(Resume)
		w.run()
		if got := h.outcome(); !strings.Contains(got, "paused exhausted") {
			t.Errorf("resumed in vain: %q", got)
		}
		if tries != 2*want {
			t.Errorf("%d attempts after it was resumed", tries)
		}
		broken = false
		h.control(Resume)
		w.run()
		if got := h.outcome(); !strings.HasPrefix(got, "failed") {
			t.Errorf("outcome %q", got)
		}
		if got := h.state["order"]; got != " second first" {
			t.Errorf("undone:%s", got)
		}
	}
}

// A saga that has succeeded is settled; within another one its steps are the outer one's to undo.
func TestNestedSagas(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			if err := mark(ctx, "run"); err != nil {
				return 0, err
			}
			if err := sagaOf(ctx, "settled", func(ctx Context) error { return mark(ctx, "kept") }); err != nil {
				return 0, err
			}
			err := sagaOf(ctx, "outer", func(ctx Context) error {
				if err := mark(ctx, "a"); err != nil {
					return err
				}
				if err := sagaOf(ctx, "good", func(ctx Context) error { return mark(ctx, "b") }); err != nil {
					return err
				}
				if err := sagaOf(ctx, "caught", func(ctx Context) error {
					if err := mark(ctx, "c"); err != nil {
						return err
					}
					return fail(ctx, "bad")
				}); err == nil {
					return errors.New("it did not fail")
				}
				if err := mark(ctx, "d"); err != nil {
					return err
				}
				return fail(ctx, "bad")
			}, UndoParallel(1))
			if err := pass(ctx, "after"); err != nil {
				return 0, err
			}
			return 0, err
		}))
		w.run()
		if got := h.state["order"]; got != " c d b a run" {
			t.Errorf("undone:%s", got)
		}
		if h.state["kept"] != "done" {
			t.Errorf("kept is %q", h.state["kept"])
		}
		return ""
	})
}

// A canceled run undoes what it did, and is canceled even if its function returns nil. Canceling it once more, or while it
// undoes, changes nothing.
func TestCancelWhileUndoing(t *testing.T) {
	for _, while := range []bool{false, true} {
		everywhere(t, func(w *world) string {
			undoing := false
			h := w.with(0, program(func(ctx Context) (int, error) {
				err := sagaOf(ctx, "saga", func(ctx Context) error {
					if err := mark(ctx, "a"); err != nil {
						return err
					}
					if err := mark(ctx, "b"); err != nil {
						return err
					}
					if while {
						_, err := Compensated(ctx, "c", func(*StepCtx) (int, error) { return 0, nil }, func(sc *StepCtx, _ int) error {
							undoing = true
							if sc.Attempt() < 3 {
								return errBad
							}
							return nil
						})
						if err != nil {
							return err
						}
						return fail(ctx, "bad")
					}
					return Sleep(ctx, "long", 100*time.Hour)
				})
				_ = err
				return 1, nil
			}))
			asked := false
			w.until(func() bool {
				if !asked && (while && undoing || !while && strings.Contains(h.history(), "long")) {
					asked = true
					h.control(func(t Turn) error { return Cancel(t, "enough") })
				}
				return h.ended
			})
			if got := h.outcome(); !strings.HasPrefix(got, "cancelled") {
				t.Errorf("outcome %q", got)
			}
			if got := h.state["order"]; got != " b a" {
				t.Errorf("undone:%s", got)
			}
			return ""
		})
	}
}

// A canceled loop ends even if its body does not mind.
func TestCanceledLoopEnds(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
				_ = Sleep(it, "sleep", time.Hour)
				return nil
			})
		}))
		asked := false
		w.until(func() bool {
			if !asked && strings.Contains(h.history(), "loop~1/sleep") {
				asked = true
				h.control(func(t Turn) error { return Cancel(t, "enough") })
			}
			return h.ended
		})
		if got := h.outcome(); !strings.HasPrefix(got, "cancelled") {
			t.Errorf("outcome %q", got)
		}
		return ""
	})
}

// Wrong uses pause the run with a text that says what is wrong.
func TestStructureMisuse(t *testing.T) {
	for name, c := range map[string]struct {
		fn   func(ctx Context) (int, error)
		want string
	}{
		"outer context in a loop": {func(ctx Context) (int, error) {
			return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error { return pass(ctx, "step") })
		}, `inside of "loop"`},
		"outer context in a branch": {func(ctx Context) (int, error) {
			return 0, Join(ctx, "join", B[int]("b", nil, func(Context) (int, error) { return 0, pass(ctx, "step") }))
		}, "Context of its own"},
		"branches of one name": {func(ctx Context) (int, error) {
			b := B[int]("b", nil, func(Context) (int, error) { return 0, nil })
			return 0, Join(ctx, "join", b, b)
		}, `two branches with the name "b"`},
		"unknown undo handler": {func(ctx Context) (int, error) {
			return 0, Do(ctx, "step", func(*StepCtx) error { return nil }, UndoBy("nobody", 1))
		}, `no handler "nobody"`},
	} {
		w := newWorld(t)
		h := w.with(0, program(c.fn))
		w.until(func() bool { return h.paused })
		if got := h.outcome(); !strings.Contains(got, "paused misuse") || !strings.Contains(got, c.want) {
			t.Errorf("%s: %s", name, got)
		}
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
	if !slices.Contains(got, "scope11") || slices.Contains(got, "scope11/join") {
		t.Errorf("entries %q", got)
	}
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
		if !w.step() {
			t.Fatal("the race waits")
		}
	}
	if !h.ended {
		t.Error("the race waits for the body of a loser")
	}
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
			if w.crashes == 0 && most != max(n, 1) {
				t.Errorf("UndoParallel(%d): %d at the same time", n, most)
			}
			return ""
		})
	}
}

// Crashes during a long rollback are no crash loop as long as handlers get done; and a run that was paused for its crashes goes
// on when it is resumed.
func TestCrashesWhileUndoing(t *testing.T) {
	w := newWorld(t)
	const steps = 14
	deadly := true
	h := w.with(0, program(func(ctx Context) (int, error) {
		for i := range steps {
			if err := mark(ctx, fmt.Sprint("m", i)); err != nil {
				return 0, err
			}
		}
		return 0, fail(ctx, "bad")
	}))
	before := -1
	w.until(func() bool {
		undone := strings.Count(h.state["order"], "m")
		if undone > before && undone > 0 && undone < steps-1 && len(h.pending) > 0 {
			before = undone
			w.crash()
		}
		if undone == steps-1 && deadly && len(h.pending) > 0 {
			w.crash() // the last handler kills the process
		}
		return h.paused
	})
	if got := h.outcome(); !strings.Contains(got, "paused crashing") || !strings.Contains(got, "m0") {
		t.Errorf("outcome %q", got)
	}
	if got := strings.Count(h.state["order"], "m"); got != steps-1 {
		t.Errorf("%d undone", got)
	}
	deadly = false
	h.control(Resume)
	w.run()
	if got := h.outcome(); !strings.HasPrefix(got, "failed") || strings.Count(h.state["order"], "m") != steps {
		t.Errorf("outcome %q, undone %s", got, h.state["order"])
	}
}
