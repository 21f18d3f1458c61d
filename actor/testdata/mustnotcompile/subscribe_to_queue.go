// want: type *actor.Queue[cart, string] of jobs does not match *actor.Event
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnSubscribe(jobs, (*cart).maySubscribe)
