// want: does not match inferred type func(*cart, *actor.Context, string) error
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.OnMessage(jobs, func(*room, *actor.Context, string) error { return nil })
