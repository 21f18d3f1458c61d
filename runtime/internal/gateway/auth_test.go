package gateway

import (
	"context"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A walked route is a path of it, and the methods that it answers.
type walked struct {
	path    string
	methods string
}

// everyRoute has a path of each route.
var everyRoute = map[route]walked{
	toCall:           {"/actors/room/a/-/call/add", "POST"},
	toActor:          {"/actors/room/a/-/", "GET HEAD PUT DELETE"},
	toKeys:           {"/actors/room/a/-/keys", "GET HEAD"},
	toTraces:         {"/actors/room/a/-/traces", "GET HEAD"},
	toAudit:          {"/-/audit", "GET HEAD"},
	toEvents:         {"/actors/room/a/-/events", "GET"},
	toWatch:          {"/actors/room/a/-/kv-watch", "GET POST"},
	toFeed:           {"/actors/room/a/-/kv-feed", "GET"},
	toConnect:        {"/actors/room/a/-/connect", "GET POST DELETE"},
	toQueue:          {"/actors/room/a/-/queues/mail", "GET"},
	toStream:         {"/actors/room/a/-/streams/tokens", "GET"},
	toSQLite:         {"/actors/room/a/-/sqlite", "GET PUT"},
	toKV:             {"/actors/room/a/-/kv", "POST"},
	toEntry:          {"/actors/room/a/-/kv-entry", "GET HEAD PUT DELETE"},
	toCodebolt:       {"/actors/room/a/-/kvstore/instances", "GET HEAD POST"},
	toCodeboltEvents: {"/actors/room/a/-/kvstore/ws", "GET"},
	toKeyVal:         {"/actors/room/a/-/keyval/api/keys/users/7", "GET HEAD PUT DELETE"},
	toStrata:         {"/actors/room/a/-/strata/execute", "POST"},
	toList:           {"/actors", "GET HEAD"},
	toRuns:           {"/workflows", "GET HEAD"},
	toRunCounts:      {"/workflows/counts", "GET HEAD"},
	toSampling:       {"/-/traces/sampling", "GET HEAD PUT"},
	toTrace:          {"/-/traces", "GET HEAD"},
	toUsage:          {"/-/usage", "GET HEAD"},
	toTop:            {"/-/top", "GET HEAD"},
	toChanges:        {"/-/changes", "GET"},
	toQueryMany:      {"/query", "POST"},
	toHealth:         {"/healthz", "GET HEAD"},
	toMetrics:        {"/metrics", "GET HEAD"},
	toOpenAPI:        {"/openapi.json", "GET HEAD"},
}

// faults are requests that every route finds something wrong with, if it looks.
var faults = []struct{ query, body, header string }{
	{"", "", "X: y"},
	{"?limit=x&max=zz&nonsense=1&after=x", "", "X: y"},
	{"?%zz", "", "X: y"},
	{"", "not JSON", "Content-Type: text/plain"},
	{"", "", "If-Match: 5"},
	{"", "", "Cairn-Connection: "},
	{"", "", "Idempotency-Key: "},
	{"", "", "Cairn-Reason: %"},
	{"", "", "Sec-Fetch-Site: cross-site"},
}

func TestEveryRouteAsksForTheTokenBeforeItLooksAtAnythingElse(t *testing.T) {
	// The node panics if it is asked for anything.
	g := newGateway(t, setup{Node: office{Recorder: failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Token: "secret"})
	g.front.Drain() // a draining gateway does not tell so without the token either
	var paths []string
	for rt := toCall; rt <= toOpenAPI; rt++ {
		w, ok := everyRoute[rt]
		fatalIf(t, !ok, "paths has no path of route %d", rt)
		paths = append(paths, w.path)
	}
	paths = append(paths, "/actors/room/a/-/audit", "/nothing", "/actors/", "/actors/room/a", "/actors//-/", "/actors/room/~a/-/", "/actors/room/-/call/", "/actors/c/%ff/-/", "/kv/a", "/kv/", "/actors/room/a/-/kv/watch")
	for _, path := range paths {
		for _, method := range strings.Fields("GET HEAD POST PUT DELETE PATCH OPTIONS") {
			if path == "/healthz" && (method == "GET" || method == "HEAD") {
				continue
			}
			for _, f := range faults {
				w := ask(g, method, path+f.query, f.body, f.header)
				errorIf(t, w.Code != 401 || errorOf(t, w).Message != "a bearer token is required" || w.Header().Get("WWW-Authenticate") == "",
					"%s %s%s with %q: %d %q", method, path, f.query, f.header, w.Code, w.Body)
			}
		}
	}
}

func TestTheHookIsAskedBeforeARouteLooksAtTheRestOfTheRequest(t *testing.T) {
	asked := 0
	g := newGateway(t, setup{Node: office{Recorder: failing(nil)}, Databases: &fakeDatabases{}, Runs: fakeRuns{}, Authorize: func(context.Context, serve.AuthRequest) error {
		asked++
		return host.Errorf(host.Unauthenticated, "who are you?")
	}})
	for rt := toCall; rt <= toOpenAPI; rt++ {
		for method := range strings.FieldsSeq(everyRoute[rt].methods) {
			for _, f := range faults {
				asked = 0
				w := ask(g, method, everyRoute[rt].path+f.query, f.body, f.header)
				if f.header == "Sec-Fetch-Site: cross-site" && w.Code == 403 {
					continue
				}
				errorIf(t, w.Code != 401 || !strings.Contains(w.Body.String(), "who are you?") || asked != 1,
					"%s %s%s with %q: %d %q, asked %d times", method, everyRoute[rt].path, f.query, f.header, w.Code, w.Body, asked)
			}
		}
	}
}
