package replay_test

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
)

// until lets a host go on until the clock is what it waits for.
func untilAsleep(t testing.TB, h *memhost.Host) {
	t.Helper()
	// A wake at this instant is none to wait for.
	if err := h.Drive(func() bool { return h.Last.Wake.After(h.Now) || h.Last.Ended || h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
}

func TestSleep(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (time.Duration, error) {
		began := ctx.Now()
		for name, d := range map[string]time.Duration{"hour": time.Hour} {
			if err := workflow.Sleep(ctx, name, d); err != nil {
				return 0, err
			}
		}
		if err := workflow.Sleep(ctx, "none", 0); err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, "negative", -time.Hour); err != nil {
			return 0, err
		}
		if err := workflow.SleepUntil(ctx, "past", began); err != nil {
			return 0, err
		}
		if err := workflow.Sleep(ctx, "less than a millisecond", 1); err != nil {
			return 0, err
		}
		return ctx.Now().Sub(began), nil
	})
	h := started(t, d.Program(), none{})
	drive(t, h)
	wantOutput(t, h, time.Hour+time.Millisecond)
	everywhere(t, d.Program(), none{}, func(h *memhost.Host) string {
		drive(t, h)
		return outcome(t, h)
	})
}

// TestSleepThatIsLongOver wakes a run a week after its deadline: the stored deadline counts, not the time of the wake.
func TestSleepThatIsLongOver(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		began := ctx.Now()
		if err := workflow.Sleep(ctx, "hour", time.Hour); err != nil {
			return "", err
		}
		first := ctx.Now().Sub(began)
		err := workflow.Sleep(ctx, "another", time.Hour)
		return fmt.Sprint(first, ctx.Now().Sub(began)), err
	})
	h := started(t, d.Program(), none{})
	untilAsleep(t, h)
	h.Close()
	h.Now = h.Now.Add(7 * 24 * time.Hour)
	drive(t, h)
	wantOutput(t, h, "168h0m0s 169h0m0s")
}

// TestClockThatStepsBackwards: the run's time does not, and deadlines are kept.
func TestClockThatStepsBackwards(t *testing.T) {
	var seen []time.Time
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
		seen = nil
		for _, name := range names[:5] {
			seen = append(seen, ctx.Now())
			if err := workflow.Do(ctx, name, func(*workflow.StepCtx) error { return nil }); err != nil {
				return none{}, err
			}
		}
		seen = append(seen, ctx.Now())
		return none{}, workflow.Sleep(ctx, "wait", time.Hour)
	})
	h := started(t, d.Program(), none{})
	for i := 0; ; i++ {
		if i%2 == 0 {
			h.Now = h.Now.Add(-10 * time.Minute)
		} else {
			h.Now = h.Now.Add(11 * time.Minute)
		}
		if more, err := h.Step(); err != nil {
			t.Fatal(err)
		} else if !more || h.Last.Wake.After(h.Now) {
			break
		}
	}
	for i := 1; i < len(seen); i++ {
		if seen[i].Before(seen[i-1]) {
			t.Errorf("time went from %v to %v", seen[i-1], seen[i])
		}
	}
	warm := fmt.Sprint(seen)
	h.Close()
	h.Now = h.Now.Add(-24 * time.Hour)
	if err := h.Advance(); err != nil {
		t.Fatal(err)
	}
	if got := fmt.Sprint(seen); got != warm {
		t.Errorf("after replay the times are\n%s, and were\n%s", got, warm)
	}
	drive(t, h)
	wantState(t, h, wfhost.StateCompleted)
}

func TestTimer(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		began := ctx.Now()
		hour, err := workflow.Timer(ctx, "hour", time.Hour)
		if err != nil {
			return "", err
		}
		if _, err := workflow.Timer(ctx, "year", 365*24*time.Hour); err != nil { // nobody waits for it
			return "", err
		}
		if hour.Done() {
			return "", errors.New("done at once")
		}
		if err := workflow.Sleep(ctx, "minute", time.Minute); err != nil {
			return "", err
		}
		at, err := hour.Get(ctx)
		again, _ := hour.Get(ctx)
		return fmt.Sprint(at.Sub(began), again.Sub(began), ctx.Now().Sub(began), hour.Done()), err
	})
	h := started(t, d.Program(), none{})
	drive(t, h)
	wantOutput(t, h, "1h0m0s 1h0m0s 1h0m0s true")
	everywhere(t, d.Program(), none{}, func(h *memhost.Host) string {
		drive(t, h)
		return outcome(t, h)
	})
}

