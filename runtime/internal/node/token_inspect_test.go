package node

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// TestATokenThatInspectsMayReadAll calls each built-in method with an inspecting token: it may call the ones that read, and no others.
func TestATokenThatInspectsMayReadAll(t *testing.T) {
	t.Parallel()
	g := openTokens(t)
	made := g.newToken(rights("read,watch,inspect"))
	for _, row := range method.All() {
		_, err := g.as(made.Text, row.Name, `{}`)
		denied := host.CodeOf(err) == host.PermissionDenied
		reads := row.Kind == host.Query
		if !reads && strings.HasPrefix(row.Name, "kv.") {
			continue // the rights read and write decide on those
		}
		if reads == denied {
			t.Errorf("%s, which reads: %t: %v", row.Name, reads, err)
		}
	}
	for _, own := range []string{"do", "", "no.such"} {
		if _, err := g.as(made.Text, own, `{}`); host.CodeOf(err) != host.PermissionDenied {
			t.Errorf("%q: %v", own, err)
		}
	}
	for field, in := range map[string]token.CreateInput{
		"rights": rights("inspect"),
		"prefix": rights("read,inspect", "in"),
	} {
		err := g.verb("a", host.TokenCreate, in, nil)
		if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
			t.Errorf("%v names %q, not %q", e, e.Metadata["field"], field)
		}
	}
}

// TestANewTokenThatInspectsEndsTheOneBefore has one at a time, in key 03. An older version kept them among the others, and several of
// them. What is there in the keyspace of another system is no token.
func TestANewTokenThatInspectsEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		inspects := rights("read,inspect")
		reader, first := g.newToken(rights("read")), g.newToken(inspects)
		err := g.grant(first.Text).During(t.Context(), func(ctx context.Context) error {
			g.newToken(inspects)
			<-ctx.Done() // what the first one follows ends
			return ctx.Err()
		})
		wantCode(t, err, host.Unauthenticated)

		olds := []token.CreateOutput{g.newToken(rights("read")), g.newToken(rights("read"))}
		g.rewrite(func(rows *engine.WriteSet) (err error) {
			for _, old := range olds {
				key := keyspace.Token.Append(nil, old.ID)
				e, _, gerr := rows.Get(key)
				var row []any
				err = errors.Join(err, gerr, record.Decode(e.Value, &row))
				row[1] = token.Read | token.Inspect
				value, eerr := record.Encode(row)
				err = errors.Join(err, eerr, rows.Put(key, value, engine.PutOptions{}))
			}
			return err
		})
		g.grant(olds[0].Text)
		g.grant(olds[1].Text)
		if n := g.revoke(olds[0].ID); n != 1 {
			t.Errorf("%d are revoked", n)
		}
		wantCode(t, g.checkToken(olds[0].Text), host.Unauthenticated)
		third := g.newToken(inspects)
		wantCode(t, g.checkToken(olds[1].Text), host.Unauthenticated)
		g.grant(third.Text)
		page, err := g.Inspect(t.Context(), pAddr("a"), host.InspectQuery{})
		if err != nil || !slices.ContainsFunc(page.Keys, func(k host.StoredKey) bool { return k.Text == "inspector-token" }) {
			t.Error(page, err)
		}
		g.revoke(third.ID)

		g.rewrite(func(rows *engine.WriteSet) error {
			return rows.Put(keyspace.InspectorToken.Append(nil), []byte("0123456789abcdef"), engine.PutOptions{})
		})
		if ids, n := g.tokenIDs(), g.revoke(third.ID); len(ids) != 1 || ids[0] != reader.ID || n != 0 {
			t.Errorf("there are %v, and %d are revoked", ids, n)
		}
		g.grant(g.newToken(inspects).Text)
	})
}

// rewrite restarts the node, and changes rows of actor "a" in between.
func (g *stage) rewrite(change func(rows *engine.WriteSet) error) {
	g.t.Helper()
	g.stop()
	g.behind("a", func(space *engine.Space) error {
		rows := space.Writes()
		rows.Advance(1)
		if err := change(rows); err != nil {
			return err
		}
		_, err := space.Commit(func(error) {})
		return err
	})
	g.start()
}
