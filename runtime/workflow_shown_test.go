package runtime_test

import (
	"context"
	"encoding/json"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A request to a run that is over is answered at once, however the run ended and wherever the caller is.
func TestWorkflowThatIsOverRefusesRequestsAtOnce(t *testing.T) {
	does("ends", func(workflow.Context, claim) (string, error) { return "over", nil })
	does("fails", func(workflow.Context, claim) (string, error) { return "", errors.New("no cover") })
	does("waits", func(ctx workflow.Context, _ claim) (string, error) {
		return "", workflow.Sleep(ctx, "nap", 24*time.Hour)
	})
	for _, test := range []struct {
		how   string
		end   func(ctx context.Context, d actor.Ref[desk]) error
		state wfhost.State
	}{
		{"ends", nil, wfhost.StateCompleted},
		{"fails", nil, wfhost.StateFailed},
		{"waits", func(ctx context.Context, d actor.Ref[desk]) error { return deskRun.Of(d).Terminate(ctx, "enough") }, wfhost.StateTerminated},
		{"waits", func(ctx context.Context, d actor.Ref[desk]) error { return deskRun.Of(d).Cancel(ctx, "enough") }, wfhost.StateCancelled},
	} {
		t.Run(string(test.state), func(t *testing.T) {
			withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
				startClaim(t, d, claim{test.how, 1})
				h.Settle()
				if test.end != nil {
					must(t, test.end(t.Context(), d))
					h.Settle()
				}
				if st := claimStatus(t, d); st.State != test.state {
					t.Fatalf("the run is %s", st.State)
				}
				for range 2 {
					began := time.Now()
					if _, err := consent.Of(d).Ask(t.Context(), "may I?"); actor.CodeOf(err) != actor.FailedPrecondition {
						t.Errorf("in the process: %v", err)
					}
					code, body := overHTTP(t, h, host.QueueSend, `{"queue":"consent","messages":[{"body":"may I?","want_reply":true}]}`)
					if code != http.StatusConflict || !strings.Contains(body, `"failed_precondition"`) {
						t.Errorf("over HTTP: %d %s", code, body)
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("the answers took %s", took)
					}
					h.Restart()
				}
				// Nothing of the requests is kept; a message that asks for nothing is, for the next run.
				if _, err := papers.Of(d).Send(t.Context(), "deed"); err != nil {
					t.Error(err)
				}
				if st, err := consent.Of(d).Stats(t.Context()); err != nil || st.Pending+st.Delayed+st.Dead != 0 {
					t.Errorf("%+v, %v", st, err)
				}
			})
		})
	}
}

// What a run was given, shows of itself and returns, and what its steps brought, is JSON for callers that ask in JSON.
func TestWorkflowPayloadsAreShownAsJSON(t *testing.T) {
	does("shows", func(ctx workflow.Context, c claim) (string, error) {
		workflow.Publish(ctx, map[string]int{"percent": 50})
		if _, err := workflow.Step(ctx, "count", func(*workflow.StepCtx) ([]int, error) { return []int{1, 2}, nil }); err != nil {
			return "", err
		}
		return "shown", workflow.Sleep(ctx, "nap", time.Hour)
	})
	withDesk(t, func(t *testing.T, h *actortest.Harness, d actor.Ref[desk]) {
		startClaim(t, d, claim{"shows", 7})
		h.Settle()
		var st map[string]json.RawMessage
		askDesk(t, h, host.WorkflowStatus, nil, &st)
		if in, out := string(st["input"]), string(st["published"]); in != `{"How":"shows","N":7}` || out != `{"percent":50}` {
			t.Errorf("input %s, published %s", in, out)
		}
		var page struct {
			Entries []map[string]json.RawMessage `json:"entries"`
		}
		askDesk(t, h, host.WorkflowHistory, nil, &page)
		if got := string(page.Entries[0]["output"]); got != "[1,2]" {
			t.Errorf("output %s", got)
		}
		var result host.WorkflowResultOutput
		askDesk(t, h, host.WorkflowResult, nil, &result)
		if id := claimStatus(t, d).ID; result.Done || result.Run != id || id == "" {
			t.Errorf("%+v of run %s", result, id)
		}
		time.Sleep(2 * time.Hour)
		askDesk(t, h, host.WorkflowStatus, nil, &st)
		if got := string(st["output"]); got != `"shown"` {
			t.Errorf("output %s", got)
		}
		// In CBOR they are as the run has them, for programs that know the types.
		for e, err := range deskRun.Of(d).History(t.Context()) {
			errorIf(t, err != nil || len(e.Output) == 0 && e.Kind == workflow.KindStep || e.OutputJSON != nil, "%+v, %v", e, err)
		}
		if st := claimStatus(t, d); len(st.Input) == 0 || len(st.Output) == 0 || len(st.Published) == 0 {
			t.Errorf("%+v", st)
		}
	})
}
