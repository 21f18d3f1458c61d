// want: type *actor.Query[cart, actor.None, int] of count does not match inferred type
// *actor.Action
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.On(count, (*cart).add)
