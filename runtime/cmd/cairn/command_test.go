package main

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor/host"
)

// same compares a run with what it must print.
func same(t *testing.T, r result, status int, stdout, stderr string) {
	t.Helper()
	if r.status != status {
		t.Errorf("exit status %d, want %d", r.status, status)
	}
	if r.stdout != stdout {
		t.Errorf("stdout:\n%swant:\n%s", r.stdout, stdout)
	}
	if r.stderr != stderr {
		t.Errorf("stderr:\n%swant:\n%s", r.stderr, stderr)
	}
}

// documents decodes one JSON document a line.
func documents[T any](t *testing.T, text string) []T {
	t.Helper()
	var all []T
	for line := range strings.Lines(text) {
		var v T
		d := json.NewDecoder(strings.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&v); err != nil {
			t.Fatalf("%s: %v", line, err)
		}
		all = append(all, v)
	}
	return all
}

func TestCallSendsTheInputAndPrintsTheOutput(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	file := filepath.Join(t.TempDir(), "in.json")
	if err := os.WriteFile(file, []byte(`{"n":3}`), 0o600); err != nil {
		t.Fatal(err)
	}
	same(t, at(t, url, "call", "cell/acme", "put", `{"n":1}`), 0,
		"{\n  \"input\": \"{\\\"n\\\":1}\",\n  \"method\": \"put\"\n}\n", "")
	same(t, runCommand(t, `{"n":2}`, nil, "call", "--url", url, "cell/acme", "put", "-"), 0,
		"{\n  \"input\": \"{\\\"n\\\":2}\",\n  \"method\": \"put\"\n}\n", "")
	at(t, url, "call", "cell/a%2Fb/~", "put", "@"+file, "--idempotency-key", "k", "--existing")
	at(t, url, "call", "cell", "size")
	if len(n.calls) != 4 {
		t.Fatalf("%d calls", len(n.calls))
	}
	r := n.calls[2]
	if !slices.Equal(r.Key, []string{"a/b", ""}) || string(r.Input) != `{"n":3}` || r.IdempotencyKey != "k" || !r.Existing || r.Create {
		t.Errorf("call is %+v", r)
	}
	if r := n.calls[3]; len(r.Key) != 0 || len(r.Input) != 0 || r.Codec != host.JSON {
		t.Errorf("call is %+v", r)
	}
}

func TestCallKeepsEveryDigitOfTheOutput(t *testing.T) {
	n := newFakeNode()
	n.answer = func(host.Request) (host.Reply, error) {
		return host.Reply{Output: []byte(`{"n":123456789012345678901234567890,"f":1.10,"s":"<&>"}`), Version: 9}, nil
	}
	url := n.serve(t, "")
	same(t, at(t, url, "call", "cell/acme", "get"), 0, "{\n  \"n\": 123456789012345678901234567890,\n  \"f\": 1.10,\n  \"s\": \"<&>\"\n}\n", "")
	same(t, at(t, url, "call", "--json", "cell/acme", "get"), 0,
		`{"output":{"n":123456789012345678901234567890,"f":1.10,"s":"<&>"},"version":9,"replayed":false}`+"\n", "")
	n.answer = func(host.Request) (host.Reply, error) { return host.Reply{Version: 3}, nil }
	same(t, at(t, url, "call", "cell/acme", "put"), 0, "", "")
	same(t, at(t, url, "call", "--json", "cell/acme", "put"), 0, `{"output":null,"version":3,"replayed":false}`+"\n", "")
}

func TestCallSaysWhenTheAnswerIsAnOldOne(t *testing.T) {
	url := newFakeNode().serve(t, "")
	r := at(t, url, "call", "cell/acme", "put", "--idempotency-key=used")
	if r.status != 0 || !strings.Contains(r.stderr, "an earlier call with the same idempotency key, at version 7") {
		t.Errorf("%+v", r)
	}
}

