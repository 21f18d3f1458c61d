package gateway

import (
	"cmp"
	"context"
	"encoding/base64"
	"errors"
	"net/http"
	"slices"
	"strings"
	"time"

	"github.com/coder/websocket"

	"github.com/cairn-run/cairn/actor/host"
)

const (
	// Subprotocol names what is spoken over WebSockets; docs/websocket.md describes it.
	Subprotocol = "cairn.v1"
	// tokenProtocol begins the subprotocol that carries the bearer token of a browser, which cannot set headers.
	tokenProtocol = "cairn.token."
)

// upgrades reports whether the request asks for a WebSocket on a route that has one.
func (x *exchange) upgrades(t *target) bool {
	return t.route == toConnect && x.r.Method == http.MethodGet && strings.EqualFold(x.r.Header.Get("Upgrade"), "websocket")
}

// websocket answers GET .../-/connect with a WebSocket.
//
// What is wrong with the request itself, and a page of a foreign origin, is answered as over HTTP. A client that may not
// connect, and one that comes at a bad time, gets its WebSocket and is told there: of a handshake that failed, browsers
// show their pages neither status nor body, so that a page could not tell whether to come back.
func (x *exchange) websocket(t *target) {
	x.counts(t.Type, labelConnect)
	refusal := x.takeToken()
	if refusal == nil {
		refusal = x.g.door.CheckToken(x.r.Header)
	}
	if refusal == nil {
		refusal = x.authorize(x.r.Context(), Connect, t.Address, "")
	}
	existing := false
	if refusal == nil {
		var fault *host.Error
		if existing, fault = x.existing(); fault == nil {
			_, fault = x.params()
		}
		if fault != nil {
			x.fail(fault)
			return
		}
	}
	c := &session{g: x.g, address: t.Address, start: x.start}
	c.first.Existing, c.first.Traceparent = existing, x.traceparent()
	if x.g.opts.Authorize != nil {
		c.header, c.remote = x.r.Header, x.r.RemoteAddr
	}
	if !x.accept(c, refusal) {
		return
	}
	x.meter = nil // the session counts itself
	// Two contexts without a parent in common that can end: each child of one costs memory for as long as it lives.
	base := context.WithoutCancel(x.r.Context())
	c.life, c.end = context.WithCancel(base)
	if refusal == nil {
		c.stream, refusal = x.g.admit(base, &stream{open: x.g.meter.sockets, connection: true})
	}
	switch {
	case refusal != nil:
		c.refuse(refusal)
	case c.connect():
		// What follows has a goroutine with a stack of its own. That of the request, which connecting made large, goes back
		// with net/http's buffers: they would be most of what an idle WebSocket costs.
		go c.serve()
	default:
		c.discard()
		c.leave()
		c.ws.CloseNow()
		x.g.done(c.stream)
	}
}

// accept does the handshake. On failure it answers, with refusal if there is one, and returns false.
func (x *exchange) accept(c *session, refusal *host.Error) bool {
	if x.r.ProtoMajor != 1 {
		x.fail(cmp.Or(refusal, host.Errorf(host.InvalidArgument, "a WebSocket needs HTTP/1.1")))
		return false
	}
	h := &hijacker{ResponseWriter: x.w, limits: &x.g.opts.Limits, memory: &x.g.memory}
	x.began = true
	ws, err := websocket.Accept(h, x.r, &websocket.AcceptOptions{
		Subprotocols:       []string{Subprotocol},
		InsecureSkipVerify: true, // checkOrigin has decided
		CompressionMode:    websocket.CompressionDisabled,
		OnPingReceived: func(_ context.Context, payload []byte) bool {
			c.socket.pong(payload)
			return false
		},
	})
	if err == nil {
		ws.SetReadLimit(-1) // the session limits messages, and says so
		c.ws, c.socket = ws, h.socket
		return true
	}
	if h.status == 0 { // the status was sent, and the client is gone
		x.code = host.Canceled
		return false
	}
	x.began = false
	x.w.Header().Del("Sec-Websocket-Accept")
	if refusal != nil {
		x.fail(refusal)
		return false
	}
	if cause := errors.Unwrap(err); cause != nil {
		err = cause
	}
	x.failStatus(host.Errorf(host.InvalidArgument, "this cannot become a WebSocket: %v", err), h.status)
	return false
}

// takeToken makes a bearer token that came as a subprotocol the Authorization header, so that everything after it sees the
// same as of other clients. A header that is there has precedence.
func (x *exchange) takeToken() *host.Error {
	const name = "Sec-Websocket-Protocol"
	var offered []string
	encoded, found := "", false
	for _, line := range x.r.Header[name] {
		for one := range strings.SplitSeq(line, ",") {
			one = strings.TrimSpace(one)
			if token, ok := strings.CutPrefix(one, tokenProtocol); ok {
				encoded, found = token, true
			} else {
				offered = append(offered, one)
			}
		}
	}
	if !found {
		return nil
	}
	h := x.r.Header.Clone()
	h.Del(name)
	if len(offered) > 0 {
		h.Set(name, strings.Join(offered, ", "))
	}
	x.r.Header = h
	token, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	switch {
	case err != nil || len(token) == 0 || slices.ContainsFunc(token, func(c byte) bool { return c <= ' ' || c > '~' }):
		return host.Errorf(host.Unauthenticated, "the subprotocol %s must end with a token of printable ASCII in base64url", tokenProtocol)
	case h.Get("Authorization") == "":
		h.Set("Authorization", "Bearer "+string(token))
	}
	return nil
}

// closeCode is what a WebSocket is closed with because of an error: after the welcome, or instead of it.
func closeCode(e *host.Error, welcomed bool) websocket.StatusCode {
	switch e.Code {
	case host.Unavailable:
		return websocket.StatusGoingAway
	case host.Overloaded, host.ActorPaused, host.ActorFailed, host.DeadlineExceeded:
		return websocket.StatusTryAgainLater
	case host.TooLarge:
		return websocket.StatusMessageTooBig
	case host.Internal, host.Crashed, host.StateTooNew, host.ReadOnly:
		return websocket.StatusInternalError
	}
	if welcomed {
		return websocket.StatusNormalClosure
	}
	return websocket.StatusPolicyViolation
}

// refuse answers a client that cannot connect, and gives it a moment to leave.
func (c *session) refuse(e *host.Error) {
	defer c.end()
	defer c.ws.CloseNow()
	c.counted(e.Code)
	c.bye(e, closeCode(e, false))
	c.discard()
}

// counted counts the attempt to connect.
func (c *session) counted(code host.Code) {
	m := c.g.meter
	m.count(m.actorType(c.address.Type), labelConnect, code, time.Since(c.start))
}
