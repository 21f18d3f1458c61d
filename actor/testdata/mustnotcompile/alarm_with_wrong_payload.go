// want: cannot use "x" (untyped string constant) as int64 value in argument to remind.At
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { remind.At(ctx, ctx.Now(), "x") }
