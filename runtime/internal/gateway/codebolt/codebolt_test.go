package codebolt_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/runtime/internal/gateway/codebolt"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// The tables of the document, route by route.
func TestEveryRoute(t *testing.T) {
	s := open(t)
	made := s.want(201, "", "POST", "instances", `{"name":"my-agent-state","description":"Persisted state for my agent"}`)
	const shown = `{"id":"ID","name":"my-agent-state","description":"Persisted state for my agent","recordCount":0,"namespaces":[],"createdAt":"TIME","updatedAt":"TIME"}`
	errorIf(t, masked(made) != shown, "%v", made)
	id := uuids.FindString(made)
	s.exactly("["+made+"]", "GET", "instances", "")
	s.exactly(made, "GET", "instances/"+id, "")

	s.exactly(`{"instanceId":"`+id+`","namespace":"config","key":"theme"}`, "POST", "kv",
		`{"instanceId":"`+id+`","namespace":"config","key":"theme","value":"dark","autoCreateInstance":false}`)
	s.exactly(`{"value":"dark"}`, "GET", "kv/"+id+"/config/theme", "")
	s.set(id, "user-prefs", "ui.size", `{"w":1,"h":[2,null]}`)
	s.set(id, "user-prefs", "ui.font", `"mono"`)
	s.set(id, "user-prefs", "lang", `"en"`)
	s.want(200, `"recordCount":4,"namespaces":["config","user-prefs"]`, "GET", "instances/"+id, "")
	s.want(200, `"recordCount":4,"namespaces":["config","user-prefs"]`, "GET", "instances", "")

	found := s.want(200, "", "POST", "query",
		`{"instance":"`+id+
			`","namespace":"user-prefs","where":[{"field":"key","operator":"starts_with","value":"ui."}],"order":{"field":"key","direction":"desc"},"limit":50}`)
	errorIf(t, masked(found) != `{"records":[{"key":"ui.size","value":{"w":1,"h":[2,null]},"updated_at":MS},{"key":"ui.font","value":"mono","updated_at":MS}],"hasMore":false,"cursor":null}`,
		"%v", found)
	renamed := s.want(200, `"name":"other"`, "PUT", "instances/"+id, `{"name":"other"}`)
	s.want(200, `"name":"other","description":"d"`, "PUT", "instances/"+id, `{"description":"d"}`)
	errorIf(t, !strings.Contains(renamed, `"description":"Persisted state for my agent","recordCount":4`), "%v", renamed)

	s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/config/theme", "")
	s.want(404, "no record", "GET", "kv/"+id+"/config/theme", "")
	s.exactly(`{"deletedCount":3}`, "DELETE", "namespace/"+id+"/user-prefs", "")
	s.want(200, `"recordCount":0,"namespaces":[]`, "GET", "instances/"+id, "")
	s.exactly(`{"deleted":true}`, "DELETE", "instances/"+id, "")
	for _, verb := range []string{"GET", "DELETE"} {
		s.want(404, "no instance", verb, "instances/"+id, "")
	}
	s.want(404, "no instance", "PUT", "instances/"+id, `{"name":"x"}`)
	s.exactly("[]", "GET", "instances", "")
	same(t, s.Call("kv.list", `{}`), `{"entries":[]}`)
	same(t, s.Call("kv.scopes", `{}`), `{"scopes":[]}`)
}

func TestAnActorThatIsNotThere(t *testing.T) {
	s := open(t)
	s.exactly("[]", "GET", "instances", "")
	s.want(404, "no instance", "GET", "instances/I", "")
	s.want(404, "no instance", "DELETE", "instances/I", "")
	s.want(404, "no instance", "POST", "kv", `{"instanceId":"I","namespace":"n","key":"k","value":1}`)
	s.want(404, "no record", "GET", "kv/I/n/k", "")
	s.exactly(`{"deleted":false}`, "DELETE", "kv/I/n/k", "")
	s.exactly(`{"deletedCount":0}`, "DELETE", "namespace/I/n", "")
	s.exactly(`{"records":[],"hasMore":false,"cursor":null}`, "POST", "query", `{"instance":"I","namespace":"n"}`)
	_, err := s.Node.Lookup(t.Context(), host.Address{Type: "room", Key: []string{"a"}})
	errorIf(t, host.CodeOf(err) != host.NotFound, "the actor was made: %v", err)
}

