package replay_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memhost"
	"github.com/cairn-run/cairn/workflow/internal/replay"
)

func text(s string) func(*workflow.StepCtx) (string, error) {
	return func(*workflow.StepCtx) (string, error) { return s, nil }
}

// winding is a workflow with a bit of everything, which waits for two messages.
func winding() *wfhost.Program {
	inbox := workflow.Inbox[string]{Name: "inbox"}
	return workflow.NewFunction("winding", func(ctx workflow.Context, _ none) (string, error) {
		a, err := workflow.Step(ctx, "a", text("a"))
		if err != nil {
			return "", err
		}
		looped, err := workflow.Loop(ctx, "loop", "", func(it *workflow.Iter[string, string]) error {
			s, err := workflow.Step(it, "s", text("l"))
			if err != nil {
				return err
			}
			if it.State += s; len(it.State) == 3 {
				return it.Break(it.State)
			}
			return workflow.Sleep(it, "nap", time.Second)
		}, workflow.Keep(2))
		if err != nil {
			return "", err
		}
		var x, y string
		err = workflow.Join(ctx, "both",
			workflow.B("x", &x, func(ctx workflow.Context) (string, error) {
				p, err := workflow.Step(ctx, "p", text("p"))
				if err == nil {
					err = workflow.Sleep(ctx, "nap", time.Second)
				}
				if err != nil {
					return "", err
				}
				q, err := workflow.Step(ctx, "q", text("q"))
				return p + q, err
			}),
			workflow.B("y", &y, func(ctx workflow.Context) (string, error) { return workflow.Step(ctx, "r", text("r")) }),
		)
		if err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "go", inbox)
		if err != nil {
			return "", err
		}
		inner, err := workflow.Scope(ctx, "scope", func(ctx workflow.Context) (string, error) { return workflow.Step(ctx, "inside", text("i")) })
		if err != nil {
			return "", err
		}
		last, err := workflow.Receive(ctx, "end", inbox)
		return strings.Join([]string{a, looped, x, y, m.Body, inner, last.Body}, " "), err
	}).Program()
}

const windingOutput = "a lll pq r one i two"

