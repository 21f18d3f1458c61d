package replay_test

import (
	"fmt"
	"testing"

	. "github.com/cairn-run/cairn/workflow/internal/replay"
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
			return Await(ctx, "a", func(s *state) (string, bool) { return "other", (*s)["go"] != "" })
		},
		"cancel": nil,
	} {
		t.Run(name, func(t *testing.T) {
			h := start(t, newActor(t), 0, program(func(ctx Context) (string, error) {
				if other == nil {
					return busy(ctx)
				}
				_, v, err := Race(ctx, "race", C("busy", busy), C("other", other))
				return v, err
			}))
			until(t, h, func() bool { return h.Advances > 3 })
			send(t, h, "in", 1)
			stateOf(h)["go"] = "yes"
			how := "completed other"
			if other == nil {
				cancel(t, h)
				how = "cancelled: workflow: canceled: enough"
			}
			// The host runs bodies only when no run has anything to do: a real one is fairer.
			until(t, h, func() bool { h.Body(); return false })
			want(t, h, how)
		})
	}
}

type nilError struct{ text string }

func (e *nilError) Error() string { return e.text }

// A body that returns a nil pointer in an error has failed, and does not take the process along.
func TestErrorOfNilPointer(t *testing.T) {
	h := start(t, newActor(t), 0, program(func(ctx Context) (string, error) {
		err := Do(ctx, "step", func(*StepCtx) error { var e *nilError; return Permanent(e) })
		err2 := Do(ctx, "other", func(*StepCtx) error { var e *nilError; return e }, Retry(RetryPolicy{MaxAttempts: 2}))
		_, err3 := Update(ctx, "update", func(*Tx) (int, error) { var e *nilError; return 0, e })
		return fmt.Sprint(err != nil, err2 != nil, err3 != nil), nil
	}))
	drive(t, h)
	want(t, h, "completed true true true")
}

// Cancellations of children that have ended are not kept.
func TestSpawnForgetsCancellations(t *testing.T) {
	d := NewFunction("child", func(ctx Context, _ int) (int, error) { return 0, nil })
	most := 0
	h := start(t, newActor(t), 0, program(func(ctx Context) (int, error) {
		return Loop(ctx, "loop", 0, func(it *Iter[int, int]) error {
			c, err := Spawn(it, "child", d, 0)
			if err != nil {
				return err
			}
			if _, err := c.Result(it); err != nil || it.Iteration() < 50 {
				most = max(most, Cancellations(it))
				return err
			}
			return it.Break(1)
		})
	}), d.Program())
	drive(t, h)
	want(t, h, "completed 1")
	errorIf(t, most > 2, "%d cancellations", most)
}