func TestFaultyRequests(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.instance("two")
	s.set(id, "n", "k", `1`)
	long := strings.Repeat("x", 2000)
	record := func(members string) string { return `{"instanceId":"` + id + `",` + members + `}` }
	query := func(members string) string { return `{"instance":"` + id + `","namespace":"n",` + members + `}` }
	where := func(filter string) string { return query(`"where":[` + filter + `]`) }
	before := s.Call("kv.list", `{}`)
	s.bodies(400, "POST", "instances", `{`, "not JSON", `null`, "not an object", `{"name":""}`, "name is missing",
		`{"name":"a","id":"b"}`, "id", `{"name":"\ud800"}`, "name")
	s.want(409, "already", "POST", "instances", `{"name":"one"}`)
	s.want(413, "limit of 255", "POST", "instances", `{"name":"`+long+`"}`)
	s.want(400, "neither a name nor a description", "PUT", "instances/"+id, `{}`)
	s.want(409, "already", "PUT", "instances/"+id, `{"name":"two"}`)
	s.bodies(400, "POST", "kv", record(`"namespace":"n","key":"k"`), "value is missing",
		record(`"namespace":"n","value":1`), "key is missing",
		`{"namespace":"n","key":"k","value":1}`, "instanceId is missing",
		record(`"namespace":"n","key":"k","value":1,"ttl":5`), "ttl",
		record(`"namespace":"n","key":"k","value":{"a":1,"a":2}`), "twice")
	s.bodies(413, "POST", "kv", record(`"namespace":"n","key":"`+long+`","value":1`), "limit of 1024",
		record(`"namespace":"n","key":"k","value":"`+strings.Repeat("x", 1<<20)+`"`), "value: ")
	s.want(404, "no instance", "POST", "kv", `{"instanceId":"one","namespace":"n","key":"k","value":1}`)
	s.want(404, "nothing at this path", "GET", "kv/"+id+"/n", "")
	s.want(426, "WebSocket", "GET", "ws", "")
	s.want(400, "not a position", "GET", "ws?after=x", "")
	s.want(400, "empty segment", "GET", "kv/"+id+"//k", "")
	s.want(400, "UTF-8", "GET", "kv/"+id+"/n/%ff", "")
	s.want(400, "all", "DELETE", "namespace/"+id+"/n?all=1", "")
	s.want(405, "PATCH", "PATCH", "instances/"+id, `{}`)
	s.bodies(400, "POST", "query", `{}`, "instance is missing", `{"instance":"`+id+`"}`, "namespace is missing",
		query(`"limit":0`), "1 to 500", query(`"limit":501`), "1 to 500",
		query(`"where":[`+strings.Repeat(`{"field":"key","operator":"exists"},`, 5)+
			`{"field":"key","operator":"exists"}]`), "the limit is 5",
		query(`"order":{"field":"value","direction":"asc"}`), "order.field",
		query(`"order":{"field":"key","direction":"up"}`), "order.direction", query(`"cursor":"x"`), "cursor",
		where(`{"field":"instance_id","operator":"=","value":"x"}`), "where[0].field",
		where(`{"field":"value.","operator":"exists"}`), "where[0].field",
		where(`{"field":"key","operator":"like","value":"x"}`), "where[0].operator",
		where(`{"field":"key","operator":"="}`), "where[0].value",
		where(`{"field":"key","operator":"=","value":7}`), "where[0].value",
		where(`{"field":"key","operator":"in","value":"x"}`), "no array",
		where(`{"field":"key","operator":"in","value":[7]}`), "where[0].value",
		where(`{"field":"key","operator":"exists","value":true}`), "takes no value",
		where(`{"field":"updated_at","operator":"starts_with","value":"1"}`), "does not apply",
		where(`{"field":"updated_at","operator":"=","value":"1"}`), "where[0].value",
		where(`{"field":"key","operator":"exists"},{"field":"value.a[","operator":"exists"}`), "where[1]: ",
		where(`{"field":"value.a","operator":"=","value":{"$gt":1}}`), "where[0]: ")
	w := s.Send("POST", "query", `{}`, "Content-Type: text/plain")
	errorIf(t, w.Code != 415, "%d %s", w.Code, w.Body)
	if w := s.Send("PATCH", "instances", ``); w.Header().Get("Allow") != "POST, GET, OPTIONS" {
		t.Error(w.Header())
	}
	same(t, s.Call("kv.list", `{}`), before)
}

