package runtime_test

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/workflow"
)

// receivesPaper is a way that returns the first paper that comes within a minute.
func receivesPaper(ctx workflow.Context, c claim) (string, error) {
	m, err := workflow.Receive(ctx, "paper", papers, workflow.Within(time.Minute))
	return m.Body, err
}

// Messages that a run did not receive are dead letters when it ends, and its actor's next run receives only its own.
func TestWorkflowMessagesOfOneRunDoNotReachTheNext(t *testing.T) {
	does("ignores", func(ctx workflow.Context, c claim) (string, error) {
		return "", workflow.Sleep(ctx, "nap", time.Hour)
	})
	does("receives", receivesPaper)
	for name, end := range map[string]func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]){
		"by itself": func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) { time.Sleep(time.Hour); h.Settle() },
		"cancelled": func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
			deskRun.Of(d).Cancel(t.Context(), "")
			h.Settle()
		},
		"terminated": func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) { deskRun.Of(d).Terminate(t.Context(), "") },
		"and crashes": func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
			deskRun.Of(d).Terminate(t.Context(), "")
			h.Restart()
		},
	} {
		t.Run(name, func(t *testing.T) {
			withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
				ctx, cancel := context.WithTimeout(context.Background(), 24*time.Hour)
				defer cancel()
				startClaim(t, d, claim{"ignores", 1})
				h.Settle()
				sendPapers(t, d, "to the first")
				must(t, errOf(papers.Of(d).Send(ctx, "later to the first", actor.Delay(2*time.Hour))))
				asked := make(chan error, 1)
				go func() { _, err := consent.Of(d).Ask(ctx, "may I?"); asked <- err }()
				h.Settle()
				end(t, h, d)
				if err := <-asked; actor.CodeOf(err) != actor.FailedPrecondition || !strings.Contains(err.Error(), "ended without receiving") {
					t.Errorf("the sender got %v", err)
				}
				must(t, errOf(deskRun.Of(d).Start(ctx, claim{"receives", 2}, handle.Replace())))
				h.Settle()
				sendPapers(t, d, "to the second")
				wantResult(t, d, "to the second")
				for want, stats := range map[int64]func(context.Context) (handle.QueueStats, error){2: papers.Of(d).Stats, 1: consent.Of(d).Stats} {
					if st, err := stats(ctx); err != nil || st.Dead != want || st.Pending+st.Delayed != 0 {
						t.Errorf("%+v, %v", st, err)
					}
				}
			})
		})
	}
}

// What was sent before an actor's run began, or after the last one ended, is for the run to come.
func TestWorkflowReceivesWhatWasSentBeforeItBegan(t *testing.T) {
	does("receives", receivesPaper)
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		for n := range 2 {
			want := fmt.Sprint("to run ", n)
			sendPapers(t, d, want)
			h.Restart()
			must(t, errOf(deskRun.Of(d).Start(t.Context(), claim{"receives", n}, handle.Replace())))
			if got := claimResult(t, d); got != want {
				t.Errorf("received %q, want %q", got, want)
			}
		}
	})
}
