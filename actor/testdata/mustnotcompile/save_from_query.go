// want: as *actor.Context value in argument to c.Save
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext, c *actor.Connection[int]) { c.Save(ctx) }
