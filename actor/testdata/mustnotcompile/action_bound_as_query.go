// want: type *actor.Action[cart, string, int] of add does not match inferred type
// *actor.Query[cart, string, int]
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnQuery(add, cart.count)
