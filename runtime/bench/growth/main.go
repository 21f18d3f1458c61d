// Command growth measures a node whose store grows, beside raw Pebble with the same payload.
//
// It builds a store with many actors on either side, and measures each stage in a process of its
// own, so that a stage begins with empty caches as after a restart: Cairn, raw Pebble, Cairn, and
// so on. What counts is the median of the ratios of these pairs.
package main

import (
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"time"
)

// A growth is what the stages share.
type growth struct {
	dir    string
	actors int
	hot    int // actors that are hot, and actors of the small store
	runs   int // parked runs
	rounds int
	time   time.Duration
	soak   time.Duration

	reports []report
	soaked  []result
}

func main() {
	if text := os.Getenv(asChild); text != "" {
		child(text)
		return
	}
	var g growth
	flag.IntVar(&g.actors, "actors", 1_000_000, "actors in the store")
	flag.IntVar(&g.runs, "runs", 100_000, "parked workflow runs; 0 leaves them out")
	flag.IntVar(&g.rounds, "rounds", 5, "pairs per measurement")
	flag.DurationVar(&g.time, "time", 2*time.Second, "duration of each measurement")
	flag.DurationVar(&g.soak, "soak", 0, "how long to keep each side under full load at the end; 0 leaves it out")
	flag.StringVar(&g.dir, "dir", "", "directory for the stores; default a temporary one")
	keep := flag.Bool("keep", false, "keep the stores, and use those that an earlier run kept in -dir")
	flag.Parse()
	if g.actors < 2 || g.rounds < 1 {
		check(errors.New("there must be 2 actors and 1 round at least"))
	}
	g.hot = min(1000, g.actors/2)
	if g.dir == "" {
		d, err := os.MkdirTemp("", "cairn-growth-")
		check(err)
		g.dir = d
	} else {
		check(os.MkdirAll(g.dir, 0o700))
	}
	g.measure(os.Stdout, *keep)
	if *keep {
		fmt.Println("\nthe stores are in", g.dir)
	} else {
		g.remove()
	}
}

// The stores: the large one, and the small one of as many actors as are hot.
const (
	small      = "-small"
	parkedRuns = "parked"
)

func (g *growth) store(side, which string) string { return filepath.Join(g.dir, side+which) }

// removeStores removes the stores of an earlier run.
func (g *growth) removeStores() {
	for _, side := range []string{cairnSide, rawSide} {
		check(os.RemoveAll(g.store(side, "")))
		check(os.RemoveAll(g.store(side, small)))
	}
	check(os.RemoveAll(filepath.Join(g.dir, parkedRuns)))
	os.Remove(g.keptFile())
}

// remove removes the stores, and the directory if nothing else is in it.
func (g *growth) remove() {
	g.removeStores()
	os.Remove(g.dir)
}

// measure runs all stages.
func (g *growth) measure(w io.Writer, keep bool) {
	fmt.Fprintf(w, "%d actors, each with a state and %d entries; %d pairs of %v\n", g.actors,
		entriesOf, g.rounds, g.time)
	for _, s := range g.stages(g.built(keep)) {
		g.report(w, s)
	}
	if g.runs > 0 {
		g.printParked(w)
	}
	if g.soak > 0 {
		os.Remove(g.keptFile()) // the population changes
		g.printSoak(w)
	}
}

// A kept is what a run leaves beside its stores, for the next one.
type kept struct {
	Actors, Hot int
	Built       map[string]result // by side
}

func (g *growth) keptFile() string { return filepath.Join(g.dir, "built.json") }

// built builds the stores, unless an earlier run kept them.
func (g *growth) built(keep bool) (k kept) {
	if text, err := os.ReadFile(g.keptFile()); keep && err == nil {
		check(json.Unmarshal(text, &k))
		if k.Actors == g.actors && k.Hot == g.hot {
			return k
		}
	}
	g.removeStores()
	build := func(side, which string, n int) result {
		return run(job{What: "build", Side: side, Dir: g.store(side, which), Actors: n, Callers: 64})
	}
	k = kept{Actors: g.actors, Hot: g.hot, Built: make(map[string]result)}
	for _, side := range []string{cairnSide, rawSide} {
		k.Built[side] = build(side, "", g.actors)
		build(side, small, g.hot)
	}
	if keep {
		text, err := json.Marshal(k)
		check(err)
		check(os.WriteFile(g.keptFile(), text, 0o600))
	}
	return k
}
