// The contract that the programs beside this folder make mistakes with.
package mustnotcompile

import "github.com/cairn-run/cairn/actor"

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
	jobs    = actor.NewQueue[string](carts, "jobs")
	mail    = actor.NewQueue[string](carts, "mail", actor.Workers())
	price   = actor.NewRequestQueue[string, int](carts, "price")
	quotes  = actor.NewRequestQueue[string, int](carts, "quotes", actor.Workers())
	nightly = actor.NewSchedule[int](carts, "nightly")
	tokens  = actor.NewStream[string](carts, "tokens")
	clients = actor.NewConnections[string, int](carts)
)

func (c *cart) add(*actor.Context, string) (int, error) { return 0, nil }

func (c cart) count(*actor.ReadContext, actor.None) (int, error) { return 0, nil }

func (c *cart) remind(*actor.Context, int64) error { return nil }

func (c *cart) open(*actor.Context, string) error { return nil }

func (c *cart) job(*actor.Context, string) error { return nil }

func (c *cart) price(*actor.Context, string) (int, error) { return 0, nil }

func (c *cart) nightly(*actor.Context, int) error { return nil }

func (c *cart) join(*actor.Context, *actor.Connection[int], string) error { return nil }

func (c *cart) leave(*actor.Context, *actor.Connection[int]) error { return nil }

func (c *cart) maySubscribe(*actor.Context, actor.ConnectionInfo) error { return nil }

func (r *room) seat(*actor.Context, string) (int, error) { return 0, nil }
