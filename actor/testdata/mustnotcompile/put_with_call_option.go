// want: does not implement actor.MessageOption
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { jobs.Put(ctx, "x", actor.IdempotencyKey("k")) }
