package kv

import (
	"context"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// Rights are the operations that a token allows.
type Rights struct {
	// Read allows to read, count and search entries.
	Read bool
	// Write allows to put and delete entries. Without Read a commit has no checks, no filters and
	// no operations that depend on present entries, and its result tells nothing about them.
	Write bool
	// Watch allows to follow changes. It needs Read.
	Watch bool
	// Inspect allows to read all of the actor, as operators do. It needs Read, and takes no prefix.
	// A new token with it ends the previous one.
	Inspect bool
}

// A TokenConfig describes a new token.
type TokenConfig struct {
	Rights
	// Prefix limits the token to keys that begin with it; empty is the whole store.
	Prefix Key
	// Label is any text of up to 200 bytes.
	Label string
	// TTL is how long the token is valid, 1 ms to 100 years; 0 is for ever.
	TTL time.Duration
}

// A Token is a token of an actor, without its secret.
type Token struct {
	// ID names the token. It is no secret.
	ID    string
	Label string
	Rights
	Prefix  Key
	Created time.Time
	// Expires is when the token ends; zero for never.
	Expires time.Time
}

// CreateToken makes a token: a text that gives a remote client some rights to the store, and
// nothing else. The text is returned only here, because only a hash of its secret is stored. The
// actor must exist. It has up to 1,000 tokens. Tokens are for operators.
func (s Store) CreateToken(ctx context.Context, c TokenConfig) (text string, t Token, err error) {
	in := token.CreateInput{Prefix: c.Prefix, Label: c.Label, TTLMS: site.Millis(c.TTL)}
	for _, right := range []struct {
		has  bool
		bits token.Rights
	}{{c.Read, token.Read}, {c.Write, token.Write}, {c.Watch, token.Watch}, {c.Inspect, token.Inspect}} {
		if right.has {
			in.Rights = append(in.Rights, right.bits.String())
		}
	}
	out, err := site.Ask(ctx, &s.site, method.TokenCreate, &in)
	if err != nil {
		return "", Token{}, err
	}
	return out.Text, tokenOf(&out.Token), nil
}

// Tokens returns the valid tokens, in the order of their ids.
func (s Store) Tokens(ctx context.Context) ([]Token, error) {
	out, err := site.Ask(ctx, &s.site, method.TokenList, new(method.None))
	if err != nil {
		return nil, err
	}
	list := make([]Token, len(out.Tokens))
	for i := range out.Tokens {
		list[i] = tokenOf(&out.Tokens[i])
	}
	return list, nil
}

// RevokeToken ends a token and the feeds of its holder. It reports whether there was one.
func (s Store) RevokeToken(ctx context.Context, id string) (bool, error) {
	out, err := site.Ask(ctx, &s.site, method.TokenRevoke, &token.RevokeInput{ID: id})
	return out.Count > 0, err
}

func tokenOf(in *token.Token) Token {
	t := Token{ID: in.ID, Label: in.Label, Prefix: in.Prefix, Created: in.Created, Rights: Rights{
		Read: slices.Contains(in.Rights, "read"), Write: slices.Contains(in.Rights,
			"write"), Watch: slices.Contains(in.Rights, "watch"),
		Inspect: slices.Contains(in.Rights, "inspect"),
	}}
	if in.Expires != nil {
		t.Expires = *in.Expires
	}
	return t
}
