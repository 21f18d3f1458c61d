// want: cannot use ctx (variable of type *actor.ReadContext) as *actor.Context value in argument to
// remind.Cancel
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { remind.Cancel(ctx) }
