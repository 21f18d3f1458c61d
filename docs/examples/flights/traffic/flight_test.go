package traffic

import (
	"slices"
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
)

func TestWorstHoursAndRoutesComeFromTheTable(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ord := Airports.Ref(h, "ORD")
		for i, f := range []Flight{
			{Date: "2001-01-01T07:05:00", Destination: "JFK", Delay: 10},
			{Date: "2001-01-02T07:59:00", Destination: "LAX", Delay: 21},
			{Date: "2001-01-01T17:00:00", Destination: "LAX", Delay: 60},
			{Date: "2001-01-01T23:59:00", Destination: "SEA", Delay: -4},
			{Destination: "SEA", Delay: 100},
		} {
			f.Number = int64(i + 1)
			if _, err := Depart.Call(t.Context(), ord, f); err != nil {
				t.Fatal(err)
			}
		}
		ask := func(q WorstQuery) WorstReport {
			t.Helper()
			r, err := Worst.Call(t.Context(), ord, q)
			if err != nil {
				t.Fatal(err)
			}
			return r
		}
		all := ask(WorstQuery{})
		if want := []Group{
			{"17:00", 1, 60, 60, 1}, {"07:00", 2, 31, 15.5, 1}, {"23:00", 1, -4, -4, 0},
		}; !slices.Equal(all.Hours, want) {
			t.Errorf("hours %+v", all.Hours)
		}
		if want := []Group{
			{"SEA", 2, 96, 48, 1}, {"LAX", 2, 81, 40.5, 2}, {"JFK", 1, 10, 10, 0},
		}; !slices.Equal(all.Routes, want) {
			t.Errorf("routes %+v", all.Routes)
		}
		if some := ask(WorstQuery{Limit: 1, LeastFlights: 2}); len(some.Hours) != 1 || some.Hours[0].Name != "07:00" || len(some.Routes) != 1 {
			t.Errorf("of two flights at least: %+v", some)
		}
		for _, q := range []WorstQuery{{Limit: -1}, {Limit: MaxWorst + 1}, {LeastFlights: -1}} {
			if _, err := Worst.Call(t.Context(), ord, q); actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("%+v: %v", q, err)
			}
		}
	}, Definitions()...)
}

func TestRefusedFlightLeavesNoRow(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		depart(t, h, 1, 5)
		ord := Airports.Ref(h, "ORD")
		for _, f := range []Flight{
			{Date: "yesterday", Destination: "JFK"}, {Destination: "jfk"}, {Destination: "ORD"}, {Destination: "JFK", Delay: MaxDelay + 1},
		} {
			if _, err := Depart.Call(t.Context(), ord, f); actor.CodeOf(err) != actor.InvalidArgument {
				t.Errorf("%+v: %v", f, err)
			}
		}
		depart(t, h, 1, 5) // repeated
		h.Crash()
		r, err := Worst.Call(t.Context(), ord, WorstQuery{})
		if err != nil || len(r.Routes) != 1 || r.Routes[0].Flights != 1 {
			t.Errorf("%+v, %v", r, err)
		}
	}, Definitions()...)
}
