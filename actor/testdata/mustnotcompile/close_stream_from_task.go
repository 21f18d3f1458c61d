// want: cannot use t (variable of type *actor.Task) as *actor.Context value in argument to
// tokens.Close
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(t *actor.Task) { tokens.Close(t) }
