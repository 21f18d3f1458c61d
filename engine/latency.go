package engine

import (
	"math/bits"
	"sync/atomic"
	"time"
)

// latencyBuckets is how many counts a latency has. The first counts times below 1<<latencyShift
// nanoseconds, each other one times up to twice the bound before, and the last all longer ones.
const (
	latencyBuckets = 21
	latencyShift   = 14
)

// A latency counts durations. One goroutine observes; any may read.
type latency struct {
	counts [latencyBuckets]atomic.Uint64
	sum    atomic.Int64
}

func (l *latency) observe(d time.Duration) {
	d = max(0, d)
	i := bits.Len64(uint64(d) >> latencyShift)
	l.counts[min(i, latencyBuckets-1)].Add(1)
	l.sum.Add(int64(d))
}

func (l *latency) read() Latency {
	out := Latency{Sum: time.Duration(l.sum.Load()), Buckets: make([]Bucket, latencyBuckets-1)}
	for i := range out.Buckets {
		out.Count += l.counts[i].Load()
		out.Buckets[i] = Bucket{Below: 1 << (latencyShift + i), Count: out.Count}
	}
	out.Count += l.counts[latencyBuckets-1].Load()
	return out
}

// A Latency is a histogram of durations.
type Latency struct {
	Count   uint64
	Sum     time.Duration
	Buckets []Bucket // with growing bounds
}

// A Bucket counts the durations below a bound, including those of the buckets before.
type Bucket struct {
	Below time.Duration
	Count uint64
}
