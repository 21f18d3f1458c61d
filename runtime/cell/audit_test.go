package cell_test

import (
	"errors"
	"net/http/httptest"
	"slices"
	"testing"
	"time"

	"github.com/coder/websocket"
	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/internal/testutil"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/localnats"
)

// The reason of an operator reaches the audit log over each protocol.
func TestReasonsReachTheAuditLogOverEachProtocol(t *testing.T) {
	rt := open(t, runtime.Options{Listen: "127.0.0.1:0", NATSListen: "127.0.0.1:0", NATSServer: localnats.Serve})
	a := host.Address{Type: "cell", Key: []string{"a"}}
	c, err := client.New("http://"+rt.Addr(), client.Options{})
	must(t, err)
	defer c.Close()
	must(t, errOf(c.Call(t.Context(), &host.Request{Address: a, Method: "put", Codec: host.JSON, Input: []byte(`{"key":[1],"value":1}`)})))
	ws, _, err := websocket.Dial(t.Context(), "ws://"+rt.Addr()+"/actors/cell/a/-/connect", &websocket.DialOptions{Subprotocols: []string{"cairn.v1"}})
	must(t, err)
	defer ws.CloseNow()
	for _, text := range []string{`{"connect":{}}`, `{"id":1,"call":"actor.pause","reason":"50 % über"}`} {
		must(t, ws.Write(t.Context(), websocket.MessageText, []byte(text)))
		if _, reply, err := ws.Read(t.Context()); err != nil {
			t.Errorf("%s: %s, %v", text, reply, err)
		}
	}

	if _, err := c.Call(audit.WithReason(t.Context(), "für alle"), &host.Request{Address: a, Method: host.ActorResume, Codec: host.JSON}); err != nil {
		t.Error(err)
	}

	nc, err := nats.Connect(rt.NATSURL())
	must(t, err)
	defer nc.Close()
	published, err := nc.SubscribeSync("cairn.default.audit.cell.actor%2Esleep.a")
	must(t, err)
	m := nats.NewMsg("cairn.default.call.cell.actor%2Esleep.a")
	m.Header.Set(audit.Header, "50%25 %C3%BCber")
	if r, err := nc.RequestMsg(m, time.Minute); err != nil || r.Header.Get("Nats-Service-Error") != "" {
		t.Errorf("%+v, %v", r, err)
	}
	check(t, errOf(published.NextMsg(time.Minute)), "the record is not published")

	page, err := c.Audit(t.Context(), audit.Query{Type: "cell", Prefix: a.Key, Exact: true})
	fatalIf(t, err != nil || len(page.Records) != 3, "%+v, %v", page, err)
	for i, want := range []audit.Record{
		{Verb: host.ActorSleep, Channel: "nats", Reason: "50% über"}, {Verb: host.ActorResume, Channel: "http", Reason: "für alle"},
		{Verb: host.ActorPause, Channel: "websocket", Reason: "50 % über"},
	} {
		r := page.Records[i]
		errorIf(t, r.Verb != want.Verb || r.Channel != want.Channel || r.Reason != want.Reason || (r.Remote == "") != (want.Channel == "nats"),
			"%+v, want %+v", r, want)
	}
}

func TestAClientFollowsTheAuditLogThoughItsConnectionBreaks(t *testing.T) {
	rt := open(t, runtime.Options{})
	server := httptest.NewServer(rt.Handler())
	defer server.Close()
	c, err := client.New(server.URL, client.Options{Backoff: time.Millisecond, MaxBackoff: 10 * time.Millisecond})
	must(t, err)
	defer c.Close()
	verb := func(name string) {
		t.Helper()
		text := call(t, rt, name, "")
		fatalIf(t, text != "" && text[0] != '{', "%v", text)
	}
	call(t, rt, "put", `{"key":[1],"value":1}`)
	enough := errors.New("enough")
	records, done := make(chan audit.Record, 1000), make(chan error, 1)
	go func() {
		done <- c.FollowAudit(t.Context(), audit.Query{Type: "cell"}, func(r *audit.Record) error {
			if records <- *r; r.Verb == host.ActorRetry {
				return enough
			}
			return nil
		})
	}()
	for len(records) == 0 { // until it has begun
		verb(host.ActorPause)
	}
	for range 5 {
		server.CloseClientConnections()
		verb(host.ActorResume)
		verb(host.ActorPause)
	}
	verb(host.ActorRetry)
	if err := <-done; err != enough {
		t.Error(err)
	}
	close(records)
	var followed, all []uint64
	for r := range records {
		followed = append(followed, r.ID)
	}
	page, err := c.Audit(t.Context(), audit.Query{After: followed[0] - 1, Limit: audit.MaxPage})
	must(t, err)
	for _, r := range slices.Backward(page.Records) {
		all = append(all, r.ID)
	}
	errorIf(t, len(all) < 11 || !slices.Equal(followed, all), "%d records are followed, of %d", len(followed), len(all))
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }
