// want: does not match inferred type func(cart, *actor.ReadContext
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

func (c *cart) sneaky(*actor.ReadContext, actor.None) (int, error) { c.Items = nil; return 0, nil }

var _ = actor.OnQuery(count, (*cart).sneaky)
