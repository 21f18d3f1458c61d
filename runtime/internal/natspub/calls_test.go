package natspub

import (
	"context"
	"encoding/json"
	"errors"
	"maps"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/micro"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
)

// A fakeNode takes calls and nothing else.
type fakeNode struct {
	host.Node
	call func(ctx context.Context, r *host.Request) (host.Reply, error)
}

// CheckToken knows the token "good".
func (fakeNode) CheckToken(_ context.Context, _ host.Address, text string) (*token.Grant, error) {
	if text != "good" {
		return nil, token.ErrInvalid
	}
	return &token.Grant{ID: "good"}, nil
}

func (n fakeNode) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return n.call(ctx, r)
}

// one answers every call with 1.
func one(context.Context, *host.Request) (host.Reply, error) {
	return host.Reply{Output: []byte("1")}, nil
}

var airport = []Endpoint{{Type: "airport", Methods: []host.Method{
	{Name: "arrive", Kind: host.Action}, {Name: "delays", Kind: host.Query}, {Name: "open", Kind: host.Creation},
}}}

// serving starts a publisher that serves calls, and returns once a request finds it.
func serving(t *testing.T, o Options, f func(context.Context, *host.Request) (host.Reply, error)) (*rig, *nats.Conn) {
	t.Helper()
	o.Node = fakeNode{call: f}
	if o.Endpoints == nil {
		o.Endpoints = airport
	}
	r := publishing(t, o)
	r.flush()
	return r, r.srv.client()
}

// A call with a token has its grant, and one with an empty header or two does not go without.
func TestACallHasTheGrantOfItsToken(t *testing.T) {
	_, nc := serving(t, Options{}, func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		g := token.Of(ctx)
		if g == nil {
			return host.Reply{Output: []byte(`"none"`)}, nil
		}
		return host.Reply{Output: []byte(`"` + g.ID + `"`)}, nil
	})
	for _, c := range []struct {
		tokens       []string
		output, code string
	}{
		{nil, `"none"`, ""}, {[]string{"good"}, `"good"`, ""}, {[]string{"bad"}, "", "unauthenticated"}, {[]string{""}, "", "unauthenticated"}, {[]string{"good", "good"}, "", "unauthenticated"},
	} {
		name := HeaderToken
		if len(c.tokens) == 1 && c.tokens[0] == "bad" {
			name = "cairn-token"
		}
		reply, err := nc.RequestMsg(&nats.Msg{Subject: callSubject + "delays.ORD", Header: nats.Header{name: c.tokens}}, patience)
		must(t, err)
		if code := reply.Header.Get(micro.ErrorCodeHeader); code != c.code || code == "" && string(reply.Data) != c.output {
			t.Errorf("%q: %s %s", c.tokens, code, reply.Data)
		}
	}
}

// flush waits until the server knows the service's subscriptions.
func (r *rig) flush() {
	r.t.Helper()
	must(r.t, r.calls.nc.FlushTimeout(patience))
}

// callSubject is what the subjects of calls begin with.
const callSubject = "cairn.default.call.airport."

// request sends a request with headers given as pairs. It returns the reply and the code of its error.
func request(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) (reply *nats.Msg, code string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	reply, err := nc.RequestMsg(m, patience)
	if err != nil {
		t.Fatalf("%s: %v", subject, err)
	}
	return reply, reply.Header.Get(micro.ErrorCodeHeader)
}

// tracedNode is a node that records requests.
type tracedNode struct{ fakeNode }

// BeginRequest implements host.Tracer.
func (tracedNode) BeginRequest(_ string, cause host.Span) host.Span {
	cause.ID[0]++
	return cause
}

// EndRequest implements host.Tracer.
func (tracedNode) EndRequest(host.Address, string, string, host.Span, host.Span, time.Time, error) {}

