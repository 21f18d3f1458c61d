package main

import (
	"math"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// burn keeps a processor busy.
func burn(d time.Duration) {
	for begin := usage.Processor(); usage.Processor()-begin < d.Seconds(); {
	}
}

// TestProcessorTimeIsThatOfTheOperations burns time beside the operations and in them.
func TestProcessorTimeIsThatOfTheOperations(t *testing.T) {
	const each = 2 * time.Millisecond
	for name, measure := range map[string]func(b *bench) float64{
		"load":      func(b *bench) float64 { return b.load(1, func(int, int) { burn(each) }) },
		"p50":       func(b *bench) float64 { return b.p50(func(int) { burn(each) }) },
		"p50Before": func(b *bench) float64 { return b.p50Before(func(int) { burn(each) }, func() { burn(2 * each) }) },
	} {
		burn(20 * time.Millisecond)
		// The least of some runs: the rest of the process, such as a collection of garbage, takes
		// time too, and on a slow machine a run has few operations.
		least := math.Inf(1)
		for run := 0; run < 20 && least > each.Seconds()*1.5; run++ {
			b := &bench{time: 40 * time.Millisecond}
			least = min(least, b.figure(measure).cpu)
		}
		if least < each.Seconds()*0.9 || least > each.Seconds()*1.5 {
			t.Errorf("%s: %s of an operation that takes %s", name, shortTime(least), each)
		}
	}
	b := &bench{}
	if f := b.figure(func(b *bench) float64 { return b.aside(1) }); f != (figure{v: 1}) {
		t.Errorf("a figure aside: %+v", f)
	}
}

func TestLinesHaveProcessorTime(t *testing.T) {
	var w strings.Builder
	r := row{name: "calls", target: "at least 0.9"}
	twins := []twin{{name: "calls"}, {name: "other"}}
	r.print(&w, []figure{{10, 6e-6}}, twins, [][]figure{{{20, 3e-6}}, {{5, 0}}})
	want := "calls\t10/s\t6.00 us\t20/s\t3.00 us\t0.50\t0.50..0.50\t2.00\tat least 0.9\n" +
		"other\t\t\t5/s\t\t2.00\t2.00..2.00\t\t\n"
	if w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
	w.Reset()
	r.print(&w, []figure{{10, 0}}, nil, nil)
	if want := "calls\t10/s\t\t\t\t\t\t\tat least 0.9\n"; w.String() != want {
		t.Errorf("%q, want %q", w.String(), want)
	}
}
