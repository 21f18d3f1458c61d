package gateway

import (
	"context"
	"encoding/base64"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

const (
	// Subprotocol is the protocol over WebSockets; docs/websocket.md describes it.
	Subprotocol = "cairn.v1"
	// tokenProtocol begins the subprotocol with the bearer token of a browser, which cannot set
	// headers.
	tokenProtocol = "cairn.token."
)

// websocket answers GET .../-/connect with a WebSocket.
//
// A faulty request, and a page of a foreign origin, get an HTTP error. A client that may not
// connect, or not now, gets its WebSocket and the error there: browsers show their pages neither
// status nor body of a failed handshake, so a page could not decide whether to come back.
func (x *exchange) websocket(t *target) {
	x.Count(t.Type, serve.LabelConnect)
	refusal := x.admitSocket(t)
	if refusal == nil {
		refusal = x.Authorize(x.R.Context(), serve.Connect, t.Address, "")
	}
	existing := false
	if refusal == nil {
		var fault *host.Error
		if existing, fault = x.existing(); fault == nil {
			_, fault = x.params()
		}
		if fault != nil {
			x.Fail(fault)
			return
		}
	}
	c := &session{g: x.g, address: t.Address, remote: x.R.RemoteAddr, start: x.Start}
	c.first.Existing, c.first.Traceparent = existing, x.traceparent
	if x.Front.Authorize != nil {
		c.header = x.R.Header
	}
	if c.socket = x.Upgrade(Subprotocol, refusal); c.socket == nil {
		return
	}
	x.Uncounted = true // the session counts itself
	// Two contexts without a common parent that can end, because each child of such a parent costs
	// memory as long as it lives.
	base := context.WithoutCancel(x.R.Context())
	c.life, c.end = context.WithCancel(base)
	if refusal == nil {
		c.stay, refusal = x.Front.Admit(base, serve.WebSocket)
	}
	switch {
	case refusal != nil:
		c.refuse(refusal)
	case c.connect():
		// The rest has its own goroutine and stack. The stack of the request, which connecting made
		// large, is freed with net/http's buffers; they would be most of the cost of an idle
		// WebSocket.
		go c.serve()
	default:
		c.socket.Discard()
		c.leave()
		c.socket.CloseNow()
		c.stay.Done()
	}
}

// takeToken moves a bearer token from a subprotocol to the Authorization header, so that later code
// handles all clients alike. An existing header takes precedence.
func (x *exchange) takeToken() *host.Error {
	const name = "Sec-Websocket-Protocol"
	var offered []string
	encoded, found := "", false
	for _, line := range x.R.Header[name] {
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
	h := x.R.Header.Clone()
	h.Del(name)
	if len(offered) > 0 {
		h.Set(name, strings.Join(offered, ", "))
	}
	x.R.Header = h
	token, err := base64.RawURLEncoding.DecodeString(strings.TrimRight(encoded, "="))
	switch {
	case err != nil || len(token) == 0 || slices.ContainsFunc(token, func(c byte) bool { return c <= ' ' || c > '~' }):
		return host.Errorf(host.Unauthenticated,
			"the subprotocol %s must end with a token of printable ASCII in base64url", tokenProtocol)
	case h.Get("Authorization") == "":
		h.Set("Authorization", "Bearer "+string(token))
	}
	return nil
}

// refuse answers a client that cannot connect, and gives it a moment to leave.
func (c *session) refuse(e *host.Error) {
	defer c.end()
	defer c.socket.CloseNow()
	c.counted(e.Code)
	c.bye(e, serve.CloseCode(e, false))
	c.socket.Discard()
}

// counted counts the attempt to connect.
func (c *session) counted(code host.Code) {
	m := c.g.front.Meter
	m.Count(m.Type(c.address.Type), serve.LabelConnect, code, time.Since(c.start))
}
