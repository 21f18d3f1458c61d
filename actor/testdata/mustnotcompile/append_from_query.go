// want: *actor.ReadContext does not implement actor.Appender
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { tokens.Append(ctx, "x") }
