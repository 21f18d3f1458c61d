package natspub

import (
	"context"
	"encoding/json"
	"errors"
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

// A fakeNode only runs calls and checks tokens.
type fakeNode struct {
	host.Node
	call func(ctx context.Context, r *host.Request) (host.Reply, error)
}

// CheckToken accepts the token "good".
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

// serving starts a publisher that serves calls, and returns once a request reaches it.
func serving(t *testing.T, o Options, f func(context.Context, *host.Request) (host.Reply, error)) (*rig, *nats.Conn) {
	t.Helper()
	o.Node, o.Endpoints = fakeNode{call: f}, airport
	r := publishing(t, o)
	r.flush()
	return r, r.srv.client()
}

// flush waits until the server has the service's subscriptions.
func (r *rig) flush() {
	r.t.Helper()
	must(r.t, r.calls.nc.FlushTimeout(patience))
}

// callSubject is the prefix of the subjects of calls.
const callSubject = "cairn.default.call.airport."

// request sends a request with headers given as pairs. It returns the reply and the code of its
// error.
func request(t *testing.T, nc *nats.Conn, subject, body string, headers ...string) (reply *nats.Msg, code string) {
	t.Helper()
	m := &nats.Msg{Subject: subject, Data: []byte(body), Header: nats.Header{}}
	for i := 0; i < len(headers); i += 2 {
		m.Header[headers[i]] = []string{headers[i+1]}
	}
	reply, err := nc.RequestMsg(m, patience)
	must(t, err, subject)
	return reply, reply.Header.Get(micro.ErrorCodeHeader)
}

// A client chooses the reply subject, even one to which only the node may publish.
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
	must(t, errOf(nc.Request("$SRV.PING", nil, patience))) // comes after the others
	wantValue(t, r.metrics.calls, "invalid_argument", 6)
	if m, err := events.NextMsg(time.Millisecond); err == nil {
		t.Errorf("an event is forged: %s %s", m.Subject, m.Data)
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
	same(t, r.calls.inFlight.Load(), limit, "in flight")
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
	fatalIf(t, info.Name != "cairn" || info.Version != "1.2.3" || info.Metadata["namespace"] != "default" || len(info.Endpoints) != 2,
		"info %+v", info)
	for _, e := range info.Endpoints {
		errorIf(t, e.Subject != callSubject+e.Metadata["method"]+".>" || e.Name != "airport-"+e.Metadata["method"] ||
			e.Metadata["type"] != "airport",
			"endpoint %+v", e)
	}
	eventually(t, "statistics", func() bool {
		var stats micro.Stats
		ask("$SRV.STATS.cairn", &stats)
		i := slices.IndexFunc(stats.Endpoints, func(e *micro.EndpointStats) bool { return e.Name == "airport-arrive" })
		e := stats.Endpoints[i]
		return e.NumRequests == 4 && e.NumErrors == 2 && e.LastError != "" && e.AverageProcessingTime > 0 &&
			stats.ID == info.ID && stats.Type == micro.StatsResponseType
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
	eventually(t, "no new calls", func() bool { // the connection has time to close, and must not
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
	m := r.next()
	errorIf(t, string(m.Data) != "done", "reply %q, headers %v", m.Data, m.Header)
	<-closed
}

// ask sends a request; its reply is the next message of the rig.
func (r *rig) ask(nc *nats.Conn) {
	r.t.Helper()
	r.sub = subscribe(r.t, nc, "reply")
	must(r.t, nc.PublishRequest(callSubject+"arrive.a", "reply", nil))
}

func TestCloseGivesUpAndCancelsCallsWhenItsContextEnds(t *testing.T) {
	entered := make(chan struct{})
	r, nc := serving(t, Options{JetStream: true}, func(ctx context.Context, _ *host.Request) (host.Reply, error) {
		close(entered)
		<-ctx.Done()
		return host.Reply{}, ctx.Err()
	})
	r.commit(1, 1, 1, true) // without a stream a durable event waits forever
	r.ask(nc)
	<-entered
	eventually(t, "connected", r.Connected)
	if err := shut(r.Publisher, 50*time.Millisecond); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	same(t, r.next().Header.Get(micro.ErrorCodeHeader), "canceled", "code")
	r.wantRows(1)
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
	must(t, p.Serve(fakeNode{call: one}, airport))
	if err := p.Serve(fakeNode{}, airport); !errors.Is(err, ErrServing) {
		t.Errorf("second Serve: %v", err)
	}
	srv.start()
	served()
	srv.stop()
	srv.start()
	served()
}
