// Flights is a complete small application on Cairn. It replays 20,000 real US flights of early 2001
// through durable actors, one per airport and one per route, prints which airports were worst, and
// keeps serving them over HTTP, and over NATS with --nats-url.
//
// It may be killed at any moment, in any way: the next run goes on where this one was, counts no
// flight twice and ends with the same table.
//
// Package traffic holds the actors; importer.go drives them; survey.go and report.go read them.
package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"

	"github.com/cairn-run/cairn/docs/examples/flights/data"
	"github.com/cairn-run/cairn/docs/examples/flights/traffic"
	"github.com/cairn-run/cairn/runtime"
)

// defaultDir is where the data is kept unless --data says otherwise. It is beside the data of other
// programs on Cairn.
const defaultDir = "data/flights"

func main() {
	a := app{stdout: os.Stdout, stderr: os.Stderr}
	runtime.Program{
		Name:    "flights",
		Dir:     defaultDir,
		Actors:  traffic.Definitions(),
		Flags:   a.flags,
		Started: a.started,
	}.Main()
}

// An app is the part of the program that runs beside the node. The table goes to stdout, all else
// to stderr.
type app struct {
	stdout, stderr io.Writer

	once    bool
	flights int
	rate    int
}

func (a *app) flags(fs *flag.FlagSet) {
	fs.BoolVar(&a.once, "once", false, "exit after the table instead of serving on")
	fs.IntVar(&a.flights, "flights", 0, "replay only the first `n` flights; 0 for all")
	fs.IntVar(&a.rate, "rate", 0, "replay `n` flights a second; 0 for as fast as possible")
}

// started replays the flights once the node serves.
func (a *app) started(ctx context.Context, rt *runtime.Runtime) error {
	flights, err := data.Flights()
	if err != nil {
		return err
	}
	airports, err := data.Airports()
	if err != nil {
		return err
	}
	if a.flights < 0 || a.rate < 0 {
		return fmt.Errorf("--flights and --rate are 0 or more")
	}
	if a.flights > 0 && a.flights < len(flights) {
		flights = flights[:a.flights]
	}

	i := importer{node: rt, flights: flights, rate: a.rate}
	from, err := i.position(ctx)
	if err != nil {
		return err
	}
	total := grouped(int64(len(flights)))
	switch {
	case from >= len(flights):
		fmt.Fprintf(a.stderr, "all %s flights were imported before\n", total)
	case from > 0:
		fmt.Fprintf(a.stderr, "going on after flight %s of %s\n", grouped(int64(from)), total)
	default:
		fmt.Fprintf(a.stderr, "importing %s flights\n", total)
	}
	if from < len(flights) {
		p := newProgress(a.stderr, from, len(flights))
		i.progress = p.update
		err := i.run(ctx, from)
		p.end()
		if ctx.Err() != nil {
			fmt.Fprintln(a.stderr, "interrupted; the next run goes on from here")
			return runtime.ErrStop
		}
		if err != nil {
			return err
		}
	}

	if err := i.documents(ctx); err != nil {
		return err
	}
	s, err := settledSurvey(ctx, rt)
	if err != nil {
		return err
	}
	fmt.Fprintln(a.stderr)
	if err := report(a.stdout, s, airports); err != nil {
		return err
	}
	a.next(rt, s)
	if a.once {
		return runtime.ErrStop
	}
	return nil
}

// next says what to do now.
func (a *app) next(rt *runtime.Runtime, s *survey) {
	if a.once {
		fmt.Fprintf(a.stderr, "\nThe data is in %s. Run again without --once to look around: nothing is imported twice.\n", rt.Dir())
		return
	}
	airport := "ORD"
	if worst := s.worstAirports(1); len(worst) > 0 {
		airport = worst[0].Airport
	}
	fmt.Fprintf(a.stderr, "\nServing on. In another terminal, try (`make build` builds bin/cairn):\n")
	try := func(what, format string, args ...any) {
		fmt.Fprintf(a.stderr, "\n  # %s\n  %s\n", what, fmt.Sprintf(format, args...))
	}
	if addr := rt.Addr(); addr != "" {
		url := fmt.Sprintf("http://%s/actors/airport/%s/-", addr, airport)
		try("ask an airport", "curl -X POST %s/call/stats", url)
		try("its worst hours and routes, from its own SQLite database", `curl --json '{"least_flights":5}' %s/call/worst`, url)
		try("any other question about them", `bin/cairn --url http://%s sql airport/%s -c 'SELECT destination, max(delay) FROM flight'`, addr, airport)
		try("its events, from the oldest kept one on, and then live", "curl -N '%s/events?after=0'", url)
		destination := "LAX"
		if airport == destination {
			destination = "JFK"
		}
		try("one more flight, very late: a few of these and the airport is congested, for a minute",
			`curl --json '{"destination":"%s","delay":300}' %s/call/depart`, destination, url)
		try("every key that it stores, from its state on", "bin/cairn --url http://%s inspect airport/%s | head -20", addr, airport)
	}
	if addr := rt.Addr(); addr != "" && len(s.claims) > 0 {
		try("what became of a claim, step by step", "bin/cairn --url http://%s workflow history claim/%s", addr, s.claims[0].key)
	}
	if nats := rt.NATSURL(); nats != "" {
		try("the events of all airports, over NATS (github.com/nats-io/natscli)",
			"nats --server %s subscribe 'cairn.default.event.airport.>'", nats)
	}
	fmt.Fprintf(a.stderr, "\nThe data is in %s. Stop with Ctrl-C, or kill -9: the next run finds everything.\n", rt.Dir())
}
