package gateway

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// logged is a node with an audit log, which notes what it is asked for.
type logged struct {
	*hosttest.Recorder
	asked *[]string
}

func (l logged) note(verb string, q audit.Query) {
	text := fmt.Sprintf("%s %s%q exact=%v verb=%s after=%d before=%d limit=%d", verb, q.Type, q.Prefix, q.Exact, q.Verb, q.After, q.Before, q.Limit)
	if !q.Since.IsZero() {
		text += " since=" + q.Since.Format(time.DateOnly)
	}
	*l.asked = append(*l.asked, text)
}

// Audit implements audit.Log.
func (l logged) Audit(_ context.Context, q audit.Query) (audit.Page, error) {
	l.note("read", q)
	return audit.Page{Records: []audit.Record{{ID: 7, Time: time.UnixMicro(7).UTC(), Type: "room", Key: []string{"a"}, Verb: "actor.pause", Channel: "http", Input: host.Raw(`{"a":"<b>"}`)}}, Cursor: 7}, nil
}

// FollowAudit implements audit.Log.
func (l logged) FollowAudit(_ context.Context, q audit.Query, f func(*audit.Record) error) error {
	l.note("follow", q)
	if err := f(&audit.Record{ID: 8, Key: []string{}, Verb: "actor.resume"}); err != nil {
		return err
	}
	return host.Errorf(host.Unavailable, "the end")
}

func TestTheAuditLogIsReadWithinItsScope(t *testing.T) {
	var asked []string
	allowed := ""
	g := newGateway(t, setup{Node: logged{failing(nil), &asked}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		allowed = fmt.Sprintf("%s %s%q %s", r.Operation, r.Type, r.Key, r.Method)
		return nil
	}})
	for _, c := range []struct{ path, scope, asked string }{
		{"/-/audit", `operate [] audit.list`, `read [] exact=false verb= after=0 before=0 limit=0`},
		{"/-/audit?type=room&prefix=a&prefix=b&verb=queue.purge&cursor=5&limit=3", `operate room["a" "b"] audit.list`, `read room["a" "b"] exact=false verb=queue.purge after=0 before=5 limit=3`},
		{"/actors/room/a/-/audit?after=4", `operate room["a"] audit.read`, `read room["a"] exact=true verb= after=4 before=0 limit=0`},
	} {
		asked, allowed = nil, ""
		w := ask(g, "GET", c.path, "")
		if w.Code != 200 || allowed != c.scope || strings.Join(asked, "; ") != c.asked || !strings.Contains(w.Body.String(), `"cursor":7`) {
			t.Errorf("%s: %d, asked %s, the node %q: %s", c.path, w.Code, allowed, asked, w.Body)
		}
	}
	for query, field := range map[string]string{
		"?since=yesterday": "since", "?until=7": "until", "?cursor=x": "cursor", "?after=0": "after", "?limit=1001": "limit", "?prefix=a": "prefix", "?nonsense=1": "nonsense",
		"?since=2027-01-02T00:00:00Z&until=2027-01-01T00:00:00Z": "until", "?type=a&type=b": "type",
	} {
		w := ask(g, "GET", "/-/audit"+query, "")
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
			t.Errorf("%s: %d %s", query, w.Code, w.Body)
		}
	}
	if w := ask(g, "GET", "/actors/room/a/-/audit?type=room", ""); w.Code != 400 {
		t.Errorf("an actor's log of another type: %d", w.Code)
	}
	for _, field := range []string{"until", "cursor", "limit"} {
		w := ask(g, "GET", "/actors/room/a/-/audit?"+field+"=1", "", "Accept: text/event-stream")
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != field {
			t.Errorf("followed with %s: %d %s", field, w.Code, w.Body)
		}
	}
	asked = nil // a client that comes back goes on where it was, also if the clock was set back since it came first
	w := ask(g, "GET", "/-/audit?type=room&since=2027-01-01T00:00:00Z", "", "Accept: text/event-stream", "Last-Event-ID: 6")
	if want := "id: 8\nevent: audit\ndata: {\"id\":8,"; w.Code != 200 || !strings.Contains(w.Body.String(), want) || !strings.Contains(w.Body.String(), "event: cairn.bye") {
		t.Errorf("%d %s", w.Code, w.Body)
	}
	if strings.Join(asked, "; ") != `follow room[] exact=false verb= after=6 before=0 limit=0` {
		t.Errorf("%q", asked)
	}
}