func TestReceive(t *testing.T) {
	q, r := workflow.Inbox[string]{Name: "q"}, workflow.Inbox[string]{Name: "r"}
	describe := func(list []workflow.Received[string], err error) string {
		out := fmt.Sprintf("%d", len(list))
		for _, m := range list {
			out += " " + m.Body
		}
		if err != nil {
			out += fmt.Sprint(" timeout ", errors.Is(err, workflow.ErrTimeout))
		}
		return out
	}
	one := func(m workflow.Received[string], err error) string {
		if err != nil {
			return describe(nil, err)
		}
		return describe([]workflow.Received[string]{m}, nil)
	}
	for _, tt := range []struct {
		name string
		fn   func(ctx workflow.Context) string
		play func(h *memhost.Host)
		want string
	}{
		{"waits", func(ctx workflow.Context) string { return one(workflow.Receive(ctx, "m", q)) },
			func(h *memhost.Host) { drive(t, h); h.Send("q", body(t, "a")) }, "1 a"},
		{"is there already", func(ctx workflow.Context) string { return one(workflow.Receive(ctx, "m", q)) },
			func(h *memhost.Host) { h.Send("q", body(t, "a")) }, "1 a"},
		{"in order", func(ctx workflow.Context) string {
			return one(workflow.Receive(ctx, "1", q)) + one(workflow.Receive(ctx, "2", q))
		}, func(h *memhost.Host) { h.Send("q", body(t, "a")); h.Send("q", body(t, "b")) }, "1 a1 b"},
		{"batch", func(ctx workflow.Context) string {
			return describe(workflow.ReceiveBatch(ctx, "m", q, 2)) + ", " + describe(workflow.ReceiveBatch(ctx, "n", q, 2))
		}, func(h *memhost.Host) {
			for _, s := range []string{"a", "b", "c"} {
				h.Send("q", body(t, s))
			}
		}, "2 a b, 1 c"},
		{"any", func(ctx workflow.Context) string {
			m, err := workflow.ReceiveAny(ctx, "m", []string{"q", "r"})
			return fmt.Sprintf("%s %x %v", m.Queue, m.Body, err)
		}, func(h *memhost.Host) { drive(t, h); h.Send("r", body(t, "a")) }, "r 6161 <nil>"},
		{"timeout", func(ctx workflow.Context) string {
			return one(workflow.Receive(ctx, "m", q, workflow.Within(time.Hour))) + ", " + one(workflow.Receive(ctx, "n", q))
		}, func(h *memhost.Host) {
			untilAsleep(t, h)
			h.Now = h.Now.Add(2 * time.Hour)
			if err := h.Advance(); err != nil {
				t.Fatal(err)
			}
			h.Send("q", body(t, "late"))
		}, "0 timeout true, 1 late"},
		{"before the timeout", func(ctx workflow.Context) string {
			return one(workflow.Receive(ctx, "m", q, workflow.Within(time.Hour))) + ", " + one(workflow.Receive(ctx, "n", q, workflow.Within(time.Hour)))
		}, func(h *memhost.Host) { untilAsleep(t, h); h.Send("q", body(t, "a")) }, "1 a, 0 timeout true"},
		{"in time, but nobody looked", func(ctx workflow.Context) string {
			return one(workflow.Receive(ctx, "m", q, workflow.Within(time.Hour)))
		},
			func(h *memhost.Host) {
				untilAsleep(t, h)
				h.Close()
				h.Send("q", body(t, "a"))
				h.Now = h.Now.Add(24 * time.Hour)
			}, "1 a"},
		{"polls", func(ctx workflow.Context) string {
			return one(workflow.Receive(ctx, "m", q, workflow.Within(0))) + ", " + one(workflow.Receive(ctx, "n", r, workflow.Within(0)))
		}, func(h *memhost.Host) { h.Send("r", body(t, "a")) }, "0 timeout true, 1 a"},
		{"no string", func(ctx workflow.Context) string {
			_, err := workflow.Receive(ctx, "m", q)
			var ve *workflow.CodecError
			return fmt.Sprint(errors.As(err, &ve)) + one(workflow.Receive(ctx, "n", q))
		}, func(h *memhost.Host) { h.Send("q", body(t, 5)); h.Send("q", body(t, "a")) }, "true1 a"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) { return tt.fn(ctx), nil })
			h := started(t, d.Program(), none{})
			tt.play(h)
			drive(t, h)
			if got := outcome(t, h); got != "completed "+tt.want {
				t.Errorf("%q, want %q", got, tt.want)
			}
		})
	}
}

