// want: as *actor.Context value in argument to jobs.Put
package mustnotcompile

import "context"

func _(ctx context.Context) { jobs.Put(ctx, "x") }
