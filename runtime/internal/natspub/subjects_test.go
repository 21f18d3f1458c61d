package natspub

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// TestSubjectScripts writes subjects for the parts in testdata/subjects, and parses them back to
// the same parts. `go test -run SubjectScripts -rewrite ./runtime/internal/natspub` writes the
// results anew.
func TestSubjectScripts(t *testing.T) {
	commands := map[string]func(t *testing.T, line string) string{
		"token": func(t *testing.T, line string) string {
			part, err := strconv.Unquote(line)
			must(t, err)
			gives(t, part, line, "is read back as")(ParseToken(Token(part)))
			return strconv.Quote(Token(part))
		},
		"read-token": func(t *testing.T, line string) string {
			text, err := strconv.Unquote(line)
			must(t, err)
			got, err := ParseToken(text)
			var bad *TokenError
			errorIf(t, !errors.As(err, &bad) || bad.Token != text, "%s is read as %q, %v", line, got, err)
			return err.Error()
		},
		"key": func(t *testing.T, line string) string {
			var key []string
			must(t, json.Unmarshal([]byte(line), &key))
			tokens := string(AppendKey(nil, key))
			got, err := ParseKey(tokens)
			errorIf(t, err != nil || !slices.Equal(got, key), "%s is read back as %q, %v", line, got, err)
			return tokens
		},
		"read-key": func(_ *testing.T, line string) string {
			key, err := ParseKey(strings.Trim(line, `"`))
			return fmt.Sprintf("%q %v", key, err)
		},
		"root": func(t *testing.T, line string) string {
			root, err := strconv.Unquote(line)
			must(t, err)
			s, err := NewSubjects(root)
			if err != nil {
				return err.Error()
			}
			key := []string{"eu west", "1"}
			return strings.Join([]string{
				s.Event("default", "airport", "delay-bad", key), s.Change("a.b", "airport", "kv",
					key), s.Life("default", "airport", "woke", nil),
				s.Audit("default", "airport", "actor.pause", key), s.Call("default", "airport", "arrive",
					key), s.Calls("a.b", "airport", "arrive"),
			}, " ")
		},
	}
	datadriven.RunTest(t, "testdata/subjects", func(t *testing.T, d *datadriven.TestData) (out string) {
		for line := range strings.Lines(d.Input) {
			line = strings.TrimSuffix(line, "\n")
			out += line + ": " + commands[d.Cmd](t, line) + "\n"
		}
		return out
	})
}

func FuzzTokenRoundTrip(f *testing.F) {
	for _, part := range []string{"", "_", "_a", "a.b", ">", "%5F", "a b", "\x00", "\x1f\x7f", "Zürich", "\xff"} {
		f.Add(part)
	}
	f.Fuzz(func(t *testing.T, part string) {
		token := Token(part)
		fatalIf(t, token == "" || token == "_" || strings.ContainsAny(token, ".*> \t\r\n\x00\x7f"), "%q became %q", part, token)
		got, err := ParseToken(token)
		fatalIf(t, err != nil || got != part, "%q became %q became %q, %v", part, token, got, err)
	})
}

func FuzzParseKeyAcceptsOnlyCanonicalSubjects(f *testing.F) {
	for _, s := range []string{"_", "%", "a.b", "%5F.%2E", "a..b", "%41", "_._"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, tokens string) {
		key, err := ParseKey(tokens)
		if err == nil && string(AppendKey(nil, key)) != tokens {
			t.Fatalf("%q was read as %q, which is written %q", tokens, key, AppendKey(nil, key))
		}
	})
}

// dump prints a message in a fixed form.
func dump(m *nats.Msg) string {
	var names []string
	for name := range m.Header {
		names = append(names, name)
	}
	slices.Sort(names)
	var b strings.Builder
	fmt.Fprintln(&b, m.Subject)
	for _, name := range names {
		fmt.Fprintf(&b, "%s: %s\n", name, strings.Join(m.Header[name], "|"))
	}
	fmt.Fprintf(&b, "%s\n", m.Data)
	return b.String()
}

