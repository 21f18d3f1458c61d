package gateway

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// fakeRuns answers with what it is asked for.
type fakeRuns struct{}

func (fakeRuns) Runs(_ context.Context, q host.RunQuery) (host.RunPage, error) {
	return host.RunPage{Runs: []host.ListedRun{{Type: q.Type, Key: []string{}, State: q.State, Reason: q.Reason, Since: q.Before, Text: fmt.Sprint(q.Limit)}}, Cursor: q.Cursor}, nil
}

func (fakeRuns) CountRuns(context.Context) (host.RunCounts, error) {
	return host.RunCounts{Counts: []host.RunCount{{Type: "shop", State: wfhost.StateFailed, Count: 3}}, Uncertain: []host.Address{{Type: "shop", Key: []string{"a"}}}}, nil
}

func TestRunsThatArePausedOrFailedAreListedOverHTTP(t *testing.T) {
	var asked []string
	g := newGateway(t, setup{Node: &fakeNode{}, Runs: fakeRuns{}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		asked = append(asked, fmt.Sprintf("%s %s %s", r.Operation, r.Type, r.Method))
		return nil
	}})
	for _, c := range []struct {
		method, path string
		status       int
		body         string
	}{
		{"GET", "/workflows?type=shop&state=paused&reason=diverged&before=2026-11-21T13:40:00Z&limit=7&cursor=abc", 200,
			`{"runs":[{"type":"shop","key":[],"run":"","workflow":"","state":"paused","reason":"diverged","text":"7","since":"2026-11-21T13:40:00Z"}],"cursor":"abc"}`},
		{"GET", "/workflows/counts", 200, `{"counts":[{"type":"shop","state":"failed","count":3}],"uncertain":[{"type":"shop","key":["a"]}]}`},
		{"GET", "/workflows?before=yesterday", 400, `{"code":"invalid_argument","message":"the parameter before is \"yesterday\"; it must be a time such as 2026-11-21T13:40:00Z","metadata":{"field":"before"}}`},
		{"GET", "/workflows?tpye=shop", 400, ""},
		{"GET", "/workflows?type=shop&type=cart", 400, `{"code":"invalid_argument","message":"the parameter type is given 2 times; it takes one value","metadata":{"field":"type"}}`},
		{"GET", "/actors?type=shop&prefix=a&limit=1&prefix=b&limit=2", 400, `{"code":"invalid_argument","message":"the parameter limit is given 2 times; it takes one value","metadata":{"field":"limit"}}`},
		{"GET", "/workflows/counts?type=shop", 400, ""},
		{"POST", "/workflows", 405, ""},
	} {
		w := ask(g, c.method, c.path, "")
		if w.Code != c.status || c.body != "" && strings.TrimSpace(w.Body.String()) != c.body {
			t.Errorf("%s %s: %d %s", c.method, c.path, w.Code, w.Body)
		}
	}
	if got := fmt.Sprint(asked[:2]); got != "[operate shop workflow.list operate  workflow.list]" {
		t.Error(got)
	}
	guarded := newGateway(t, setup{Node: &fakeNode{}, Runs: fakeRuns{}, Token: "secret"})
	for _, path := range []string{"/workflows", "/workflows/counts", "/workflows?before=x", "/workflows?limit=x", "/workflows?x=y"} {
		if w := ask(guarded, "GET", path, ""); w.Code != 401 {
			t.Errorf("%s without a token: %d", path, w.Code)
		}
	}
	if w := ask(newGateway(t, setup{Node: &fakeNode{}}), "GET", "/workflows", ""); w.Code != 404 {
		t.Errorf("of a node that has no such list: %d", w.Code)
	}
}