func TestErrorOfTheNodeHasCodeDetailsAndPage(t *testing.T) {
	n := newFakeNode()
	n.answer = func(host.Request) (host.Reply, error) {
		return host.Reply{}, host.Errorf(host.TooLarge, "the value is too large").With("what", "value").With("limit", "131072").With("actual", "200000")
	}
	url := n.serve(t, "")
	same(t, at(t, url, "call", "cell/acme", "put"), 1, "",
		"error: too_large: the value is too large\n  actual: 200000\n  limit: 131072\n  what: value\n  see docs/errors/too_large.md\n")
	n.answer = func(host.Request) (host.Reply, error) {
		return host.Reply{}, host.Errorf(host.Overloaded, "the mailbox is full").Retry()
	}
	same(t, at(t, url, "call", "--attempts=1", "cell/acme", "put"), 1, "",
		"error: overloaded: the mailbox is full\n  nothing was done; the same call may succeed later\n  see docs/errors/overloaded.md\n")
	same(t, at(t, url, "call", "--attempts=1", "--json", "cell/acme", "put"), 1, "",
		`{"error":{"code":"overloaded","message":"the mailbox is full","retryable":true,"page":"docs/errors/overloaded.md"}}`+"\n")
}

func TestSlipsInNamesAreExplained(t *testing.T) {
	url := newFakeNode().serve(t, "")
	same(t, at(t, url, "status", "cel/acme/eu"), 1, "",
		"error: unknown_type: the node hosts no actor type \"cel\"\n  did you mean cell/acme/eu?\n  see docs/errors/unknown_type.md\n")
	n := newFakeNode()
	n.answer = func(r host.Request) (host.Reply, error) {
		return host.Reply{}, host.Errorf(host.UnknownMethod, "no method %q", r.Method)
	}
	url = n.serve(t, "")
	same(t, at(t, url, "call", "cell/acme", "delet"), 1, "",
		"error: unknown_method: no method \"delet\"\n  did you mean delete?\n  see docs/errors/unknown_method.md\n")
	same(t, at(t, url, "call", "cell/acme", "frobnicate"), 1, "",
		"error: unknown_method: no method \"frobnicate\"\n  a cell has: "+strings.Join(cellMethods(), ", ")+"\n  see docs/errors/unknown_method.md\n")
	r := at(t, url, "status", "tenant")
	if r.status != 1 || strings.Contains(r.stderr, "did you mean") {
		t.Errorf("%+v", r)
	}
}

func TestNoNodeSaysHowToStartOne(t *testing.T) {
	url := "http://" + reserve(t)
	for _, args := range [][]string{{"call", "cell/a", "get"}, {"actors"}, {"status", "cell/a"}, {"events", "cell/a"}, {"inspect", "cell/a"}, {"destroy", "cell/a", "-y"}} {
		same(t, at(t, url, append(args, "--attempts=1")...), 1, "",
			"error: unavailable: no node answers at "+url+"\n  nothing was done; the same call may succeed later\n"+
				"  start one with: cairn serve\n  or name another with --url or CAIRN_URL\n  see docs/errors/unavailable.md\n")
	}
}

func TestLostConnectionIsNotCalledHarmless(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	// A node that dies with the request in its hands.
	done := make(chan struct{})
	go func() {
		defer close(done)
		conn, err := l.Accept()
		if err != nil {
			return
		}
		conn.Read(make([]byte, 1))
		l.Close()
		conn.Close()
	}()
	r := at(t, "http://"+l.Addr().String(), "call", "cell/a", "put", `{"key":[1],"value":1}`, "--attempts=1")
	<-done
	if r.status != 1 || strings.Contains(r.stderr, "nothing was done") || !strings.Contains(r.stderr, "lost") || !strings.Contains(r.stderr, "cairn serve") {
		t.Errorf("%+v", r)
	}
}

