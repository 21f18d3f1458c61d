package main

import (
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/cell"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/cmd/cairn/internal/table"
)

// A bench measures durable calls.
type bench struct {
	*cli
	duration        time.Duration
	value           int
	callers, actors []int
	dir             string
}

// A benchResult is what one run measured. Times are in microseconds.
type benchResult struct {
	Target  string  `json:"target"`
	Callers int     `json:"callers"`
	Actors  int     `json:"actors"`
	Value   int     `json:"value_bytes"`
	Calls   int     `json:"calls"`
	Seconds float64 `json:"seconds"`
	Rate    float64 `json:"calls_per_second"`
	P50     float64 `json:"p50_us"`
	P99     float64 `json:"p99_us"`
	Max     float64 `json:"max_us"`
}

func (c *cli) benchCommand() *cobra.Command {
	b := bench{cli: c}
	cmd := &cobra.Command{
		Use:               "bench",
		Args:              cobra.NoArgs,
		ValidArgsFunction: cobra.NoFileCompletions,
		RunE: func(cmd *cobra.Command, _ []string) error {
			switch {
			case b.duration <= 0:
				return usagef("--duration %s: must be positive", b.duration)
			case b.value < 0 || b.value > 128<<10-2:
				return usagef("--value %d: 0 to %d bytes", b.value, 128<<10-2)
			case len(b.callers) == 0 || slices.Min(b.callers) < 1 || slices.Max(b.callers) > 10_000:
				return usagef("--callers: numbers from 1 to 10000")
			case len(b.actors) == 0 || slices.Min(b.actors) < 1 || slices.Max(b.actors) > 1_000_000:
				return usagef("--actors: numbers from 1 to 1000000")
			}
			return b.run(cmd.Context(), cmd.Flags().Changed("url"))
		},
	}
	flags := cmd.Flags()
	flags.DurationVar(&b.duration, "duration", 3*time.Second, "how long each run takes")
	flags.IntVar(&b.value, "value", 100, "bytes of each value")
	flags.IntSliceVar(&b.callers, "callers", []int{1, 64}, "numbers of concurrent callers")
	flags.IntSliceVar(&b.actors, "actors", []int{1, 1000}, "numbers of actors")
	flags.StringVar(&b.dir, "dir", "", "make the temporary directory here (default: the system's)")
	_ = cmd.MarkFlagDirname("dir")
	return cmd
}

