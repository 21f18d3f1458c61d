package traffic

import (
	"math"
	"math/rand/v2"
	"testing"
)

func TestDelaysDoNotDependOnOrder(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	minutes := make([]int, 1000)
	for i := range minutes {
		minutes[i] = r.IntN(2*MaxDelay+1) - MaxDelay
	}
	var want Delays
	for _, m := range minutes {
		want.Add(m)
	}
	for range 10 {
		r.Shuffle(len(minutes), func(i, j int) { minutes[i], minutes[j] = minutes[j], minutes[i] })
		var got Delays
		for _, m := range minutes {
			got.Add(m)
		}
		if got != want {
			t.Fatalf("another order gave %+v, expected %+v", got, want)
		}
	}
}

func TestHistogramClasses(t *testing.T) {
	var d Delays
	for _, minutes := range []int{-MaxDelay, -15, -14, 0, 1, 15, 16, 30, 31, 60, 61, 120, 121, 240, 241, MaxDelay} {
		d.Add(minutes)
	}
	s := d.Summary()
	var names []string
	for _, c := range s.Histogram {
		names = append(names, c.Delay)
		if c.Flights != 2 {
			t.Errorf("class %q has %d flights, expected 2", c.Delay, c.Flights)
		}
	}
	want := []string{"up to -15", "-14 to 0", "1 to 15", "16 to 30", "31 to 60", "61 to 120", "121 to 240", "over 240"}
	for i := range want {
		if i >= len(names) || names[i] != want[i] {
			t.Fatalf("classes %q, expected %q", names, want)
		}
	}
	if s.Late != 10 || s.LateShare != 0.625 {
		t.Errorf("%d late, share %v; expected 10 and 0.625", s.Late, s.LateShare)
	}
}

func TestDeviationIsExactFarFromZero(t *testing.T) {
	// A deviation of 1 beside a mean of 10,000: the naive formula in floating point is far off once
	// there are many flights.
	d := Delays{Flights: 2e9, Minutes: 2e9 * 10_000, Squares: 1e9*9_999*9_999 + 1e9*10_001*10_001}
	if got := d.Deviation(); math.Abs(got-1) > 1e-12 {
		t.Errorf("deviation %v, expected 1", got)
	}
	var none Delays
	if none.Mean() != 0 || none.Deviation() != 0 || none.Summary().LateShare != 0 {
		t.Errorf("without flights: %+v", none.Summary())
	}
	for _, c := range []struct {
		minutes   []int
		mean, dev float64
	}{
		{[]int{7}, 7, 0},
		{[]int{-3, 3}, 0, 3},
		{[]int{2, 4, 4, 4, 5, 5, 7, 9}, 5, 2},
	} {
		var d Delays
		for _, m := range c.minutes {
			d.Add(m)
		}
		if d.Mean() != c.mean || d.Deviation() != c.dev {
			t.Errorf("%v: mean %v, deviation %v; expected %v, %v", c.minutes, d.Mean(), d.Deviation(), c.mean, c.dev)
		}
	}
}
