package keyval_test

import (
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// A response is one that is read while it is written.
type response struct {
	header http.Header
	mu     sync.Mutex
	code   int
	body   strings.Builder
}

func (w *response) Header() http.Header { return w.header }

func (w *response) WriteHeader(code int) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.code = code
}

func (w *response) Write(b []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.Write(b)
}

func (w *response) Flush() {}

// text waits until the response is quiet, and returns what it is by then.
func (w *response) text() string {
	synctest.Wait()
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.body.String()
}

// A stream is a response of server-sent events, in the virtual time of a test.
type stream struct {
	t     *testing.T
	w     *response
	read  int
	ended chan struct{}
}

// follow opens a stream.
func (s *store) follow(path string) *stream {
	s.t.Helper()
	ctx, cancel := context.WithCancel(s.t.Context())
	f := &stream{t: s.t, w: &response{header: make(http.Header)}, ended: make(chan struct{})}
	go func() {
		defer close(f.ended)
		s.gateway.ServeHTTP(f.w, request("room", "GET", path, "").WithContext(ctx))
	}()
	s.t.Cleanup(func() {
		cancel()
		<-f.ended
	})
	if f.read = len("retry: 2000\n\n"); !strings.HasPrefix(f.w.text(), "retry: 2000\n\n") {
		s.t.Fatalf("%q", f.w.text())
	}
	if kind := f.w.header.Get("Content-Type"); f.w.code != 200 || kind != "text/event-stream" {
		s.t.Fatalf("%d %s", f.w.code, kind)
	}
	return f
}

// events wants exactly some events to have come since the last call, with STAMP for each versionstamp.
func (f *stream) events(want ...string) {
	f.t.Helper()
	text := f.w.text()[f.read:]
	f.read += len(text)
	got := strings.Split(masked(strings.TrimSuffix(text, "\n\n")), "\n\n")
	if text == "" {
		got = nil
	}
	if fmt.Sprintf("%q", got) != fmt.Sprintf("%q", want) {
		f.t.Fatalf("%q, not %q", got, want)
	}
}

const ping = "event: ping\ndata: "

func change(entries ...string) string {
	return "event: change\ndata: [" + strings.Join(entries, ",") + "]"
}

func is(key, value string) string {
	return `{"key":[` + key + `],"value":` + value + `,"versionstamp":"STAMP"}`
}

func gone(key string) string { return `{"key":[` + key + `],"value":null,"versionstamp":null}` }

func TestWatchKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		f := s.follow("watch?keys=users/1,users/2")
		f.events(change(gone(`"users",1`), gone(`"users",2`))) // of an actor that is not there
		s.put("users/1", `"a"`)
		f.events(change(is(`"users",1`, `"a"`)))
		late, quiet := s.follow("watch?keys=users/1,users/2&initial=true"), s.follow("watch?keys=users/1&initial=false")
		late.events(change(is(`"users",1`, `"a"`), gone(`"users",2`)))
		s.put("users/2?expiresIn=1000", `9007199254740993`, "users/3", `1`)
		f.events(change(is(`"users",2`, `{"__type":"bigint","value":"9007199254740993"}`)))
		time.Sleep(time.Second)
		f.events(change(gone(`"users",2`)))
		s.exactly(`{"deletedCount":2}`, "DELETE", "keys/users", "")
		f.events(change(gone(`"users",1`)))
		quiet.events(change(gone(`"users",1`)))
		if err := s.node.Destroy(t.Context(), host.Address{Type: "room", Key: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		<-quiet.ended
		quiet.events("event: error\ndata: {\"error\":\"the actor was destroyed\"}")
	})
}

