// want: does not match inferred type func(*cart, *actor.Context, *actor.Connection[int]) error
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnDisconnect(clients, func(*cart, *actor.Context, *actor.Connection[string]) error { return nil })