// The hook is asked about all methods before the first is called. An instance is not deleted if its
// caller must not remove its scope, which is a later call.
func TestTheHookIsAskedAboutAllMethodsBefore(t *testing.T) {
	refused := ""
	s := openWith(t, serve.Options{Authorize: func(_ context.Context, r serve.AuthRequest) error {
		errorIf(t, r.Operation == serve.Call && !strings.HasPrefix(r.Method, "kv."), "the hook is asked about %s", r.Method)
		if r.Operation == serve.Operate || r.Method == refused {
			return host.Errorf(host.PermissionDenied, "not you")
		}
		return nil
	}})
	id := s.instance("one")
	for _, refused = range []string{"kv.commit", "kv.remove_scope"} {
		s.want(403, "not you", "DELETE", "instances/"+id, "")
	}
	for _, refused = range []string{"kv.commit", "kv.set_scope"} {
		s.want(403, "not you", "POST", "instances", `{"name":"two"}`)
	}
	s.want(200, `"name":"one"`, "GET", "instances/"+id, "")
	s.Actor = "closed/a"
	s.want(403, `{"error":"not you"}`, "GET", "instances", "")
}

// No two instances have the same name, even if many clients make them at once.
func TestNamesAreUnique(t *testing.T) {
	s := open(t)
	const rounds = 20 // so that clients interfere in some
	for round := range rounds {
		var wait sync.WaitGroup
		begin := make(chan struct{})
		for i := range 8 {
			wait.Go(func() {
				<-begin
				s.Send("POST", "kv",
					fmt.Sprintf(`{"instanceId":"shared%d","namespace":"n","key":"k%d","value":1,"autoCreateInstance":true}`, round, i))
			})
		}
		close(begin)
		wait.Wait()
	}
	list := s.want(200, "", "GET", "instances", "")
	same(t, strings.Count(list, `"id"`), rounds, list)
	same(t, strings.Count(list, `"recordCount":8`), rounds, list)
	scopes := s.Call("kv.scopes", `{}`)
	errorIf(t, strings.Count(scopes, `"prefix"`) != rounds, "%v", scopes)
	id := s.instance("shared")
	s.exactly(`{"instanceId":"`+id+`","namespace":"n","key":"x"}`, "POST", "kv",
		`{"instanceId":"`+id+`","namespace":"n","key":"x","value":1,"autoCreateInstance":true}`)
	s.want(200, `"name":"renamed"`, "PUT", "instances/"+id, `{"name":"renamed"}`)
	s.instance("shared") // the name is free again
	s.instance(id)       // an id takes precedence over a name
	for _, name := range []string{"renamed", id} {
		s.exactly(`{"instanceId":"`+id+`","namespace":"n","key":"y"}`, "POST", "kv",
			`{"instanceId":"`+name+`","namespace":"n","key":"y","value":1,"autoCreateInstance":true}`)
	}
	// An instance, its name and its first record are one commit.
	methods := s.Methods(func() {
		s.want(200, "", "POST", "kv", `{"instanceId":"two","namespace":"n","key":"k","value":1,"autoCreateInstance":true}`)
	})
	errorIf(t, methods != "kv.commit kv.list kv.set_scope kv.commit", "%v", methods)
}

