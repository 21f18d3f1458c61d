package replay

import (
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// everywhere runs a scenario once, and then with a crash before and after each commit. It must come to the same result
// each time. The result is what the scenario returns and, in all actors, how the run ended, what it recorded, and the state.
func everywhere(t *testing.T, scenario func(w *world) string) {
	t.Helper()
	run := func(at int, after bool) (*world, string) {
		w := newWorld(t)
		w.crashAt, w.after = at, after
		var b strings.Builder
		b.WriteString(scenario(w))
		for _, h := range w.order {
			fmt.Fprintf(&b, "\n%s: %s\n%s", h.self.Key[0], h.outcome(), h.history())
			keys := make([]string, 0, len(h.state))
			for k, v := range h.state {
				keys = append(keys, k+"="+v)
			}
			slices.Sort(keys)
			fmt.Fprintf(&b, "state %v replies %v", keys, h.replies)
			for _, q := range []string{"in", "out"} {
				for _, m := range h.queues[q] {
					fmt.Fprintf(&b, " %s/%d", q, m.ID)
				}
			}
		}
		for _, h := range w.order {
			h.close()
		}
		return w, attempts.ReplaceAllString(b.String(), "")
	}
	w, want := run(0, false)
	if t.Failed() {
		t.Log(want)
		return
	}
	for at := 1; at <= w.commits; at++ {
		for _, after := range []bool{false, true} {
			c, got := run(at, after)
			if c.crashes != 1 {
				t.Errorf("crash at commit %d (after: %v): %d crashes", at, after, c.crashes)
			}
			if got != want {
				t.Fatalf("crash at commit %d (after: %v):\n%s\n\nwithout a crash:\n%s", at, after, got, want)
			}
			if t.Failed() {
				t.Fatalf("crash at commit %d (after: %v)", at, after)
			}
		}
	}
}

// attempts is what texts say about executions, which crashes add to.
var attempts = regexp.MustCompile(` after \d+ attempts`)

// with registers programs and starts the first.
func (w *world) with(in any, programs ...*Program) *rig {
	w.t.Helper()
	for _, p := range programs {
		if p.err != nil {
			w.t.Fatal(p.err)
		}
		w.programs[p.name] = p
	}
	return w.start(programs[0], in)
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
		t := tx.Host().(*rigTurn)
		t.changed = true
		t.h.state[key] = value
		if value == "undone" {
			t.h.state["order"] += " " + key
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

// D2: what waits or is retried in a branch of a join is under way, and no failure.
func TestD02WaitsInBranches(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
			var a, b, c string
			err := Join(ctx, "join",
				B("sleeps", &a, func(ctx Context) (string, error) { return "a", Sleep(ctx, "sleep", time.Hour) }),
				B("retries", &b, func(ctx Context) (string, error) {
					return Step(ctx, "step", func(sc *StepCtx) (string, error) {
						if sc.Attempt() < 3 {
							return "", errBad
						}
						return "b", nil
					}, Retry(RetryPolicy{MaxAttempts: 5}))
				}),
				B("receives", &c, func(ctx Context) (string, error) {
					m, err := Receive(ctx, "receive", Inbox[string]{Name: "in"})
					return m.Body, err
				}))
			return a + b + c, err
		}))
		w.script = append(w.script, func() { h.send("in", "c") })
		w.run()
		h.want("completed abc")
		return ""
	})
}

// D3: loops, joins and races within an iteration go on where they were after a crash, at any depth.
func TestD03NestedContainersInIterations(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			return Loop(ctx, "outer", 0, func(it *Iter[int, int]) error {
				if it.Iteration() == 2 {
					return it.Break(it.State)
				}
				inner, err := Loop(it, "inner", 0, func(in *Iter[int, int]) error {
					if err := Sleep(in, "sleep", time.Second); err != nil {
						return err
					}
					if in.State++; in.State == 3 {
						return in.Break(in.State)
					}
					return nil
				}, TrimEvery(1))
				if err != nil {
					return err
				}
				var x, y int
				err = Join(it, "join",
					B("x", &x, func(ctx Context) (int, error) { return 10, Sleep(ctx, "sleep", time.Second) }),
					B("y", &y, func(ctx Context) (int, error) { return 20, pass(ctx, "step") }))
				if err != nil {
					return err
				}
				_, z, err := Race(it, "race",
					C("slow", func(ctx Context) (int, error) { return 0, Sleep(ctx, "sleep", time.Hour) }),
					C("fast", func(ctx Context) (int, error) { return 100, Sleep(ctx, "sleep", time.Minute) }))
				it.State += inner + x + y + z
				return err
			})
		}))
		w.run()
		h.want("completed 266")
		return ""
	})
}

