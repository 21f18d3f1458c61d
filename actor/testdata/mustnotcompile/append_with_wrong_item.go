// want: cannot use 7 (untyped int constant) as string value in argument to tokens.Append
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(ctx *actor.Context) { tokens.Append(ctx, 7) }
