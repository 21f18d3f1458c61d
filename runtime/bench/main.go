// Command bench measures a node beside raw Pebble writing the same rows, and beside bare servers
// and publishers, in one run.
//
// Each measurement of Cairn runs in a pair with its twin, in turn, several times over; what counts
// is the median of the pairs' ratios, because the speed of a shared machine drifts. The twin of a
// durable action writes exactly what it writes: the root of the actor, which has its head and its
// state. Those of messages and alarms write the rows that stand in the log of a real run; those of
// events send the bytes that a node sends.
package main

import (
	"flag"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"runtime/pprof"
	"slices"
	"strings"
	"text/tabwriter"
	"time"
)

// A row is one line of the table: a measurement and its twin.
type row struct {
	name   string
	target string
	// ours and raw return a rate in operations per second, or a latency; raw may be nil.
	ours, raw func(b *bench) float64
	// more are further twins, each of which gets a line of its own.
	more []twin
	// latency says that smaller is better; the ratio is then ours/raw too.
	latency bool
	// bytes says that ours is a size.
	bytes bool
	// long says that the row is measured only on request: it takes minutes, or gigabytes.
	long bool
}

// A twin is something else to compare with.
type twin struct {
	name    string
	measure func(b *bench) float64
}

// bench is what measurements share.
type bench struct {
	dir  string
	time time.Duration
	// cpu is the processor time of an operation that the last measurement noted, in seconds; 0 if
	// it noted none.
	cpu float64
	// round is the number of the pair that is measured, and kept what once has measured in it.
	round int
	kept  map[string]kept
	// untraced says that nodes record no traces.
	untraced bool
	// every says that the others record all.
	every bool
}

// A kept is a measurement of once, with its processor time.
type kept struct {
	v   any
	cpu float64
}

// once returns what f measures, which is done once in a round: rows that look at one measurement
// from two sides share it.
func once[T any](b *bench, name string, f func() T) T {
	name = fmt.Sprint(name, "/", b.round, b.untraced)
	if k, ok := b.kept[name]; ok {
		b.cpu = k.cpu
		return k.v.(T)
	}
	v := f()
	if b.kept == nil {
		b.kept = make(map[string]kept)
	}
	b.kept[name] = kept{v, b.cpu}
	return v
}

func main() {
	if what := os.Getenv(asHolder); what != "" {
		hold(what)
		return
	}
	rounds := flag.Int("rounds", 5, "pairs per measurement")
	span := flag.Duration("time", time.Second, "duration of each measurement")
	dir := flag.String("dir", "", "directory for the stores; default a temporary one")
	only := flag.String("run", "", "only measurements whose name contains this")
	long := flag.Bool("long", false, "the rows too that take gigabytes of memory")
	procs := flag.Int("procs", runtime.NumCPU()+1,
		"GOMAXPROCS, for Cairn and twins alike; one more than processors is what runtime.Main sets")
	percent := flag.Int("gogc", 400, "GOGC, for Cairn and twins alike; this is what runtime.Main sets")
	profile := flag.String("cpuprofile", "",
		"file for a CPU profile of Cairn's side, without the twins; it slows that side, and the last measurement stays in it")
	untraced := flag.Bool("untraced", false, "compare with Cairn without traces, instead of with the twins")
	every := flag.Bool("every", false, "record every trace, and not only 100 new ones a second")
	flag.Parse()
	runtime.GOMAXPROCS(*procs)
	debug.SetGCPercent(*percent)
	if *dir == "" {
		d, err := os.MkdirTemp("", "cairn-bench-")
		if err != nil {
			fatal(err)
		}
		defer os.RemoveAll(d)
		*dir = d
	}
	b := &bench{dir: *dir, time: *span, every: *every}
	w := tabwriter.NewWriter(os.Stdout, 0, 8, 2, ' ', 0)
	fmt.Printf("one synced commit of the rows of a call, raw Pebble, p50: %s\n\n", latency(b.rawAlone()))
	fmt.Fprintln(w, "measurement\tCairn\tits processor time\ttwin\tits processor time\tratio (median of pairs)\tmin..max\tprocessor ratio (median)\tto reach")
	for _, r := range rows() {
		if !strings.Contains(r.name, *only) || r.long && !*long {
			continue
		}
		twins := r.more
		if r.raw != nil {
			twins = slices.Insert(slices.Clone(twins), 0, twin{r.name, r.raw})
		}
		if *untraced {
			r.target, twins = "", []twin{{r.name, func(b *bench) float64 {
				b.untraced = true
				defer func() { b.untraced = false }()
				return r.ours(b)
			}}}
		}
		var ours []figure
		theirs := make([][]figure, len(twins))
		for b.round = range *rounds {
			ours = append(ours, profiled(*profile, func() figure { return b.figure(r.ours) }))
			for i, t := range twins {
				theirs[i] = append(theirs[i], b.figure(t.measure))
			}
		}
		r.print(w, ours, twins, theirs)
		w.Flush()
	}
}

// profiled measures, and writes a CPU profile of it unless file is empty. The last measurement
// stays in the file.
func profiled(file string, measure func() figure) figure {
	if file == "" {
		return measure()
	}
	f, err := os.Create(file)
	check(err)
	check(pprof.StartCPUProfile(f))
	v := measure()
	pprof.StopCPUProfile()
	check(f.Close())
	return v
}

// print writes the line of a row, and one more for each further twin.
func (r *row) print(w io.Writer, ours []figure, twins []twin, theirs [][]figure) {
	format := rate
	if r.latency {
		format = latency
	}
	if r.bytes {
		format = func(v float64) string { return fmt.Sprintf("%.0f B", v) }
	}
	own, cpu, target := format(median(values(ours))), spentOf(ours), r.target
	if len(twins) == 0 {
		fmt.Fprintf(w, "%s\t%s\t%s\t\t\t\t\t\t%s\n", r.name, own, cpu, target)
	}
	for i, t := range twins {
		ratios := make([]float64, len(ours))
		for k := range ours {
			ratios[k] = ours[k].v / theirs[i][k].v
		}
		fmt.Fprintf(w, "%s\t%s\t%s\t%s\t%s\t%.2f\t%.2f..%.2f\t%s\t%s\n",
			t.name, own, cpu, format(median(values(theirs[i]))), spentOf(theirs[i]),
			median(ratios), slices.Min(ratios), slices.Max(ratios), spentRatio(ours, theirs[i]), target)
		own, cpu, target = "", "", ""
	}
}

func fatal(err error) {
	fmt.Fprintln(os.Stderr, "bench:", err)
	os.Exit(1)
}

func check(err error) {
	if err != nil {
		fatal(err)
	}
}

func median(v []float64) float64 {
	s := slices.Clone(v)
	slices.Sort(s)
	return s[len(s)/2]
}

func rate(v float64) string    { return fmt.Sprintf("%.0f/s", v) }
func latency(v float64) string { return fmt.Sprintf("%.1f us", v*1e6) }