// A call of an operator reaches the node with its origin, and with the name that the hook gives the caller.
func TestCallsOfOperatorsHaveAnOrigin(t *testing.T) {
	var seen *audit.Origin
	open := hosttest.Room()
	open.Type, open.OpenKV = "open", true
	g := newGateway(t, setup{Node: origins{failing(nil), &seen}, Behaviors: []*host.Behavior{hosttest.Room(), open}, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		if r.Operation == serve.Operate && r.Header.Get("Guest") != "" {
			return errors.New("guests do not operate")
		}
		r.SetPrincipal("ada")
		return nil
	}})
	for _, c := range []struct {
		method, path string
		headers      []string
		want         string
	}{
		{"POST", "/actors/room/a/-/call/actor.pause", []string{"Cairn-Reason: f%C3%BCr alle"}, "http ada für alle"},
		{"POST", "/actors/room/a/-/call/actor.pause", nil, "http ada "},
		{"DELETE", "/actors/room/a/-/", []string{"Cairn-Reason: old"}, "http ada old"},
		{"POST", "/actors/room/a/-/call/add", []string{"Cairn-Reason: old"}, ""},
		{"POST", "/actors/open/a/-/call/add", []string{"Cairn-Reason: old"}, ""},
		{"POST", "/actors/open/a/-/call/kv.commit", nil, ""},
		{"POST", "/actors/open/a/-/call/kv.commit", []string{"Cairn-Reason: old"}, "http ada old"},
		{"POST", "/actors/open/a/-/call/kv.commit", []string{"Cairn-Reason: old", "Guest: yes"}, ""},
		{"PUT", "/-/traces/sampling", []string{"Cairn-Reason: old", "Content-Type: application/json"}, "http ada old"},
	} {
		seen = nil
		ask(g, c.method, c.path, "", c.headers...)
		got := ""
		if seen != nil {
			got = seen.Channel + " " + seen.Principal + " " + seen.Reason
			if seen.Remote == "" {
				t.Error("the address is not known")
			}
		}
		if got != c.want {
			t.Errorf("%s %s: %q, want %q", c.method, c.path, got, c.want)
		}
	}
	w := ask(g, "POST", "/actors/room/a/-/call/actor.pause", "", "Cairn-Reason: %")
	if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != audit.Header {
		t.Errorf("%d %s", w.Code, w.Body)
	}
}

// TestEveryRouteThatWritesHasAnOrigin walks the routes, and the methods of the table: what an operator may do by one of them has the
// origin that the audit log needs.
func TestEveryRouteThatWritesHasAnOrigin(t *testing.T) {
	asked, operated := 0, map[route]bool{}
	var at route
	g := newGateway(t, setup{Node: documented{failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Authorize: func(ctx context.Context, r serve.AuthRequest) error {
		asked++
		if r.Operation != serve.Operate && r.Operation != serve.Destroy || at == toWatch || at == toQueryMany { // the last two read
			return host.Errorf(host.PermissionDenied, "no")
		}
		operated[at] = true
		if o := audit.Of(ctx); o == nil || o.Channel != "http" || o.Remote == "" || o.Reason != "why" {
			t.Errorf("%s of %s %q %s has the origin %+v", r.Operation, r.Type, r.Key, r.Method, o)
		}
		return host.Errorf(host.PermissionDenied, "no")
	}})
	walk := func(methods, path string) {
		for m := range strings.FieldsSeq(methods) {
			if m == "GET" || m == "HEAD" {
				continue
			}
			before := asked
			w := ask(g, m, path, "", "Cairn-Reason: why", "Content-Type: application/json")
			if w.Code != 403 || asked == before {
				t.Errorf("%s %s: %d %s", m, path, w.Code, w.Body)
			}
		}
	}
	for at = toCall; at <= toOpenAPI; at++ {
		walk(everyRoute[at].methods, everyRoute[at].path)
	}
	at = toCall
	for _, row := range method.All() {
		if row.Kind == host.Action {
			walk("POST", "/actors/room/a/-/call/"+row.Name)
		}
	}
	for _, want := range []route{toCall, toActor, toSQLite, toSampling, toKV, toCodebolt, toKeyVal, toStrata} {
		if !operated[want] {
			t.Errorf("an operator does nothing at %s", everyRoute[want].path)
		}
	}
}

// origins is a node that notes the origin of a call.
type origins struct {
	*hosttest.Recorder
	seen **audit.Origin
}

// Call implements host.Node.
func (o origins) Call(ctx context.Context, _ *host.Request) (host.Reply, error) {
	*o.seen = audit.Of(ctx)
	return host.Reply{}, nil
}

// Destroy implements host.Node.
func (o origins) Destroy(ctx context.Context, _ host.Address) error {
	*o.seen = audit.Of(ctx)
	return nil
}

// Sampling implements trace.Sampler.
func (origins) Sampling() trace.Sampling { return trace.Sampling{} }

// SetSampling implements trace.Sampler.
func (o origins) SetSampling(ctx context.Context, s trace.Sampling) (trace.Sampling, error) {
	*o.seen = audit.Of(ctx)
	return s, nil
}

// searching is a log that looks long for a record.
type searching struct {
	logged
	took time.Duration
}

// FollowAudit implements audit.Log.
func (l searching) FollowAudit(ctx context.Context, q audit.Query, f func(*audit.Record) error) error {
	if l.note("follow", q); len(*l.asked) > 1 {
		return host.Errorf(host.Unavailable, "the search began again")
	}
	select {
	case <-time.After(l.took):
		return l.logged.FollowAudit(ctx, q, f)
	case <-ctx.Done():
		return ctx.Err()
	}
}

func TestASearchOfTheAuditLogGoesOnThroughHeartbeats(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []string
		g := newGateway(t, setup{Node: searching{logged{failing(nil), &asked}, 10 * time.Minute}, Limits: serve.Limits{Heartbeat: time.Minute}})
		w := ask(g, "GET", "/-/audit?verb=actor.resume&after=1", "", "Accept: text/event-stream")
		if body := w.Body.String(); !strings.Contains(body, "id: 8") || strings.Count(body, comment) < 9 {
			t.Errorf("%d %q", w.Code, body)
		}
	})
}
