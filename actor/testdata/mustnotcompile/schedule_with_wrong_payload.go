// want: cannot use "x" (untyped string constant) as int value in argument to nightly.Every
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { nightly.Every(ctx, 1, "x") }