func TestTokenIsAskedForAndSent(t *testing.T) {
	url := newFakeNode().serve(t, "secret")
	r := at(t, url, "status", "cell/acme")
	if r.status != 1 || !strings.Contains(r.stderr, "unauthenticated") || !strings.Contains(r.stderr, "--token or CAIRN_TOKEN") {
		t.Errorf("%+v", r)
	}
	if r := at(t, url, "status", "cell/acme", "--token", "secret"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if r := runCommand(t, "", map[string]string{"CAIRN_URL": url, "CAIRN_TOKEN": "secret"}, "status", "cell/acme"); r.status != 0 {
		t.Errorf("%+v", r)
	}
	if r := runCommand(t, "", map[string]string{"CAIRN_TOKEN": "secret"}, "help", "status"); strings.Contains(r.stdout, "secret") {
		t.Error("help shows the token")
	}
}

func TestFaultsOfTheCommandLineExitWithTwo(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	for _, args := range [][]string{
		{"call"}, {"call", "cell/a"}, {"call", "cell//a", "get"}, {"call", "cell/a", "put", "{"}, {"call", "cell/a", "put", "@/does/not/exist"},
		{"call", "cell/a", "put", "-"}, {"nonsense"}, {"actors", "--limit", "0"}, {"actors", "--limit", "x"}, {"actors", "--prefix", "a"},
		{"actors", "a b"}, {"actors", "cell/acme"}, {"serve", "--token=x"}, {"serve", "--url=http://127.0.0.1:1"}, {"actors", "cell", "extra"}, {"status"}, {"status", "cell/%zz"}, {"destroy", "cell/acme"}, {"events", "cell/a", "--count=-1"},
		{"events", "cell/a", "--after=x"}, {"inspect", "cell/a", "--after=x"}, {"inspect", "cell/a", "--limit=-1"}, {"inspect", "cell/a", "--values=-1"},
		{"bench", "--duration=0s"}, {"bench", "--callers=0"}, {"bench", "--actors=0"}, {"bench", "--value=-1"}, {"--nonsense"}, {"actors", "--attempts=0"},
		{"status", "cell/a", "--url", "127.0.0.1:6420"}, {"status", "cell/a", "--url", "ftp://x"}, {"serve", "extra"}, {"version", "extra"},
		{"pause"}, {"pause", "cell/a", "--type=cell"}, {"pause", "--type=cell"}, {"pause", "cell/a", "cell/b"}, {"resume", "--state=tired", "-y"},
		{"sleep", "--prefix=a", "-y"}, {"sleep", "--type=a/b", "-y"}, {"wake", "cell/a", "--concurrency=0"}, {"retry", "--type=cell", "--prefix=%zz", "-y"},
		{"why"}, {"why", "cell/a", "extra"}, {"skip", "cell/a"}, {"skip", "cell/a", "--queue=q", "--to=cell/b"}, {"skip", "cell/a", "--to=//"},
		{"queue"}, {"queue", "nonsense"}, {"queue", "send", "cell/a", "q"}, {"queue", "send", "cell/a", "q", "{"}, {"queue", "send", "cell/a", "q", "1", "--lines"},
		{"queue", "send", "cell/a", "q", "1", "--delay=-1s"}, {"queue", "send", "cell/a", "q", "1", "--ttl=1us"}, {"queue", "send", "cell/a", "q", "1", "2", "--wait=1s"},
		{"queue", "peek", "cell/a", "q", "x"}, {"queue", "peek", "cell/a", "q", "--limit=-1"}, {"queue", "receive", "cell/a", "q", "--limit=0"},
		{"queue", "ack", "cell/a", "q"}, {"queue", "ack", "cell/a", "q", "r", "--reply={"}, {"queue", "nack", "cell/a", "q", "r", "--delay=-1s"},
		{"queue", "dead"}, {"queue", "dead", "requeue", "cell/a", "q"}, {"queue", "dead", "requeue", "cell/a", "q", "1", "--all"}, {"queue", "dead", "delete", "cell/a", "q", "--all"},
		{"queue", "purge", "cell/a", "q"}, {"queue", "work", "cell/a", "q"}, {"queue", "work", "cell/a", "q", "true"}, {"queue", "work", "cell/a", "--", "true"},
		{"queue", "work", "cell/a", "q", "--", "/does/not/exist"}, {"queue", "work", "cell/a", "q", "--workers=0", "--", "true"}, {"queue", "work", "cell/a", "q", "--lock=1ms", "--", "true"},
		{"schedule", "set", "cell/a", "s"}, {"schedule", "set", "cell/a", "s", "--every=1s", "--cron=@daily"}, {"schedule", "set", "cell/a", "s", "--every=1s", "--zone=UTC"},
		{"schedule", "set", "cell/a", "s", "--at=tomorrow"}, {"schedule", "set", "cell/a", "s", "--every=1s", "--payload={"}, {"schedule", "runs", "cell/a"},
		{"stream", "append", "cell/a", "s"}, {"stream", "append", "cell/a", "s", "1", "--lines"}, {"stream", "append", "cell/a", "s", "--lines", "--idempotency-key=k"},
		{"stream", "read", "cell/a", "s", "--limit=-1"}, {"stream", "follow", "cell/a", "s", "--count=-1"}, {"stream", "follow", "cell/a", "s", "--new", "--after=1"},
		{"connect", "cell/a", "--params={"}, {"connect", "cell/a", "--params=-"}, {"connect", "//"}, {"connections", "close", "cell/a"},
	} {
		r := at(t, url, args...)
		if r.status != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, "error: ") || !strings.Contains(r.stderr, "--help") {
			t.Errorf("%q: %+v", args, r)
		}
		r = at(t, url, append([]string{"--json"}, args...)...)
		if r.status != 2 || r.stdout != "" || !strings.HasPrefix(r.stderr, `{"error":{"code":"usage","message":"`) || strings.Count(r.stderr, "\n") != 1 {
			t.Errorf("%q: %+v", args, r)
		}
	}
	if len(n.calls) > 0 || len(n.actors) != 6 {
		t.Error("a faulty command line had an effect")
	}
	r := at(t, url, "actors", "--json", "--limit", "0")
	if want := `{"error":{"code":"usage","message":"--limit 0: at least 1"}}` + "\n"; r.stderr != want {
		t.Errorf("got %s", r.stderr)
	}
	r = at(t, url, "stats", "cell/acme")
	if r.status != 2 || !strings.Contains(r.stderr, "status") {
		t.Errorf("a slip in a command's name: %+v", r)
	}
}

