// want: does not implement actor.Appender
package mustnotcompile

import "context"

func _(ctx context.Context) { tokens.Append(ctx, "x") }
