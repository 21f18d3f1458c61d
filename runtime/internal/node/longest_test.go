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
		time.Sleep(time.Second) // the node is not just starting
		g.must("a", func(_ *puppet, h host.Turn) error { return ongoing(h) })
		if err := g.look("a", func(_ *puppetState, r host.Reader) error { return ongoing(r) }); err != nil {
			t.Errorf("a query: %v", err)
		}
	})
}

// ongoing returns the error of a context before and after something has asked for its end.
func ongoing(ctx host.Reader) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	ctx.Done()
	return ctx.Err()
}
