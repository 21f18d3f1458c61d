package replay_test

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// A kept is a workflow with loops that keep their history. Its steps say in which life of the run they were executed, so that two
// runs have the same output only if they took the same results from the history.
type kept struct {
	program  *wfhost.Program
	messages int  // that its loops receive
	linear   bool // nothing runs at once, so all that is on record but times follows from what was done

	undo bool                  // it has steps with undo functions, so it cannot be rewound when it has failed
	life func(path string) int // in which life something is done now
	done map[string]bool       // the paths of steps and receives that were done in it
}

func newKept(name string, messages int, linear bool, fn func(k *kept, ctx workflow.Context) (string, error)) *kept {
	k := &kept{messages: messages, linear: linear}
	k.program = workflow.NewFunction(name, func(ctx workflow.Context, _ none) (string, error) {
		out, err := fn(k, ctx)
		if err != nil {
			return "", err
		}
		end, err := workflow.Receive(ctx, "end", workflow.Inbox[string]{Name: "end"})
		if err == nil && end.Body == "fail" && k.life("end") == 1 {
			err = errors.New("it fails")
		}
		return out, err
	}, workflow.WithUndo("nothing", func(*workflow.StepCtx, none) error { return nil })).Program()
	return k
}

// reset begins a life.
func (k *kept) reset(life func(path string) int) { k.life, k.done = life, map[string]bool{} }

func (k *kept) result(path string) string {
	k.done[path] = true
	return fmt.Sprintf("%s.%d ", path, k.life(path))
}

// step is the step at a path.
func (k *kept) step(ctx workflow.Context, path string, options ...workflow.StepOption) (string, error) {
	return workflow.Step(ctx, path[strings.LastIndex(path, "/")+1:], func(*workflow.StepCtx) (string, error) { return k.result(path), nil }, options...)
}

// get is the receive at a path.
func (k *kept) get(ctx workflow.Context, path string) (string, error) {
	m, err := workflow.Receive(ctx, path[strings.LastIndex(path, "/")+1:], workflow.Inbox[string]{Name: "inbox"})
	if err == nil {
		k.done[path] = true
	}
	return m.Body + " ", err
}

// A padded is a state that is large enough to stand in rows of its own.
type padded struct{ Text, Pad string }

var keptPrograms = []*kept{
	newKept("plain", 6, true, func(k *kept, ctx workflow.Context) (string, error) {
		first, err := k.step(ctx, "first")
		if err != nil {
			return "", err
		}
		looped, err := workflow.Loop(ctx, "serve", first, func(it *workflow.Iter[string, string]) error {
			at := fmt.Sprintf("serve~%d", it.Iteration())
			a, err := k.step(it, at+"/a")
			if err != nil {
				return err
			}
			m, err := k.get(it, at+"/get")
			if err != nil {
				return err
			}
			if err := workflow.Sleep(it, "nap", time.Second); err != nil {
				return err
			}
			var undo []workflow.StepOption
			if k.undo {
				undo = append(undo, workflow.UndoBy("nothing", none{}))
			}
			b, err := k.step(it, at+"/b", undo...)
			if it.State += a + m + b; it.Iteration() == 5 {
				return errors.Join(err, it.Break(it.State))
			}
			return err
		}, workflow.Keep(3), workflow.TrimEvery(1))
		if err != nil {
			return "", err
		}
		last, err := k.step(ctx, "last")
		return looped + last, err
	}),
	newKept("nested", 4, true, func(k *kept, ctx workflow.Context) (string, error) {
		return workflow.Scope(ctx, "scope", func(ctx workflow.Context) (string, error) {
			return workflow.Loop(ctx, "outer", padded{}, func(it *workflow.Iter[padded, string]) error {
				at := fmt.Sprintf("scope/outer~%d", it.Iteration())
				m, err := k.get(it, at+"/get")
				if err != nil {
					return err
				}
				inner, err := workflow.Loop(it, "inner", m, func(in *workflow.Iter[string, string]) error {
					s, err := k.step(in, fmt.Sprintf("%s/inner~%d/s", at, in.Iteration()))
					if in.State += s; in.Iteration() == 3 {
						return errors.Join(err, in.Break(in.State))
					}
					return err
				}, workflow.Keep(2), workflow.TrimEvery(1))
				if err != nil {
					return err
				}
				if !k.undo {
					it.State.Text += inner
					if it.Iteration() == 3 {
						return it.Break(it.State.Text)
					}
					return nil
				}
				// The undo function is one of the code, so the iteration is entered again after a crash.
				c, err := workflow.Compensated(it, "c", func(*workflow.StepCtx) (string, error) { return k.result(at + "/c"), nil },
					func(*workflow.StepCtx, string) error { return nil })
				it.State.Text += inner + c
				if it.State.Pad = strings.Repeat(it.State.Text, 400); it.Iteration() == 3 {
					return errors.Join(err, it.Break(it.State.Text))
				}
				return err
			}, workflow.Keep(2))
		})
	}),
	newKept("beside", 4, false, func(k *kept, ctx workflow.Context) (string, error) {
		branch := func(name string, pause time.Duration, gets bool) func(ctx workflow.Context) (string, error) {
			return func(ctx workflow.Context) (string, error) {
				return workflow.Loop(ctx, "loop", "", func(it *workflow.Iter[string, string]) error {
					at := fmt.Sprintf("both/%s/loop~%d", name, it.Iteration())
					if err := workflow.Sleep(it, "before", pause); err != nil {
						return err
					}
					a, err := k.step(it, at+"/a")
					if err == nil && gets {
						_, err = k.get(it, at+"/get")
					}
					if err != nil {
						return err
					}
					if err := workflow.Sleep(it, "between", pause); err != nil {
						return err
					}
					b, err := k.step(it, at+"/b")
					if it.State += a + b; it.Iteration() == 3 {
						return errors.Join(err, it.Break(it.State))
					}
					return err
				}, workflow.Keep(9))
			}
		}
		var x, y string
		err := workflow.Join(ctx, "both", workflow.B("x", &x, branch("x", 7*time.Second, true)), workflow.B("y", &y, branch("y", 11*time.Second, false)))
		return x + y, err
	}),
}