func TestACallReachesTheNodeWithAllItCarries(t *testing.T) {
	var got host.Request
	var left time.Duration
	r := publishing(t, Options{Endpoints: airport, Node: tracedNode{fakeNode{call: func(ctx context.Context, r *host.Request) (host.Reply, error) {
		got = *r
		deadline, _ := ctx.Deadline()
		if left = time.Until(deadline); r.Method == "delays" {
			return host.Reply{}, host.Errorf(host.FailedPrecondition, "not now")
		}
		return host.Reply{Output: []byte(`{"ok":true}`), Version: 42, Replayed: true}, nil
	}}}})
	r.flush()
	nc := r.srv.client()
	const trace, child = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "00-0af7651916cd43dd8448eb211c80319c-b8ad6b7169203331-01"
	m, code := request(t, nc, callSubject+"arrive.eu%20west.%.1", `{"delay":3}`, "idempotency-key", "k-1", "Traceparent", trace, HeaderTimeout, "20m")
	if string(m.Data) != `{"ok":true}` || m.Header.Get(HeaderVersion) != "42" || m.Header.Get(HeaderReplayed) != "true" || code != "" {
		t.Errorf("reply %q, headers %v", m.Data, m.Header)
	}
	if got.Type != "airport" || !slices.Equal(got.Key, []string{"eu west", "", "1"}) || got.Method != "arrive" || got.Codec != host.JSON ||
		string(got.Input) != `{"delay":3}` || got.IdempotencyKey != "k-1" || got.Traceparent != child || got.Create || got.Existing {
		t.Errorf("request %+v", got)
	}
	if left <= 0 || left > 20*time.Minute {
		t.Errorf("deadline in %v", left)
	}
	// An answer names its trace, also that of a call that fails or is refused.
	failed, _ := request(t, nc, callSubject+"delays._", "", HeaderTraceparent, trace)
	if got.Method != "delays" || len(got.Key) != 0 || got.IdempotencyKey != "" {
		t.Errorf("request %+v", got)
	}
	refused, _ := request(t, nc, callSubject+"delays.ORD", "", HeaderTraceparent, trace, HeaderTimeout, "soon")
	for _, m := range []*nats.Msg{m, failed, refused} {
		if got := m.Header.Get(HeaderTraceresponse); got != child {
			t.Errorf("the trace is %q: %v", got, m.Header)
		}
	}
}

func TestErrorsOfCallsKeepCodeMessageMetadataAndRetryable(t *testing.T) {
	full := host.Errorf(host.QuotaExceeded, "no room\nfor this").With("limit", "10").With("odd key:", "\"v\"\n").Retry()
	_, nc := serving(t, Options{}, func(ctx context.Context, r *host.Request) (host.Reply, error) {
		switch r.Key[0] {
		case "full":
			return host.Reply{}, full
		case "bare":
			return host.Reply{}, &host.Error{Code: host.NotFound}
		case "long":
			return host.Reply{}, host.Errorf(host.Internal, "%s", strings.Repeat("x", 700<<10))
		case "large":
			return host.Reply{Output: make([]byte, 2<<20), Version: 1}, nil
		case "late":
			<-ctx.Done()
			return host.Reply{}, ctx.Err()
		}
		return host.Reply{}, errors.New("secret detail")
	})
	m, _ := request(t, nc, callSubject+"arrive.full", "")
	if m.Header.Get(micro.ErrorHeader) != "no room for this" || m.Header.Get(HeaderRetryable) != "true" {
		t.Errorf("headers %v", m.Header)
	}
	var metadata map[string]string
	if err := json.Unmarshal([]byte(m.Header.Get(HeaderMetadata)), &metadata); err != nil || !maps.Equal(metadata, full.Metadata) {
		t.Errorf("metadata %v, %v", metadata, err)
	}
	var body host.Error
	if err := json.Unmarshal(m.Data, &body); err != nil || body.Code != full.Code || body.Message != full.Message || !body.Retryable {
		t.Errorf("body %s, %v", m.Data, err)
	}
	for key, want := range map[string]string{
		"full": "quota_exceeded", "plain": "internal", "bare": "not_found", "late": "deadline_exceeded", "large": "too_large", "long": "internal",
	} {
		timeout := map[bool]string{true: "10ms", false: "1m"}[key == "late"]
		m, code := request(t, nc, callSubject+"arrive."+key, "", HeaderTimeout, timeout)
		if code != want || m.Header.Get(micro.ErrorHeader) == "" || strings.Contains(string(m.Data), "secret") {
			t.Errorf("%s: code %q, body %s", key, code, m.Data)
		}
		// With the header of the version: what fits without it may not fit with it.
		if key == "large" && !strings.Contains(m.Header.Get(HeaderMetadata), `"actual":"2097182","limit":"1048576"`) {
			t.Errorf("headers %v", m.Header)
		}
	}
}

