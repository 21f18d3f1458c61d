package replay

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A timer that is over when it begins leaves no row at first. What comes after it and is on record must not make a divergence
// of it.
func TestTimerOfNoTimeAndCrash(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			f, err := Timer(ctx, "timer", 0)
			if err != nil {
				return 0, err
			}
			for i := range 3 {
				if _, err := Update(ctx, fmt.Sprint("update ", i), func(*Tx) (int, error) { return i, nil }); err != nil {
					return 0, err
				}
			}
			_, err = f.Get(ctx)
			return 1, err
		}))
		w.run()
		h.want("completed 1")
		return ""
	})
}

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

// A child that is cancelled in the transaction in which it was spawned, be it the run's first, is cancelled.
func TestChildCancelledAtOnce(t *testing.T) {
	everywhere(t, func(w *world) string {
		d := childDefinition()
		h := w.with(0, program(func(ctx Context) (string, error) {
			c, err := Spawn(ctx, "child", d, "waits", OnActor(destination("c")))
			if err != nil {
				return "", err
			}
			if err := c.Cancel(ctx, "enough"); err != nil {
				return "", err
			}
			_, err = c.Result(ctx)
			return fmt.Sprint(errors.Is(err, ErrCanceled)), nil
		}), d.Program())
		w.run()
		h.want("completed true")
		return ""
	})
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

// Results that exceed the limit fail the step, which is not executed over and over.
func TestStepResultTooLarge(t *testing.T) {
	w := newWorld(t)
	ran := 0
	h := w.with(0, program(func(ctx Context) (string, error) {
		big := make([]byte, DefaultMaxPayload+1)
		_, err := Step(ctx, "step", func(*StepCtx) ([]byte, error) { ran++; return big, nil })
		_, err2 := Update(ctx, "update", func(*Tx) ([]byte, error) { return big, nil })
		var se *StepError
		return fmt.Sprint(errors.As(err, &se), errors.As(err2, &se)), nil
	}))
	w.run()
	h.want("completed true true")
	if ran != 1 {
		t.Errorf("the body ran %d times", ran)
	}
}

// A gate at the end of a branch that has ended answers 1 when the branch is run through again.
func TestVersionInBranchThatHasEnded(t *testing.T) {
	make := func(patched bool) *Program {
		return program(func(ctx Context) (string, error) {
			err := Join(ctx, "join",
				B[any]("short", nil, func(ctx Context) (any, error) {
					if err := pass(ctx, "a"); err != nil {
						return nil, err
					}
					if patched && Patched(ctx, "more") {
						return nil, pass(ctx, "b")
					}
					return nil, nil
				}),
				B[any]("long", nil, func(ctx Context) (any, error) { return nil, Sleep(ctx, "sleep", time.Hour) }))
			return "ok", err
		})
	}
	w := newWorld(t)
	h := w.with(0, make(false))
	w.until(func() bool { return h.out.Wake.After(w.now) && len(h.pending) == 0 && !h.stale })
	w.crash()
	w.programs["test"] = make(true)
	w.run()
	h.want("completed ok")
}

// Numbers drawn before the entry that a run is rewound to, or forked at, are drawn again.
func TestRandAfterRewind(t *testing.T) {
	p := program(func(ctx Context) (string, error) {
		name := fmt.Sprint("drawn ", ctx.Rand().Uint64(), " ", ctx.Info().Epoch)
		if err := pass(ctx, name); err != nil {
			return "", err
		}
		if err := pass(ctx, "second"); err != nil {
			return "", err
		}
		return name, Sleep(ctx, "sleep", time.Hour)
	})
	for _, fork := range []bool{false, true} {
		w := newWorld(t)
		h := w.with(0, p)
		w.until(func() bool { return h.out.Wake.After(w.now) })
		var id EntryID
		for e, err := range History(h.begin(), Filter{}) {
			if err != nil {
				t.Fatal(err)
			}
			if e.Path == "second" {
				id = e.ID
			}
		}
		want := ""
		for _, e := range h.entries() {
			if strings.HasPrefix(e, "drawn") {
				want = "completed " + e
			}
		}
		h.close()
		h.transact(func(t *rigTurn) error {
			if !fork {
				return Rewind(t, id)
			}
			rec, err := Export(t)
			if err != nil {
				return err
			}
			if err := Terminate(t, "forked"); err != nil {
				return err
			}
			_, err = Import(t, rec, StartOptions{Replace: true, UpTo: id})
			return err
		})
		h.stale, h.ended = true, false
		w.run()
		h.want(want)
	}
}

// A pause that returns right after the replay is not tried at the shortest interval for ever.
func TestPauseBacksOffAfterReplay(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (string, error) {
		if _, err := Update(ctx, "update", func(*Tx) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		panic("always")
	}))
	most := uint32(0)
	w.until(func() bool {
		f, err := loadFields(h.begin())
		if err != nil {
			t.Fatal(err)
		}
		if f.pause != nil {
			most = max(most, f.pause.Attempts)
		}
		return h.advances > 60
	})
	if most < 5 {
		t.Errorf("%d attempts", most)
	}
}

