package gateway

import (
	"context"
	"maps"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

func TestTheFieldOfAnErrorIsTheParameterOrTheMember(t *testing.T) {
	t.Parallel()
	g := newGateway(t, setup{Node: &fakeNode{}, Databases: &fakeDatabases{}, Runs: fakeRuns{}})
	const status, events, sqlite = "/actors/counter/a/-/", "/actors/counter/a/-/events", "/actors/counter/a/-/sqlite"
	for _, c := range []struct{ method, path, body, field string }{
		{"GET", "/actors?limit=x", "", "limit"}, {"GET", "/actors?max=1", "", "max"}, {"GET", "/actors?brief=", "", "brief"}, {"GET", "/actors?type=a&type=b", "", "type"}, {"GET", "/actors?prefix=%FF", "", "prefix"},
		{"GET", "/actors?cursor=%FF", "", "cursor"}, {"GET", "/workflows?before=x", "", "before"}, {"GET", "/workflows?limit=0", "", "limit"}, {"GET", "/workflows?type=%FF", "", "type"},
		{"GET", status + "?x=1", "", "x"}, {"GET", status + "keys?after=*", "", "after"}, {"GET", status + "keys?value_bytes=-1", "", "value_bytes"},
		{"GET", events + "?names=a,,b", "", "names"}, {"GET", events + "?after=x", "", "after"}, {"GET", events + "?names=%FF", "", "names"},
		{"GET", connectPath + "?params=x", "", "params"}, {"GET", connectPath + "?params=%22%FF%22", "", "params"}, {"GET", connectPath + "?events=a,,b", "", "events"},
		{"GET", connectPath + "?token=" + strings.Repeat("x", maxConnectionToken+1), "", "token"}, {"GET", connectPath + "?token=%FF", "", "token"},
		{"POST", connectPath, `{"events":["a",""]}`, "events[1]"}, {"POST", connectPath, `{"after":"x"}`, "after"}, {"POST", connectPath, `{"x":1}`, "x"}, {"POST", connectPath, `{"life":"x"}`, "life"},
		{"POST", connectPath, `{"params":"` + strings.Repeat("x", 128<<10) + `"}`, "params"},
		{"PUT", sqlite, "", "reason"}, {"PUT", sqlite + "?reason=%FF", "", "reason"}, {"PUT", sqlite + "?reason=" + strings.Repeat("x", maxReason+1), "", "reason"},
		{"GET", mailPath + "?limit=0", "", "limit"}, {"GET", mailPath + "?max=1", "", "max"}, {"GET", mailPath + "?lock_ms=x", "", "lock_ms"},
	} {
		w := ask(g, c.method, c.path, c.body, "Content-Type: application/json")
		if e := errorOf(t, w); w.Code != 400 && w.Code != 413 || e.Metadata["field"] != c.field {
			t.Errorf("%s %.100s %.50s: %d %+v, want field %q", c.method, c.path, c.body, w.Code, e, c.field)
		} else if w.Code == 413 && (e.Metadata["limit"] == "" || e.Metadata["actual"] == "") {
			t.Errorf("%s %.100s: %+v", c.method, c.path, e)
		}
	}
}

func TestTheFieldOfAnErrorIsTheHeader(t *testing.T) {
	t.Parallel()
	missing := func(meta string) error { return host.Errorf(host.InvalidArgument, "there is none").With(meta, "x") }
	g := newGateway(t, setup{Node: &fakeNode{
		call: func(_ context.Context, q *host.Request) (host.Reply, error) { return host.Reply{}, missing("create") },
		subscribe: func(context.Context, host.Address, host.Subscription) (host.EventStream, error) {
			return nil, missing("event")
		},
		connect: func(context.Context, host.Address, host.ConnectRequest) (host.LiveConnection, error) {
			return nil, missing("event")
		},
	}})
	const status, call = "/actors/counter/a/-/", "/actors/counter/a/-/call/get"
	for _, c := range []struct{ method, path, header, field string }{
		{"POST", call, "If-Match: x", "If-Match"}, {"POST", call, "If-None-Match: x", "If-None-Match"}, {"POST", call, "Idempotency-Key: ", "Idempotency-Key"},
		{"POST", call, "Idempotency-Key: " + strings.Repeat("x", MaxIdempotencyKey+1), "Idempotency-Key"},
		{"POST", call, "Cairn-Connection: " + strings.Repeat("x", maxConnectionToken+1), "Cairn-Connection"},
		{"POST", call, "If-None-Match: *", "If-None-Match"}, // the node refuses it for the method
		{"PUT", status, "If-Match: *", "If-Match"}, {"GET", connectPath, "If-None-Match: *", "If-None-Match"},
		{"DELETE", connectPath, "Accept: */*", "Cairn-Connection"}, {"GET", status + "events", "Last-Event-ID: x", "Last-Event-ID"},
		// An event that the type does not have.
		{"GET", status + "events?names=a,x", "Accept: */*", "names"}, {"GET", connectPath + "?events=x", "Accept: */*", "events"},
	} {
		w := ask(g, c.method, c.path, "", c.header)
		if e := errorOf(t, w); w.Code != 400 || e.Metadata["field"] != c.field {
			t.Errorf("%s %s %.50s: %d %+v, want field %q", c.method, c.path, c.header, w.Code, e, c.field)
		}
	}
}

func TestTheDocumentHasEveryMemberOfConnect(t *testing.T) {
	t.Parallel()
	post := paths(t, setup{})["/actors/tenant/{key}/-/connect"]["post"]
	body := post["requestBody"].(map[string]any)["content"].(map[string]any)["application/json"].(map[string]any)["schema"].(map[string]any)
	got := slices.Sorted(maps.Keys(body["properties"].(map[string]any)))
	var want []string
	for f := range reflect.TypeFor[connectInput]().Fields() {
		want = append(want, f.Tag.Get("json"))
	}
	slices.Sort(want)
	if !slices.Equal(got, want) {
		t.Errorf("the body of connect has %v, want %v", got, want)
	}
	var names []string
	for _, p := range post["parameters"].([]any) {
		p := p.(map[string]any)
		if ref, ok := p["$ref"].(string); ok {
			names = append(names, ref[strings.LastIndexByte(ref, '/')+1:])
		}
	}
	if !slices.Contains(names, "After") || !slices.Contains(names, "LastEventID") {
		t.Errorf("the position of connect is not among %v", names)
	}
}
