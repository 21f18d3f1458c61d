package node

import (
	"math"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// The longest time limit that a type can set is a way to say that there is none.
func TestHandlersRunUnderTheLongestTimeLimit(t *testing.T) {
	p := &puppetType{name: "p", limits: host.Limits{TurnTimeout: math.MaxInt64, QueryTimeout: math.MaxInt64}}
	bubble(t, nil, []*puppetType{p}, func(t *testing.T, g *stage) {
		g.must("a", func(_ *puppet, h host.Turn) error { return lasting(h) })
		if err := g.look("a", func(_ *puppetState, r host.Reader) error { return lasting(r) }); err != nil {
			t.Errorf("a query: %v", err)
		}
	})
}

// lasting waits for a minute, and returns the error of a context.
func lasting(ctx host.Reader) error {
	select {
	case <-time.After(time.Minute):
	case <-ctx.Done():
	}
	return ctx.Err()
}
