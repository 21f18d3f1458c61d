// want: does not implement actor.ListOption
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { tags.All(ctx, actor.Durable()) }