func TestWrongKeysAndHeadersAreInvalidArguments(t *testing.T) {
	r, nc := serving(t, Options{}, func(context.Context, *host.Request) (host.Reply, error) {
		t.Error("the node was called")
		return host.Reply{}, nil
	})
	for _, h := range []nats.Header{
		{HeaderIdempotencyKey: {""}}, {HeaderIdempotencyKey: {"a", "b"}}, {"idempotency-key": {"a"}, HeaderIdempotencyKey: {"b"}},
		{HeaderTimeout: {""}}, {HeaderTimeout: {"1s", "2s"}}, {HeaderReason: {""}},
	} {
		reply, err := nc.RequestMsg(&nats.Msg{Subject: callSubject + "arrive.a", Header: h}, patience)
		must(t, err)
		if code := reply.Header.Get(micro.ErrorCodeHeader); code != "invalid_argument" {
			t.Errorf("%v: %q", h, code)
		}
	}
	for _, c := range []struct{ key, timeout string }{
		{"%2", "1m"}, {"%zz", "1m"}, {"a%2e", "1m"}, {"%41", "1m"}, {"_.a", "1m"}, {"a%", "1m"}, {"a", "soon"}, {"a", "-1s"}, {"a", "0s"}, {"a", "5"},
	} {
		if _, code := request(t, nc, callSubject+"arrive."+c.key, "", HeaderTimeout, c.timeout); code != "invalid_argument" {
			t.Errorf("%q: code %q", c, code)
		}
	}
	wantValue(t, r.metrics.calls, "invalid_argument", 16)
}

// A client chooses the reply subject, and may choose one to which only the node may publish.
func TestNoAnswerBecomesACallOrACommand(t *testing.T) {
	r, nc := serving(t, Options{}, func(context.Context, *host.Request) (host.Reply, error) {
		t.Error("the node was called")
		return host.Reply{Output: []byte("{}")}, nil
	})
	events := subscribe(t, nc, "cairn.default.event.>")
	for _, reply := range []string{callSubject + "arrive.other", "cairn.default.event.airport.opened.a", "$JS.API.STREAM.PURGE.CAIRN"} {
		must(t, nc.PublishRequest(callSubject+"delays.a", reply, []byte("{}")))
		must(t, nc.PublishRequest(callSubject+"delays.a%", reply, []byte("{}")))
		for _, verb := range []string{"PING", "INFO.cairn", "STATS"} {
			must(t, nc.PublishRequest("$SRV."+verb, reply, nil))
		}
	}
	eventually(t, "all are seen", func() bool {
		return value(t, r.metrics.calls, "invalid_argument")+value(t, r.metrics.calls, "ok") >= 6
	})
	must(t, errOf(nc.Request("$SRV.PING", nil, patience))) // which comes after the others
	wantValue(t, r.metrics.calls, "invalid_argument", 6)
	if m, err := events.NextMsg(time.Millisecond); err == nil {
		t.Errorf("an event is forged: %s %s", m.Subject, m.Data)
	}
}

// A call of a method that waits may wait as long as its input can say, if its caller states no time.
func TestCallsThatWaitHaveTimeToWait(t *testing.T) {
	var left time.Duration
	o := Options{CallTimeout: time.Second, Endpoints: []Endpoint{{Type: "airport", Methods: []host.Method{{Name: host.KVGet, Kind: host.Query}, {Name: host.KVWatch, Kind: host.Query}}}}}
	_, nc := serving(t, o, func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		deadline, _ := ctx.Deadline()
		left = time.Until(deadline)
		return host.Reply{Output: []byte(`{}`)}, nil
	})
	for name, waits := range map[string]bool{"kv%2Eget": false, "kv%2Ewatch": true} {
		reply, code := request(t, nc, callSubject+name+".a", "{}")
		if code != "" || (left > time.Second) != waits || left > 2*time.Minute || reply.Header.Get(HeaderVersion) != "" {
			t.Errorf("%s: %s %s, %v", name, code, left, reply.Header)
		}
	}
}

func TestCallsRunConcurrentlyUpToTheLimitAndAreRefusedBeyond(t *testing.T) {
	const limit = 8
	entered, release := make(chan struct{}, limit), make(chan struct{})
	r, nc := serving(t, Options{MaxCalls: limit}, func(context.Context, *host.Request) (host.Reply, error) {
		entered <- struct{}{}
		<-release
		return host.Reply{Output: []byte("1")}, nil
	})
	var wg sync.WaitGroup
	for range limit {
		wg.Go(func() {
			if m, err := nc.Request(callSubject+"arrive.a", nil, patience); err != nil || string(m.Data) != "1" {
				t.Errorf("got %v, %v", m, err)
			}
		})
	}
	for range limit {
		<-entered
	}
	if got := r.calls.inFlight.Load(); got != limit {
		t.Errorf("%d in flight", got)
	}
	if m, code := request(t, nc, callSubject+"delays.b", ""); code != "overloaded" || m.Header.Get(HeaderRetryable) != "true" {
		t.Errorf("headers %v", m.Header)
	}
	close(release)
	wg.Wait()
}

