// want: cannot use ctx (variable of type *actor.ReadContext) as *actor.Context value in argument to
// tags.Put
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { tags.Put(ctx, "k", 1) }
