package gateway

import (
	"context"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/token"
)

// admit checks the token of a request: the node's, or one of the actor. For a token of the actor it
// puts the grant into the request's context.
//
// A request with an actor's token needs no token of the node. The token opens only the key-value
// store, where the node itself checks the grant, and with the right inspect the routes that show
// the actor. Paths without an actor have no such tokens.
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

// keyValue reports whether a route leads to the key-value store, or may lead there: the node checks
// the called method.
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
	case toActor, toKeys, toTraces, toEvents, toStream: // the last calls a method, which checks the token itself
		return method == http.MethodGet || method == http.MethodHead
	}
	return false
}

// A grantedSource is a source of events until its token ends.
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
