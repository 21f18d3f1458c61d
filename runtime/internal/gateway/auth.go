package gateway

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
)

// authorize decides whether the request may go on: the token first, then the hook. Both must agree.
func (x *exchange) authorize(ctx context.Context, op Operation, a host.Address, method string) *host.Error {
	g := x.g
	if g.opts.Token != "" && op != Health {
		if e := g.checkToken(x.r.Header.Get("Authorization")); e != nil {
			return e
		}
	}
	return g.allowed(ctx, AuthRequest{
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

// checkToken compares digests, so that the time it takes says nothing about the token, not even its length.
func (g *Gateway) checkToken(header string) *host.Error {
	const scheme = "bearer "
	if len(header) < len(scheme) || !strings.EqualFold(header[:len(scheme)], scheme) {
		return host.Errorf(host.Unauthenticated, "a bearer token is required")
	}
	sum := sha256.Sum256([]byte(strings.TrimSpace(header[len(scheme):])))
	if subtle.ConstantTimeCompare(sum[:], g.tokenSum[:]) != 1 {
		return host.Errorf(host.Unauthenticated, "the bearer token is not valid")
	}
	return nil
}
