package main

import (
	"fmt"
	"io"
	"os"
	"path/filepath"
	"slices"
	"time"
)

// A stage is one measurement of both sides.
type stage struct {
	name   string
	target string
	// measure returns what one side does in a round.
	measure func(side string, round int) result
	// value is the figure of a result whose ratio counts. Of latencies, smaller is better.
	value func(result) float64
	// form prints a result.
	form func(result) string
	// once says that there is only one round.
	once bool
}

// A report is what a stage found.
type report struct {
	name      string
	ours, raw []result
	ratio     float64 // median of pairs
}

func (g *growth) stages(k kept) []stage {
	one := func(what string, hot, callers int) func(string, int) result {
		return func(side string, round int) result {
			return run(job{What: what, Side: side, Dir: g.store(side, ""), Actors: g.actors,
				Hot: hot, Callers: callers, Time: g.time, Seed: round})
		}
	}
	built := func(side string, _ int) result { return k.Built[side] }
	tables := func(side string, _ int) result {
		return result{Disk: k.Built[side].Disk, Payload: k.Built[side].Payload}
	}
	return []stage{
		{name: "build: actors created, 64 callers", measure: built, value: rateOf, form: rates, once: true},
		{name: "tables on disk, compacted", target: "at most 1.3", measure: tables,
			value: func(r result) float64 { return r.Disk }, form: disk, once: true},
		{name: "open after a kill under load", target: "at most 1.3", measure: g.openKilled,
			value: tookOf, form: times},
		{name: "query of any actor after a restart, 8 callers / one Get", target: "at least 0.4",
			measure: one("get", 0, 8), value: rateOf, form: rates},
		{name: "durable call of any actor, 64 callers / one Get and one synced commit of its rows",
			target:  "at least 0.6",
			measure: one("call", 0, 64), value: rateOf, form: rates},
		{name: fmt.Sprintf("durable calls of %d hot actors, 64 callers / the same commits: part of the rate in a store with no others", g.hot),
			target: "at least 0.9", measure: g.keptRate(one("call", g.hot,
				64)), value: func(r result) float64 { return r.Kept }, form: keptRates},
		{name: "listing, time of an actor / iterator over the directory", target: "at most 3",
			measure: one("list", 0, 1), value: tookOf, form: times},
	}
}

func rateOf(r result) float64 { return r.Rate }
func tookOf(r result) float64 { return r.Took }

// openKilled opens a store whose process was killed under load.
func (g *growth) openKilled(side string, round int) result {
	j := job{What: "kill", Side: side, Dir: g.store(side, ""), Actors: g.actors, Callers: 64,
		Calls: min(50_000, 5*g.actors), Seed: round}
	run(j)
	j.What = "open"
	return run(j)
}

// keptRate measures hot actors in the small store and in the large one, and notes what part of the
// small one's rate is left.
func (g *growth) keptRate(large func(string, int) result) func(string, int) result {
	return func(side string, round int) result {
		s := run(job{What: "call", Side: side, Dir: g.store(side, small), Actors: g.hot, Hot: g.hot,
			Callers: 64, Time: g.time, Seed: round})
		r := large(side, round)
		r.Kept = r.Rate / s.Rate
		return r
	}
}

// report measures a stage and prints it.
func (g *growth) report(w io.Writer, s stage) {
	rounds := g.rounds
	if s.once {
		rounds = 1
	}
	r := report{name: s.name}
	var ratios, cpu []float64
	for i := range rounds {
		ours, raw := s.measure(cairnSide, i), s.measure(rawSide, i)
		r.ours, r.raw = append(r.ours, ours), append(r.raw, raw)
		ratios = append(ratios, s.value(ours)/s.value(raw))
		if raw.CPU > 0 {
			cpu = append(cpu, ours.CPU/raw.CPU)
		}
	}
	r.ratio = median(ratios)
	g.reports = append(g.reports, r)
	fmt.Fprintf(w, "\n%s\n", s.name)
	fmt.Fprintf(w, "  %-6s %s\n  %-6s %s\n", cairnSide, s.form(middle(r.ours)), rawSide, s.form(middle(r.raw)))
	fmt.Fprintf(w, "  ratio  %.2f (%.2f..%.2f)", r.ratio, slices.Min(ratios), slices.Max(ratios))
	if cpu != nil {
		fmt.Fprintf(w, ", of processor time %.2f", median(cpu))
	}
	if s.target != "" {
		fmt.Fprintf(w, "; to reach: %s", s.target)
	}
	fmt.Fprintln(w)
}

// middle returns the median of each figure.
func middle(all []result) result {
	of := func(field func(*result) float64) float64 {
		v := make([]float64, len(all))
		for i := range all {
			v[i] = field(&all[i])
		}
		return median(v)
	}
	return result{
		Rate: of(func(r *result) float64 { return r.Rate }), P50: of(func(r *result) float64 { return r.P50 }),
		P99: of(func(r *result) float64 { return r.P99 }), CPU: of(func(r *result) float64 { return r.CPU }),
		Took: of(func(r *result) float64 { return r.Took }), Memory: of(func(r *result) float64 { return r.Memory }),
		Disk: of(func(r *result) float64 { return r.Disk }), Payload: of(func(r *result) float64 { return r.Payload }),
		Kept: of(func(r *result) float64 { return r.Kept }),
	}
}

// printParked starts runs that wait, and measures restarts of their node.
func (g *growth) printParked(w io.Writer) {
	dir := filepath.Join(g.dir, parkedRuns)
	check(os.RemoveAll(dir))
	j := job{What: "park", Side: cairnSide, Dir: dir, Actors: g.runs, Callers: 64, Time: g.time}
	begun := run(j)
	j.What = "parked"
	var restarts []result
	for j.Seed = range g.rounds {
		restarts = append(restarts, run(j))
	}
	r := middle(restarts)
	fmt.Fprintf(w, "\n%d parked workflow runs\n", g.runs)
	fmt.Fprintf(w, "  %-6s begun: %s\n", cairnSide, rates(begun))
	fmt.Fprintf(w, "  %-6s restart to first answer: %s\n", cairnSide, times(r))
	g.reports = append(g.reports, report{name: "parked", ours: restarts, raw: []result{begun}, ratio: 1})
}

func rates(r result) string {
	return fmt.Sprintf("%9.0f/s  p50 %s  p99 %s  processor %s  memory %s", r.Rate, span(r.P50),
		span(r.P99), span(r.CPU), size(r.Memory))
}

func times(r result) string {
	return fmt.Sprintf("%s  processor %s  memory %s", span(r.Took), span(r.CPU), size(r.Memory))
}

func disk(r result) string {
	return fmt.Sprintf("%s for a payload of %s: %.2f", size(r.Disk), size(r.Payload), r.Disk/r.Payload)
}

func keptRates(r result) string { return fmt.Sprintf("%s  part %.2f", rates(r), r.Kept) }

// span prints seconds in a unit that fits.
func span(v float64) string {
	switch {
	case v < 10e-6:
		return fmt.Sprintf("%.2f us", v*1e6)
	case v < 10e-3:
		return fmt.Sprintf("%.1f us", v*1e6)
	case v < 10:
		return fmt.Sprintf("%.1f ms", v*1e3)
	default:
		return time.Duration(v * float64(time.Second)).Round(100 * time.Millisecond).String()
	}
}

func size(v float64) string { return fmt.Sprintf("%.1f MiB", v/(1<<20)) }