func TestAwait(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		v, err := workflow.Await(ctx, "name", func(s *memhost.State) (string, bool) { return s.Get("name"), s.Get("name") != "" })
		if err != nil {
			return "", err
		}
		_, err = workflow.Await(ctx, "more", func(s *memhost.State) (none, bool) { return none{}, s.Get("more") != "" }, workflow.Within(time.Hour))
		if !errors.Is(err, workflow.ErrTimeout) {
			return "", fmt.Errorf("error %v", err)
		}
		return v, workflow.Sleep(ctx, "end", time.Minute)
	})
	h := started(t, d.Program(), none{})
	drive(t, h)
	if !h.Last.Watching {
		t.Fatalf("%+v", h.Last)
	}
	h.Close()
	drive(t, h)
	h.Set("name", "ann")
	untilAsleep(t, h)
	h.Close()
	h.Set("name", "bob") // what was seen is recorded
	drive(t, h)
	wantOutput(t, h, "ann")

	for _, tt := range []struct {
		name string
		fn   workflow.Func[none, none]
		says string
	}{
		{"panic", func(ctx workflow.Context, _ none) (none, error) {
			return workflow.Await(ctx, "a", func(*memhost.State) (none, bool) { panic("ouch") })
		}, "ouch"},
		{"another view", func(ctx workflow.Context, _ none) (none, error) {
			return workflow.Await(ctx, "a", func(int) (none, bool) { return none{}, true })
		}, "*memhost.State"},
	} {
		t.Run(tt.name, func(t *testing.T) {
			h := started(t, workflow.NewFunction("w", tt.fn).Program(), none{})
			if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
				t.Fatal(err)
			}
			wantPause(t, h, wfhost.PausedPanicked, tt.says)
		})
	}
}

// TestCancelDuringEveryWait cancels a run that waits, in each way there is, warm and after a cold start before and after.
func TestCancelDuringEveryWait(t *testing.T) {
	q := workflow.Inbox[int]{Name: "q"}
	waits := map[string]func(ctx workflow.Context) error{
		"sleep":   func(ctx workflow.Context) error { return workflow.Sleep(ctx, "w", time.Hour) },
		"receive": func(ctx workflow.Context) error { _, err := workflow.Receive(ctx, "w", q); return err },
		"receive within": func(ctx workflow.Context) error {
			_, err := workflow.Receive(ctx, "w", q, workflow.Within(time.Hour))
			return err
		},
		"await": func(ctx workflow.Context) error {
			_, err := workflow.Await(ctx, "w", func(*memhost.State) (int, bool) { return 0, false })
			return err
		},
		"retry": func(ctx workflow.Context) error {
			return workflow.Do(ctx, "w", func(*workflow.StepCtx) error { return workflow.RetryAfter(errors.New("later"), time.Hour) })
		},
		"timer": func(ctx workflow.Context) error {
			f, err := workflow.Timer(ctx, "w", time.Hour)
			if err != nil {
				return err
			}
			_, err = f.Get(ctx)
			return err
		},
	}
	for name, wait := range waits {
		for _, cold := range []string{"warm", "cold before", "cold after", "crash"} {
			t.Run(name+" "+cold, func(t *testing.T) {
				var got []string
				d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (none, error) {
					err := wait(ctx)
					got = append(got, fmt.Sprint(err, errors.Is(err, workflow.ErrCanceled)))
					return none{}, workflow.Sleep(workflow.Detach(ctx), "after", time.Minute)
				})
				h := started(t, d.Program(), none{})
				if err := h.Drive(func() bool {
					return h.Last.Wake.After(h.Now) || len(h.Last.Queues) > 0 || h.Last.Watching
				}); err != nil {
					t.Fatal(err)
				}
				if cold == "cold before" {
					h.Close()
				}
				if err := h.Transact(func(tx wfhost.Turn) error { return wfhost.Cancel(tx, "enough") }); err != nil {
					t.Fatal(err)
				}
				if cold == "crash" {
					h.CrashAt = h.Commits + 1
				}
				if err := h.Drive(func() bool { return len(got) > 0 && h.Last.Wake.After(h.Now) }); err != nil {
					t.Fatal(err)
				}
				if cold == "cold after" {
					h.Close()
				}
				drive(t, h)
				wantState(t, h, wfhost.StateCancelled)
				for _, g := range got {
					if g != "workflow: canceled: enough true" {
						t.Errorf("returned %s", g)
					}
				}
			})
		}
	}
}

