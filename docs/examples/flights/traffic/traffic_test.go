package traffic

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

// depart records flights from ORD to JFK with these delays, numbered from first.
func depart(t *testing.T, h *actortest.Harness, first int64, delays ...int) Departure {
	t.Helper()
	var d Departure
	for i, minutes := range delays {
		var err error
		d, err = Depart.Call(t.Context(), Airports.Ref(h, "ORD"),
			Flight{Number: first + int64(i), Destination: "JFK", Distance: 740, Delay: minutes})
		if err != nil {
			t.Fatal(err)
		}
	}
	return d
}

func airport(t *testing.T, h *actortest.Harness, code string) AirportReport {
	t.Helper()
	r, err := AirportStats.Call(t.Context(), Airports.Ref(h, code), actor.None{})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// events are the events of ORD so far, as name and data.
func events(h *actortest.Harness) []string {
	var all []string
	for _, e := range h.Events(Airports.Name(), "ORD") {
		all = append(all, fmt.Sprintf("%s %s", e.Name, e.Data))
	}
	return all
}

func expectEvents(t *testing.T, h *actortest.Harness, want ...string) {
	t.Helper()
	if got := events(h); !slices.Equal(got, want) {
		t.Errorf("events\n%q\nexpected\n%q", got, want)
	}
}

const (
	congested = `congested {"airport":"ORD","recent_delay":30}`
	recovered = `cleared {"airport":"ORD","reason":"recovered"}`
	quiet     = `cleared {"airport":"ORD","reason":"quiet"}`
)

func TestDepartureReachesDestinationAndRoute(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		depart(t, h, 1, 20, -5, 90)
		h.Settle()
		ord, jfk := airport(t, h, "ORD"), airport(t, h, "JFK")
		route, err := RouteStats.Call(t.Context(), Routes.Ref(h, "ORD", "JFK"), actor.None{})
		if err != nil {
			t.Fatal(err)
		}
		if route.Origin != "ORD" || route.Destination != "JFK" || route.Distance != 740 {
			t.Errorf("route %+v", route)
		}
		for who, s := range map[string]Summary{"origin": ord.Departures, "destination": jfk.Arrivals, "route": route.Delays} {
			if s.Flights != 3 || s.TotalDelay != 105 || s.MeanDelay != 35 || s.Late != 2 || s.LateShare != 0.6667 {
				t.Errorf("%s: %+v", who, s)
			}
		}
		if ord.Arrivals.Flights != 0 || jfk.Departures.Flights != 0 {
			t.Errorf("ORD has %d arrivals, JFK %d departures; expected none", ord.Arrivals.Flights, jfk.Departures.Flights)
		}
	}, Definitions()...)
}

func TestAirportIsCongestedUntilDeparturesArePunctualAgain(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		late := slices.Repeat([]int{CongestedAt}, RecentFlights)
		if d := depart(t, h, 1, late[1:]...); d.Congested {
			t.Errorf("congested after %d flights: %+v", d.Flights, d)
		}
		if d := depart(t, h, 10, CongestedAt); !d.Congested || d.RecentDelay != CongestedAt {
			t.Errorf("not congested after %d flights: %+v", d.Flights, d)
		}
		// Between the two limits nothing changes, in either direction.
		if d := depart(t, h, 11, 0, 0, 0, 0); !d.Congested || d.RecentDelay != 18 {
			t.Errorf("after four punctual flights: %+v", d)
		}
		expectEvents(t, h, congested)
		if d := depart(t, h, 15, 0); d.Congested || d.RecentDelay != ClearedAt {
			t.Errorf("after five punctual flights: %+v", d)
		}
		if d := depart(t, h, 16, 100); d.Congested {
			t.Errorf("after one more late flight: %+v", d)
		}
		expectEvents(t, h, congested, recovered)
		if n := h.Status(Airports.Name(), "ORD").Alarms; n != 0 {
			t.Errorf("%d alarms are armed, expected none", n)
		}
	}, Definitions()...)
}