func TestWatchPrefixes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.put("n/1", `1`, "n/2", `2`, "n/3", `3`, "nn", `0`)
		f := s.follow("watch/prefix?prefix=n&limit=2")
		f.events(change(is(`"n",1`, `1`), is(`"n",2`, `2`))) // the limit is of what is there at first
		s.put("n/3", `4`)
		f.events(change(is(`"n",3`, `4`)))
		s.put("nn", `1`)
		f.events()
		s.put("n", `"own"`)
		f.events(change(is(`"n"`, `"own"`)))
		both := s.follow("watch/prefix?prefixes=n/1,nn")
		both.events(change(is(`"n",1`, `1`), is(`"nn"`, `1`)))
	})
}

// A listener that settles nothing gets no more than it may hold.
func TestListen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		s.want(200, "", "POST", "queue/enqueue", `{"value":1,"options":{"backoffSchedule":[10]}}`)
		f := s.follow("queue/listen")
		first := f.messages(1)
		s.want(200, "", "POST", "queue/enqueue", `{"value":2}`)
		s.want(200, "", "POST", "queue/enqueue", `{"value":3}`)
		f.messages(2)
		s.exactly(`{"ok":true}`, "POST", "queue/nack", `{"id":"`+first[0]+`"}`)
		time.Sleep(10 * time.Millisecond)
		again := f.messages(1)
		if again[0] == first[0] {
			t.Error("a delivery has the id of another")
		}
		s.exactly(`{"ok":true}`, "POST", "queue/ack", `{"id":"`+again[0]+`"}`)
		s.exactly(`{"pending":0,"processing":2,"dlq":0,"total":2}`, "GET", "queue/stats", "")
		for range 70 {
			s.want(200, "", "POST", "queue/enqueue", `{"value":1}`)
		}
		ids := f.messages(62) // it holds 64
		s.exactly(`{"ok":true}`, "POST", "queue/ack", `{"id":"`+ids[0]+`"}`)
		f.messages(1)
		s.exactly(`{"pending":7,"processing":64,"dlq":0,"total":71}`, "GET", "queue/stats", "")
	})
}

// messages wants so many messages to have come, and returns their ids.
func (f *stream) messages(n int) (ids []string) {
	f.t.Helper()
	text := f.w.text()
	for event := range strings.SplitSeq(strings.TrimSuffix(text[f.read:], "\n\n"), "\n\n") {
		id, rest, _ := strings.Cut(strings.TrimPrefix(event, "id: "), "\n")
		if !strings.HasPrefix(rest, `event: message`+"\n"+`data: {"id":"`+id+`","value":`) {
			f.t.Fatalf("%q", event)
		}
		ids = append(ids, id)
	}
	if f.read = len(text); len(ids) != n {
		f.t.Fatalf("%d messages, not %d", len(ids), n)
	}
	return ids
}

// Pings come when nothing else does. A node that shuts down says so.
func TestStreamsPingAndEnd(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		all := []*stream{s.follow("watch?keys=a&initial=false"), s.follow("watch/prefix?prefix=a"), s.follow("queue/listen")}
		for _, step := range []struct {
			after time.Duration
			want  []string
		}{{15*time.Second - time.Millisecond, nil}, {time.Millisecond, []string{ping}}, {15 * time.Second, []string{ping}}} {
			time.Sleep(step.after)
			for _, f := range all {
				f.events(step.want...)
			}
		}
		s.front.Drain()
		for _, f := range all {
			<-f.ended
			f.events("event: error\ndata: {\"error\":\"the node is shutting down\"}")
		}
	})
}

// The limit bounds what is there at first also if that comes in several events.
func TestTheLimitOfAWatchIsOfAllThatIsThere(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t)
		large := `"` + strings.Repeat("x", 1<<20-2) + `"`
		for i := range 20 {
			s.put(fmt.Sprint("n/", i), large)
		}
		f := s.follow("watch/prefix?prefix=n&limit=18")
		synctest.Wait()
		if n, events := strings.Count(f.w.text(), `"key":`), strings.Count(f.w.text(), "event: change"); n != 18 || events < 2 {
			t.Errorf("%d entries in %d events", n, events)
		}
	})
}

