package runtime_test

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/workflow"
)

const hiddenCause = "dial tcp 10.0.0.7:5432: no route to host"

// byRole lets callers of the role "operator" do everything, and others everything except to operate actors.
func byRole(_ context.Context, r runtime.AuthRequest) error {
	if r.Operation == runtime.OpOperate && r.Header.Get("Role") != "operator" {
		return actor.Errorf(actor.PermissionDenied, "operators only")
	}
	return nil
}

// askAs sends a request to the node's handler in a role.
func askAs(h *actortest.Harness, role, method, path string) string {
	w := httptest.NewRecorder()
	r := httptest.NewRequest(method, "http://127.0.0.1"+path, nil)
	r.Header.Set("Role", role)
	r.Header.Set("Content-Type", "application/json")
	h.Runtime().Handler().ServeHTTP(w, r)
	return w.Body.String()
}

func TestOnlyOperatorsReadTheErrorThatFailedAnActor(t *testing.T) {
	refuse := false
	spec := actor.Spec[bot]{OnWake: func(*bot, *actor.Context) error {
		if refuse {
			return errors.New(hiddenCause)
		}
		return nil
	}}
	for name, test := range map[string]struct {
		authorize func(context.Context, runtime.AuthRequest) error
		role      string
		shown     bool
	}{
		"no hook":      {nil, "", true},
		"operator":     {byRole, "operator", true},
		"other caller": {byRole, "reader", false},
	} {
		t.Run(name, func(t *testing.T) {
			refuse = false
			withOptions(t, spec, func(o *runtime.Options) { o.Authorize = test.authorize }, func(t *testing.T, h *actortest.Harness) {
				mustDo(t, h, "a", add(1))
				refuse = true
				h.Restart()
				_, err := do(h, "a", add(1))
				wantCode(t, err, actor.ActorFailed)
				for _, path := range []string{"/actors/bot/a/-/", "/actors", "/actors?type=bot"} {
					body := askAs(h, test.role, http.MethodGet, path)
					if strings.Contains(body, "10.0.0.7") != test.shown {
						t.Errorf("GET %s, shown should be %v: %s", path, test.shown, body)
					}
					for _, part := range []string{`"state":"failed"`, `"code":"internal"`, `"error_id":"`, `"retry_at":"`, `"reason":"`, `"attempts":1`} {
						if !strings.Contains(body, part) {
							t.Errorf("GET %s lacks %s: %s", path, part, body)
						}
					}
				}
			})
		})
	}
}

func TestOnlyOperatorsReadTheErrorsOfAWorkflowRun(t *testing.T) {
	does("refuses", func(workflow.Context, claim) (string, error) { return "", errors.New(hiddenCause) })
	does("says so", func(workflow.Context, claim) (string, error) {
		return "", actor.Errorf(actor.FailedPrecondition, "the claim is closed")
	})
	does("tries again", func(ctx workflow.Context, _ claim) (string, error) {
		return workflow.Step(ctx, "dial", func(*workflow.StepCtx) (string, error) { return "", errors.New(hiddenCause) },
			workflow.Retry(workflow.RetryPolicy{Initial: time.Hour}))
	})
	does("panics", func(workflow.Context, claim) (string, error) { panic(hiddenCause) })
	does("wraps", func(workflow.Context, claim) (string, error) {
		return "", fmt.Errorf("%s: %w", hiddenCause, actor.Errorf(actor.NotFound, "no such claim"))
	})
	does("joins", func(ctx workflow.Context, _ claim) (string, error) {
		return workflow.Step(ctx, "dial", func(*workflow.StepCtx) (string, error) {
			return "", errors.Join(errors.New(hiddenCause), actor.Errorf(actor.Unavailable, "no such claim"))
		}, workflow.Retry(workflow.RetryPolicy{Initial: time.Hour}))
	})
	for _, test := range []struct{ how, method, shown, part string }{
		{"refuses", "workflow.status", "10.0.0.7", `"state":"failed"`},
		{"refuses", "workflow.result", "10.0.0.7", `"state":"failed"`},
		{"tries again", "workflow.status", "10.0.0.7", `"attempts":1`},
		{"panics", "workflow.status", "10.0.0.7", `"reason":"panicked"`},
		{"wraps", "workflow.status", "10.0.0.7", "no such claim"},
		{"wraps", "workflow.result", "10.0.0.7", "no such claim"},
		{"joins", "workflow.status", "10.0.0.7", "no such claim"},
	} {
		t.Run(test.how+" "+test.method, func(t *testing.T) {
			config := actortest.Config{Options: func(o *runtime.Options) { o.Authorize = byRole }}
			config.Run(t, func(t *testing.T, h *actortest.Harness) {
				d := desks.Ref(h, "a")
				startClaim(t, d, claim{How: test.how})
				h.Settle()
				for role, shown := range map[string]bool{"operator": true, "reader": false} {
					body := askAs(h, role, http.MethodPost, "/actors/desk/a/-/call/"+test.method)
					if strings.Contains(body, test.shown) != shown || !strings.Contains(body, test.part) {
						t.Errorf("as %s: %s", role, body)
					}
				}
			}, deskDefinition())
		})
	}
	t.Run("an error with a code is for every caller", func(t *testing.T) {
		config := actortest.Config{Options: func(o *runtime.Options) { o.Authorize = byRole }}
		config.Run(t, func(t *testing.T, h *actortest.Harness) {
			startClaim(t, desks.Ref(h, "a"), claim{How: "says so"})
			h.Settle()
			if body := askAs(h, "reader", http.MethodPost, "/actors/desk/a/-/call/workflow.result"); !strings.Contains(body, "the claim is closed") {
				t.Error(body)
			}
		}, deskDefinition())
	})
}
