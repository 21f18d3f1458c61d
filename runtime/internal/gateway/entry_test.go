package gateway

import (
	"context"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/hosttest"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

// instants are the times of an entry.
var instants = regexp.MustCompile(`,"(created|updated)":"[^"]*"`)

// exchangeEntry sends a request for an entry of a room, and returns the status and the answer without times.
func exchangeEntry(g http.Handler, verb, path, more, body string) (int, string) {
	w := ask(g, verb, "/actors/room/a/-/kv-entry?path="+url.QueryEscape(path)+more, body)
	return w.Code, instants.ReplaceAllString(strings.TrimSpace(w.Body.String()), "")
}

func entryGateway(t *testing.T) *Gateway {
	room := hosttest.Room()
	room.OpenKV = true
	behaviors := []*host.Behavior{room}
	return newGateway(t, setup{Node: nodetest.Open(t, behaviors...), Behaviors: behaviors})
}

func TestEntriesByTheirPaths(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := entryGateway(t)
		for _, x := range []struct {
			verb, path, more, body string
			status                 int
			want                   string
		}{
			{"GET", "users/i~7", "", "", 404, `{"code":"not_found","message":"there is no entry with the key users/i~7"}`},
			{"DELETE", "users/i~7", "", "", 404, `{"code":"not_found","message":"there is no actor room/a","metadata":{"actor":"room/a"}}`},
			{"PUT", "users/i~7", "", ` {"name": "Ann", "big": 12345678901234567890} `, 200, `{"ok":true,"version":2,"results":[{}]}`},
			{"GET", "users/i~7", "", "", 200, `{"key":["users",7],"value":{"name":"Ann","big":12345678901234567890},"version":2}`},
			{"GET", "users/7", "", "", 404, `{"code":"not_found","message":"there is no entry with the key users/7"}`},
			{"PUT", "users/i~7", "&version=1", "1", 409, `{"code":"failed_precondition","message":"the entry users/i~7 has another version than 1","metadata":{"field":"version"}}`},
			{"PUT", "users/i~7", "&version=2", "null", 200, `{"ok":true,"version":3,"results":[{}]}`},
			{"GET", "users/i~7", "", "", 200, `{"key":["users",7],"value":null,"version":3}`},
			{"PUT", "..", "&version=0", `{"$uuidv7":true}`, 200, `{"ok":true,"version":4,"results":[{}]}`}, // stored as it is
			{"GET", "..", "", "", 200, `{"key":[".."],"value":{"$uuidv7":true},"version":4}`},
			{"PUT", "a%2Fb/d~1/x~AAH_/b~1", "", `"x"`, 200, `{"ok":true,"version":5,"results":[{}]}`},
			{"GET", "a%2Fb/d~1/x~AAH_/b~1", "", "", 200, `{"key":["a/b",1.0,{"$bytes":"AAH/"},true],"value":"x","version":5}`},
			{"DELETE", "..", "&version=5", "", 409, `{"code":"failed_precondition","message":"the entry .. has another version than 5","metadata":{"field":"version"}}`},
			{"DELETE", "..", "&version=4", "", 200, `{"ok":true,"version":6,"results":[{"deleted":1}]}`},
			{"DELETE", "..", "", "", 200, `{"ok":true,"version":7,"results":[{}]}`},
			{"DELETE", "users", "", "", 200, `{"ok":true,"version":8,"results":[{}]}`}, // not what begins with the key
			{"GET", "users/i~7", "", "", 200, `{"key":["users",7],"value":null,"version":3}`},
			{"HEAD", "users/i~7", "", "", 200, `{"key":["users",7],"value":null,"version":3}`},
		} {
			if status, got := exchangeEntry(g, x.verb, x.path, x.more, x.body); status != x.status || got != x.want {
				t.Errorf("%s %s%s: %d %s, not %d %s", x.verb, x.path, x.more, status, got, x.status, x.want)
			}
		}
		exchangeEntry(g, "PUT", "short", "&ttl_ms=1000", "1")
		time.Sleep(2 * time.Second)
		if status, got := exchangeEntry(g, "GET", "short", "", ""); status != 404 {
			t.Errorf("after its time to live: %d %s", status, got)
		}
	})
}

