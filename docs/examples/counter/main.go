// Counter is the smallest useful program on Cairn. The README shows it.
package main

import (
	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/runtime"
)

// The contract: what callers need to know.
var (
	Counters = actor.NewType[Counter]("counter")
	Add      = actor.NewAction[int, int](Counters, "add")
	Value    = actor.NewQuery[actor.None, int](Counters, "value")
	Passed   = actor.NewEvent[int](Counters, "passed-100", actor.EventConfig{})
)

// Counter is the state. Every turn that changes it saves it.
type Counter struct{ N int }

func (c *Counter) add(ctx *actor.Context, n int) (int, error) { // A pointer receiver: an action, may write.
	if n < 1 {
		return 0, actor.Errorf(actor.InvalidArgument, "%d is not positive", n)
	}
	if c.N < 100 && c.N+n >= 100 {
		Passed.Emit(ctx, c.N+n)
	}
	c.N += n
	return c.N, nil // State, event and reply are one commit. It is on disk before the caller gets the reply.
}

func (c Counter) value(*actor.ReadContext, actor.None) (int, error) { return c.N, nil } // A value receiver: reads only.

func definition() actor.Definition {
	return actor.Define(Counters, actor.Spec[Counter]{}, actor.On(Add, (*Counter).add), actor.OnQuery(Value, Counter.value))
}

func main() { runtime.Main(definition()) }