// An operator's pause is not replaced by one that goes on by itself.
func TestHoldOutlastsFault(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (string, error) {
		if _, err := Update(ctx, "update", func(*Tx) (int, error) { return 1, nil }); err != nil {
			return "", err
		}
		panic("always")
	}))
	w.until(func() bool { return h.run != nil && h.run.fault != nil })
	if h.run.fault == nil {
		t.Fatal("no fault")
	}
	h.control(func(t Turn) error { return Hold(t, "by hand") })
	w.run()
	if got := h.outcome(); !strings.Contains(got, "operator") {
		t.Errorf("outcome %q", got)
	}
}

// A step that is executed again after its attempts were used up is counted when it is cut off.
func TestPoisonAfterResume(t *testing.T) {
	w := newWorld(t)
	ran := 0
	h := w.with(0, program(func(ctx Context) (string, error) {
		return "", Do(ctx, "step", func(sc *StepCtx) error {
			if ran++; ran <= 2 {
				return errBad
			}
			return block(sc) // the process dies
		}, Retry(RetryPolicy{MaxAttempts: 2, OnExhausted: PauseRun}))
	}))
	w.run()
	if got := h.outcome(); !strings.Contains(got, "exhausted") {
		t.Fatal(got)
	}
	h.control(Resume)
	for range 10 {
		w.run()
		w.crash()
		h.paused = false
	}
	if ran > 5 {
		t.Errorf("executed %d times", ran)
	}
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
	if err != nil || len(inbox) != 0 {
		t.Errorf("%d messages, %v", len(inbox), err)
	}
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
	if most > 2 {
		t.Errorf("%d cancellations", most)
	}
}

// However large the history is, a loser's messages return.
func TestLosersMessagesOfLargeHistory(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (int, error) {
		for i := range 20 {
			if _, err := Step(ctx, fmt.Sprint("fill ", i), func(*StepCtx) ([]byte, error) { return make([]byte, 16000), nil }); err != nil {
				return 0, err
			}
		}
		_, _, err := Race(ctx, "race",
			C("loses", func(ctx Context) (int, error) {
				if _, err := Scope(ctx, "scope", func(ctx Context) (int, error) {
					_, err := Receive(ctx, "m", Inbox[int]{"in"})
					return 0, err
				}); err != nil {
					return 0, err
				}
				return 0, Sleep(ctx, "sleep", 100*time.Hour)
			}),
			C("wins", func(ctx Context) (int, error) { return 0, Sleep(ctx, "sleep", time.Hour) }))
		return 1, err
	}))
	h.send("in", 1)
	w.run()
	h.want("completed 1")
	if len(h.queues["in"]) != 1 {
		t.Errorf("%d messages came back", len(h.queues["in"]))
	}
}

// Durations that stand for "for ever" do not overflow.
func TestLongestDurations(t *testing.T) {
	const forever = time.Duration(1<<63 - 1)
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (int, error) {
		_, _, err := Race(ctx, "race",
			C("receive", func(ctx Context) (int, error) {
				_, err := Receive(ctx, "m", Inbox[int]{"in"}, Within(forever))
				return 1, err
			}),
			C("await", func(ctx Context) (int, error) {
				return Await(ctx, "a", func(*rigTurn) (int, bool) { return 1, false }, Within(forever))
			}),
			C("retry", func(ctx Context) (int, error) {
				return 1, Do(ctx, "step", func(*StepCtx) error { return RetryAfter(errBad, forever) }, Retry(RetryPolicy{MaxAttempts: 2}))
			}),
			C("wins", func(ctx Context) (int, error) { return 0, Sleep(ctx, "sleep", time.Hour) }))
		return 1, err
	}))
	w.until(func() bool { return h.out.Wake.After(w.now) })
	if got := h.history(); strings.Contains(got, "timed_out") || strings.Contains(got, "exhausted") {
		t.Error(got)
	}
}

// A wait that has looked into an empty queue sees the message that a race gives back in the same transaction.
func TestReturnedMessageIsSeen(t *testing.T) {
	w := newWorld(t)
	h := w.with(0, program(func(ctx Context) (int, error) {
		err := Join(ctx, "join",
			B[int]("race", nil, func(ctx Context) (int, error) {
				_, _, err := Race(ctx, "race",
					C("takes", func(ctx Context) (int, error) {
						if _, err := Receive(ctx, "m", Inbox[int]{"in"}); err != nil {
							return 0, err
						}
						return 0, Sleep(ctx, "sleep", 100*time.Hour)
					}),
					C("wins", func(ctx Context) (int, error) { return 0, Sleep(ctx, "sleep", time.Hour) }))
				return 0, err
			}),
			B[int]("waits", nil, func(ctx Context) (int, error) {
				_, err := Receive(ctx, "m", Inbox[int]{"in"})
				return 0, err
			}))
		return 1, err
	}))
	w.until(func() bool { return h.out.Wake.After(w.now) })
	h.send("in", 1)
	w.run()
	h.want("completed 1")
}

