// want: type *actor.Action[cart, string, int] of add does not match *actor.Queue
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnMessage(add, (*cart).job)