func newEnvelope(t testing.TB) *envelope {
	subjects, err := NewSubjects(DefaultRoot)
	must(t, err)
	return &envelope{subjects: subjects, namespace: DefaultNamespace}
}

// The texts of testdata/messages are a promise: programs read them.
// `go test -run Exactly -rewrite ./runtime/internal/natspub` writes them anew.
func TestMessagesAreExactlyAsSpecified(t *testing.T) {
	id := keyspace.ActorID{0x12, 0x34, 0x3b, 0x9a, 0xca, 0, 0x80, 1, 0x80, 2, 3, 4, 5, 6, 7, 8}
	committed := &engine.ChangeSet{
		ID: id, Identity: engine.Identity{Namespace: "default", Type: "airport", Key: []string{"eu west", "Zürich/1"}},
		Generation: 2, Version: 17, TimeMS: 986_000_000_007,
		Traceparent: "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
		Changes: []engine.Change{
			{Kind: engine.ChangeEvent, Name: "délai", Data: []byte(`{"mean":31.5}`), Durable: true},
			{Kind: engine.ChangeKV, Data: []byte(`{"version":17,"kind":"kv","op":"put"}`)},
			{Kind: engine.ChangeAlarm, Name: "clear", Data: []byte(`{"version":17,"kind":"alarm"}`)},
			{Kind: engine.ChangeLife, Name: "created", Data: []byte(`{"generation":2}`)},
			{Kind: engine.ChangeEvent, Name: "empty"},
		},
	}
	rowless := &engine.ChangeSet{ID: id, Identity: engine.Identity{Type: "hub"}, Version: 17, TimeMS: 986_000_000_007,
		Changes: []engine.Change{{Kind: engine.ChangeLife, Name: "slept", Data: []byte(`{"reason":"idle"}`)}}}
	e := newEnvelope(t)
	datadriven.RunTest(t, "testdata/messages", func(t *testing.T, d *datadriven.TestData) string {
		switch d.Cmd {
		case "life":
			e.begin(rowless, 5)
			return dump(e.message(0))
		case "omitted":
			e.begin(committed, 0)
			m := e.message(0)
			e.omit()
			return dump(m)
		case "next": // after a message without its data
			return dump(e.message(1))
		}
		e.begin(committed, 0)
		var i int
		d.ScanArgs(t, "at", &i)
		return dump(e.message(i))
	})
}

// tracedNode is a node that records requests.
type tracedNode struct{ fakeNode }

// BeginRequest implements host.Tracer.
func (tracedNode) BeginRequest(_ string, cause host.Span) host.Span {
	if cause.Sampled() {
		cause.ID[0]++
	}
	return cause
}

// EndRequest implements host.Tracer.
func (tracedNode) EndRequest(host.Address, string, string, host.Span, host.Span, time.Time, error) {}

// shown answers a call with the request that reached the node, or as the key says.
func shown(ctx context.Context, r *host.Request) (host.Reply, error) {
	switch slices.Concat(r.Key, []string{""})[0] {
	case "full":
		return host.Reply{}, host.Errorf(host.QuotaExceeded, "no room\nfor this").With("limit", "10").With("odd key:", "\"v\"\n").Retry()
	case "bare":
		return host.Reply{}, &host.Error{Code: host.NotFound}
	case "long":
		return host.Reply{}, host.Errorf(host.Internal, "%s", strings.Repeat("x", 700<<10))
	case "large": // the output fits only without the header of the version
		return host.Reply{Output: make([]byte, 2<<20), Version: 1}, nil
	case "late":
		<-ctx.Done()
		return host.Reply{}, ctx.Err()
	case "plain":
		return host.Reply{}, errors.New("secret detail")
	case "again":
		return host.Reply{Version: 42, Replayed: true}, nil
	}
	deadline, _ := ctx.Deadline()
	text := fmt.Sprintf("%s of %s %q: %s, codec %d, within %s", r.Method, r.Type, r.Key, r.Input, r.Codec,
		time.Until(deadline).Round(time.Minute))
	if r.IdempotencyKey != "" {
		text += ", key " + r.IdempotencyKey
	}
	if r.Traceparent != "" {
		text += ", trace " + r.Traceparent
	}
	if g := token.Of(ctx); g != nil {
		text += ", grant " + g.ID
	}
	if o := audit.Of(ctx); o != nil {
		text += fmt.Sprintf(", over %s: %s", o.Channel, o.Reason)
	}
	return host.Reply{Output: []byte(text)}, nil
}

