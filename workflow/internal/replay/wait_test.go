package replay_test

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

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
	steps := []time.Duration{-10 * time.Minute, 11 * time.Minute}
	until(t, h, func() bool {
		h.Now = h.Now.Add(steps[0])
		slices.Reverse(steps)
		return h.Last.Wake.After(h.Now)
	})
	for i := 1; i < len(seen); i++ {
		errorIf(t, seen[i].Before(seen[i-1]), "time went from %v to %v", seen[i-1], seen[i])
	}
	warm := fmt.Sprint(seen)
	h.Close()
	h.Now = h.Now.Add(-24 * time.Hour)
	h.Advance()
	if got := fmt.Sprint(seen); got != warm {
		t.Errorf("after replay the times are\n%s, and were\n%s", got, warm)
	}
	drive(t, h)
	wantState(t, h, wfhost.StateCompleted)
}

// A run that waits goes on with a message without reading a row.
func TestRunInMemoryReadsNoRows(t *testing.T) {
	q := workflow.Inbox[int]{Name: "q"}
	h := begun(t, func(ctx workflow.Context, _ none) (int, error) {
		m, err := workflow.Receive(ctx, "m", q)
		return m.Body, err
	})
	drive(t, h)
	reads := h.Reads
	send(t, h, "q", 5)
	drive(t, h)
	wantOutput(t, h, 5)
	errorIf(t, h.Reads != reads, "%d reads", h.Reads-reads)
}

// A message that is no string is an error of its receive, and gone.
func TestReceiveOfAnotherType(t *testing.T) {
	q := workflow.Inbox[string]{Name: "q"}
	h := begun(t, func(ctx workflow.Context, _ none) (string, error) {
		_, err := workflow.Receive(ctx, "m", q)
		var ve *workflow.CodecError
		next, nextErr := workflow.Receive(ctx, "n", q)
		return fmt.Sprint(errors.As(err, &ve), " ", next.Body), nextErr
	})
	send(t, h, "q", 5)
	send(t, h, "q", "a")
	drive(t, h)
	wantOutput(t, h, "true a")
}

func TestProbesThatDoNotWork(t *testing.T) {
	for says, fn := range map[string]workflow.Func[none, none]{
		"ouch": func(ctx workflow.Context, _ none) (none, error) {
			return workflow.Await(ctx, "a", func(*state) (none, bool) { panic("ouch") })
		},
		"*replay_test.state": func(ctx workflow.Context, _ none) (none, error) { // another view
			return workflow.Await(ctx, "a", func(int) (none, bool) { return none{}, true })
		},
	} {
		h := begun(t, fn)
		pause(t, h)
		wantPause(t, h, wfhost.PausedPanicked, says)
	}
}
