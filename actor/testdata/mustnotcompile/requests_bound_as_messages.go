// want: type *actor.RequestQueue[cart, string, int] of price does not match *actor.Queue
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnMessage(price, (*cart).job)
