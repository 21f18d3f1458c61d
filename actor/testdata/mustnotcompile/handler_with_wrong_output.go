// want: does not match inferred type func(*cart, *actor.Context, string) (int, error)
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

var _ = actor.On(add, func(*cart, *actor.Context, string) (string, error) { return "", nil })
