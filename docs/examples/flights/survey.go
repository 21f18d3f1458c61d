package main

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
)

// A survey is what all airports and routes know, read from their actors.
type survey struct {
	// airports is ordered by code; routes, by origin and destination.
	airports []traffic.AirportReport
	routes   []traffic.RouteReport
	// hours holds the hour with the latest departures for each of the worst airports, as their
	// tables tell.
	hours map[string]traffic.Group
	// claims are those for late flights, fund is what they were paid from.
	claims []claim
	fund   traffic.FundReport
}

// A claim is one for a late flight, whose number is the key.
type claim struct {
	key string
	traffic.ClaimReport
}

// departures, arrivals and legs count the flights that the origins, the destinations and the routes
// have recorded.
func (s *survey) departures() (n int64) {
	for _, a := range s.airports {
		n += a.Departures.Flights
	}
	return n
}

func (s *survey) arrivals() (n int64) {
	for _, a := range s.airports {
		n += a.Arrivals.Flights
	}
	return n
}

func (s *survey) legs() (n int64) {
	for _, r := range s.routes {
		n += r.Delays.Flights
	}
	return n
}

// filed returns the number of claims that the airports have filed.
func (s *survey) filed() (n int64) {
	for _, a := range s.airports {
		n += a.Claims
	}
	return n
}

// ended returns the number of claims that have ended in one of the given ways.
func (s *survey) ended(how ...traffic.Ending) (n int64) {
	for _, c := range s.claims {
		if slices.Contains(how, c.Ending) {
			n++
		}
	}
	return n
}

var anyEnding = []traffic.Ending{traffic.Paid, traffic.Rejected, traffic.Undone}

// settled reports whether every departure has reached its destination and its route, once, and
// every claim its end.
func (s *survey) settled() bool {
	return s.departures() == s.arrivals() && s.departures() == s.legs() && s.filed() == s.ended(anyEnding...)
}

// settledSurvey waits until the messages of all departures are handled and returns what the actors
// know then. The messages are delivered after the commits that they are part of, so the last of
// them may be on their way when the import is through; after a crash, they are delivered now.
//
// It gives up when nothing has been delivered for as long as patience.
func settledSurvey(ctx context.Context, node actor.Node) (*survey, error) {
	var before int64
	deadline := time.Now().Add(patience)
	for pause := 5 * time.Millisecond; ; pause = min(2*pause, time.Second) {
		s, err := takeSurvey(ctx, node)
		if err != nil {
			return nil, err
		}
		if s.settled() {
			return s, s.askHours(ctx, node)
		}
		if handled := s.arrivals() + s.legs() + s.ended(anyEnding...); handled != before {
			before, deadline = handled, time.Now().Add(patience)
		} else if time.Now().After(deadline) {
			return nil, fmt.Errorf("%s departures, but %s arrivals and %s flights on routes; %s claims, but %s ended; and no change for %v: "+
				"look for failed sends in the status of the airports, and at the status of open claims",
				grouped(s.departures()), grouped(s.arrivals()), grouped(s.legs()), grouped(s.filed()), grouped(s.ended(anyEnding...)), patience)
		}
		if err := sleep(ctx, pause); err != nil {
			return nil, err
		}
	}
}

func takeSurvey(ctx context.Context, node actor.Node) (*survey, error) {
	s := new(survey)
	for found, err := range traffic.Airports.List(ctx, node) {
		if err != nil {
			return nil, fmt.Errorf("list the airports: %w", err)
		}
		report, err := traffic.AirportStats.Call(ctx, traffic.Airports.Ref(node, found.Key...), actor.None{})
		if err != nil {
			return nil, fmt.Errorf("read airport %v: %w", found.Key, err)
		}
		s.airports = append(s.airports, report)
	}
	if s.departures() != s.arrivals() {
		return s, nil // Not settled, whatever the routes say.
	}
	for found, err := range traffic.Routes.List(ctx, node) {
		if err != nil {
			return nil, fmt.Errorf("list the routes: %w", err)
		}
		report, err := traffic.RouteStats.Call(ctx, traffic.Routes.Ref(node, found.Key...), actor.None{})
		if err != nil {
			return nil, fmt.Errorf("read route %v: %w", found.Key, err)
		}
		s.routes = append(s.routes, report)
	}
	if s.filed() == 0 {
		return s, nil
	}
	for found, err := range traffic.Claims.List(ctx, node) {
		if err != nil {
			return nil, fmt.Errorf("list the claims: %w", err)
		}
		report, err := traffic.LookAt.Call(ctx, traffic.Claims.Ref(node, found.Key...), actor.None{})
		if err != nil {
			return nil, fmt.Errorf("read claim %v: %w", found.Key, err)
		}
		s.claims = append(s.claims, claim{found.Key[0], report})
	}
	if s.ended(traffic.Paid, traffic.Undone) == 0 {
		return s, nil
	}
	var err error
	if s.fund, err = traffic.Totals.Call(ctx, traffic.Funds.Ref(node, "claims"), actor.None{}); err != nil {
		return nil, fmt.Errorf("read the fund: %w", err)
	}
	return s, nil
}

// askHours asks the worst airports for their worst hours.
func (s *survey) askHours(ctx context.Context, node actor.Node) error {
	s.hours = make(map[string]traffic.Group)
	for _, a := range s.worstAirports(listed) {
		worst, err := traffic.Worst.Call(ctx, traffic.Airports.Ref(node, a.Airport), traffic.WorstQuery{Limit: 1, LeastFlights: s.leastLegs()})
		if err != nil {
			return fmt.Errorf("ask airport %s for its worst hours: %w", a.Airport, err)
		}
		if len(worst.Hours) > 0 {
			s.hours[a.Airport] = worst.Hours[0]
		}
	}
	return nil
}

// listed is how many airports the table shows.
const listed = 10

// A ranking leaves out airports, routes and hours with few flights: one bad day would put them on
// top. These are the least numbers of departures, and of flights on a route or in an hour, that
// count: 100 and 10, for all the data.
func (s *survey) leastDepartures() int64 { return max(s.departures()/200, 1) }
func (s *survey) leastLegs() int64       { return max(s.departures()/2000, 1) }

// worstAirports returns the airports with the latest departures, the latest first, at most n.
func (s *survey) worstAirports(n int) []traffic.AirportReport {
	least := s.leastDepartures()
	worst := slices.DeleteFunc(slices.Clone(s.airports), func(a traffic.AirportReport) bool { return a.Departures.Flights < least })
	slices.SortStableFunc(worst, func(a, b traffic.AirportReport) int { return byMean(a.Departures, b.Departures) })
	return worst[:min(n, len(worst))]
}

// worstRoute returns the route with the latest flights from an airport; false if none has enough of
// them.
func (s *survey) worstRoute(origin string) (traffic.RouteReport, bool) {
	least := s.leastLegs()
	routes := slices.DeleteFunc(slices.Clone(s.routes), func(r traffic.RouteReport) bool {
		return r.Origin != origin || r.Delays.Flights < least
	})
	if len(routes) == 0 {
		return traffic.RouteReport{}, false
	}
	return slices.MinFunc(routes, func(a, b traffic.RouteReport) int { return byMean(a.Delays, b.Delays) }), true
}

// byMean orders summaries by falling mean delay. It compares fractions of integers, so it is exact.
func byMean(a, b traffic.Summary) int {
	return cmp.Compare(b.TotalDelay*a.Flights, a.TotalDelay*b.Flights)
}