// run opens the target, runs every combination of callers and actors and prints it.
func (b *bench) run(ctx context.Context, remote bool) (err error) {
	var n host.Node
	target, where := "this process", "in this process"
	if remote {
		target, where = b.url, "on "+b.url
		// Sent once, without an idempotency key, so that the node stores nothing but the value.
		remote, err := b.connect(client.Options{Attempts: 1})
		if err != nil {
			return err
		}
		defer remote.Close()
		opening, cancel := b.requestContext(ctx)
		err = remote.Health(opening)
		cancel()
		if err != nil {
			return err
		}
		n = remote
	} else {
		dir, err := os.MkdirTemp(b.dir, "cairn-bench-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(dir)
		rt, err := runtime.Open(ctx, runtime.Options{
			Dir: dir, Actors: []actor.Definition{cell.Definition()}, Logger: slog.New(slog.DiscardHandler),
		})
		if err != nil {
			return err
		}
		defer func() { err = cmp.Or(err, rt.Close()) }()
		n = rt
	}

	input, err := json.Marshal(map[string]any{"key": []string{"bench"}, "value": strings.Repeat("x", b.value)})
	if err != nil {
		return err
	}
	addresses := benchAddresses(slices.Max(b.actors))
	if remote {
		defer func() { err = cmp.Or(err, destroyAll(context.WithoutCancel(ctx), n, addresses)) }()
	}
	t := b.table()
	defer t.Flush()
	if !b.json {
		b.note("durable put of %d bytes, %s each, %s", b.value, b.duration, where)
		t.Row("CALLERS", "ACTORS", "CALLS", "CALLS/S", "P50", "P99", "MAX")
	}
	for _, actors := range b.actors {
		for _, callers := range b.callers {
			r, err := b.measure(ctx, n, addresses[:actors], callers, input)
			if err != nil {
				return err
			}
			r.Target = target
			if b.json {
				if err := b.printJSON(r); err != nil {
					return err
				}
				continue
			}
			t.Row(table.Count(r.Callers), table.Count(r.Actors), table.Count(r.Calls), table.Count(int(r.Rate)), micros(r.P50), micros(r.P99), micros(r.Max))
		}
	}
	return nil
}

// benchAddresses names the actors: below a key of this run, so that two runs do not meet.
func benchAddresses(n int) []host.Address {
	run := strconv.FormatInt(time.Now().UnixMilli(), 36) + "-" + strconv.Itoa(os.Getpid())
	addresses := make([]host.Address, n)
	for i := range addresses {
		addresses[i] = host.Address{Type: cell.Type.Name(), Key: []string{"bench", run, strconv.Itoa(i)}}
	}
	return addresses
}

// measure lets callers call the actors in turn for the duration, each at least once. Creating the actors is not part of it.
func (b *bench) measure(ctx context.Context, n host.Node, addresses []host.Address, callers int, input []byte) (benchResult, error) {
	call := func(ctx context.Context, a host.Address) error {
		_, err := n.Call(ctx, &host.Request{Address: a, Method: "put", Codec: host.JSON, Input: input})
		return err
	}
	if err := each(ctx, addresses, call); err != nil {
		return benchResult{}, err
	}

	samples := make([][]time.Duration, callers)
	failures := make([]error, callers)
	var stopped atomic.Bool
	var wg sync.WaitGroup
	start := time.Now()
	stop := time.AfterFunc(b.duration, func() { stopped.Store(true) })
	defer stop.Stop()
	for i := range callers {
		wg.Go(func() {
			// Callers begin at different actors and go round, so that at any moment they are spread over all.
			at := i * len(addresses) / callers
			last := time.Now()
			for first := true; first || !stopped.Load(); first = false {
				if err := call(ctx, addresses[at]); err != nil {
					failures[i] = err
					stopped.Store(true)
					return
				}
				now := time.Now()
				samples[i] = append(samples[i], now.Sub(last))
				last = now
				if at++; at == len(addresses) {
					at = 0
				}
			}
		})
	}
	wg.Wait()
	elapsed := time.Since(start)
	if err := errors.Join(failures...); err != nil {
		return benchResult{}, failures[slices.IndexFunc(failures, func(err error) bool { return err != nil })]
	}
	all := slices.Concat(samples...)
	slices.Sort(all)
	r := benchResult{Callers: callers, Actors: len(addresses), Value: b.value, Calls: len(all), Seconds: elapsed.Seconds()}
	if len(all) > 0 {
		r.Rate = float64(len(all)) / elapsed.Seconds()
		r.P50, r.P99, r.Max = quantile(all, 0.50), quantile(all, 0.99), quantile(all, 1)
	}
	return r, nil
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

// destroyAll removes the actors of a run. One that was never created is not missed.
func destroyAll(ctx context.Context, n host.Node, addresses []host.Address) error {
	return each(ctx, addresses, func(ctx context.Context, a host.Address) error {
		err := n.Destroy(ctx, a)
		if host.CodeOf(err) == host.NotFound {
			return nil
		}
		return err
	})
}

// quantile returns the q-quantile of sorted samples in microseconds: the smallest that at least q of them do not exceed.
func quantile(sorted []time.Duration, q float64) float64 {
	i := max(0, int(float64(len(sorted))*q+0.999999)-1)
	return float64(sorted[min(i, len(sorted)-1)].Nanoseconds()) / 1e3
}

// micros writes microseconds in the unit that suits them.
func micros(us float64) string {
	switch {
	case us < 1000:
		return fmt.Sprintf("%.1f µs", us)
	case us < 1e6:
		return fmt.Sprintf("%.2f ms", us/1e3)
	}
	return fmt.Sprintf("%.2f s", us/1e6)
}
