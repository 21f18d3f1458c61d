// want: type *actor.Alarm[cart, int64] of remind does not match inferred type *actor.Schedule
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnSchedule(remind, (*cart).nightly)
