package gateway

import (
	"context"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
)

// admit checks the token of a request: that of the node, or one of the actor, whose grant the
// context of the request then has.
//
// An actor's token needs no token of the node. It leads only to the key-value store, and there the
// node itself refuses what it does not allow; with the right inspect, also to what shows the actor.
// A path that names no actor has no tokens.
func (x *exchange) admit(t *target) *host.Error {
	text := token.Bearer(x.R.Header.Get("Authorization"))
	if text == "" || x.Front.Token != "" && x.Front.Door.CheckToken(x.R.Header) == nil {
		return x.Front.Door.CheckToken(x.R.Header)
	}
	if t.Type == "" {
		return token.ErrInvalid
	}
	g, err := x.g.node.CheckToken(x.R.Context(), t.Address, text)
	if err != nil {
		return x.Front.AsError(err)
	}
	if !t.route.keyValue() && (g.Rights&token.Inspect == 0 || !t.route.inspects(x.R.Method)) {
		return token.Denied("this path, only those of the key-value store")
	}
	x.Token, x.R = g.ID, x.R.WithContext(token.With(x.R.Context(), g))
	return nil
}

// admitSocket is admit for a WebSocket, whose token may come as a subprotocol.
func (x *exchange) admitSocket(t *target) *host.Error {
	if refusal := x.takeToken(); refusal != nil {
		return refusal
	}
	return x.admit(t)
}

// keyValue reports whether a route leads to the key-value store, or may: the node looks at what is
// called.
func (rt route) keyValue() bool {
	switch rt {
	case toCall, toWatch, toFeed, toKV, toEntry, toCodebolt, toCodeboltEvents, toKeyVal, toStrata:
		return true
	}
	return false
}

// inspects reports whether a request to a route shows an actor and changes nothing.
func (rt route) inspects(method string) bool {
	switch rt {
	case toActor, toKeys, toTraces, toEvents, toStream: // the last calls a method, which looks at the token itself
		return method == http.MethodGet || method == http.MethodHead
	}
	return false
}

// A grantedSource brings events until its token ends.
type grantedSource struct {
	source
	grant *token.Grant
}

// Next implements source.
func (s grantedSource) Next(ctx context.Context) (d host.Delivery, err error) {
	err = s.grant.While(ctx, func(ctx context.Context) (err error) {
		d, err = s.source.Next(ctx)
		return err
	})
	if err != nil {
		return host.Delivery{}, err
	}
	return d, nil
}
