// want: as *actor.Context value in argument to nightly.Cancel
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.ReadContext) { nightly.Cancel(ctx) }
