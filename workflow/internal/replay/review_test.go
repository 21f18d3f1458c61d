package replay

import (
	"fmt"
	"testing"
	"time"
)

// A branch that never waits does not keep the others, nor a request to cancel, from their turn.
func TestBusyBranchIsFair(t *testing.T) {
	busy := func(ctx Context) (string, error) {
		return Loop(ctx, "busy", 0, func(it *Iter[int, string]) error {
			_, err := Update(it, "update", func(*Tx) (int, error) { return 0, nil })
			if err == nil && it.Iteration() > 20_000 {
				return it.Break("busy to the end")
			}
			return err
		})
	}
	for name, other := range map[string]func(ctx Context) (string, error){
		"sleep":   func(ctx Context) (string, error) { return "other", Sleep(ctx, "sleep", 0) },
		"step":    func(ctx Context) (string, error) { return "other", pass(ctx, "step") },
		"receive": func(ctx Context) (string, error) { _, err := Receive(ctx, "m", Inbox[int]{"in"}); return "other", err },
		"await": func(ctx Context) (string, error) {
			return Await(ctx, "a", func(t *rigTurn) (string, bool) { return "other", t.h.state["go"] != "" })
		},
		"cancel": nil,
	} {
		t.Run(name, func(t *testing.T) {
			w := newWorld(t)
			h := w.with(0, program(func(ctx Context) (string, error) {
				if other == nil {
					return busy(ctx)
				}
				_, v, err := Race(ctx, "race", C("busy", busy), C("other", other))
				return v, err
			}))
			w.until(func() bool { return h.advances > 3 })
			h.send("in", 1)
			h.state["go"] = "yes"
			if other == nil {
				h.control(func(t Turn) error { return Cancel(t, "enough") })
			}
			// The world gives attempts a turn only when no actor has anything to do: a host is fairer.
			w.until(func() bool {
				for i, at := range h.pending {
					if at.start != nil {
						at.start()
						<-at.done
						h.pending = append(h.pending[:i], h.pending[i+1:]...)
						break
					}
				}
				return false
			})
			want := "completed other"
			if other == nil {
				want = "cancelled: workflow: canceled: enough"
			}
			h.want(want)
		})
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// A body that returns a nil pointer in an error has failed, and does not take the process along.
func TestErrorOfNilPointer(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (string, error) {
		err := Do(ctx, "step", func(*StepCtx) error { var e *nilError; return Permanent(e) })
		err2 := Do(ctx, "other", func(*StepCtx) error { var e *nilError; return e }, Retry(RetryPolicy{MaxAttempts: 2}))
		_, err3 := Update(ctx, "update", func(*Tx) (int, error) { var e *nilError; return 0, e })
		return fmt.Sprint(err != nil, err2 != nil, err3 != nil), nil
	}))
	w.run()
	h.want("completed true true true")
}

// Results of children that nobody waits for leave nothing behind.
func TestInboxIsEmptied(t *testing.T) {
	w := newWorld(t)
	d := childDefinition()
	h := w.with(0, program(func(ctx Context) (int, error) {
		for i := range 3 {
			_, err := Scope(ctx, fmt.Sprint(i), func(ctx Context) (int, error) {
				_, err := Spawn(ctx, "child", d, "waits", OnActor(destination(fmt.Sprint("c", i))))
				return 0, err
			})
			if err != nil {
				return 0, err
			}
		}
		return 0, Sleep(ctx, "sleep", 200*time.Hour)
	}), d.Program())
	w.until(func() bool { return w.now.After(time.UnixMilli(1_700_000_000_000).Add(time.Hour)) })
	inbox, err := loadInbox(h.begin())
	errorIf(t, err != nil || len(inbox) != 0, "%d messages, %v", len(inbox), err)
}

// Cancellations of children that have ended are not kept.
func TestSpawnForgetsCancellations(t *testing.T) {
	w := newWorld(t)
	d := NewFunction("child", func(ctx Context, _ int) (int, error) { return 0, nil })
	most := 0
	h := w.with(0, program(func(ctx Context) (int, error) {
		return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
			c, err := Spawn(it, "child", d, 0)
			if err != nil {
				return err
			}
			if _, err := c.Result(it); err != nil || it.Iteration() < 50 {
				most = max(most, len(it.scope().cancel.inner))
				return err
			}
			return it.Break(1)
		})
	}), d.Program())
	w.run()
	h.want("completed 1")
	errorIf(t, most > 2, "%d cancellations", most)
}
