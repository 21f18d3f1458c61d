// want: cannot use ctx (variable of interface type context.Context) as *actor.Context value in
// argument to added.Emit
package mustnotcompile

import "context"

func _(ctx context.Context) { added.Emit(ctx, "x") }