func TestActorsAreListedPageByPage(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	same(t, at(t, url, "actors"), 0, ""+
		"ACTOR         STATE   VERSION  KEYS  SIZE     UPDATED\n"+
		"cell/acme     asleep  0        0     0 B      2026-11-21T12:00:00Z\n"+
		"cell/acme/eu  awake   700      1     1000 B   2026-11-21T13:00:00Z\n"+
		"cell/acme/us  asleep  1,400    2     2.0 KiB  2026-11-21T14:00:00Z\n"+
		"cell/a%2Fb/~  asleep  2,100    3     2.9 KiB  2026-11-21T15:00:00Z\n"+
		"cell/zoo      failed  2,800    4     3.9 KiB  2026-11-21T16:00:00Z\n"+
		"room/lobby    asleep  0        0     0 B      2026-11-21T12:00:00Z\n", "")
	same(t, at(t, url, "actors", "cell", "--prefix", "acme/", "--limit", "2"), 0, ""+
		"ACTOR         STATE   VERSION  KEYS  SIZE    UPDATED\n"+
		"cell/acme     asleep  0        0     0 B     2026-11-21T12:00:00Z\n"+
		"cell/acme/eu  awake   700      1     1000 B  2026-11-21T13:00:00Z\n", "there are more: --limit N or --all lists them\n")
	same(t, at(t, url, "actors", "cell", "--prefix", "nobody"), 0, "", "no such actors\n")

	same(t, at(t, url, "actors", "rom"), 0, "", "no such actors; did you mean the type room?\n")

	actors := documents[host.Status](t, at(t, url, "actors", "--all", "--json").stdout)
	if len(actors) != 6 || actors[4].Failure == nil || actors[4].Failure.Attempts != 4 {
		t.Errorf("got %+v", actors)
	}
	n.actors = nil
	if r := at(t, url, "actors"); r.status != 0 || !strings.Contains(r.stderr, "cairn call cell/hello put") {
		t.Errorf("%+v", r)
	}
	for i := range 2500 {
		n.actors = append(n.actors, host.Status{Type: "cell", Key: []string{strings.Repeat("x", i+1)}})
	}
	if r := at(t, url, "actors", "--limit", "2100", "--json"); strings.Count(r.stdout, "\n") != 2100 {
		t.Errorf("%d actors of 2,100", strings.Count(r.stdout, "\n"))
	}
	if r := at(t, url, "actors", "--all", "--json"); strings.Count(r.stdout, "\n") != 2500 {
		t.Errorf("%d actors of 2,500", strings.Count(r.stdout, "\n"))
	}
}