// D4: undo handlers run wherever the steps are: in loops, joins, races, maps, scopes and sagas, finished or not.
func TestD04UndoFromAnyContainer(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			if _, err := Loop(ctx, "finished loop", 0, func(it *Iter[int, int]) error {
				if err := mark(it, fmt.Sprint("l", it.Iteration())); err != nil || it.Iteration() == 2 {
					return errors.Join(err, it.Break(0))
				}
				return nil
			}, TrimEvery(1)); err != nil {
				return 0, err
			}
			if err := Join(ctx, "finished join",
				B[int]("a", nil, func(ctx Context) (int, error) { return 0, mark(ctx, "ja") }),
				B[int]("b", nil, func(ctx Context) (int, error) {
					return Scope(ctx, "scope", func(ctx Context) (int, error) { return 0, mark(ctx, "jb") })
				})); err != nil {
				return 0, err
			}
			if _, _, err := Race(ctx, "finished race", C("winner", func(ctx Context) (int, error) { return 0, mark(ctx, "r") })); err != nil {
				return 0, err
			}
			if _, err := ForEach(ctx, "finished map", []int{0, 1}, func(ctx Context, i, _ int) (int, error) {
				return 0, mark(ctx, fmt.Sprint("m", i))
			}); err != nil {
				return 0, err
			}
			return Loop(ctx, "unfinished loop", 0, func(it *Iter[int, int]) error {
				if err := mark(it, fmt.Sprint("u", it.Iteration())); err != nil {
					return err
				}
				if it.Iteration() == 2 {
					return sagaOf(it, "saga", func(ctx Context) error {
						if err := mark(ctx, "s"); err != nil {
							return err
						}
						return fail(ctx, "bad")
					})
				}
				return nil
			}, TrimEvery(1))
		}))
		w.run()
		if got := h.outcome(); !strings.HasPrefix(got, "failed") {
			t.Errorf("outcome %q", got)
		}
		if got := h.state["order"]; got != " s u2 u1 u0 m1 m0 r jb ja l2 l1 l0" {
			t.Errorf("undone:%s", got)
		}
		return ""
	})
}

// D13: a step that was undone is not done: it is on record as undone, and an operation of control cannot go on after it.
func TestD13UndoneIsNotDone(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			if err := mark(ctx, "charge"); err != nil {
				return 0, err
			}
			return 0, fail(ctx, "ship")
		}))
		w.run()
		if h.state["charge"] != "undone" {
			t.Errorf("charge is %q", h.state["charge"])
		}
		im, err := loadImage(h.begin())
		if err != nil {
			t.Fatal(err)
		}
		for i := range im.records {
			e, err := im.records[i].decode()
			if err != nil {
				t.Fatal(err)
			}
			if im.names.Path(im.records[i].loc) != "charge" {
				continue
			}
			if m := im.metadata(e.ID); m == nil || m.Undone.IsZero() {
				t.Errorf("charge is not recorded as undone: %+v", m)
			}
			for entry, err := range History(h.begin(), Filter{}) {
				if err != nil {
					t.Fatal(err)
				}
				for verb, f := range map[string]func(Turn, EntryID) error{"retry": RetryEntry, "rewind": Rewind} {
					turn := h.begin()
					var refused *ControlError
					if err := f(turn, entry.ID); !errors.As(err, &refused) && (entry.Path != "charge" || verb == "retry") {
						t.Errorf("%s of %s: %v", verb, entry.Path, err)
					}
					turn.undo()
				}
			}
			return ""
		}
		t.Error("charge is not recorded")
		return ""
	})
}

// D14: messages that the loser of a race received go back to the head of their queue, in order.
func TestD14LosersMessages(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (string, error) {
			in := Inbox[string]{Name: "in"}
			winner, _, err := Race(ctx, "race",
				C("takes", func(ctx Context) (int, error) {
					if _, err := ReceiveBatch(ctx, "two", in, 2); err != nil {
						return 0, err
					}
					m, err := Receive(ctx, "third", in)
					if err != nil {
						return 0, err
					}
					if _, err := Update(ctx, "answer", func(tx *Tx) (int, error) { return 0, Reply(tx, m, "dealt with") }); err != nil {
						return 0, err
					}
					return 0, Sleep(ctx, "never", 1000*time.Hour)
				}),
				C("wins", func(ctx Context) (int, error) { return 0, Sleep(ctx, "soon", time.Hour) }))
			if err != nil {
				return "", err
			}
			got, err := ReceiveBatch(ctx, "again", in, 10)
			for _, m := range got {
				winner += m.Body
			}
			return winner, err
		}))
		for _, body := range []string{"a", "b", "c", "d"} {
			h.send("in", body)
		}
		w.run()
		h.want("completed winsabd")
		return ""
	})
}

// D15: other branches than those in the history are a divergence, in whatever state the join is.
func TestD15ChangedBranches(t *testing.T) {
	make := func(names ...string) *Program {
		return program(func(ctx Context) (int, error) {
			var branches []Branch
			for _, n := range names {
				branches = append(branches, B[int](n, nil, func(ctx Context) (int, error) { return 0, Sleep(ctx, "sleep", time.Minute) }))
			}
			if err := Join(ctx, "join", branches...); err != nil {
				return 0, err
			}
			return 1, Sleep(ctx, "later", time.Hour)
		})
	}
	for _, names := range [][]string{{"a"}, {"a", "b", "c"}, {"b", "a"}, {"a", "x"}} {
		for _, done := range []bool{false, true} {
			w := newWorld(t)
			h := w.with(0, make("a", "b"))
			w.until(func() bool {
				if done {
					return slices.Contains(h.entries(), "later")
				}
				return slices.Contains(h.entries(), "join/b/sleep")
			})
			before := h.history()
			w.crash()
			w.programs["test"] = make(names...)
			w.until(func() bool { return h.paused })
			got := h.outcome()
			if !strings.Contains(got, "paused diverged") || !strings.Contains(got, `"a", "b"`) {
				t.Errorf("%q (join done: %v): %s", names, done, got)
			}
			if h.history() != before {
				t.Errorf("%q (join done: %v): the history has changed\n%s", names, done, h.history())
			}
			// The build that fits goes on by itself.
			w.crash()
			h.paused = false
			w.programs["test"] = make("a", "b")
			w.run()
			h.want("completed 1")
		}
	}
}