// withoutError removes the headers that repeat the error in the body, and returns the headers that
// differ.
func withoutError(m *nats.Msg) (others []string) {
	var e host.Error
	if json.Unmarshal(m.Data, &e) != nil || e.Code == "" {
		return nil
	}
	want := map[string]string{
		micro.ErrorCodeHeader: string(e.Code), micro.ErrorHeader: strings.ReplaceAll(cmp.Or(e.Message, string(e.Code)), "\n", " "),
	}
	if e.Retryable {
		want[HeaderRetryable] = "true"
	}
	if len(e.Metadata) > 0 {
		text, _ := json.Marshal(e.Metadata)
		want[HeaderMetadata] = string(text)
	}
	for _, name := range []string{micro.ErrorCodeHeader, micro.ErrorHeader, HeaderMetadata, HeaderRetryable} {
		if got := strings.Join(m.Header[name], " | "); got != want[name] {
			others = append(others, fmt.Sprintf("%s: %.100s", name, got))
		}
		delete(m.Header, name)
	}
	return others
}

// TestCallScripts sends the requests of testdata/calls, one a line: the end of a subject, a body,
// and headers. It prints the headers and the body of each answer, without headers that repeat an
// error in the body. `go test -run CallScripts -rewrite ./runtime/internal/natspub` writes the
// answers anew.
func TestCallScripts(t *testing.T) {
	r := publishing(t, Options{
		CallTimeout: time.Second, Node: tracedNode{fakeNode{call: shown}},
		Endpoints: []Endpoint{{Type: "airport", Methods: slices.Concat(airport[0].Methods, []host.Method{
			{Name: host.KVGet, Kind: host.Query}, {Name: host.KVWatch, Kind: host.Query},
		})}},
	})
	r.flush()
	nc := r.srv.client()
	datadriven.RunTest(t, "testdata/calls", func(t *testing.T, d *datadriven.TestData) string {
		if d.Cmd == "counted" {
			return fmt.Sprintln(value(t, r.metrics.calls, d.CmdArgs[0].Key))
		}
		var all strings.Builder
		for line := range strings.Lines(d.Input) {
			parts := strings.Split(strings.TrimSuffix(line, "\n"), " ;; ")
			subject, body, _ := strings.Cut(parts[0], " ")
			if !strings.HasPrefix(subject, "cairn.") {
				subject = callSubject + subject
			}
			m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
			for _, header := range parts[1:] {
				name, value, _ := strings.Cut(header, ":")
				m.Header[name] = append(m.Header[name], strings.TrimSpace(value))
			}
			reply, err := nc.RequestMsg(m, patience)
			if err != nil {
				fmt.Fprintln(&all, err)
				continue
			}
			out := withoutError(reply)
			for _, name := range slices.Sorted(maps.Keys(reply.Header)) {
				out = append(out, fmt.Sprintf("%s: %.100s", name, strings.Join(reply.Header[name], " | ")))
			}
			fmt.Fprintln(&all, strings.Join(append(out, fmt.Sprintf("%.300s", reply.Data)), " ;; "))
		}
		return all.String()
	})
}
