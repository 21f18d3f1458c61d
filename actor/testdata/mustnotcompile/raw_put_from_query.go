// want: ctx.KV().Put undefined
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { ctx.KV().Put(nil, nil) }
