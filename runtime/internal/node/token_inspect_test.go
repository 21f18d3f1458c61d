package node

import (
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/host/token"
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
