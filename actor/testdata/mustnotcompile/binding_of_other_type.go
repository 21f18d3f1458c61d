// want: actor.Binding[room]
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.Define(carts, actor.Spec[cart]{}, actor.On(seat, (*room).seat))
