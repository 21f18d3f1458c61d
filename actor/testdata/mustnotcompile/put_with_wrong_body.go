// want: cannot use 7 (untyped int constant) as string value in argument to jobs.Put
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { jobs.Put(ctx, 7) }
