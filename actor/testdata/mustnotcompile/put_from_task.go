// want: cannot use t (variable of type *actor.Task) as *actor.Context value in argument to jobs.Put
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func _(t *actor.Task) { jobs.Put(t, "x") }
