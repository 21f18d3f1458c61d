package replay_test

import (
	"errors"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/workflow/internal/memory"
	. "github.com/cairn-run/cairn/workflow/internal/replay"
)

// eager is a turn in which an event happens while the queues are read.
type eager struct {
	*memory.Turn
	during func()
}

func (t eager) Receive(queues []string, limit int) ([]Delivery, error) {
	list, err := t.Turn.Receive(queues, limit)
	t.during()
	return list, err
}

// A message is recorded in the transaction that takes it, even if a step ends meanwhile that pauses
// the run.
func TestAMessageIsRecordedThoughTheRunIsPausedMeanwhile(t *testing.T) {
	fail, q := make(chan error), Inbox[string]{Name: "q"}
	p := code(func(ctx Context, _ none) (s string, err error) {
		return s, Join(ctx, "join",
			B[none]("step", nil, func(ctx Context) (none, error) {
				return none{}, Do(ctx, "s", func(*StepCtx) error { return <-fail },
					Retry(RetryPolicy{MaxAttempts: 1, OnExhausted: PauseRun}))
			}),
			B("receive", &s, func(ctx Context) (string, error) { m, err := Receive(ctx, "m", q); return m.Body, err }))
	})
	h := newActor(t, p)
	must(t, h.Start(p, none{}, StartOptions{}))
	run := Open(RunOptions{Programs: func(string) *Program { return p }})
	defer run.Close()
	advance := func(during func()) (out Outcome) {
		must(t, h.Transact(func(x *memory.Turn) (err error) { out, err = run.Advance(eager{x, during}); return err }))
		return out
	}
	first := advance(func() {})
	send(t, h, "q", "money")
	ended := make(chan struct{})
	go func() { first.Launch[0].Run(t.Context(), nil, nil); close(ended) }()
	advance(func() { fail <- errors.New("bad"); <-ended })
	errorIf(t, len(h.Queues.Lists()["q"]) != 0 || !strings.Contains(Recorded(t, h.Rows), "q/1"), "the message is lost:\n%s", Recorded(t, h.Rows))
}
