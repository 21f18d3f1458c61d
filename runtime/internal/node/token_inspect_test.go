package node

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
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
	made := g.newToken(token.CreateInput{Rights: []string{"read", "watch", "inspect"}})
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
		"rights": {Rights: []string{"inspect"}},
		"prefix": {Rights: []string{"read", "inspect"}, Prefix: kv.Key{"in"}},
	} {
		err := g.verb("a", host.TokenCreate, in, nil)
		if e := wantCode(t, err, host.InvalidArgument); e.Metadata["field"] != field {
			t.Errorf("%v names %q, not %q", e, e.Metadata["field"], field)
		}
	}
}

// TestANewTokenThatInspectsEndsTheOneBefore has one at a time, in key 03, beside tokens with other rights.
func TestANewTokenThatInspectsEndsTheOneBefore(t *testing.T) {
	t.Parallel()
	synctest.Test(t, inspectors)
}

func inspectors(t *testing.T) {
	g := openTokens(t)
	works := func(made token.CreateOutput, want bool) {
		t.Helper()
		_, err := g.as(made.Text, host.KVGet, `{"key":["out"]}`)
		if want && err != nil || !want && host.CodeOf(err) != host.Unauthenticated {
			t.Errorf("%s with %v: %v", made.ID, made.Rights, err)
		}
	}
	shown := func(want ...token.CreateOutput) {
		t.Helper()
		var out token.ListOutput
		g.mustVerb("a", host.TokenList, nil, &out)
		var ids, wanted []string
		for _, one := range out.Tokens {
			ids = append(ids, one.ID)
		}
		for _, one := range want {
			wanted = append(wanted, one.ID)
		}
		slices.Sort(ids)
		slices.Sort(wanted)
		if !slices.Equal(ids, wanted) {
			t.Errorf("there are %v, want %v", ids, wanted)
		}
	}
	revoke := func(id string, want int64) {
		t.Helper()
		var out host.CountOutput
		g.mustVerb("a", host.TokenRevoke, token.RevokeInput{ID: id}, &out)
		if out.Count != want {
			t.Errorf("revoked %d, want %d", out.Count, want)
		}
	}
	inspects := token.CreateInput{Rights: []string{"read", "inspect"}}
	reader := g.newToken(token.CreateInput{Rights: []string{"read"}})
	first := g.newToken(inspects)
	grant, err := g.CheckToken(t.Context(), pAddr("a"), first.Text)
	if err != nil {
		t.Fatal(err)
	}
	err = grant.During(t.Context(), func(ctx context.Context) error {
		second := g.newToken(inspects)
		works(second, true)
		shown(reader, second)
		revoke(first.ID, 0)
		works(second, true)
		<-ctx.Done() // what the first one follows ends
		return ctx.Err()
	})
	if host.CodeOf(err) != host.Unauthenticated {
		t.Error(err)
	}
	works(first, false)

	// An older version kept them among the others, and several of them.
	olds := []token.CreateOutput{g.newToken(token.CreateInput{Rights: []string{"read"}}), g.newToken(token.CreateInput{Rights: []string{"read"}})}
	g.stop()
	g.behind("a", func(space *engine.Space) error {
		rows := space.Writes()
		rows.Advance(1)
		for i := range olds {
			key := keyspace.Token.Append(nil, olds[i].ID)
			e, _, err := rows.Get(key)
			if err != nil {
				return err
			}
			var row []any
			if err := record.Decode(e.Value, &row); err != nil {
				return err
			}
			row[1] = token.Read | token.Inspect
			value, err := record.Encode(row)
			if err != nil {
				return err
			}
			if err := rows.Put(key, value, engine.PutOptions{}); err != nil {
				return err
			}
		}
		_, err := space.Commit(func(error) {})
		return err
	})
	g.start()
	works(olds[0], true)
	works(olds[1], true)
	revoke(olds[0].ID, 1)
	works(olds[0], false)
	third := g.newToken(inspects)
	works(third, true)
	shown(reader, third)
	g.restart()
	works(third, true)
	if page, err := g.Inspect(t.Context(), pAddr("a"), host.InspectQuery{}); err != nil || !slices.ContainsFunc(page.Keys, func(k host.StoredKey) bool { return k.Text == "inspector-token" }) {
		t.Error(page, err)
	}
	revoke(third.ID, 1)
	shown(reader)

	// What is there in the keyspace of another system is no token.
	g.stop()
	g.behind("a", func(space *engine.Space) error {
		rows := space.Writes()
		rows.Advance(1)
		if err := rows.Put(keyspace.InspectorToken.Append(nil), []byte("0123456789abcdef"), engine.PutOptions{}); err != nil {
			return err
		}
		_, err := space.Commit(func(error) {})
		return err
	})
	g.start()
	shown(reader)
	revoke(third.ID, 0)
	works(g.newToken(inspects), true)
}
