package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
)

// surveyOf is what the actors would say after flights.
func surveyOf(flights []data.Flight) *survey {
	type leg struct{ origin, destination string }
	departures, arrivals := make(map[string]*traffic.Delays), make(map[string]*traffic.Delays)
	legs := make(map[leg]*traffic.Delays)
	hours := make(map[leg]*traffic.Delays) // by origin and hour
	filed := make(map[string]int64)
	s := new(survey)
	for i, f := range flights {
		if f.Delay > traffic.ClaimAfter {
			number, amount := int64(i)+1, traffic.Compensation(f.Delay)
			filed[f.Origin]++
			ending := traffic.Paid
			switch {
			case !haveDocuments(number):
				ending = traffic.Rejected
			case traffic.BankRefuses(number):
				ending = traffic.Undone
				s.fund.Undone += amount
			default:
				s.fund.Paid += amount
			}
			s.claims = append(s.claims, claim{traffic.ClaimKey(number), traffic.ClaimReport{Amount: amount, Ending: ending}})
		}
		add(departures, f.Origin, f.Delay)
		add(arrivals, f.Destination, f.Delay)
		add(legs, leg{f.Origin, f.Destination}, f.Delay)
		add(hours, leg{f.Origin, f.Date[11:13] + ":00"}, f.Delay)
	}
	codes := make(map[string]bool)
	for code := range departures {
		codes[code] = true
	}
	for code := range arrivals {
		codes[code] = true
	}
	for code := range codes {
		s.airports = append(s.airports, traffic.AirportReport{
			Airport: code, Departures: summary(departures[code]), Arrivals: summary(arrivals[code]), Claims: filed[code],
		})
	}
	for l, d := range legs {
		s.routes = append(s.routes, traffic.RouteReport{Origin: l.origin, Destination: l.destination, Delays: summary(d)})
	}
	slices.SortFunc(s.airports, func(a, b traffic.AirportReport) int { return strings.Compare(a.Airport, b.Airport) })
	slices.SortFunc(s.routes, func(a, b traffic.RouteReport) int {
		return strings.Compare(a.Origin+a.Destination, b.Origin+b.Destination)
	})
	s.hours = make(map[string]traffic.Group)
	for l, d := range hours {
		h, known := s.hours[l.origin]
		if d.Flights < s.leastLegs() {
			continue
		}
		// The later one by mean delay; of equals, the earlier of the day.
		if c := d.Minutes*h.Flights - h.TotalDelay*d.Flights; !known || c > 0 || c == 0 && l.destination < h.Name {
			s.hours[l.origin] = traffic.Group{Name: l.destination, Flights: d.Flights, TotalDelay: d.Minutes}
		}
	}
	return s
}

func add[K comparable](delays map[K]*traffic.Delays, key K, minutes int) {
	d, ok := delays[key]
	if !ok {
		d = new(traffic.Delays)
		delays[key] = d
	}
	d.Add(minutes)
}

func summary(d *traffic.Delays) traffic.Summary {
	if d == nil {
		d = new(traffic.Delays)
	}
	return d.Summary()
}

// expected is the table that a run over the first n flights must end with, computed without any
// actor.
func expected(t *testing.T, n int) string {
	t.Helper()
	flights, err := data.Flights()
	must(t, err)
	airports, err := data.Airports()
	must(t, err)
	var b strings.Builder
	must(t, report(&b, surveyOf(flights[:n]), airports))
	return b.String()
}

func TestReportOfAllFlights(t *testing.T) {
	const want = `Worst airports by mean delay, of those with at least 100 departures (hours and routes: 10)

 #       Airport                           City         Flights  Mean delay  Over 15 min  Worst hour       Worst route
 1  JFK  John F Kennedy Intl               New York         200    16.2 min       33.5 %  18:00, 38.5 min  to SJU, 62.8 min
 2  SEA  Seattle-Tacoma Intl               Seattle          339    13.3 min       31.0 %  22:00, 30.7 min  to PHX, 35.5 min
 3  SMF  Sacramento International          Sacramento       121    13.1 min       24.8 %  21:00, 14.8 min  to SAN, 15.7 min
 4  MIA  Miami International               Miami            294    13.1 min       30.3 %  18:00, 29.7 min  to TPA, 23.6 min
 5  BOS  Gen Edw L Logan Intl              Boston           369    12.5 min       29.3 %  21:00, 47.1 min  to MCO, 31.3 min
 6  PHX  Phoenix Sky Harbor International  Phoenix          633    12.0 min       26.2 %  19:00, 24.8 min  to ELP, 30.5 min
 7  DEN  Denver Intl                       Denver           452    11.9 min       27.0 %  12:00, 26.7 min  to SAN, 30.8 min
 8  MSY  New Orleans International         New Orleans      176    11.6 min       24.4 %  16:00, 36.7 min  to IAH, 23.4 min
 9  TPA  Tampa International               Tampa            255    11.3 min       25.9 %  14:00, 26.1 min  to BWI, 19.8 min
10  PDX  Portland Intl                     Portland         172    10.8 min       21.5 %  07:00, 25.4 min  to SFO, 29.4 min

20,000 flights, 7.7 min late on average, 21.7 % over 15 min
20,000 departures and 20,000 arrivals at 224 airports, 20,000 flights on 2,977 routes
290 claims for more than 120 min: 192 paid ($66,336), 58 rejected, 40 undone ($13,328, back in the fund); $0 are set aside
`
	if got := expected(t, 20_000); got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}

func TestReportOfNothing(t *testing.T) {
	var b strings.Builder
	must(t, report(&b, new(survey), nil))
	if !strings.Contains(b.String(), "0 departures and 0 arrivals at 0 airports") {
		t.Errorf("got\n%s", b.String())
	}
}

func TestRatioRoundsHalfAwayFromZero(t *testing.T) {
	for _, c := range []struct {
		tenths, of int64
		want       string
	}{
		{0, 0, "0.0"}, {10, 1, "1.0"}, {1, 2, "0.1"}, {-1, 2, "-0.1"}, {-1, 3, "0.0"}, {1, 3, "0.0"}, {35, 2, "1.8"}, {-12345, 10, "-123.5"},
	} {
		if got := ratio(c.tenths, c.of, ""); got != c.want {
			t.Errorf("ratio(%d, %d) = %q, expected %q", c.tenths, c.of, got, c.want)
		}
	}
}

func TestTableAlignsAndCuts(t *testing.T) {
	tab := table{columns: []column{{title: "Name", width: 5}, {title: "N", right: true}, {title: "Rest"}}}
	tab.row("Zürich", "7", "x")
	tab.row("a", "1,000", "")
	var b strings.Builder
	tab.write(&b)
	if got, want := b.String(), "Name       N  Rest\nZüri…      7  x\na      1,000\n"; got != want {
		t.Errorf("got\n%s\nexpected\n%s", got, want)
	}
}