func TestAlarmClearsAnAirportThatNoFlightLeaves(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		depart(t, h, 1, slices.Repeat([]int{CongestedAt}, RecentFlights)...)
		time.Sleep(QuietAfter - time.Second)
		depart(t, h, 11, CongestedAt) // Puts the alarm off.
		time.Sleep(QuietAfter - time.Second)
		if !airport(t, h, "ORD").Congested {
			t.Error("cleared before its time")
		}
		time.Sleep(2 * time.Second)
		if r := airport(t, h, "ORD"); r.Congested || r.RecentDelay != 0 || r.Departures.Flights != 11 {
			t.Errorf("after the alarm: %+v", r)
		}
		expectEvents(t, h, congested, quiet)
		if d := depart(t, h, 12, 500); d.Congested {
			t.Error("one late flight was enough: the delays before the alarm still count")
		}
	}, Definitions()...)
}

func TestCongestionOutlivesACrashAndSoDoesItsAlarm(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		depart(t, h, 1, slices.Repeat([]int{CongestedAt}, RecentFlights)...)
		h.Crash()
		if !airport(t, h, "ORD").Congested {
			t.Error("not congested after the crash")
		}
		h.Crash()
		time.Sleep(QuietAfter + time.Second)
		if airport(t, h, "ORD").Congested {
			t.Error("still congested after the alarm")
		}
		h.Crash()
		expectEvents(t, h, congested, quiet)
	}, Definitions()...)
}

func TestFlightIsCountedOnceEvenWhenItsIdempotencyKeyIsForgotten(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		depart(t, h, 7, 10, 20)
		time.Sleep(25 * time.Hour)
		if d := depart(t, h, 7, 10); !d.Repeated || d.Flights != 2 {
			t.Errorf("flight 7 again: %+v", d)
		}
		// Flights without a number are not part of an import: each counts.
		for range 2 {
			_, err := Depart.Call(t.Context(), Airports.Ref(h, "ORD"), Flight{Destination: "JFK"})
			if err != nil {
				t.Fatal(err)
			}
		}
		if d := depart(t, h, 9, 10); d.Repeated || d.Flights != 5 {
			t.Errorf("flight 9: %+v", d)
		}
		h.Settle()
		if n := airport(t, h, "JFK").Arrivals.Flights; n != 5 {
			t.Errorf("%d arrivals, expected 5", n)
		}
	}, Definitions()...)
}

func TestBadFlightsAndKeysAreRefusedAndLeaveNothing(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		for _, c := range []struct {
			key    []string
			flight Flight
		}{
			{[]string{"ord"}, Flight{Destination: "JFK"}},
			{[]string{"ORD", "US"}, Flight{Destination: "JFK"}},
			{nil, Flight{Destination: "JFK"}},
			{[]string{"ORD"}, Flight{}},
			{[]string{"ORD"}, Flight{Destination: "jfk"}},
			{[]string{"ORD"}, Flight{Destination: "ORD"}},
			{[]string{"ORD"}, Flight{Destination: "JFK", Delay: MaxDelay + 1}},
			{[]string{"ORD"}, Flight{Destination: "JFK", Delay: -MaxDelay - 1}},
			{[]string{"ORD"}, Flight{Destination: "JFK", Number: -1}},
			{[]string{"ORD"}, Flight{Destination: "JFK", Distance: -1}},
		} {
			_, err := Depart.Call(t.Context(), Airports.Ref(h, c.key...), c.flight)
			if actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("airport %q, flight %+v: error %v, expected %s", c.key, c.flight, err, actor.InvalidArgument)
			}
		}
		if _, err := Fly.Call(t.Context(), Routes.Ref(h, "ORD"), Leg{}); actor.CodeOf(err) != actor.InvalidArgument {
			t.Errorf("route with one airport: error %v, expected %s", err, actor.InvalidArgument)
		}
		for found, err := range Airports.List(t.Context(), h) {
			t.Errorf("there is airport %q (%v), expected none", found.Key, err)
		}
	}, Definitions()...)
}

func TestImportNeverMovesBack(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := Imports.Ref(h, "some-flights")
		for _, to := range []int64{5, 3, 5, 9} {
			if _, err := Advance.Call(t.Context(), ref, to); err != nil {
				t.Fatal(err)
			}
			h.Crash()
			if at, err := Position.Call(t.Context(), ref, actor.None{}); err != nil || at != max(to, 5) {
				t.Errorf("position %d (%v) after advancing to %d", at, err, to)
			}
		}
	}, Definitions()...)
}
