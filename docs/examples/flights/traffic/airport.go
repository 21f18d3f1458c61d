package traffic

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor"
)

// Airport is the durable state of one airport.
//
//  1. Departures and Arrivals depend only on the set of flights, not on their order.
//  2. No flight with a number up to Last is counted again. The runtime remembers an idempotency key
//     for a day; an import that goes on a month after it was interrupted relies on this number.
//  3. The table flight has one row for each of Departures: both change in one commit.
//  4. Whenever Congested is set, the alarm Quiet is armed: both change in one commit.
type Airport struct {
	Departures, Arrivals Delays
	// Claims counts the departures for which a claim was filed.
	Claims int64
	// Last is the highest number of a flight counted.
	Last int64
	// Recent holds the delays of the last departures, oldest first, at most RecentFlights.
	Recent    []int
	Congested bool
}

// create refuses keys that name no airport, so that a slip in an address leaves no actor behind.
func (a *Airport) create(ctx *actor.Context) error {
	if key := ctx.Key(); len(key) != 1 || !isCode(key[0]) {
		return actor.Errorf(actor.InvalidArgument, "the key of an airport is its IATA code: three capital letters")
	}
	return nil
}

func (a *Airport) depart(ctx *actor.Context, f Flight) (Departure, error) {
	origin := ctx.Key()[0]
	if err := f.check(origin); err != nil {
		return Departure{}, err
	}
	if f.Number != 0 && f.Number <= a.Last {
		return a.departure(true), nil
	}
	if err := record(ctx, f); err != nil {
		return Departure{}, err
	}
	a.Last = max(a.Last, f.Number)
	a.Departures.Add(f.Delay)
	a.watch(ctx, f)
	// Emit, Send and the like return errors for handlers that want to react. Here, the turn fails
	// if one of them does.
	Arrive.Send(ctx, Airports.Ref(ctx, f.Destination), Arrival{Origin: origin, Delay: f.Delay})
	Fly.Send(ctx, Routes.Ref(ctx, origin, f.Destination), Leg{Distance: f.Distance, Delay: f.Delay})
	if f.Number != 0 && f.Delay > ClaimAfter {
		a.Claims++
		File.Send(ctx, Claims.Ref(ctx, ClaimKey(f.Number)), f.Delay)
	}
	return a.departure(false), nil // Row, statistics, event, alarm, messages and this reply: one commit.
}

// watch decides whether the airport is congested after flight f.
func (a *Airport) watch(ctx *actor.Context, f Flight) {
	if len(a.Recent) == RecentFlights {
		a.Recent = slices.Delete(a.Recent, 0, 1)
	}
	a.Recent = append(a.Recent, f.Delay)
	if len(a.Recent) < RecentFlights {
		return
	}
	switch recent := a.recentDelay(); {
	case a.Congested && recent <= ClearedAt:
		Quiet.Cancel(ctx)
		a.clear(ctx, "recovered")
	case !a.Congested && recent >= CongestedAt:
		a.Congested = true
		Congested.Emit(ctx, Congestion{Airport: ctx.Key()[0], RecentDelay: round(recent, 1), Date: f.Date})
	}
	if a.Congested {
		Quiet.After(ctx, QuietAfter, actor.None{}) // Each departure puts it off.
	}
}

// quiet handles the alarm: the delays that made the airport congested are history.
func (a *Airport) quiet(ctx *actor.Context, _ actor.None) error {
	a.Recent = nil
	a.clear(ctx, "quiet")
	return nil
}

func (a *Airport) clear(ctx *actor.Context, reason string) {
	a.Congested = false
	Cleared.Emit(ctx, Clearance{Airport: ctx.Key()[0], Reason: reason})
}

func (a *Airport) arrive(_ *actor.Context, in Arrival) (actor.None, error) {
	if err := checkDelay(in.Delay); err != nil {
		return actor.None{}, err
	}
	a.Arrivals.Add(in.Delay)
	return actor.None{}, nil
}

func (a Airport) stats(ctx *actor.ReadContext, _ actor.None) (AirportReport, error) {
	return AirportReport{
		Airport:     ctx.Key()[0],
		Congested:   a.Congested,
		RecentDelay: round(a.recentDelay(), 1),
		Departures:  a.Departures.Summary(),
		Arrivals:    a.Arrivals.Summary(),
		Claims:      a.Claims,
	}, nil
}

func (a *Airport) departure(repeated bool) Departure {
	return Departure{
		Flights:     a.Departures.Flights,
		RecentDelay: round(a.recentDelay(), 1),
		Congested:   a.Congested,
		Repeated:    repeated,
	}
}

// recentDelay is the mean delay of the last departures, in minutes.
func (a *Airport) recentDelay() float64 {
	if len(a.Recent) == 0 {
		return 0
	}
	sum := 0
	for _, minutes := range a.Recent {
		sum += minutes
	}
	return float64(sum) / float64(len(a.Recent))
}

func (f Flight) check(origin string) error {
	if !isCode(f.Destination) {
		return actor.Errorf(actor.InvalidArgument, "destination %q is not an IATA code: three capital letters", f.Destination)
	}
	if f.Destination == origin {
		return actor.Errorf(actor.InvalidArgument, "the flight leaves %s for %s", origin, f.Destination)
	}
	if f.Number < 0 || f.Distance < 0 {
		return actor.Errorf(actor.InvalidArgument, "number %d or distance %d is negative", f.Number, f.Distance)
	}
	if f.Date != "" {
		if _, err := time.Parse(dateForm, f.Date); err != nil {
			return actor.Errorf(actor.InvalidArgument, "date %q is not of the form %s", f.Date, dateForm)
		}
	}
	return checkDelay(f.Delay)
}

func checkDelay(minutes int) error {
	if minutes < -MaxDelay || minutes > MaxDelay {
		return actor.Errorf(actor.InvalidArgument, "a delay of %d minutes is more than a week", minutes)
	}
	return nil
}

// isCode reports whether s looks like an IATA airport code.
func isCode(s string) bool {
	if len(s) != 3 {
		return false
	}
	for i := range len(s) {
		if s[i] < 'A' || s[i] > 'Z' {
			return false
		}
	}
	return true
}
