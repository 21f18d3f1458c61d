package gateway

import (
	"context"
	"errors"
	"net/http"

	"github.com/cairn-run/cairn/actor/host"
)

// authenticate checks the token of a request. It comes before everything else of the request is looked at, so that a
// client without the token cannot tell one route, name or fault from another.
//
// A WebSocket is told over the WebSocket, because browsers show their pages nothing of a handshake that failed.
func (x *exchange) authenticate(t *target) *host.Error {
	read := x.r.Method == http.MethodGet || x.r.Method == http.MethodHead
	if t.route == toHealth && read || x.upgrades(t) {
		return nil
	}
	return x.g.door.CheckToken(x.r.Header)
}

// authorize asks the hook whether the request may go on. Routes ask it before they look at parameters, conditions or the
// body.
func (x *exchange) authorize(ctx context.Context, op Operation, a host.Address, method string) *host.Error {
	return x.g.allowed(ctx, AuthRequest{
		Operation: op, Type: a.Type, Key: a.Key, Method: method, Header: x.r.Header, RemoteAddr: x.r.RemoteAddr,
	})
}

// allowed asks the hook.
func (g *Gateway) allowed(ctx context.Context, r AuthRequest) *host.Error {
	if g.opts.Authorize == nil {
		return nil
	}
	err := g.opts.Authorize(ctx, r)
	if err == nil {
		return nil
	}
	var e *host.Error
	if errors.As(err, &e) {
		return e
	}
	g.log.Warn("request not authorized", "operation", string(r.Operation), "actor_type", r.Type, "error", err)
	return host.Errorf(host.PermissionDenied, "not allowed")
}

// veiled reports whether a caller must not read what operators read of an actor. It asks the hook about method, which shows
// the same to operators: r names the actor.
func (g *Gateway) veiled(ctx context.Context, r AuthRequest, method string) bool {
	if g.opts.Authorize == nil {
		return false
	}
	r.Operation, r.Method = Operate, method
	return g.opts.Authorize(ctx, r) != nil
}

// veils reports whether the answer to a call is to leave out what is for operators.
func (g *Gateway) veils(ctx context.Context, q *host.Request, h http.Header, remote string) bool {
	switch q.Method {
	case host.WorkflowStatus, host.WorkflowResult:
		return g.veiled(ctx, AuthRequest{Type: q.Type, Key: q.Key, Header: h, RemoteAddr: remote}, host.WorkflowHistory)
	}
	return false
}

// shown is a status as the caller may read it: the error that an actor failed with is for operators, as it is in dead
// letters.
func (x *exchange) shown(ctx context.Context, st host.Status) host.Status {
	if st.Key == nil {
		st.Key = []string{} // in JSON no null
	}
	f := st.Failure
	if f == nil || f.Reason == f.Public || !x.g.veiled(ctx, AuthRequest{Type: st.Type, Key: st.Key, Header: x.r.Header, RemoteAddr: x.r.RemoteAddr}, host.ActorWhy) {
		return st
	}
	public := *f
	public.Reason = f.Public
	st.Failure = &public
	return st
}