// A run that is rewound to any of its entries comes to the same end, if it may be rewound at all.
func TestRewindToAnyEntry(t *testing.T) {
	p := winding()
	h := started(t, p, none{})
	h.Send("inbox", body(t, "one"))
	drive(t, h)
	wantState(t, h, wfhost.StateWaiting)
	rows := h.Rows()
	rewound := 0
	for e, err := range wfhost.History(h.Reader(), wfhost.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		again := memhost.New(p)
		t.Cleanup(again.Close)
		again.Load(rows)
		err := again.Transact(func(turn wfhost.Turn) error { return wfhost.Rewind(turn, e.ID) })
		var refused *wfhost.ControlError
		if errors.As(err, &refused) {
			if e.Path != "loop~1" && !strings.HasPrefix(e.Path, "loop~") {
				t.Errorf("%s: %v", e.Path, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", e.Path, err)
		}
		rewound++
		drive(t, again)
		again.Send("inbox", body(t, "two"))
		drive(t, again)
		if s := status(t, again); s.State != wfhost.StateCompleted || s.Epoch != 1 {
			t.Errorf("rewound to %s: %s", e.Path, why(s))
			continue
		}
		wantOutput(t, again, windingOutput)
	}
	if rewound < 8 {
		t.Errorf("only %d entries could be rewound to", rewound)
	}
}

// A recording of a run that has ended goes on from any of its entries, and comes to the same end.
func TestForkFromAnyEntry(t *testing.T) {
	p := winding()
	h := started(t, p, none{})
	h.Send("inbox", body(t, "one"))
	h.Send("inbox", body(t, "two"))
	drive(t, h)
	wantOutput(t, h, windingOutput)
	recorded, err := wfhost.Export(h.Reader())
	if err != nil {
		t.Fatal(err)
	}
	file, err := recorded.Encode()
	if err != nil {
		t.Fatal(err)
	}
	forked := 0
	for e, err := range wfhost.History(h.Reader(), wfhost.Filter{}) {
		if err != nil {
			t.Fatal(err)
		}
		rec, err := wfhost.DecodeRecording(file)
		if err != nil {
			t.Fatal(err)
		}
		fork := memhost.New(p)
		t.Cleanup(fork.Close)
		var made wfhost.Started
		err = fork.Transact(func(turn wfhost.Turn) (err error) {
			made, err = wfhost.Import(turn, rec, wfhost.StartOptions{UpTo: e.ID})
			return err
		})
		var refused *wfhost.ControlError
		if errors.As(err, &refused) {
			continue
		}
		if err != nil {
			t.Fatalf("%s: %v", e.Path, err)
		}
		forked++
		// What the recorded run had received up to there, the fork does not receive again.
		for _, m := range []string{"one", "two"} {
			if got := receivedUpTo(t, fork); !strings.Contains(got, m) {
				fork.Send("inbox", body(t, m))
			}
		}
		drive(t, fork)
		if s := status(t, fork); s.State != wfhost.StateCompleted || s.ID != made.ID || s.ID == recorded.Manifest.Run {
			t.Errorf("from %s: %s", e.Path, why(s))
			continue
		}
		wantOutput(t, fork, windingOutput)
	}
	if forked < 8 {
		t.Errorf("only %d entries could be forked from", forked)
	}
}

// receivedUpTo says which messages a history has.
func receivedUpTo(t *testing.T, h *memhost.Host) (got string) {
	t.Helper()
	for e, err := range wfhost.History(h.Reader(), wfhost.Filter{Kinds: []workflow.Kind{workflow.KindReceive}, Statuses: []wfhost.EntryStatus{wfhost.Completed}}) {
		if err != nil {
			t.Fatal(err)
		}
		got += map[string]string{"go": "one", "end": "two"}[e.Path]
	}
	return got
}

func TestRetryOfAFailedRun(t *testing.T) {
	broken, keys := true, map[string]bool{}
	p := workflow.NewFunction("order", func(ctx workflow.Context, _ none) (string, error) {
		if _, err := workflow.Step(ctx, "charge", text("c")); err != nil {
			return "", err
		}
		return workflow.Step(ctx, "ship", func(sc *workflow.StepCtx) (string, error) {
			keys[sc.IdempotencyKey()] = true
			if broken {
				return "", errors.New("no carrier")
			}
			return "shipped", nil
		}, workflow.Retry(workflow.RetryPolicy{MaxAttempts: 2}))
	}).Program()
	h := started(t, p, none{})
	drive(t, h)
	wantState(t, h, wfhost.StateFailed)
	var ship wfhost.EntryID
	for e, err := range wfhost.History(h.Reader(), wfhost.Filter{Name: "ship"}) {
		if err != nil || e.Status != wfhost.Exhausted {
			t.Fatalf("%+v, %v", e, err)
		}
		ship = e.ID
	}
	h.Close()
	broken = false
	if err := h.Transact(func(turn wfhost.Turn) error { return wfhost.RetryEntry(turn, ship) }); err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	wantOutput(t, h, "shipped")
	if len(keys) != 2 {
		t.Errorf("%d idempotency keys, want one for each time", len(keys))
	}
}

func TestHoldAndResumeOfARun(t *testing.T) {
	p := winding()
	h := started(t, p, none{})
	drive(t, h)
	hold := func(turn wfhost.Turn) error { return wfhost.Hold(turn, "maintenance") }
	if err := h.Transact(hold); err != nil {
		t.Fatal(err)
	}
	h.Send("inbox", body(t, "one"))
	h.Send("inbox", body(t, "two"))
	drive(t, h)
	wantPause(t, h, wfhost.PausedOperator, "maintenance")
	if err := h.Transact(wfhost.Resume); err != nil {
		t.Fatal(err)
	}
	drive(t, h)
	wantOutput(t, h, windingOutput)
}

// A run that another engine wrote goes on.
func TestARunOfForm1GoesOn(t *testing.T) {
	executed := 0
	once := func(v int) func(*workflow.StepCtx) (int, error) {
		return func(*workflow.StepCtx) (int, error) { executed++; return v, nil }
	}
	p := workflow.NewFunction("old", func(ctx workflow.Context, _ any) (string, error) {
		charge, err := workflow.Step(ctx, "charge", once(-1))
		if err != nil {
			return "", err
		}
		if err := workflow.Do(ctx, "void", func(*workflow.StepCtx) error { executed++; return nil }); err != nil {
			return "", err
		}
		m, err := workflow.Receive(ctx, "w", workflow.Inbox[map[string]int]{Name: "q"}, workflow.Within(time.Hour))
		if err != nil {
			return "", err
		}
		var x, y int
		err = workflow.Join(ctx, "both",
			workflow.B("x", &x, func(workflow.Context) (int, error) { return 1, nil }),
			workflow.B("y", &y, func(workflow.Context) (int, error) { return 2, nil }))
		if err != nil {
			return "", err
		}
		sum, err := workflow.Loop(ctx, "serve", 0, func(it *workflow.Iter[int, int]) error {
			v, err := workflow.Step(it, "tick", once(10))
			if it.State += v; it.Iteration() == 3 {
				return it.Break(it.State)
			}
			return err
		})
		if err != nil {
			return "", err
		}
		flaky, err := workflow.Step(ctx, "flaky", once(7))
		return fmt.Sprint(charge, m.Body["n"], x, y, sum, flaky), err
	}).Program()
	rows := replay.Form1Rows(t)
	h := memhost.New(p)
	t.Cleanup(h.Close)
	h.Load(rows)
	recorded, err := wfhost.Export(h.Reader())
	if err != nil {
		t.Fatal(err)
	}
	recorded.Manifest.Workflow = "old"
	h = memhost.New(p)
	t.Cleanup(h.Close)
	if err := h.Transact(func(turn wfhost.Turn) error {
		_, err := wfhost.Import(turn, recorded, wfhost.StartOptions{})
		return err
	}); err != nil {
		t.Fatal(err)
	}
	if err := h.Drive(func() bool { return h.Last.Paused }); err != nil {
		t.Fatal(err)
	}
	wantOutput(t, h, "42 1 1 2 15 7")
	if executed != 2 { // the fourth tick, and flaky
		t.Errorf("%d steps were executed", executed)
	}
}
