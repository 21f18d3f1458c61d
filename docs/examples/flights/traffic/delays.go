package traffic

import (
	"fmt"
	"math"
	"math/bits"
)

const (
	// LateAfter is the delay in minutes beyond which a flight counts as late.
	LateAfter = 15
	// MaxDelay bounds a flight's delay, either way: one week, in minutes.
	MaxDelay = 7 * 24 * 60
)

// The histogram's classes end at these delays, inclusive; the last class has no end. LateAfter must
// be one of them.
var classEnds = [...]int{-15, 0, LateAfter, 30, 60, 120, 240}

// Delays summarizes how late a set of flights was, in whole minutes; an early flight has a negative
// delay.
//
//  1. Every field is a sum of integers. So equal sets of flights have equal Delays whatever order
//     the flights came in, and nothing is rounded before it is shown. (Welford's algorithm is the
//     answer when the values are floating point; it would make the last digit depend on the order,
//     and here the exact sums fit.)
//  2. The Histogram's sum is Flights.
//  3. No field overflows: with delays up to MaxDelay, Squares has room for 90 billion flights.
type Delays struct {
	Flights int64
	// Minutes and Squares are the sums of the delays and of their squares.
	Minutes, Squares int64
	Histogram        [len(classEnds) + 1]int64
}

// Add counts a flight. The delay must be within MaxDelay.
func (d *Delays) Add(minutes int) {
	m := int64(minutes)
	d.Flights++
	d.Minutes += m
	d.Squares += m * m
	class := 0
	for class < len(classEnds) && minutes > classEnds[class] {
		class++
	}
	d.Histogram[class]++
}

// Late counts the flights with more than LateAfter minutes.
func (d *Delays) Late() int64 {
	var n int64
	for class, end := range classEnds {
		if end >= LateAfter {
			n += d.Histogram[class+1]
		}
	}
	return n
}

// Mean returns the mean delay in minutes; 0 without flights.
func (d *Delays) Mean() float64 {
	if d.Flights == 0 {
		return 0
	}
	return float64(d.Minutes) / float64(d.Flights)
}

// Deviation returns the standard deviation of the delays in minutes; 0 without flights.
func (d *Delays) Deviation() float64 {
	if d.Flights == 0 {
		return 0
	}
	// The variance is (n·Σx² − (Σx)²)/n². Both terms are large and close together, where floating
	// point would lose everything: they are subtracted as 128-bit integers.
	n, sum := uint64(d.Flights), uint64(max(d.Minutes, -d.Minutes))
	hi, lo := bits.Mul64(n, uint64(d.Squares))
	sumHi, sumLo := bits.Mul64(sum, sum)
	lo, borrow := bits.Sub64(lo, sumLo, 0)
	hi, _ = bits.Sub64(hi, sumHi, borrow)
	return math.Sqrt(math.Ldexp(float64(hi), 64)+float64(lo)) / float64(n)
}

// A Summary is Delays in the form that queries answer with.
type Summary struct {
	Flights int64 `json:"flights"`
	// TotalDelay is the sum of all delays, in minutes.
	TotalDelay int64 `json:"total_delay"`
	// MeanDelay and Deviation are in minutes, rounded to two decimals.
	MeanDelay float64 `json:"mean_delay"`
	Deviation float64 `json:"standard_deviation"`
	// Late counts the flights with more than 15 minutes; LateShare is their part of all, from 0 to
	// 1.
	Late      int64   `json:"late"`
	LateShare float64 `json:"late_share"`
	// Histogram counts flights by delay, from early to late.
	Histogram []Class `json:"histogram"`
}

// A Class is one bar of a histogram: flights with a delay in a range of minutes.
type Class struct {
	Delay   string `json:"delay"`
	Flights int64  `json:"flights"`
}

// Summary describes d.
func (d *Delays) Summary() Summary {
	s := Summary{
		Flights:    d.Flights,
		TotalDelay: d.Minutes,
		MeanDelay:  round(d.Mean(), 2),
		Deviation:  round(d.Deviation(), 2),
		Late:       d.Late(),
		Histogram:  make([]Class, len(d.Histogram)),
	}
	if d.Flights > 0 {
		s.LateShare = round(float64(s.Late)/float64(d.Flights), 4)
	}
	for i, n := range d.Histogram {
		s.Histogram[i] = Class{Delay: className(i), Flights: n}
	}
	return s
}

func className(class int) string {
	switch class {
	case 0:
		return fmt.Sprintf("up to %d", classEnds[0])
	case len(classEnds):
		return fmt.Sprintf("over %d", classEnds[class-1])
	}
	return fmt.Sprintf("%d to %d", classEnds[class-1]+1, classEnds[class])
}

func round(x float64, decimals int) float64 {
	shift := math.Pow10(decimals)
	return math.Round(x*shift)/shift + 0 // Adding 0 turns -0 into 0.
}
