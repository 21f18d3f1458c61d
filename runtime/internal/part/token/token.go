// Package token is the part for tokens: secrets that allow their holders some operations on an
// actor's key-value store. It decides what a token allows; the part kv enforces it.
package token

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// Part is the part for tokens. A token is read from its row for each request. Memory has only the
// state that bounds failed checks.
type Part struct{ failed *failed }

// New makes the part of a node.
func New() *Part { return &Part{failed: newFailed()} }

// Name implements kernel.Part.
func (*Part) Name() string { return "token" }

// Methods implements call.Server. None of them wakes the actor.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Bare(call.Act(method.TokenCreate, create)),
		call.Unwoken(call.Ask(method.TokenList, list)),
		call.Bare(call.Act(method.TokenRevoke, revoke)),
	}
}

// topic is signalled when a token was revoked.
const topic = "token"

// A row is the value of a token. Its fields are the format on the disk. It does not reveal the
// secret.
type row struct {
	_       struct{} `cbor:",toarray"`
	Digest  []byte   // SHA-256 of the secret
	Rights  token.Rights
	Prefix  []byte // packed; empty for the whole store
	Label   string
	Created int64 // Unix ms
	Expires int64 // Unix ms; 0 is never
}

// An inspector is the value of the token with the right inspect. There is one key for it, so that a
// new one ends the one before. Stores of older versions may have such tokens among the others.
type inspector struct {
	_   struct{} `cbor:",toarray"`
	ID  string
	Row row
}

// inspecting returns the token with the right inspect. A row of another system there is none.
func inspecting(rows engine.Reader) (in inspector, ok bool, err error) {
	e, ok, err := rows.Get(keyspace.InspectorToken.Append(nil))
	return in, ok && err == nil && record.Decode(e.Value, &in) == nil, err
}

// read returns the row of a token that is valid.
func read(rows engine.Reader, id string, now time.Time) (r row, ok bool, err error) {
	e, ok, err := rows.Get(keyspace.Token.Append(nil, id))
	switch {
	case err != nil:
		return row{}, false, err
	case ok:
		err = record.Decode(e.Value, &r)
	default:
		var in inspector
		in, ok, err = inspecting(rows)
		r, ok = in.Row, ok && in.ID == id
	}
	return r, ok && err == nil && r.valid(now), err
}

func (r *row) valid(now time.Time) bool { return r.Expires == 0 || now.UnixMilli() < r.Expires }

// shown returns the token in the form for operators.
func (r *row) shown(id string) (token.Token, error) {
	t := token.Token{ID: id, Label: r.Label, Rights: r.Rights.Words(), Created: clock.TimeMS(r.Created).UTC()}
	if r.Expires != 0 {
		at := clock.TimeMS(r.Expires).UTC()
		t.Expires = &at
	}
	if len(r.Prefix) == 0 {
		return t, nil
	}
	parts, err := tuple.Unpack(r.Prefix)
	t.Prefix = kv.Key(parts)
	return t, err
}

// create implements token.create. Its reply is not kept for repeats, because it has the secret: a
// repeat makes another token.
func create(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *token.CreateInput) (out token.CreateOutput, err error) {
	r := row{Label: in.Label, Created: h.Start.UnixMilli()}
	if r.Rights, err = rights(in.Rights); err != nil {
		return out, err
	}
	if r.Prefix, err = prefix(in.Prefix); err != nil {
		return out, err
	}
	switch n := len(in.Label); {
	case r.Rights&token.Inspect != 0 && len(r.Prefix) > 0:
		return out, host.Errorf(host.InvalidArgument,
			"the right inspect is for the whole actor, so the token takes no prefix").With("field", "prefix")
	case n > token.MaxLabel:
		return out, host.OverLimit("bytes of the label", token.MaxLabel, int64(n)).With("field", "label")
	case !utf8.ValidString(in.Label):
		return out, host.Errorf(host.InvalidArgument, "the label is not valid UTF-8").With("field", "label")
	}
	h.Work.GoodFor = -1
	n, old := 0, []string(nil) // ids that the new one ends
	err = each(c.Rows, func(id string, o *row) error {
		if o.Rights&r.Rights&token.Inspect == 0 {
			n++
		} else {
			old = append(old, id)
		}
		return nil
	})
	if err != nil {
		return out, err
	}
	if n >= token.MaxTokens {
		return out, host.OverLimit("tokens of the actor", token.MaxTokens, int64(n+1))
	}
	text, id, digest := token.New()
	r.Digest = digest[:]
	o := engine.PutOptions{}
	if in.TTLMS != 0 {
		r.Expires = r.Created + in.TTLMS
		o.ExpireAt = r.Expires
		h.ExpireAt(r.Expires, time.Hour)
	}
	for _, id := range old {
		if _, err := end(c, h, id); err != nil {
			return out, err
		}
	}
	key, value := keyspace.Token.Append(nil, id), any(&r)
	if r.Rights&token.Inspect != 0 {
		key, value = keyspace.InspectorToken.Append(nil), &inspector{ID: id, Row: r}
	}
	b, err := record.Encode(value)
	if err != nil {
		return out, err
	}
	if err := c.Rows.Put(key, b, o); err != nil {
		return out, fault.Limit(err)
	}
	out.Text = text
	out.Token, err = r.shown(id)
	audit.Of(h.Work.Ctx).After(&out.Token) // and not the secret
	return out, err
}

