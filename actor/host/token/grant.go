package token

import (
	"bytes"
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// A Grant has the rights of a valid token. A request whose context has one may do nothing else.
type Grant struct {
	// ID is the id of the token.
	ID     string
	Rights Rights
	// Prefix is the packed prefix of the keys; empty for the whole store.
	Prefix []byte
	// During calls f with a context that ends when the token does. The result of f counts only if
	// the token was valid after f returned; otherwise the error is that of the token. A nil During
	// only calls f.
	During func(ctx context.Context, f func(context.Context) error) error
}

// A Checker checks tokens of actors.
type Checker interface {
	// CheckToken returns the grant of a token of an actor, without waking the actor. The error code
	// is Unauthenticated, always with the same text, for any text that is not a valid token of this
	// actor. It is Overloaded after too many invalid tokens. This refuses no valid token that is at
	// least a second old.
	CheckToken(ctx context.Context, a host.Address, text string) (*Grant, error)
}

// ErrInvalid is the error for a token that is unknown, expired, revoked, of another actor or no
// token at all.
var ErrInvalid = host.Errorf(host.Unauthenticated, "the token is not valid for this actor")

// Denied returns the error for an operation that a token does not allow.
func Denied(format string, args ...any) *host.Error {
	return host.Errorf(host.PermissionDenied, "the token does not allow "+format, args...)
}

type contextKey struct{}

// With returns a context for requests that a grant allows.
func With(ctx context.Context, g *Grant) context.Context {
	return context.WithValue(ctx, contextKey{}, g)
}

// Of returns the grant of a context's requests; nil if they came without a token.
func Of(ctx context.Context) *Grant {
	g, _ := ctx.Value(contextKey{}).(*Grant)
	return g
}

// While calls f as During does. A nil grant calls f.
func (g *Grant) While(ctx context.Context, f func(context.Context) error) error {
	if g == nil || g.During == nil {
		return f(ctx)
	}
	return g.During(ctx, f)
}

// Allow returns an error unless the grant has all rights of need.
func (g *Grant) Allow(need Rights) error {
	if missing := need &^ g.Rights; missing != 0 {
		return Denied("this: it lacks the right %s", missing).With("right", missing.String())
	}
	return nil
}

// Whole returns an error unless the grant is for the whole store.
func (g *Grant) Whole(what string) error {
	if len(g.Prefix) > 0 {
		return Denied("%s: it is for the keys below a prefix only", what)
	}
	return nil
}

// Packed reports whether the packed key, or a packed prefix, is within the grant.
func (g *Grant) Packed(key []byte) bool {
	// as kv.Selection
	return bytes.HasPrefix(key, g.Prefix) && (len(key) == len(g.Prefix) || key[len(g.Prefix)] != 0xFF)
}

// Bounds returns the packed range of the keys of the grant; a nil end is the end of the store.
func (g *Grant) Bounds() (start, end []byte) {
	if len(g.Prefix) == 0 {
		return nil, nil
	}
	return g.Prefix, append(bytes.Clone(g.Prefix), 0xFF)
}

// Range reports whether all keys of a packed range are within the grant; an empty end is the end of
// the store.
func (g *Grant) Range(start, end []byte) bool {
	from, to := g.Bounds()
	return to == nil || len(end) > 0 && bytes.Compare(start, from) >= 0 && bytes.Compare(end, to) <= 0
}

// Key returns an error for a key outside of the grant, or one that cannot be packed. A placeholder
// and the parts after it may be anything.
func (g *Grant) Key(k kv.Key) error {
	if len(g.Prefix) == 0 {
		return nil
	}
	for i, part := range k {
		if _, is := part.(kv.Placeholder); is {
			k = k[:i]
			break
		}
	}
	b, err := k.Pack()
	if err != nil {
		return err
	}
	if !g.Packed(b) {
		return Denied("the key: it does not begin with the token's prefix")
	}
	return nil
}

// Below returns an error for a prefix that has keys outside of the grant.
func (g *Grant) Below(prefix kv.Key) error {
	if len(g.Prefix) == 0 {
		return nil
	}
	if len(prefix) == 0 {
		return Denied("the whole store: name a prefix within that of the token")
	}
	b, err := prefix.Pack()
	if err != nil {
		return err
	}
	if !g.Packed(b) {
		return Denied("the prefix: it does not begin with the token's prefix")
	}
	return nil
}