func TestWithCancel(t *testing.T) {
	cause := errors.New("changed my mind")
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		inner, cancel := workflow.WithCancel(ctx)
		slow, err := workflow.Begin(inner, "slow", func(sc *workflow.StepCtx) (int, error) {
			<-sc.Done()
			return 0, context.Cause(sc)
		})
		if err != nil {
			return "", err
		}
		stubborn, err := workflow.Begin(inner, "stubborn", func(sc *workflow.StepCtx) (int, error) {
			<-sc.Done()
			return 7, nil
		})
		if err != nil {
			return "", err
		}
		timer, err := workflow.Timer(inner, "timer", time.Hour)
		if err != nil {
			return "", err
		}
		kept, err := workflow.Timer(ctx, "kept", 2*time.Minute)
		if err != nil {
			return "", err
		}
		if err := workflow.Sleep(ctx, "minute", time.Minute); err != nil {
			return "", err
		}
		cancel(cause)
		_, err1 := slow.Get(ctx)
		v, err2 := stubborn.Get(ctx)
		_, err3 := timer.Get(ctx)
		err4 := workflow.Sleep(inner, "never", time.Hour)
		_, err5 := kept.Get(ctx)
		return fmt.Sprint(errors.Is(err1, cause), v, err2, errors.Is(err3, workflow.ErrCanceled), errors.Is(err4, cause), err5, ctx.Err(), inner.Err() != nil), nil
	}, workflow.WithErrorValue("cause", cause))
	synctest.Test(t, func(t *testing.T) {
		h := startedLive(t, d.Program(), none{})
		drive(t, h)
		wantOutput(t, h, "true 7 <nil> true true <nil> <nil> true")
	})
	t.Run("crash", func(t *testing.T) {
		synctest.Test(t, func(t *testing.T) {
			clean := startedLive(t, d.Program(), none{})
			drive(t, clean)
			for n := 1; n <= clean.Commits; n++ {
				for _, after := range []bool{false, true} {
					h := startedLive(t, d.Program(), none{})
					h.CrashAt, h.CrashAfter = n, after
					drive(t, h)
					// A step that the crash has cut off after it was canceled is not run again.
					if s := outcome(t, h); s != outcome(t, clean) && s != "completed true 0 workflow: canceled: changed my mind true true <nil> <nil> true" {
						t.Errorf("crash at %d (after %v): %s", n, after, s)
					}
				}
			}
		})
	})
}

// TestCancelMeetsCrashes: a crash at any commit of a run that is canceled does not change how it ends.
func TestCancelMeetsCrashes(t *testing.T) {
	d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
		log := ""
		for _, name := range []string{"a", "b"} {
			if err := workflow.Do(ctx, name, ok); err != nil {
				return log, err
			}
			log += name
		}
		kept, err := workflow.Timer(workflow.Detach(ctx), "detached", 2*time.Hour)
		if err != nil {
			return "", err
		}
		err = workflow.Sleep(ctx, "long", 24*time.Hour)
		log += fmt.Sprint(" ", errors.Is(err, workflow.ErrCanceled))
		_, err = workflow.Update(ctx, "not done", func(tx *workflow.Tx) (int, error) {
			tx.Host().(*memhost.State).Set("done", "yes")
			return 1, nil
		})
		log += fmt.Sprint(" ", errors.Is(err, workflow.ErrCanceled))
		if _, err := workflow.Update(workflow.Detach(ctx), "cleaned", func(tx *workflow.Tx) (int, error) {
			tx.Host().(*memhost.State).Set("cleaned", tx.Host().(*memhost.State).Get("cleaned")+"x")
			return 1, nil
		}); err != nil {
			return "", err
		}
		_, err = kept.Get(ctx)
		return log + fmt.Sprint(" ", err), nil
	})
	everywhere(t, d.Program(), none{}, func(h *memhost.Host) string {
		if err := h.Drive(func() bool { return h.Last.Wake.Sub(h.Now) > time.Minute }); err != nil {
			t.Fatal(err)
		}
		if err := h.Transact(func(tx wfhost.Turn) error { return wfhost.Cancel(tx, "") }); err != nil {
			t.Fatal(err)
		}
		drive(t, h)
		s := status(t, h)
		return fmt.Sprint(outcome(t, h), s.Ended.Sub(s.Started), h.State().Get("done"), h.State().Get("cleaned"))
	})
}

// TestScopesWaitForWhatTheyStarted: a function may return before its steps have; the run ends after them.
func TestScopesWaitForWhatTheyStarted(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ended := false
		d := workflow.NewFunction("w", func(ctx workflow.Context, _ none) (string, error) {
			_, err := workflow.Begin(ctx, "slow", func(*workflow.StepCtx) (int, error) {
				time.Sleep(time.Hour)
				ended = true
				return 0, errors.New("nobody asks")
			}, workflow.AtMostOnce())
			return "returned", err
		})
		h := startedLive(t, d.Program(), none{})
		drive(t, h)
		wantOutput(t, h, "returned")
		if !ended {
			t.Error("the run ended before its step")
		}
	})
}
