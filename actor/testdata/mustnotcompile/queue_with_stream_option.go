// want: does not implement actor.QueueOption
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.NewQueue[string](carts, "q", actor.Keep(1))
