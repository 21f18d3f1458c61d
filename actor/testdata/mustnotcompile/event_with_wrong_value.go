// want: cannot use 7 (untyped int constant) as string value in argument to added.Emit
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { added.Emit(ctx, 7) }
