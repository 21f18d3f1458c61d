// want: ctx.Go undefined
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { ctx.Go("t", nil) }