// rights reads the names of rights.
func rights(words []string) (r token.Rights, err error) {
	if len(words) == 0 {
		return 0, host.Errorf(host.InvalidArgument,
			"a token has at least one of the rights read, write, watch and inspect").With("field", "rights")
	}
	for i, word := range words {
		one := token.ParseRight(word)
		if one == 0 {
			place := "rights[" + strconv.Itoa(i) + "]"
			return 0, host.Errorf(host.InvalidArgument,
				"%s is %.40q; the rights are read, write, watch and inspect", place, strings.ToValidUTF8(word, "\uFFFD")).With("field", place)
		}
		r |= one
	}
	if r&token.Watch != 0 && r&token.Read == 0 {
		return 0, host.Errorf(host.InvalidArgument,
			"the right watch needs read, because changes have values").With("field", "rights")
	}
	if r&token.Inspect != 0 && r&token.Read == 0 {
		return 0, host.Errorf(host.InvalidArgument,
			"the right inspect needs read, because the raw keyspace has values").With("field", "rights")
	}
	return r, nil
}

// prefix returns the packed form of a prefix.
func prefix(k kv.Key) ([]byte, error) {
	if _, err := k.Tuple(); err != nil {
		return nil, at(err)
	}
	b, err := k.Pack()
	if err != nil {
		return nil, at(err)
	}
	if n := len(b); n > token.MaxPrefix {
		return nil, host.OverLimit("bytes of the prefix", token.MaxPrefix, int64(n)).With("field", "prefix")
	}
	return b, nil
}

// at names the prefix in an error about a part of it.
func at(err error) error {
	e, is := err.(*host.Error)
	if !is {
		return err
	}
	return e.With("field", "prefix"+e.Metadata["field"])
}

// each visits the rows of all tokens. A row that cannot be read has no rights, so that it can be
// listed and revoked.
func each(rows engine.Reader, visit func(id string, r *row) error) error {
	in, ok, err := inspecting(rows)
	if ok && err == nil {
		err = visit(in.ID, &in.Row)
	}
	if err != nil {
		return err
	}
	var q engine.ListQuery
	q.Start, q.End = keyspace.Token.Range()
	for {
		page, err := rows.List(q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			id, err := keyspace.Token.Parse(e.Key)
			if err != nil {
				return err
			}
			var r row
			if record.Decode(e.Value, &r) != nil {
				r = row{}
			}
			if err := visit(id, &r); err != nil {
				return err
			}
		}
		if q.After = page.Next; q.After == nil {
			return nil
		}
	}
}

// list implements token.list.
func list(q *call.Query, _ host.Codec, _ *method.None) (token.ListOutput, error) {
	now, tokens := q.Now(), []token.Token{}
	rows, done, err := q.Rows()
	if err != nil {
		return token.ListOutput{}, err
	}
	defer done()
	err = each(rows, func(id string, r *row) error {
		if !r.valid(now) {
			return nil
		}
		t, err := r.shown(id)
		tokens = append(tokens, t)
		return err
	})
	slices.SortFunc(tokens, func(a, b token.Token) int {
		return cmp.Or(a.Created.Compare(b.Created), strings.Compare(a.ID, b.ID))
	})
	return token.ListOutput{Tokens: tokens}, err
}

// revoke implements token.revoke. It counts 1 if there was such a token.
func revoke(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *token.RevokeInput) (host.CountOutput, error) {
	if !token.IsID(in.ID) {
		// it may be a whole token, which the error must not repeat
		return host.CountOutput{},
			host.Errorf(host.InvalidArgument,
				"the id is not that of a token: it has %d letters and digits, and token.list shows it", token.IDChars).With("field", "id")
	}
	return call.Counted(end(c, h, in.ID))
}

// end removes a token, and reports whether there was one.
func end(c *kernel.Core, h *kernel.Turn, id string) (there bool, err error) {
	if r, ok, _ := read(c.Rows, id, h.Start); ok {
		if t, err := r.shown(id); err == nil {
			audit.Of(h.Work.Ctx).Before(&t)
		}
	}
	if there, err = c.Rows.Delete(keyspace.Token.Append(nil, id)); err != nil {
		return false, err
	}
	if !there {
		in, ok, err := inspecting(c.Rows)
		if err != nil || !ok || in.ID != id {
			return false, err
		}
		if there, err = c.Rows.Delete(keyspace.InspectorToken.Append(nil)); err != nil {
			return false, err
		}
	}
	h.Notify(topic)
	return there, nil
}