func TestFaultyRequestsForEntries(t *testing.T) {
	g := entryGateway(t)
	exchangeEntry(g, "PUT", "k", "", "1")
	for _, x := range []struct {
		verb, query, body string
		status            int
		field             string
	}{
		{"GET", "", "", 400, "path"},
		{"GET", "?path=", "", 400, "path"},
		{"GET", "?path=a//b", "", 400, "path"},
		{"GET", "?path=i~x", "", 400, "path"},
		{"GET", "?path=%ff", "", 400, "path"},
		{"GET", "?path=k&path=k", "", 400, "path"},
		{"GET", "?path=k&key=k", "", 400, "key"},
		{"GET", "?path=k&at=-1", "", 400, "at"},
		{"GET", "?path=k&at=0", "", 400, "at"},
		{"GET", "?path=k&time=today", "", 400, "time"},
		{"GET", "?path=k&ttl_ms=1", "", 400, "ttl_ms"},
		{"GET", "?path=k&branch=none", "", 404, "branch"},
		{"PUT", "?path=" + strings.Repeat("k", 2049), "1", 413, ""},
		{"PUT", "?path=k", "", 400, "body"},
		{"PUT", "?path=k", "{", 400, "body"},
		{"PUT", "?path=k", "1 2", 400, "body"},
		{"PUT", "?path=k&version=x", "1", 400, "version"},
		{"PUT", "?path=k&ttl_ms=1.5", "1", 400, "ttl_ms"},
		{"PUT", "?path=k&ttl_ms=-1", "1", 400, "ttl_ms"},
		{"PUT", "?path=k", `"` + strings.Repeat("x", 1<<20) + `"`, 413, ""},
		{"DELETE", "?path=k&version=-1", "", 400, "version"},
		{"DELETE", "?path=k&ttl_ms=1", "", 400, "ttl_ms"},
		{"DELETE", "", "", 400, "path"},
		{"POST", "?path=k", "1", 405, ""},
	} {
		w := ask(g, x.verb, "/actors/room/a/-/kv-entry"+x.query, x.body)
		if e := errorOf(t, w); w.Code != x.status || x.field != "" && e.Metadata["field"] != x.field {
			t.Errorf("%s %.40s %.20s: %d %s, not %d for the field %q", x.verb, x.query, x.body, w.Code, w.Body, x.status, x.field)
		}
	}
	for _, header := range []string{"If-Match: *", "If-None-Match: *", "Idempotency-Key: k"} {
		if w := ask(g, "PUT", "/actors/room/a/-/kv-entry?path=k", "2", header); w.Code != 400 {
			t.Errorf("%s: %d %s", header, w.Code, w.Body)
		}
	}
	if _, got := exchangeEntry(g, "GET", "k", "", ""); !strings.Contains(got, `"value":1,`) {
		t.Errorf("the entry is %s", got)
	}
}

// What Authorize is asked is what it is asked about the methods.
func TestAccessToEntries(t *testing.T) {
	room := hosttest.Room()
	behaviors := []*host.Behavior{room}
	var asked []string
	g := newGateway(t, setup{Node: nodetest.Open(t, behaviors...), Behaviors: behaviors, Authorize: func(_ context.Context, r serve.AuthRequest) error {
		asked = append(asked, string(r.Operation)+" "+r.Method)
		return nil
	}})
	for _, verb := range []string{"GET", "PUT", "DELETE"} {
		ask(g, verb, "/actors/room/a/-/kv-entry?path=k", "1")
	}
	if got := strings.Join(asked, ", "); got != "operate kv.get, operate kv.commit, operate kv.commit" {
		t.Errorf("it was asked about %s", got)
	}
}
