package main

import (
	"bufio"
	"bytes"
	"fmt"
	"math/bits"
	"math/rand/v2"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A result is what one process measured. Times are in seconds, sizes in bytes.
type result struct {
	Rate, P50, P99, P999, Max float64
	CPU                       float64 // processor time of an operation, of user and system together
	Took                      float64 // of the whole, where it is one operation
	Memory                    float64 // resident, at the end of the measurement
	Disk, Payload             float64
	Kept                      float64 // part of the rate that a smaller store has
	WriteAmp                  float64 // bytes written for each byte of a commit
}

// A histogram counts durations in steps of less than 2 %. It takes the same memory for any number
// of them, so that it does not show in the resident memory that is measured.
type histogram struct {
	counts [64 << stepBits]uint32
	n      int
	max    time.Duration
}

// stepBits is how many bits of a duration a histogram keeps below the first.
const stepBits = 6

func (h *histogram) add(d time.Duration) {
	v := uint64(max(d, 1))
	if v < 1<<stepBits {
		h.counts[v]++
	} else {
		shift := bits.Len64(v) - 1 - stepBits
		h.counts[(shift+1)<<stepBits|int(v>>shift)&(1<<stepBits-1)]++
	}
	h.n++
	h.max = max(h.max, d)
}

func (h *histogram) merge(other *histogram) {
	for i, c := range other.counts {
		h.counts[i] += c
	}
	h.n += other.n
	h.max = max(h.max, other.max)
}

// quantile returns a duration in seconds that a part p of all durations does not exceed.
func (h *histogram) quantile(p float64) float64 {
	left := int(p * float64(h.n))
	for i, c := range h.counts {
		if left -= int(c); left < 0 {
			v := float64(i)
			if shift := i>>stepBits - 1; shift >= 0 {
				v = (float64(1<<stepBits|i&(1<<stepBits-1)) + 0.5) * float64(uint64(1)<<shift)
			}
			return min(v, float64(h.max)) / 1e9
		}
	}
	return h.max.Seconds()
}

// A meter measures operations from its start to its result.
type meter struct {
	mu    sync.Mutex
	all   histogram
	begin time.Time
	spent float64
}

func startMeter() *meter { return &meter{begin: time.Now(), spent: usage.Processor()} }

// note adds what one worker measured.
func (m *meter) note(h *histogram) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.all.merge(h)
}

func (m *meter) result() (r result) {
	took := time.Since(m.begin).Seconds()
	n := float64(m.all.n)
	return result{
		Rate: n / took, P50: m.all.quantile(0.5), P99: m.all.quantile(0.99), P999: m.all.quantile(0.999), Max: m.all.max.Seconds(),
		CPU: (usage.Processor() - m.spent) / max(n, 1), Took: took, Memory: resident(),
	}
}

// load runs op from n goroutines, by each at least once, for a time. op gets a source of random
// numbers that is its goroutine's own.
func load(n int, d time.Duration, seed int, op func(r *rand.Rand)) result {
	var stop atomic.Bool
	var wg sync.WaitGroup
	m := startMeter()
	for w := range n {
		wg.Go(func() {
			r, h := rand.New(rand.NewPCG(uint64(seed), uint64(w))), new(histogram)
			for h.n == 0 || !stop.Load() {
				t := time.Now()
				op(r)
				h.add(time.Since(t))
			}
			m.note(h)
		})
	}
	time.Sleep(d)
	stop.Store(true)
	wg.Wait()
	return m.result()
}

// each runs op once for every number below n, from so many goroutines.
func each(workers, n int, op func(i int)) result {
	var next atomic.Int64
	var wg sync.WaitGroup
	m := startMeter()
	for range workers {
		wg.Go(func() {
			h := new(histogram)
			defer m.note(h)
			for {
				i := int(next.Add(1)) - 1
				if i >= n {
					return
				}
				t := time.Now()
				op(i)
				h.add(time.Since(t))
			}
		})
	}
	wg.Wait()
	return m.result()
}

// resident returns the resident memory of this process.
func resident() float64 {
	text, err := os.ReadFile("/proc/self/statm")
	check(err)
	pages, err := strconv.Atoi(strings.Fields(string(text))[1])
	check(err)
	return float64(pages * os.Getpagesize())
}

// written returns the bytes that this process has handed to the system.
func written() (n float64) {
	text, err := os.ReadFile("/proc/self/io")
	check(err)
	for lines := bufio.NewScanner(bytes.NewReader(text)); lines.Scan(); {
		fmt.Sscanf(lines.Text(), "wchar: %f", &n)
	}
	return n
}

func median(v []float64) float64 {
	s := slices.Sorted(slices.Values(v))
	return s[len(s)/2]
}

func check(err error) {
	if err != nil {
		fmt.Fprintln(os.Stderr, "growth:", err)
		os.Exit(1)
	}
}
