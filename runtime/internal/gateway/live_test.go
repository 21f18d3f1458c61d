package gateway

import (
	"context"
	"fmt"
	"net/http/httptest"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// lively is a node that tells of two changes and ends.
type lively struct {
	*hosttest.Recorder
	asked *changes.Query
	w     *httptest.ResponseRecorder // of the client; may be nil
}

// BeginChanges implements liveFeed.
func (l lively) BeginChanges(q changes.Query) (func(context.Context, func(*changes.Record) error) error, error) {
	*l.asked = q
	if l.w != nil && l.w.Flushed {
		return nil, host.Errorf(host.Internal, "the client was told before")
	}
	return func(_ context.Context, f func(*changes.Record) error) error {
		for _, r := range []changes.Record{{Type: "room", Key: []string{"a"}, Version: 7, Changes: []changes.Change{{Kind: "event", Name: "said", Data: host.Raw(`{"a":"<b>"}`)}}}, {Gap: true, Missed: 3}} {
			if err := f(&r); err != nil {
				return err
			}
		}
		return host.Errorf(host.Unavailable, "the end")
	}, nil
}

func TestChangesAreFollowedBeforeTheClientIsTold(t *testing.T) {
	var asked changes.Query
	w := httptest.NewRecorder()
	newGateway(t, setup{Node: lively{failing(nil), &asked, w}}).ServeHTTP(w, httptest.NewRequest("GET", "/-/changes", nil))
	if w.Code != 200 || !strings.Contains(w.Body.String(), `"version":7`) {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

func TestChangesOfAllActorsAreFollowedWithinAScope(t *testing.T) {
	var asked changes.Query
	allowed := ""
	g := newGateway(t, setup{Node: lively{failing(nil), &asked, nil}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		allowed = fmt.Sprintf("%s %s%q %s", r.Operation, r.Type, r.Key, r.Method)
		return nil
	}})
	w := ask(g, "GET", "/-/changes?type=room&prefix=a&kinds=event,kv", "")
	if allowed != `operate room["a"] changes.follow` || fmt.Sprint(asked) != "{room [a] [event kv]}" {
		t.Errorf("allowed %s, asked %v", allowed, asked)
	}
	const first = `data: {"type":"room","key":["a"],"version":7,"changes":[{"kind":"event","name":"said","data":{"a":"\u003cb\u003e"}}]}`
	for _, want := range []string{"event: changes\n" + first + "\n\n", `data: {"gap":true,"missed":3}`, "event: cairn.bye"} {
		if w.Code != 200 || !strings.Contains(w.Body.String(), want) {
			t.Errorf("%d %s\nhas no %s", w.Code, w.Body, want)
		}
	}
	if w.Header().Get("Content-Type") != "text/event-stream" {
		t.Error(w.Header())
	}
	for query, field := range map[string]string{"?kinds=nonsense": "kinds", "?prefix=a": "prefix", "?nonsense=1": "nonsense", "?type=a&type=b": "type"} {
		w := ask(g, "GET", "/-/changes"+query, "")
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
}
