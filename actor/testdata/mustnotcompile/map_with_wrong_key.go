// want: cannot use 7 (untyped int constant) as string value in argument to tags.Get
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { tags.Get(ctx, 7) }
