package gateway

import (
	"context"
	"encoding/json"
	"net/http"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// closeTimeout is how long the node may take to record that a client is gone.
const closeTimeout = 10 * time.Second

// existing reports whether a connect request has the header If-Match: *.
func (x *exchange) existing() (bool, *host.Error) {
	var q host.Request
	fault := x.conditions(&q)
	if fault == nil && q.Create {
		fault = wrong("If-None-Match", "If-None-Match does not apply to connections")
	}
	return q.Existing, fault
}

// connect answers GET and POST .../-/connect with a connection whose events are server-sent events.
// Its calls are separate requests, with the header Cairn-Connection.
func (x *exchange) connect(t *target) {
	x.Count(t.Type, serve.LabelConnect)
	fault := serve.CheckSite(x.R)
	if fault == nil {
		fault = x.Authorize(x.R.Context(), serve.Connect, t.Address, "")
	}
	var q host.ConnectRequest
	if fault == nil {
		q, fault = x.connectRequest()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	s, fault := x.Front.Admit(x.R.Context(), serve.EventConnection)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	conn, fault := x.g.connect(s, t.Address, q)
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer x.g.closeConnection(s.Context(), conn, true)

	out := x.stream()
	welcome := conn.Welcome()
	at := host.Position{Sequence: welcome.Cursor, Life: welcome.Life}
	out.Buf = append(at.Append(append(out.Buf, "id: "...)), '\n')
	out.Buf = serve.AppendEvent(out.Buf, EventWelcome, appendJSON(nil, named(welcome)))
	if out.Flush() != nil {
		return
	}
	x.pump(s, out, func(ctx context.Context) error { return x.until(ctx, conn, out) })
}

// connectRequest reads the parameters of a connection: from the URL of a GET, or from the body of a
// POST, which keeps parameters and token out of logs.
func (x *exchange) connectRequest() (q host.ConnectRequest, fault *host.Error) {
	in := new(connectInput)
	if x.R.Method == http.MethodPost {
		fault = x.connectBody(in)
	} else {
		fault = x.connectParams(in)
	}
	if fault == nil {
		q, fault = in.request("sse")
	}
	if fault == nil {
		q.Traceparent = x.traceparent
		q.Existing, fault = x.existing()
	}
	return q, fault
}

func (x *exchange) connectBody(in *connectInput) *host.Error {
	p, fault := x.params("after") // for a page that reconnects
	if fault != nil {
		return fault
	}
	if fault := x.jsonBody(in); fault != nil {
		return fault
	}
	return x.connectPosition(p, in)
}

// connectPosition sets the position from the parameters or Last-Event-ID, if there is one.
func (x *exchange) connectPosition(p parameters, in *connectInput) *host.Error {
	at, fault := x.position(p)
	if at != nil {
		in.After, in.Life = &at.Sequence, at.Life
	}
	return fault
}

func (x *exchange) connectParams(in *connectInput) *host.Error {
	p, fault := x.params("events", "after", "token", "params")
	if fault != nil {
		return fault
	}
	if s, ok := p.one("params"); ok {
		if !json.Valid([]byte(s)) {
			return wrong("params", "the parameter params is not JSON")
		}
		in.Params = host.Raw(s)
	}
	in.Token, _ = p.one("token")
	if in.Events, fault = p.names("events"); fault == nil {
		fault = x.connectPosition(p, in)
	}
	return fault
}

// disconnect answers DELETE .../-/connect: it ends the connection that the header Cairn-Connection
// names.
func (x *exchange) disconnect(t *target) {
	x.Count(t.Type, serve.LabelConnect)
	ctx, cancel := x.limited()
	defer cancel()
	token := ""
	fault := x.Authorize(ctx, serve.Connect, t.Address, "")
	if fault == nil {
		token, fault = x.single("Cairn-Connection", maxConnectionToken)
	}
	if fault == nil && token == "" {
		fault = wrong("Cairn-Connection",
			"the Cairn-Connection header is missing: it names the connection by its token")
	}
	if fault == nil {
		_, fault = x.params()
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	if err := x.g.node.Disconnect(ctx, t.Address, token); err != nil {
		x.Fail(x.g.front.AsError(err))
		return
	}
	x.Begin(http.StatusNoContent)
}

// connect connects a client to an actor.
func (g *Gateway) connect(s *serve.Stay, a host.Address, q host.ConnectRequest) (host.LiveConnection, *host.Error) {
	ctx, cancel := g.limited(s.Context(), "")
	defer cancel()
	conn, err := g.node.Connect(ctx, a, q)
	switch {
	case err == nil:
		return conn, nil
	case s.Closing():
		return nil, serve.ErrShutdown
	}
	return nil, about(g.front.AsError(err), "event", "events")
}

// closeConnection notifies the node that a client is gone, even if the client's context has ended.
// A lost client may reconnect.
func (g *Gateway) closeConnection(ctx context.Context, conn host.LiveConnection, lost bool) {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), closeTimeout)
	defer cancel()
	if err := conn.Close(ctx, lost); err != nil {
		g.front.Logger.Warn("end of a connection not noted", "connection",
			conn.Welcome().Connection, "lost", lost, "error", err)
	}
}
