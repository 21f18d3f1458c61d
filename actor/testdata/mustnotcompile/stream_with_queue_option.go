// want: does not implement actor.StreamOption
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.NewStream[string](carts, "s", actor.Workers())
