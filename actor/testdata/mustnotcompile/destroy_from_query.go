// want: ctx.DestroySelf undefined
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { ctx.DestroySelf() }