// Files of Codebolt are imported as these entries, without a scope.
func TestImportedInstances(t *testing.T) {
	s := open(t)
	s.Call("kv.commit", `{"mutations":[
		{"op":"put","key":["cb","I"],"value":{"id":"I","name":"old","createdAt":1700000000000,"extra":[1]}},
		{"op":"put","key":["cb",true,"old","I"],"value":null},
		{"op":"put","key":["cb","J"],"value":{"id":"J","name":"old","createdAt":"2026-01-01T00:00:00Z"}},
		{"op":"put","key":["cb",true,"old","J"],"value":null},
		{"op":"put","key":["cb","I","config","theme"],"value":"dark"}]}`)
	s.exactly(`[{"id":"J","name":"old","recordCount":0,"namespaces":[],"createdAt":"2026-01-01T00:00:00Z"},`+
		`{"id":"I","name":"old","recordCount":1,"namespaces":["config"],"createdAt":1700000000000}]`, "GET", "instances", "")
	s.want(200, `"instanceId":"I"`, "POST", "kv",
		`{"instanceId":"old","namespace":"config","key":"size","value":1,"autoCreateInstance":true}`)
	s.want(200, `"recordCount":2`, "PUT", "instances/I", `{"name":"new"}`)
	stored := s.Call("kv.get", `{"key":["cb","I"]}`)
	errorIf(t, !strings.Contains(stored, `"extra":[1]`), "%v", stored)
	s.want(409, "already", "POST", "instances", `{"name":"old"}`)
	s.exactly(`{"deleted":true}`, "DELETE", "instances/I", "")
	s.exactly(`{"deleted":true}`, "DELETE", "instances/J", "")
	same(t, s.Call("kv.list", `{}`), `{"entries":[]}`)
}

// A policy that an operator has set stays.
func TestAScopeKeepsItsPolicy(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.Call("kv.set_scope", `{"prefix":["cb","`+id+`"],"max_keys":3}`)
	s.want(200, `"recordCount":0`, "GET", "instances/"+id, "")
	s.set(id, "n", "a", "1")
	s.set(id, "n", "b", "1")
	s.want(413, "", "POST", "kv", `{"instanceId":"`+id+`","namespace":"n","key":"c","value":1}`)
	s.want(200, `"recordCount":2`, "GET", "instances/"+id, "")
}

// A client that leaves during the deletion of its instance leaves no scope: nobody would remove it.
func TestAnInstanceIsDeletedForAClientThatHasLeft(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	ctx, leave := context.WithCancel(t.Context())
	s.Node.Before = func(_ context.Context, _ string, r *host.Request) error {
		if r != nil && r.Method == host.KVRemoveScope {
			leave()
		}
		return nil
	}
	r := httptest.NewRequestWithContext(ctx, "DELETE", "/actors/room/a/-/kvstore/instances/"+id, http.NoBody)
	s.Gateway.ServeHTTP(httptest.NewRecorder(), r)
	errorIf(t, ctx.Err() == nil, "the client has not left")
	same(t, s.Call("kv.scopes", `{}`), `{"scopes":[]}`)
}

func TestCountsAreNotScanned(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	for i := range 50 {
		s.set(id, fmt.Sprintf("n%d", i%3), fmt.Sprint(i), `1`)
	}
	for path, want := range map[string]string{"instances/" + id: "kv.get kv.groups", "instances": "kv.list kv.get_many kv.groups"} {
		methods := s.Methods(func() { s.want(200, `"recordCount":50,"namespaces":["n0","n1","n2"]`, "GET", path, "") })
		errorIf(t, methods != want, "%s calls %s", path, methods)
	}
	methods := s.Methods(func() {
		s.want(200, `"total":17`, "POST", "query", `{"instance":"`+id+`","namespace":"n0","limit":1,"total":true}`)
	})
	errorIf(t, methods != "kv.list kv.groups", "%v", methods)
}

