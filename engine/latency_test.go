package engine

import (
	"testing"
	"time"
)

func TestLatencyCountsBelowEachBound(t *testing.T) {
	var l latency
	all := []time.Duration{0, 16383, 16384, 40 * time.Microsecond, time.Millisecond, time.Hour}
	sum := time.Duration(0)
	for _, d := range all {
		l.observe(d)
		sum += d
	}
	l.observe(-1) // as if it were 0
	got := l.read()
	same(t, got.Count, uint64(len(all)+1))
	same(t, got.Sum, sum)
	for _, b := range got.Buckets {
		want := uint64(1)
		for _, d := range all {
			if d < b.Below {
				want++
			}
		}
		same(t, b.Count, want, b.Below)
	}
}