// Children of a run whose actor is destroyed are told as they were spawned.
func TestDestroyedClosesChildren(t *testing.T) {
	w := newWorld(t)
	d := childDefinition()
	h := w.with(0, program(func(ctx Context) (int, error) {
		for name, p := range map[string]ParentClose{"cancel": CloseCancel} {
			if _, err := Spawn(ctx, name, d, "waits", OnActor(destination(name)), OnParentClose(p)); err != nil {
				return 0, err
			}
		}
		for name, p := range map[string]ParentClose{"terminate": CloseTerminate} {
			if _, err := Spawn(ctx, name, d, "waits", OnActor(destination(name)), OnParentClose(p)); err != nil {
				return 0, err
			}
		}
		return 0, Sleep(ctx, "sleep", time.Hour)
	}), d.Program())
	w.until(func() bool { return h.out.Wake.After(w.now) && len(w.mail) == 0 })
	h.transact(func(t *rigTurn) error { return Destroyed(t) })
	h.close()
	h.ended, h.stale = true, false
	w.run()
	w.actors["cancel"].want("cancelled: workflow: canceled: the scope that spawned the child has ended")
	if got := w.actors["terminate"].outcome(); !strings.HasPrefix(got, "terminated") {
		t.Error(got)
	}
}

// What is dropped of a container cannot be gone back into.
func TestRewindIntoWhatWasDropped(t *testing.T) {
	w := newWorld(t)
	ran := map[string]int{}
	h := w.with(0, program(func(ctx Context) (int, error) {
		for i := range 20 {
			if _, err := Step(ctx, fmt.Sprint("fill ", i), func(*StepCtx) ([]byte, error) { return make([]byte, 16000), nil }); err != nil {
				return 0, err
			}
		}
		err := Join(ctx, "join",
			B[int]("short", nil, func(ctx Context) (int, error) {
				if _, err := Scope(ctx, "scope", func(ctx Context) (int, error) {
					err := Do(ctx, "charge", func(*StepCtx) error { ran["charge"]++; return nil })
					if err == nil {
						err = Sleep(ctx, "sleep", 2*time.Hour)
					}
					return 0, err
				}); err != nil {
					return 0, err
				}
				return 0, Sleep(ctx, "sleep", 10*time.Hour)
			}),
			B[int]("long", nil, func(ctx Context) (int, error) {
				if err := Sleep(ctx, "sleep", time.Hour); err != nil {
					return 0, err
				}
				return 0, pass(ctx, "target")
			}))
		return 1, err
	}))
	begin := w.now
	w.until(func() bool { return h.out.Wake.After(begin.Add(3 * time.Hour)) })
	var id EntryID
	for e, err := range History(h.begin(), Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(e.Path, "target") {
			id = e.ID
		}
	}
	h.close()
	turn := h.begin()
	err := Rewind(turn, id)
	var refused *ControlError
	if !errors.As(err, &refused) {
		t.Errorf("error %v", err)
	}
	turn.undo()
	h.stale = true
	w.run()
	h.want("completed 1")
	if ran["charge"] != 1 {
		t.Errorf("charged %d times", ran["charge"])
	}
}

// A run whose saga has undone everything when the process dies, and that goes on, is running and not rolling back.
func TestStateAfterRollBack(t *testing.T) {
	everywhere(t, func(w *world) string {
		h := w.with(0, program(func(ctx Context) (int, error) {
			_, _ = Saga(ctx, "saga", func(ctx Context) (int, error) {
				if err := mark(ctx, "a"); err != nil {
					return 0, err
				}
				return 0, fail(ctx, "b")
			})
			return 1, Sleep(ctx, "sleep", time.Hour)
		}))
		w.until(func() bool { return h.out.Wake.After(w.now) && !h.stale })
		f, err := loadFields(h.begin())
		if err != nil {
			t.Fatal(err)
		}
		state := string(f.state)
		w.run()
		return state
	})
}

// An input that the child's actor does not take is refused, and does not stand in the way of its other mail.
func TestSpawnWithInputTooLarge(t *testing.T) {
	w := newWorld(t)
	d := NewFunction("child", func(ctx Context, in []byte) (int, error) { return len(in), nil })
	h := w.with(0, program(func(ctx Context) (bool, error) {
		c, err := Spawn(ctx, "child", d, make([]byte, DefaultMaxPayload+1), OnActor(destination("c")))
		if err != nil {
			return false, err
		}
		_, err = c.Result(ctx)
		var refused *ChildError
		return errors.As(err, &refused) && refused.Status == Exhausted, nil
	}), d.Program())
	w.run()
	h.want("completed true")
}