// A record with any key and value is read as written, and distinct from its siblings.
func TestRecordsAreAsTheyWereWritten(t *testing.T) {
	s := open(t)
	id := s.instance("one")
	s.want(404, "no record", "GET", "kv/"+id+"/n/k", "")
	for _, r := range [][3]string{ // key, path, value
		{"a/b", "a%2Fb", `{"$uuidv7":true}`}, {"50%", "50%25", `12345678901234567890.0100`}, {"é ~-", "%C3%A9%20~-", `"<&>"`},
		{"..", "%2E%2E", `{"b":1,"a":2}`}, {"-", "-", `null`}, {"a+b", "a+b", `1`},
	} {
		s.set(id, "n", r[0], r[2])
		s.exactly(`{"value":`+r[2]+`}`, "GET", "kv/"+id+"/n/"+r[1], "")
		s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/n/"+r[1], "")
		s.want(404, "no record", "GET", "kv/"+id+"/n/"+r[1], "")
	}
	for _, namespace := range []string{"n", "nn", "n/", "N"} {
		s.set(id, namespace, "k", `1`)
	}
	s.exactly(`{"deletedCount":1}`, "DELETE", "namespace/"+id+"/n", "")
	s.want(200, `"namespaces":["N","n/","nn"]`, "GET", "instances/"+id, "")
	s.exactly(`{"deletedCount":1}`, "DELETE", "namespace/"+id+"/n%2F", "")
}

// follow reads the events after a position up to the end of the log, in answers of up to limit log
// events. Only events of Codebolt count.
func (s *store) follow(after uint64, limit int) (sequences []uint64, texts []string) {
	s.T.Helper()
	var events codebolt.Events
	for next := after; ; {
		var out kv.FeedOutput
		must(s.T, json.Unmarshal([]byte(s.Call("kv.feed", fmt.Sprintf(`{"prefixes":[["cb"]],"after":%d,"limit":%d}`, next, limit))), &out))
		for _, m := range events.Read(&out) {
			text, err := json.Marshal(m.Payload)
			must(s.T, err)
			if m.Type != "kvStore:position" {
				sequences, texts = append(sequences, m.Sequence), append(texts, m.Type+" "+string(text))
			}
		}
		if next == out.Next && !events.Pending() {
			return sequences, texts
		}
		next = out.Next
	}
}

