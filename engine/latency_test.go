package engine

import (
	"testing"
	"time"
)

func TestLatencyCountsBelowEachBound(t *testing.T) {
	var l latency
	all := []time.Duration{-1, 0, 16383, 16384, 40 * time.Microsecond, time.Millisecond, time.Hour}
	var sum time.Duration
	for _, d := range all {
		l.observe(d)
		sum += max(0, d)
	}
	got := l.read()
	if got.Count != uint64(len(all)) || got.Sum != sum {
		t.Fatalf("%d durations of %v, want %d of %v", got.Count, got.Sum, len(all), sum)
	}
	for _, b := range got.Buckets {
		want := uint64(0)
		for _, d := range all {
			if d < b.Below {
				want++
			}
		}
		if b.Count != want {
			t.Errorf("%d are below %v, want %d", b.Count, b.Below, want)
		}
	}
}