func TestStatusShowsWhyAnActorFailed(t *testing.T) {
	url := newFakeNode().serve(t, "")
	same(t, at(t, url, "status", "cell/zoo"), 0, ""+
		"actor           cell/zoo\n"+
		"id              00000004-0000-8000-8000-000000000000\n"+
		"state           failed\n"+
		"failed because  state does not decode:\\nbad byte\n"+
		"failed since    2026-11-21T12:00:00Z, 4 attempts\n"+
		"next attempt    2026-11-21T12:01:00Z or later, with the next call\n"+
		"version         2,800\n"+
		"generation      1\n"+
		"stored          4 keys, 3.9 KiB\n"+
		"created         2026-11-21T12:00:00Z\n"+
		"updated         2026-11-21T16:00:00Z\n"+
		"waiting calls   0\n"+
		"sends           0 pending, 0 failed\n"+
		"alarms          2, the next at 2026-11-21T12:00:00Z\n"+
		"connections     0\n"+
		"tasks           0\n", "")
	all := documents[host.Status](t, at(t, url, "status", "cell/acme/eu", "--json").stdout)
	if len(all) != 1 || all[0].State != host.Awake || all[0].Mailbox != 3 {
		t.Errorf("got %+v", all)
	}
	same(t, at(t, url, "status", "cell/none"), 1, "",
		"error: not_found: there is no actor cell/none\n  see docs/errors/not_found.md\n")
}

func TestCreateRefusesATakenKey(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	r := at(t, url, "create", "cell/new", "--json")
	if r.status != 0 || len(n.calls) != 1 || !n.calls[0].Create || n.calls[0].Method != "" {
		t.Errorf("%+v %+v", r, n.calls)
	}
	r = at(t, url, "create", "room/new", "create", `{"seats":4}`)
	if r.status != 0 || len(n.calls) != 2 || n.calls[1].Method != "create" || string(n.calls[1].Input) != `{"seats":4}` {
		t.Errorf("%+v %+v", r, n.calls)
	}
	same(t, at(t, url, "create", "cell/acme"), 1, "", "error: already_exists: the key is taken\n  see docs/errors/already_exists.md\n")
}

func TestDestroyNeedsConsent(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	same(t, at(t, url, "destroy", "cell/acme", "--yes"), 0, "destroyed cell/acme\n", "")
	same(t, at(t, url, "destroy", "cell/acme/eu", "-y", "--json"), 0, `{"destroyed":true,"type":"cell","key":["acme","eu"]}`+"\n", "")
	same(t, at(t, url, "destroy", "cell/acme", "--yes"), 1, "", "error: not_found: there is no actor cell/acme\n  see docs/errors/not_found.md\n")
	if len(n.actors) != 4 {
		t.Errorf("%d actors are left", len(n.actors))
	}
	for answer, want := range map[string]bool{"y\n": true, "YES\n": true, "\n": false, "": false, "no\n": false, "yep\n": false} {
		var asked strings.Builder
		c := &cli{stdin: strings.NewReader(answer), stderr: &asked}
		if got := c.confirm("Destroy cell/a?"); got != want || asked.String() != "Destroy cell/a? [y/N] " {
			t.Errorf("%q is consent: %v (%q)", answer, got, asked.String())
		}
	}
}

