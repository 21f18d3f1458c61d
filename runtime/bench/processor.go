package main

import (
	"fmt"

	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A figure is one measurement with the processor time of an operation in it, in seconds; 0 if none
// was noted.
type figure struct{ v, cpu float64 }

// figure measures, and takes the processor time that the measurement notes.
func (b *bench) figure(measure func(*bench) float64) figure {
	b.cpu = 0
	v := measure(b)
	return figure{v, b.cpu}
}

// spend notes the processor time of each of n operations that began when [usage.Processor] returned
// since. The last note of a measurement counts.
func (b *bench) spend(since float64, n int) {
	if n > 0 {
		b.cpu = (usage.Processor() - since) / float64(n)
	}
}

// aside returns a figure whose operations are not the noted ones, and drops the note.
func (b *bench) aside(v float64) float64 {
	b.cpu = 0
	return v
}

func values(f []figure) []float64 {
	v := make([]float64, len(f))
	for i := range f {
		v[i] = f[i].v
	}
	return v
}

// spentOf returns the median of the processor times; "" if there are none.
func spentOf(f []figure) string {
	v := make([]float64, len(f))
	for i := range f {
		v[i] = f[i].cpu
	}
	if median(v) == 0 {
		return ""
	}
	return shortTime(median(v))
}

// spentRatio returns the median ratio of the processor times; "" if one side has none.
func spentRatio(ours, theirs []figure) string {
	var ratios []float64
	for i := range ours {
		if ours[i].cpu > 0 && theirs[i].cpu > 0 {
			ratios = append(ratios, ours[i].cpu/theirs[i].cpu)
		}
	}
	if ratios == nil {
		return ""
	}
	return fmt.Sprintf("%.2f", median(ratios))
}

// shortTime formats seconds as microseconds, with more digits for what takes less than ten.
func shortTime(v float64) string {
	if v < 10e-6 {
		return fmt.Sprintf("%.2f us", v*1e6)
	}
	return latency(v)
}
