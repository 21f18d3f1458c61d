package main

import (
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"
)

// soak puts a store under full load, and reports each interval: durable calls of any actor, one in
// ten with an entry that expires, beside one creation and one destruction in a hundred.
func soak(j job, say func(result)) {
	s := open(j.Side, j.Dir)
	var first, next atomic.Int64 // the actors from first to next are there, except those at the ends
	next.Store(int64(j.Actors))
	var stop atomic.Bool
	var wg sync.WaitGroup
	var mu sync.Mutex
	m := startMeter()
	note := func(h *histogram) {
		mu.Lock()
		defer mu.Unlock()
		m.note(h)
	}
	for w := range j.Callers {
		wg.Go(func() {
			r, h, noted := rand.New(rand.NewPCG(uint64(j.Seed), uint64(w))), new(histogram), time.Now()
			for !stop.Load() {
				begin := time.Now()
				soakOnce(s, r, &first, &next)
				now := time.Now()
				h.add(now.Sub(begin))
				if now.Sub(noted) > j.Interval/100 {
					note(h)
					*h, noted = histogram{}, now
				}
			}
			note(h)
		})
	}
	bytes, handed := s.logical(), written()
	said := false
	for end := time.Now().Add(j.Time); !said || time.Now().Before(end); {
		time.Sleep(max(min(j.Interval, time.Until(end)), time.Millisecond))
		mu.Lock()
		if m.all.n == 0 { // a short interval on a slow machine; the next one counts for both
			mu.Unlock()
			continue
		}
		said = true
		r := m.result()
		m = startMeter()
		mu.Unlock()
		r.Disk = s.disk()
		b, h := s.logical(), written()
		r.WriteAmp = (h - handed) / max(b-bytes, 1)
		bytes, handed = b, h
		say(r)
	}
	stop.Store(true)
	wg.Wait()
	s.close()
}

// ends is how many actors at either end of the range may be in the course of creation or
// destruction.
const ends = 64

func soakOnce(s side, r *rand.Rand, first, next *atomic.Int64) {
	switch p := r.IntN(100); {
	case p == 0:
		s.create(int(next.Add(1) - 1))
	case p == 1:
		s.destroy(int(first.Add(1) - 1))
	default:
		from := first.Load() + ends
		i := from + r.Int64N(max(1, next.Load()-ends-from))
		s.call(int(i), p < 12)
	}
}

// printSoak soaks one side after the other and prints a line for each minute.
func (g *growth) printSoak(w io.Writer) {
	fmt.Fprintf(w, "\nfull load for %v: durable calls of any actor, 10 %% with an entry that expires, 1 %% creations, 1 %% destructions, 64 callers\n", g.soak)
	interval := min(time.Minute, g.soak)
	for _, name := range []string{cairnSide, rawSide} {
		at := time.Duration(0)
		start(job{What: "soak", Side: name, Dir: g.store(name, ""), Actors: g.actors, Callers: 64,
			Time: g.soak, Interval: interval, Seed: 1}, false, func(r result) {
			at += time.Duration(r.Took * float64(time.Second))
			fmt.Fprintf(w,
				"  %-6s %6v  %9.0f/s  p50 %s  p99 %s  p99.9 %s  longest %s  processor %s  memory %s  disk %s  write amplification %.1f\n",
				name, at.Round(time.Second/10), r.Rate, span(r.P50), span(r.P99), span(r.P999), span(r.Max), span(r.CPU), size(r.Memory), size(r.Disk), r.WriteAmp)
			g.soaked = append(g.soaked, r)
		})
	}
}
