// want: does not match inferred type func(*cart, *actor.Context, string)
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.On(add, (*room).seat)
