// want: type *actor.Alarm[cart, int64] of remind does not match *actor.Action
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.On(remind, (*cart).add)
