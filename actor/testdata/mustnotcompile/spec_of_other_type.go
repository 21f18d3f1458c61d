// want: actor.Spec[room]
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.Define(carts, actor.Spec[room]{})
