// want: does not match inferred type func(*cart, *actor.Context, *actor.Connection[int], string)
// error
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnConnect(clients, func(*cart, *actor.Context, *actor.Connection[int], int) error { return nil })