func TestInspectShowsKeysAndDecodedValues(t *testing.T) {
	n := newFakeNode()
	url := n.serve(t, "")
	same(t, at(t, url, "inspect", "cell/acme"), 0, ""+
		"KEY        SIZE  VERSION  UPDATED               VALUE\n"+
		"persisted  5     2        2026-11-21T12:00:00Z  v3 {\"n\": 7}\n"+
		"kv(\"a\")    13    1        2026-11-21T12:00:00Z  {\"big\":1e40}\n"+
		"kv(\"b\")    4     1        2026-11-21T12:00:00Z  0xfffe0001\n"+
		"kv(\"c\")    0     1        2026-11-21T12:00:00Z  empty\n", "")
	same(t, at(t, url, "inspect", "cell/acme", "--values=0", "--limit=2"), 0, ""+
		"KEY        SIZE  VERSION  UPDATED\n"+
		"persisted  5     2        2026-11-21T12:00:00Z\n"+
		"kv(\"a\")    13    1        2026-11-21T12:00:00Z\n", "there are more: --after 04026100\n")
	r := at(t, url, "inspect", "cell/acme", "--after", "04026100", "--values", "5")
	if !strings.Contains(r.stdout, "0xff…") || strings.Contains(r.stdout, `kv("a")`) {
		t.Errorf("%+v", r)
	}
	keys := documents[host.StoredKey](t, at(t, url, "inspect", "cell/acme", "--json", "--values", "3").stdout)
	if len(keys) != 4 || string(keys[1].Value) != `{"b` || keys[1].Size != 13 || string(keys[1].Key) != "\x04\x02a\x00" {
		t.Errorf("got %+v", keys)
	}
}

func TestEventsAreFollowedAcrossARestart(t *testing.T) {
	n := newFakeNode()
	n.cutAfter = 2
	url := n.serve(t, "")
	r := at(t, url, "events", "cell/acme", "--after", "0", "--count", "4", "--json")
	if r.status != 0 || n.subscriptions < 2 {
		t.Errorf("%d subscriptions, %+v", n.subscriptions, r)
	}
	want := `{"missed":1}
{"sequence":2,"version":2,"name":"other","time":"2026-11-21T12:00:00Z","data":{"n":2}}
{"sequence":3,"version":3,"name":"changed","time":"2026-11-21T12:00:00Z","data":{"n":3}}
{"sequence":4,"version":4,"name":"other","time":"2026-11-21T12:00:00Z","data":{"n":4}}
{"sequence":5,"version":5,"name":"changed","time":"2026-11-21T12:00:00Z","data":{"n":5}}
`
	if r.stdout != want {
		t.Errorf("stdout:\n%swant:\n%s", r.stdout, want)
	}
}

func TestEventsEndWithTheActor(t *testing.T) {
	n := newFakeNode()
	n.gone = true
	url := n.serve(t, "")
	same(t, at(t, url, "events", "cell/acme", "--after", "2", "--names", "changed"), 0, ""+
		"     3  2026-11-21T12:00:00Z  v3       changed     {\"n\":3}\n"+
		"     5  2026-11-21T12:00:00Z  v5       changed     {\"n\":5}\n", "cell/acme was destroyed\n")
	same(t, at(t, url, "events", "cell/none"), 1, "", "error: not_found: there is no actor cell/none\n  see docs/errors/not_found.md\n")
}

// An interrupter cancels a context when something is written to it.
type interrupter struct {
	strings.Builder
	cancel context.CancelFunc
}

func (i *interrupter) Write(b []byte) (int, error) {
	i.cancel()
	return i.Builder.Write(b)
}

