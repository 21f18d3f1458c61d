// Command peers runs one workflow on Cairn, on Restate and on Temporal, in turn, on the same
// machine in the same minutes, and prints how many runs each of them ends in a second: for one
// caller, and for several at once.
//
// The workflow has five steps, each of which returns a small number; a run counts when its caller
// has the result. Every system keeps the result of each step before the next begins. Cairn and
// Restate sync their logs; Temporal's server keeps its rows in SQLite in memory, because that is
// what its own test server does, so it does not wait for a disk at all.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"text/tabwriter"
	"time"
)

// steps is how many steps the workflow has.
const steps = 5

// A system runs the workflow. run starts the run of that name and returns its result.
type system interface {
	run(ctx context.Context, id string) (int, error)
	close() error
}

// An opening starts a system that keeps its data below dir.
type opening struct {
	name string
	open func(ctx context.Context, dir string) (system, error)
}

func main() {
	rounds := flag.Int("rounds", 3, "how often each system is measured")
	span := flag.Duration("time", 3*time.Second, "duration of each measurement")
	callers := flag.String("callers", "1,32", "how many callers at once, a list")
	only := flag.String("run", "", "only systems whose name contains this")
	dir := flag.String("dir", "", "directory for the data; default a temporary one")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if err := compare(ctx, *dir, *only, *callers, *rounds, *span); err != nil {
		fmt.Fprintln(os.Stderr, "peers:", err)
		os.Exit(1)
	}
}

func compare(ctx context.Context, dir, only, callers string, rounds int, span time.Duration) error {
	var counts []int
	for s := range strings.SplitSeq(callers, ",") {
		n, err := strconv.Atoi(s)
		if err != nil || n < 1 {
			return fmt.Errorf("-callers: %q is no positive number", s)
		}
		counts = append(counts, n)
	}
	if dir == "" {
		d, err := os.MkdirTemp("", "cairn-peers-")
		if err != nil {
			return err
		}
		defer os.RemoveAll(d)
		dir = d
	}
	var open []opening
	for _, o := range []opening{{"Cairn", openCairn}, {"Restate", openRestate}, {"Temporal", openTemporal}} {
		if strings.Contains(o.name, only) {
			open = append(open, o)
		}
	}
	if len(open) == 0 {
		return fmt.Errorf("-run: no system is called %q", only)
	}
	rates := make(map[string][]float64) // by system and callers
	for round := range rounds {
		for _, o := range open {
			if err := measureAll(ctx, o,
				fmt.Sprintf("%s/%s-%d", dir, strings.ToLower(o.name), round), counts, span, rates); err != nil {
				return fmt.Errorf("%s: %w", o.name, err)
			}
		}
	}
	print(open, counts, rates)
	return nil
}

// measureAll starts a system, measures it with each number of callers, and stops it, so that no
// system runs while another is measured.
func measureAll(ctx context.Context, o opening, dir string, counts []int, span time.Duration,
	rates map[string][]float64) (err error) {
	if err := os.MkdirAll(dir, 0o755); err != nil {
		return err
	}
	s, err := o.open(ctx, dir)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, s.close()) }()
	if _, err := measure(ctx, s, "warm", counts[len(counts)-1], span/5); err != nil {
		return err
	}
	for _, n := range counts {
		rate, err := measure(ctx, s, fmt.Sprintf("m%d", n), n, span)
		if err != nil {
			return err
		}
		key := fmt.Sprint(o.name, n)
		rates[key] = append(rates[key], rate)
	}
	return nil
}

// measure keeps callers busy for span and returns the runs that ended, per second.
func measure(ctx context.Context, s system, label string, callers int, span time.Duration) (float64, error) {
	ctx, cancel := context.WithCancelCause(ctx)
	defer cancel(nil)
	var ended atomic.Int64
	var group sync.WaitGroup
	start := time.Now()
	for c := range callers {
		group.Go(func() {
			for i := 0; time.Since(start) < span && ctx.Err() == nil; i++ {
				got, err := s.run(ctx, fmt.Sprintf("%s-%d-%d", label, c, i))
				if err == nil && got != steps*(steps-1)/2 {
					err = fmt.Errorf("a run returned %d", got)
				}
				if err != nil {
					cancel(err)
					return
				}
				ended.Add(1)
			}
		})
	}
	group.Wait()
	took := time.Since(start)
	if err := context.Cause(ctx); err != nil {
		return 0, err
	}
	return float64(ended.Load()) / took.Seconds(), nil
}

// print shows medians, and how many times as fast the first system is as each.
func print(open []opening, counts []int, rates map[string][]float64) {
	w := tabwriter.NewWriter(os.Stdout, 0, 0, 2, ' ', 0)
	fmt.Fprint(w, "workflows/s")
	for _, n := range counts {
		fmt.Fprintf(w, "\t%d at once\t", n)
	}
	fmt.Fprintln(w)
	for _, o := range open {
		fmt.Fprint(w, o.name)
		for _, n := range counts {
			own, first := median(rates[fmt.Sprint(o.name, n)]), median(rates[fmt.Sprint(open[0].name, n)])
			fmt.Fprintf(w, "\t%.0f\t1/%.1f", own, first/own)
		}
		fmt.Fprintln(w)
	}
	w.Flush()
}

func median(v []float64) float64 {
	v = slices.Sorted(slices.Values(v))
	return v[len(v)/2]
}
