package node

import (
	"context"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// An orderNotes is the order of a request that reads. Its turn comes when the turns before it have run.
type orderNotes struct {
	before func()
	calls  string
}

// Reads implements host.Order.
func (o *orderNotes) Reads(context.Context) bool {
	o.before()
	o.calls += "reads "
	return true
}

// Placed implements host.Order.
func (o *orderNotes) Placed() { o.calls += "placed " }

// Waits implements host.Order.
func (o *orderNotes) Waits() { o.calls += "waits " }

// A later request begins while the handler of a query runs, and no earlier turn is missing in what the query sees.
func TestQueryHasItsPlaceWhenTheTurnsBeforeItHaveRunAndNotWhenItIsAnswered(t *testing.T) {
	for _, awake := range []bool{true, false} {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			if awake {
				g.must("a", add(1))
			}
			o := &orderNotes{before: func() { g.must("a", add(1)) }}
			seen, at := 0, ""
			look := glance(func(s *puppetState, _ host.Reader) error { seen, at = s.N, o.calls; return nil })
			if _, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(look), Order: o}); err != nil {
				t.Fatal(err)
			}
			if n := g.n("a"); seen != n || at != "reads placed " {
				t.Errorf("awake %t: the query saw %d of %d turns, and had %q when its handler ran", awake, seen, n, at)
			}
		})
	}
}
