package data

import (
	"slices"
	"strings"
	"testing"
)

func TestFlightsAreCompleteAndInOrder(t *testing.T) {
	flights, err := Flights()
	if err != nil {
		t.Fatal(err)
	}
	airports, err := Airports()
	if err != nil {
		t.Fatal(err)
	}
	if len(flights) != 20_000 || len(airports) != 224 {
		t.Fatalf("%d flights and %d airports, expected 20000 and 224", len(flights), len(airports))
	}
	if !slices.IsSortedFunc(flights, func(a, b Flight) int { return strings.Compare(a.Date, b.Date) }) {
		t.Error("flights are not in order of their dates")
	}
	if got, want := flights[0], (Flight{Date: "2001-01-01T00:47:00", Origin: "DTW", Destination: "LAS", Distance: 1750, Delay: 66}); got != want {
		t.Errorf("first flight %+v, expected %+v", got, want)
	}
	for i, f := range flights {
		if airports[f.Origin].Name == "" || airports[f.Destination].Name == "" {
			t.Fatalf("flight %d: %s or %s is not in the list of airports", i+1, f.Origin, f.Destination)
		}
	}
}

func TestBrokenRowIsNamedByItsLine(t *testing.T) {
	for _, c := range []struct{ name, csv, want string }{
		{"empty file", "", "EOF"},
		{"other columns", "a,c\n", `line 1: column "c", expected "b"`},
		{"missing field", "a,b\n1,2\n3\n", "line 3"},
	} {
		err := rows(strings.NewReader(c.csv), []string{"a", "b"}, func([]string) error { return nil })
		if err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: error %v, expected one with %q", c.name, err, c.want)
		}
	}
}
