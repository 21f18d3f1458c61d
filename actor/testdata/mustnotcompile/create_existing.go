// want: does not implement actor.CreateOption
package mustnotcompile

import (
	"context"

	"github.com/cairn-run/cairn/actor"
)

var _ context.Context

type cart struct{ Items []string }

type room struct{ Seats int }

var (
	carts   = actor.NewType[cart]("cart")
	rooms   = actor.NewType[room]("room")
	add     = actor.NewAction[string, int](carts, "add")
	count   = actor.NewQuery[actor.None, int](carts, "count")
	seat    = actor.NewAction[string, int](rooms, "seat")
	added   = actor.NewEvent[string](carts, "added")
	remind  = actor.NewAlarm[int64](carts, "remind")
	tags    = actor.NewMap[string, int](carts, "tags")
	opening = actor.NewCreate[string](carts)
)

func (c *cart) add(*actor.Context, string) (int, error) { return 0, nil }

func (c cart) count(*actor.ReadContext, actor.None) (int, error) { return 0, nil }

func (c *cart) remind(*actor.Context, int64) error { return nil }

func (c *cart) open(*actor.Context, string) error { return nil }

func (r *room) seat(*actor.Context, string) (int, error) { return 0, nil }

func _(ctx context.Context, n actor.Node) { opening.Call(ctx, carts.Ref(n), "x", actor.Existing()) }