// listed returns the history of a run.
func listed(t testing.TB, h *memory.Actor) (list []wfhost.HistoryEntry) {
	t.Helper()
	for e, err := range wfhost.History(h.Rows, wfhost.Filter{}) {
		must(t, err)
		list = append(list, e)
	}
	return list
}

// stays returns what is done and stays done if a run with a history is rewound to one of its entries, or forked up to it: what had
// ended before the entry had, and what was deleted of loops that stay.
func (k *kept) stays(history []wfhost.HistoryEntry, e *wfhost.HistoryEntry, fork bool) map[string]bool {
	at := map[string]*wfhost.HistoryEntry{}
	for i := range history {
		at[history[i].Path] = &history[i]
	}
	cut := e.Seq // of what ended from here on, nothing stays
	if loop, n, ok := cutIteration(e.Path); ok {
		if next := at[fmt.Sprintf("%s~%d", loop, n+1)]; next != nil {
			cut = next.Seq // the row of an iteration has the number of its beginning
		} else {
			cut = at[loop].Seq
		}
	} else if !e.Status.Over() {
		cut = 1 << 40
	} else if fork {
		cut++
	}
	stay := map[string]bool{}
	for path := range k.done {
		under := strings.HasPrefix(path+"/", e.Path+"/") || strings.HasPrefix(path, e.Path+"~")
		switch r := at[path]; {
		case under:
			stay[path] = fork
		case r != nil:
			stay[path] = r.Status.Over() && r.Seq < cut
		default:
			// It is deleted, and stays if the target lies in the part of the loop that is left, or after it.
			loop, n, _ := cutIteration(path[:strings.LastIndex(path, "/")])
			for at[loop] == nil {
				loop, n, _ = cutIteration(loop[:strings.LastIndex(loop, "/")])
			}
			for at[fmt.Sprintf("%s~%d", loop, n)] == nil {
				n++
			}
			stay[path] = at[fmt.Sprintf("%s~%d", loop, n)].Seq < cut
		}
	}
	return stay
}

// cutIteration takes the path of an iteration itself apart.
func cutIteration(path string) (loop string, n int, ok bool) {
	i := strings.LastIndex(path, "~")
	if i < 0 || strings.Contains(path[i:], "/") {
		return "", 0, false
	}
	fmt.Sscan(path[i+1:], &n)
	return path[:i], n, true
}

