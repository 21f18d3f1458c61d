package traffic

import "github.com/cairn-run/cairn/actor"

// Route is the durable state of one route. It depends only on the set of its flights, not on their
// order.
type Route struct {
	// Distance is the longest that a flight on the route stated, in miles.
	Distance int
	Delays   Delays
}

func (r *Route) create(ctx *actor.Context) error {
	if key := ctx.Key(); len(key) != 2 || !isCode(key[0]) || !isCode(key[1]) {
		return actor.Errorf(actor.InvalidArgument, "the key of a route is two IATA codes: origin and destination")
	}
	return nil
}

func (r *Route) fly(_ *actor.Context, in Leg) (actor.None, error) {
	if err := checkDelay(in.Delay); err != nil {
		return actor.None{}, err
	}
	r.Distance = max(r.Distance, in.Distance)
	r.Delays.Add(in.Delay)
	return actor.None{}, nil
}

func (r Route) stats(ctx *actor.ReadContext, _ actor.None) (RouteReport, error) {
	key := ctx.Key()
	return RouteReport{Origin: key[0], Destination: key[1], Distance: r.Distance, Delays: r.Delays.Summary()}, nil
}
