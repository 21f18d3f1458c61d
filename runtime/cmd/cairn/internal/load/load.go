// Package load measures durable calls: a number of callers put values into cells, each as fast as
// the replies come.
package load

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/cell"
)

// A Plan says what to measure: each number of actors with each number of callers.
type Plan struct {
	Duration time.Duration // of each run
	Value    int           // bytes of each value
	// Callers and Actors hold positive numbers, at least one each.
	Callers, Actors []int
}

// A Result is the measurement of one run.
type Result struct {
	Callers int     `json:"callers"`
	Actors  int     `json:"actors"`
	Value   int     `json:"value_bytes"`
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"calls_per_second"`
	P50     Micros  `json:"p50_us"`
	P99     Micros  `json:"p99_us"`
	Max     Micros  `json:"max_us"`
}

// Micros is a duration in microseconds.
type Micros float64

// String writes the duration in the unit that suits it.
func (us Micros) String() string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.1f µs", float64(us))
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", float64(us)/1e3)
	}
	return fmt.Sprintf("%.2f s", float64(us)/1e6)
}

// Cells names n actors below a key of this process and moment, so that two measurements share no
// actor.
func Cells(n int) []host.Address {
	run := strconv.FormatInt(time.Now().UnixMilli(), 36) + "-" + strconv.Itoa(os.Getpid())
	cells := make([]host.Address, n)
	for i := range cells {
		cells[i] = host.Address{Type: cell.Type.Name(), Key: []string{"bench", run, strconv.Itoa(i)}}
	}
	return cells
}

// Run makes all runs of the plan on the first of cells, and calls done with each result. It ends at
// the first error.
func (p *Plan) Run(ctx context.Context, n host.Node, cells []host.Address, done func(Result) error) error {
	input, err := json.Marshal(map[string]any{"key": []string{"bench"}, "value": strings.Repeat("x", p.Value)})
	if err != nil {
		return err
	}
	put := func(ctx context.Context, a host.Address) error {
		_, err := n.Call(ctx, &host.Request{Address: a, Method: "put", Codec: host.JSON, Input: input})
		return err
	}
	for _, actors := range p.Actors {
		for _, callers := range p.Callers {
			r, err := p.measure(ctx, put, cells[:actors], callers)
			if err != nil {
				return err
			}
			if err := done(r); err != nil {
				return err
			}
		}
	}
	return nil
}

// measure runs callers that call the actors in turn for the duration, each at least once. It
// creates the actors before.
func (p *Plan) measure(ctx context.Context, put func(context.Context, host.Address) error,
	cells []host.Address, callers int) (Result, error) {
	if err := each(ctx, cells, put); err != nil {
		return Result{}, err
	}
	samples := make([][]time.Duration, callers)
	failures := make([]error, callers)
	var stopped atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	stop := time.AfterFunc(p.Duration, func() { stopped.Store(true) })
	defer stop.Stop()
	for i := range callers {
		wg.Go(func() {
			// Callers begin at different actors and go round, so that at any moment they are spread
			// over all.
			at := i * len(cells) / callers
			last := time.Now()
			for first := true; first || !stopped.Load(); first = false {
				if err := put(ctx, cells[at]); err != nil {
					failures[i] = err
					stopped.Store(true)
					return
				}
				now := time.Now()
				samples[i] = append(samples[i], now.Sub(last))
				last = now
				if at++; at == len(cells) {
					at = 0
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start).Seconds()
	if i := slices.IndexFunc(failures, func(err error) bool { return err != nil }); i >= 0 {
		return Result{}, failures[i]
	}
	all := slices.Concat(samples...) // at least one each
	slices.Sort(all)
	return Result{
		Callers: callers, Actors: len(cells), Value: p.Value, Calls: len(all), Seconds: elapsed, Rate: float64(len(all)) / elapsed,
		P50: quantile(all, 0.50), P99: quantile(all, 0.99), Max: quantile(all, 1),
	}, nil
}

// quantile returns the q-quantile of sorted samples: the smallest that at least q of them do not
// exceed.
func quantile(sorted []time.Duration, q float64) Micros {
	i := max(0, int(float64(len(sorted))*q+0.999999)-1)
	return Micros(float64(sorted[min(i, len(sorted)-1)].Nanoseconds()) / 1e3)
}

// Destroy removes the actors that exist.
func Destroy(ctx context.Context, n host.Node, cells []host.Address) error {
	return each(ctx, cells, func(ctx context.Context, a host.Address) error {
		err := n.Destroy(ctx, a)
		if host.CodeOf(err) == host.NotFound {
			return nil
		}
		return err
	})
}

// each calls f for every address, a few at a time, and returns the first error.
func each(ctx context.Context, addresses []host.Address, f func(context.Context, host.Address) error) error {
	const workers = 32
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var next atomic.Int64
	var wg sync.WaitGroup
	for range min(workers, len(addresses)) {
		wg.Go(func() {
			for {
				i := int(next.Add(1)) - 1
				if i >= len(addresses) || ctx.Err() != nil {
					return
				}
				if err := f(ctx, addresses[i]); err != nil {
					cancel(err)
					return
				}
			}
		})
	}
	wg.Wait()
	return context.Cause(ctx)
}