// TestRewindAndForkIntoKeptIterations rewinds runs to all of their entries, and forks them up to all of them, whether they are in
// a loop or have ended. What follows must be what a run does that has done the same up to there, crashes or not.
func TestRewindAndForkIntoKeptIterations(t *testing.T) {
	for _, k := range keptPrograms {
		for _, ending := range []struct {
			name, end string
			missing   int // messages of its loops
		}{{"in a loop", "", 1}, {"after the loops", "", 0}, {"failed", "fail", 0}, {"completed", "go", 0}} {
			t.Run(k.program.Name()+" "+ending.name, func(t *testing.T) {
				h := started(t, k.program, none{})
				k.reset(func(string) int { return 1 })
				k.undo = ending.end != "fail"
				live(t, k, h, k.messages-ending.missing, 0, ending.end)
				history, rows, done := listed(t, h), h.Rows.All(), maps.Clone(k.done)
				recording, err := wfhost.Export(h.Rows)
				must(t, err)
				tried := 0
				for i := range history {
					e := &history[i]
					for _, fork := range []bool{false, true} {
						if fork && !e.Status.Over() {
							continue
						}
						what := fmt.Sprintf("%s, fork %v", e.Path, fork)
						k.done = done
						stay := k.stays(history, e, fork)
						if !fork && lost(history, stay) {
							continue
						}
						again := newActor(t, k.program)
						again.CrashAt, again.CrashAfter = tried%9, tried%2 == 0
						tried++
						err := again.Transact(func(turn *memory.Turn) error {
							_, err := wfhost.Import(turn, recording, wfhost.StartOptions{UpTo: e.ID})
							return err
						})
						if !fork {
							again.Load(rows)
							err = again.Transact(func(turn *memory.Turn) error { return wfhost.Rewind(turn, e.ID) })
						}
						if err != nil {
							t.Errorf("%s: %v", what, err)
							continue
						}
						got, end := 0, "go"
						for path := range stay {
							if stay[path] && strings.HasSuffix(path, "/get") {
								got++
							}
						}
						for _, e := range listed(t, again) {
							if e.Path == "end" && e.Status.Over() {
								end = ""
							}
						}
						k.reset(func(string) int { return 2 })
						if fork {
							live(t, k, again, k.messages, got, end)
						} else { // the messages that it had received after that are in its queues
							if ending.end != "" {
								end = ""
							}
							live(t, k, again, k.messages, k.messages-ending.missing, end)
						}
						anew := k.done
						like := started(t, k.program, none{})
						k.reset(func(path string) int {
							if stay[path] {
								return 1
							}
							return 2
						})
						live(t, k, like, k.messages, 0, "go")
						if got, want := outcome(t, again), outcome(t, like); got != want || !strings.HasPrefix(want, "completed") {
							t.Errorf("%s:\n%s\nwant\n%s", what, got, want)
						}
						for path := range k.done {
							if !strings.HasSuffix(path, "/get") && anew[path] == stay[path] {
								t.Errorf("%s: %s was done again: %v", what, path, anew[path])
							}
						}
						if k.linear && !(fork && k.undo) { // a fork owes no undo for what it has copied, and keeps nothing for that
							sameRecords(t, what, again, like)
						}
						again.Close()
						like.Close()
					}
				}
				errorIf(t, tried < 15, "only %d", tried)
			})
		}
	}
}

// lost reports whether messages were received where the history is deleted, and would have to be received again: they are not
// returned.
func lost(history []wfhost.HistoryEntry, stay map[string]bool) bool {
	for path := range stay {
		known := slices.ContainsFunc(history, func(e wfhost.HistoryEntry) bool { return e.Path == path })
		if strings.HasSuffix(path, "/get") && !stay[path] && !known {
			return true
		}
	}
	return false
}

// live drives a run, with the messages from one up to another, and the message that ends it.
func live(t *testing.T, k *kept, h *memory.Actor, messages, from int, end string) {
	t.Helper()
	for i := from; i < messages; i++ {
		send(t, h, "inbox", fmt.Sprint("m", i))
	}
	if end != "" {
		send(t, h, "end", end)
	}
	drive(t, h)
}

// sameRecords checks that two runs have the same rows, and histories that differ only in times.
func sameRecords(t *testing.T, what string, a, b *memory.Actor) {
	t.Helper()
	left, right := a.Rows.All(), b.Rows.All()
	for _, rows := range []map[string]string{left, right} {
		maps.DeleteFunc(rows, func(key, _ string) bool { // a crash leaves metadata of the attempt that it cut off
			return strings.HasPrefix(keyspace.Format([]byte(key)), "workflow/entry ")
		})
	}
	for key := range left {
		if _, ok := right[key]; !ok {
			t.Errorf("%s: row %s", what, keyspace.Format([]byte(key)))
		}
	}
	for key := range right {
		if _, ok := left[key]; !ok {
			t.Errorf("%s: no row %s", what, keyspace.Format([]byte(key)))
		}
	}
	show := func(h *memory.Actor) (list []string) {
		for _, e := range listed(t, h) {
			list = append(list, fmt.Sprintf("%s %s %s %d #%d ~%d %x %x %d", e.Path, e.Kind, e.Status, e.Ordinal, e.Seq, e.Iteration, e.Output, e.State, e.Large))
		}
		return list
	}
	if x, y := show(a), show(b); !slices.Equal(x, y) {
		t.Errorf("%s: history\n%s\nwant\n%s", what, strings.Join(x, "\n"), strings.Join(y, "\n"))
	}
}

// TestOnlyKeepWritesRowsOfIterations: a loop without it writes nothing for an iteration that has ended but the next state.
func TestOnlyKeepWritesRowsOfIterations(t *testing.T) {
	for keep, want := range map[int]int{0: 0, 2: 5} {
		p := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
			return workflow.Loop(ctx, "serve", 0, func(it *workflow.Iter[int, none]) error {
				if it.Iteration() == 5 {
					return workflow.Sleep(it, "nap", time.Minute)
				}
				return nil
			}, workflow.Keep(keep))
		}).Program()
		h := started(t, p, none{})
		until(t, h, func() bool { return !h.Last.Wake.IsZero() })
		rows := 0
		for _, e := range listed(t, h) {
			if _, n, ok := cutIteration(e.Path); ok {
				rows++
				if e.Kind != workflow.KindScope || e.Status != wfhost.Completed || int(e.Iteration) != n || e.Bytes > 32 {
					t.Errorf("%+v", e)
				}
			}
		}
		errorIf(t, rows != want, "Keep(%d): %d rows of iterations, want %d", keep, rows, want)
	}
}
