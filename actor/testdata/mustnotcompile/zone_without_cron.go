// want: does not implement actor.ScheduleOption
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { nightly.Every(ctx, 1, 1, actor.In("UTC")) }