func TestFaultyWatches(t *testing.T) {
	s := openWith(t, serve.Options{Limits: serve.Limits{Streams: 1}})
	many := strings.TrimSuffix(strings.Repeat("a,", 1001), ",")
	s.paths(400, "GET", "", "watch", "Missing 'keys' query parameter",
		"watch?keys=", "Missing 'keys' query parameter", "watch?keys=a,", "empty segment",
		"watch?keys="+many, "the limit is 1000", "watch?keys=a&initial=1", "initial", "watch?keys=a&limit=1", "limit",
		"watch/prefix", "Missing 'prefix' query parameter", "watch/prefix?prefix=a&prefixes=b", "both",
		"watch/prefix?prefixes="+many[:33], "the limit is 16", "watch/prefix?prefix=a&limit=0", "limit",
		"watch/poll", "Missing 'keys' query parameter",
		"watch/poll?keys=a&versionstamps=1,2", "2 versionstamps for 1 keys",
		"watch/prefix/poll", "Missing 'prefix' query parameter", "watch/prefix/poll?prefix=a&limit=x", "limit",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500%25FF:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a%2500b:00000000000000020000", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a", "versionstamps",
		"watch/prefix/poll?prefix=a&versionstamps=a//b:1", "versionstamps")
	s.want(405, "HEAD", "HEAD", "watch?keys=a", "")
}

func TestPollKeys(t *testing.T) {
	s := open(t)
	s.exactly(`{"entries":[],"versionstamps":["",""]}`, "GET", "watch/poll?keys=a,b", "")
	s.put("a", `1`)
	first := s.want(200, "", "GET", "watch/poll?keys=a,b", "")
	if masked(first) != `{"entries":[`+is(`"a"`, `1`)+`],"versionstamps":["STAMP",""]}` {
		t.Error(first)
	}
	stamp := s.stamp("a")
	s.exactly(`{"entries":[],"versionstamps":["STAMP",""]}`, "GET", "watch/poll?keys=a,b&versionstamps="+stamp+",", "")
	s.send("DELETE", "keys/a", "")
	s.put("b", `2`)
	s.exactly(`{"entries":[`+gone(`"a"`)+`,`+is(`"b"`, `2`)+`],"versionstamps":["","STAMP"]}`, "GET", "watch/poll?keys=a,b&versionstamps="+stamp+",", "")
}

func TestPollPrefix(t *testing.T) {
	s := open(t)
	// The first keys move on, and the ones behind them are not deleted by that.
	s.put("n/b", `1`, "n/c", `2`)
	poll := func(known string) (entries, next string) {
		t.Helper()
		var out struct {
			Entries       json.RawMessage
			Versionstamps string
		}
		s.decode(s.want(200, "", "GET", "watch/prefix/poll?prefix=n&limit=2&versionstamps="+url.QueryEscape(known), ""), &out)
		return masked(string(out.Entries)), out.Versionstamps
	}
	entries, known := poll("")
	if entries != `[`+is(`"n","b"`, `1`)+`,`+is(`"n","c"`, `2`)+`]` {
		t.Fatal(entries)
	}
	s.put("n/a", `3`, "n/1", `4`)
	if entries, known = poll(known); entries != `[`+is(`"n","a"`, `3`)+`]` {
		t.Fatal(entries)
	}
	if entries, known = poll(known); entries != `[]` {
		t.Fatal(entries)
	}
	s.send("DELETE", "keys/n/c", "")
	s.send("DELETE", "keys/n/a", "")
	if entries, known = poll(known); entries != `[`+gone(`"n","c"`)+`,`+gone(`"n","a"`)+`,`+is(`"n",1`, `4`)+`]` { // a number is one
		t.Fatal(entries)
	}
	s.send("DELETE", "keys/n/1", "")
	if entries, _ = poll(known); entries != `[`+gone(`"n",1`)+`]` {
		t.Fatal(entries)
	}
}