// The deletion of a namespace of many records, or of an instance of many namespaces, is one event,
// for any start and any size of the reads of the log.
func TestEventsAreResumedWithoutLossOrDoubles(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":["cb"],"log":true}`)
	id := s.instance("one")
	s.set(id, "m", "k", `"v"`)
	var b strings.Builder
	for i := range 250 {
		fmt.Fprintf(&b, `,{"op":"put","key":["cb",%q,"n","k%03d"],"value":%d}`, id, i, i)
	}
	s.Call("kv.commit", `{"mutations":[`+b.String()[1:]+`]}`)
	s.exactly(`{"deletedCount":250}`, "DELETE", "namespace/"+id+"/n", "")
	s.want(200, "", "PUT", "instances/"+id, `{"description":"d"}`) // in the same millisecond, maybe
	s.want(200, "", "PUT", "instances/"+id, `{"name":"two"}`)
	s.set(id, "n", "a", `null`)
	s.exactly(`{"deleted":true}`, "DELETE", "kv/"+id+"/n/a", "")
	s.exactly(`{"deletedCount":0}`, "DELETE", "namespace/"+id+"/n", "")
	s.set(id, "o", "b", `1`)
	s.exactly(`{"deleted":true}`, "DELETE", "instances/"+id, "")

	sequences, texts := s.follow(0, 1000)
	var short []string
	for _, text := range texts {
		if !strings.Contains(text, `"key":"k`) {
			short = append(short, strings.ReplaceAll(masked(text), `"instanceId":"ID","namespace":`, ""))
		}
	}
	want := []string{
		`kvStore:instance-created {"id":"ID","name":"one","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:namespace-cleared {"n"}`,
		`kvStore:instance-updated {"id":"ID","name":"one","description":"d","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:instance-updated {"id":"ID","name":"two","description":"d","createdAt":"TIME","updatedAt":"TIME"}`,
		`kvStore:record-set {"n","key":"a","value":null}`,
		`kvStore:record-deleted {"n","key":"a"}`,
		`kvStore:record-set {"o","key":"b","value":1}`,
		`kvStore:instance-deleted "ID"`,
	}
	errorIf(t, !slices.Equal(short, want) || len(texts) != len(want)+1+250, "%d events, %s", len(texts), strings.Join(short, "\n"))
	for _, limit := range []int{1, 7, 100, 249, 250, 251} {
		if got, same := s.follow(0, limit); !slices.Equal(got, sequences) || !slices.Equal(same, texts) {
			t.Errorf("limit %d: %d events, not %d", limit, len(got), len(sequences))
		}
	}
	for i, sequence := range sequences {
		if i > 3 && i < 250 {
			continue
		}
		if got, rest := s.follow(sequence, 100); !slices.Equal(got, sequences[i+1:]) || !slices.Equal(rest, texts[i+1:]) {
			t.Errorf("behind event %d: %d events, not %d", i, len(got), len(sequences)-i-1)
		}
	}
}

// A deletion of the keys below one record, or of a range of keys, has an event for each record.
func TestARangeOfRecordsIsNoNamespace(t *testing.T) {
	s := open(t)
	s.Call("kv.set_scope", `{"prefix":["cb"],"log":true}`)
	id := s.instance("one")
	for _, key := range []string{"a", "b", "c"} {
		s.set(id, "n", key, `1`)
	}
	sequences, _ := s.follow(0, 100)
	s.Call("kv.commit", fmt.Sprintf(`{"mutations":[{"op":"delete_range","prefix":["cb",%q,"n","a"]}]}`, id))
	s.Call("kv.commit", fmt.Sprintf(`{"mutations":[{"op":"delete_range","start":["cb",%q,"n","b"],"end":["cb",%q,"o"]}]}`, id, id))
	_, texts := s.follow(sequences[len(sequences)-1], 100)
	var want []string
	for _, key := range []string{"a", "b", "c"} {
		want = append(want, fmt.Sprintf(`kvStore:record-deleted {"instanceId":%q,"namespace":"n","key":%q}`, id, key))
	}
	errorIf(t, !slices.Equal(texts, want), "%s", strings.Join(texts, "\n"))
}

func FuzzEvents(f *testing.F) {
	f.Add(`{"events":[{"sequence":1,"op":"delete","cause":"delete_range","key":["cb","I"],"range":{"prefix":["cb"]}},{"sequence":2,"op":"put","cause":"set","key":["cb"],"value":1}],"next":2,"life":"x"}`)
	f.Add(`{"events":[{"sequence":1,"op":"put","cause":"set","key":["cb","I"],"value":{"name":7,"createdAt":[]}}],"next":9,"gap":{"first":1}}`)
	f.Fuzz(func(t *testing.T, answer string) {
		var out kv.FeedOutput
		if json.Unmarshal([]byte(answer), &out) != nil ||
			slices.ContainsFunc(out.Events, func(e kv.Event) bool { return len(e.Key) == 0 }) {
			return
		}
		var events codebolt.Events
		for range 2 {
			_, err := json.Marshal(events.Read(&out))
			fatalIf(t, err != nil, "%v", err)
		}
	})
}