func TestTheServiceIsListedWithItsStatistics(t *testing.T) {
	_, nc := serving(t, Options{Version: "1.2.3"}, func(_ context.Context, r *host.Request) (host.Reply, error) {
		if r.Key[0] == "bad" {
			return host.Reply{}, host.Errorf(host.NotFound, "none")
		}
		return host.Reply{}, nil
	})
	for _, key := range []string{"a", "b", "bad", "%zz"} {
		request(t, nc, callSubject+"arrive."+key, "")
	}
	var info micro.Info
	ask := func(subject string, v any) {
		t.Helper()
		m, _ := request(t, nc, subject, "")
		must(t, json.Unmarshal(m.Data, v))
	}
	ask("$SRV.INFO.cairn", &info)
	bare := publishing(t, Options{Node: fakeNode{}})
	bare.flush()
	if m, _ := request(t, bare.srv.client(), "$SRV.INFO", ""); !strings.Contains(string(m.Data), `"endpoints":[]`) {
		t.Errorf("a service without methods: %s", m.Data)
	}
	if info.Name != "cairn" || info.Version != "1.2.3" || info.Metadata["namespace"] != "default" || len(info.Endpoints) != 2 {
		t.Fatalf("info %+v", info)
	}
	for _, subject := range []string{callSubject + "open.a", callSubject + "nothing.a", "cairn.default.call.port.arrive.a", "cairn.other.call.airport.arrive.a"} {
		if _, err := nc.Request(subject, nil, patience); !errors.Is(err, nats.ErrNoResponders) {
			t.Errorf("%s: %v", subject, err)
		}
	}
	for _, e := range info.Endpoints {
		if e.Subject != callSubject+e.Metadata["method"]+".>" || e.Name != "airport-"+e.Metadata["method"] || e.Metadata["type"] != "airport" {
			t.Errorf("endpoint %+v", e)
		}
	}
	eventually(t, "statistics", func() bool {
		var stats micro.Stats
		ask("$SRV.STATS.cairn", &stats)
		i := slices.IndexFunc(stats.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == "airport-arrive" })
		e := stats.Endpoints[i]
		return e.NumRequests == 4 && e.NumErrors == 2 && e.LastError != "" && e.AverageProcessingTime > 0 && stats.ID == info.ID && stats.Type == micro.StatsResponseType
	})
}

func TestCloseAnswersCallsInFlightFirst(t *testing.T) {
	entered, release := make(chan struct{}), make(chan struct{})
	r, nc := serving(t, Options{}, func(_ context.Context, r *host.Request) (host.Reply, error) {
		if r.Method == "delays" {
			return host.Reply{}, nil
		}
		close(entered)
		<-release
		return host.Reply{Output: []byte("done")}, nil
	})
	r.ask(nc)
	<-entered
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		end(t, r.Publisher)
	}()
	refused := 0
	eventually(t, "no new calls", func() bool { // and time to close the connection, which must not happen
		_, err := nc.Request(callSubject+"delays.a", nil, patience)
		r.calls.mu.Lock()
		defer r.calls.mu.Unlock()
		if errors.Is(err, nats.ErrNoResponders) && r.calls.sealed {
			refused++
		}
		return refused == 20
	})
	select {
	case <-closed:
		t.Error("closed before the call was answered")
	default:
	}
	close(release)
	if m := r.next(); string(m.Data) != "done" {
		t.Errorf("reply %q, headers %v", m.Data, m.Header)
	}
	<-closed
}

// ask sends a request whose reply is the next message of the rig.
func (r *rig) ask(nc *nats.Conn) {
	r.t.Helper()
	r.sub = subscribe(r.t, nc, "reply")
	must(r.t, nc.PublishRequest(callSubject+"arrive.a", "reply", nil))
}

func TestCloseCancelsCallsWhenItsContextEnds(t *testing.T) {
	entered := make(chan struct{})
	r, nc := serving(t, Options{}, func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		close(entered)
		<-ctx.Done()
		return host.Reply{}, ctx.Err()
	})
	r.ask(nc)
	<-entered
	if err := shut(r.Publisher, 20*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if got := r.next().Header.Get(micro.ErrorCodeHeader); got != "canceled" {
		t.Errorf("code %q", got)
	}
}

func TestCallsAreServedOnceThereIsAServerAndAfterItRestarts(t *testing.T) {
	srv := newOutage(t)
	url := srv.listen()
	served := func() {
		t.Helper()
		nc := srv.client()
		eventually(t, "served", func() bool {
			m, err := nc.Request(callSubject+"arrive.a", nil, patience)
			return err == nil && string(m.Data) == "1"
		})
	}
	srv.stop()
	p := begin(t, Options{Outbox: newOutbox(t), Dial: URL(url)})
	if err := p.Serve(fakeNode{call: one}, airport); err != nil {
		t.Fatal(err)
	}
	if err := p.Serve(fakeNode{}, airport); !errors.Is(err, ErrServing) {
		t.Errorf("second Serve: %v", err)
	}
	srv.start()
	served()
	srv.stop()
	srv.start()
	served()
}