func TestEventsEndQuietlyWhenInterrupted(t *testing.T) {
	url := newFakeNode().serve(t, "")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	stdout, stderr := &interrupter{cancel: cancel}, new(strings.Builder)
	c := &cli{stdin: strings.NewReader(""), stdout: stdout, stderr: stderr, getenv: func(string) string { return "" }}
	if status := c.run(ctx, []string{"events", "cell/acme", "--after=4", "--url", url}); status != 0 || stderr.String() != "" {
		t.Errorf("status %d, %s", status, stderr)
	}
	if !strings.Contains(stdout.String(), `{"n":5}`) {
		t.Errorf("printed %q", stdout.String())
	}
}

func TestCompletionKnowsTypesAndKeysOfTheNode(t *testing.T) {
	url := newFakeNode().serve(t, "")
	for _, test := range []struct {
		args []string
		want string
	}{
		{[]string{"call", ""}, "cell/ room/"},
		{[]string{"call", "ro"}, "room/"},
		{[]string{"call", "cell/"}, "cell/acme cell/acme/ cell/a%2Fb/ cell/zoo"},
		{[]string{"status", "cell/z"}, "cell/zoo"},
		{[]string{"destroy", "cell/acme/"}, "cell/acme/eu cell/acme/us"},
		{[]string{"inspect", "cell/a%2Fb/"}, "cell/a%2Fb/~"},
		{[]string{"events", "nothing/"}, ""},
		{[]string{"actors", "c"}, "cell"},
		{[]string{"call", "cell/acme", "de"}, "delete delete_range"},
		{[]string{"call", "room/lobby", ""}, ""},
		{[]string{"sta"}, "status"},
	} {
		r := at(t, url, append([]string{"__complete"}, test.args...)...)
		var words []string
		for line := range strings.Lines(r.stdout) {
			if line = strings.TrimSpace(line); !strings.HasPrefix(line, ":") {
				word, _, _ := strings.Cut(line, "\t")
				words = append(words, word)
			}
		}
		if got := strings.Join(words, " "); got != test.want {
			t.Errorf("%q completes to %q, want %q", test.args, got, test.want)
		}
	}
	for _, shell := range []string{"bash", "zsh", "fish", "powershell"} {
		if r := at(t, url, "completion", shell); r.status != 0 || !strings.Contains(r.stdout, "cairn") {
			t.Errorf("%s: %d %s", shell, r.status, r.stderr)
		}
	}
}

func TestCompletionIsSilentWithoutANode(t *testing.T) {
	if r := at(t, "http://"+reserve(t), "__complete", "call", ""); r.status != 0 || strings.Contains(r.stdout, "error") {
		t.Errorf("%+v", r)
	}
}

func TestHelpDocumentsEveryCommandWithAnExample(t *testing.T) {
	c := &cli{getenv: func(string) string { return "" }}
	for _, cmd := range allCommands(c.root()) {
		if cmd.Short == "" || cmd.Long == "" || cmd.Name() != "version" && cmd.Example == "" || !strings.Contains(cmd.Long, "--json") && cmd.Name() != "serve" {
			t.Errorf("%s is not documented", cmd.CommandPath())
		}
		for line := range strings.Lines(cmd.Long) {
			if len(line) > 121 {
				t.Errorf("%s: a line of the help is too long for a terminal: %s", cmd.CommandPath(), line)
			}
		}
	}
}

// allCommands lists the commands below one, except the ones that cobra makes.
func allCommands(cmd *cobra.Command) (all []*cobra.Command) {
	for _, sub := range cmd.Commands() {
		if sub.Name() != "help" && sub.Name() != "completion" {
			all = append(append(all, sub), allCommands(sub)...)
		}
	}
	return all
}

func TestVersionHasAStableShape(t *testing.T) {
	r := runCommand(t, "", nil, "version", "--json")
	v := documents[release](t, r.stdout)
	if r.status != 0 || len(v) != 1 || !strings.HasPrefix(v[0].Go, "go1.") || v[0].StoreFormat == 0 {
		t.Errorf("%+v", r)
	}
	if r := runCommand(t, "", nil, "version"); !strings.Contains(r.stdout, "store format") {
		t.Errorf("%+v", r)
	}
}
