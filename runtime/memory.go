package runtime

import (
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"runtime/debug"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/part/sqlite"
)

// The bounds of Options.Memory.
const (
	// MinMemory is the least memory that a node can be given.
	MinMemory = 128 << 20
	// DefaultMaxMemory is the most memory that a node takes if Options.Memory is 0.
	DefaultMaxMemory = 4 << 30
)

// The most memory that one connection or turn gets, and the least for four memtables.
const (
	defaultConnMemory = sqlite.DefaultConnMemory
	defaultConnCache  = sqlite.DefaultConnCache
	defaultTemporary  = sqlite.DefaultTemporary
	defaultWriteSet   = engine.DefaultMaxWriteSet
	minMemTables      = memTables * 64 << 10
	memTables         = 4
)

// A memoryPart is a part of a node's memory.
type memoryPart struct {
	// name is its name in the log and the metric, field the option that sets it.
	name, field string
	// share is its part of the budget, in 64ths; most bounds that unless it is 0.
	share, most int64
	// size returns the size that was set, and set sets it. An option may be a fraction of its part.
	size func(o *Options) int64
	set  func(o *Options, bytes int64)
}

// memoryParts returns the parts of a node's memory. The rest of the 64ths is for Go: its collector,
// goroutines, handlers and the values they decode.
func memoryParts() []memoryPart {
	return []memoryPart{
		{"cache", "CacheBytes", 6, 0,
			func(o *Options) int64 { return o.CacheBytes }, func(o *Options, n int64) { o.CacheBytes = n }},
		{"memtables", "MemTableBytes", 6, 256 << 20,
			func(o *Options) int64 { return o.MemTableBytes }, func(o *Options, n int64) { o.MemTableBytes = n }},
		{"sql", "SQL.MaxMemory", 12, 0,
			func(o *Options) int64 {
				return plus(o.SQL.MaxMemory,
					o.SQL.MaxMemory/2)
			}, func(o *Options, n int64) { o.SQL.MaxMemory = n / 3 * 2 }},
		{"sql_temporary", "SQL.MaxTemporary", 4, 512 << 20,
			func(o *Options) int64 { return o.SQL.MaxTemporary }, func(o *Options, n int64) { o.SQL.MaxTemporary = n }},
		{"actors", "MaxAwakeBytes", 6, 0,
			func(o *Options) int64 { return o.MaxAwakeBytes }, func(o *Options, n int64) { o.MaxAwakeBytes = n }},
		{"writes", "MaxWriteBytes", 4, 0,
			func(o *Options) int64 { return o.MaxWriteBytes }, func(o *Options, n int64) { o.MaxWriteBytes = n }},
		{"mailboxes", "MaxMailboxBytes", 2, 0,
			func(o *Options) int64 { return o.MaxMailboxBytes }, func(o *Options, n int64) { o.MaxMailboxBytes = n }},
		{"events", "MaxEventBytes", 2, 0,
			func(o *Options) int64 { return o.MaxEventBytes }, func(o *Options, n int64) { o.MaxEventBytes = n }},
		{"clients", "Gateway.MemoryBytes", 2, 0,
			func(o *Options) int64 { return o.Gateway.MemoryBytes }, func(o *Options, n int64) { o.Gateway.MemoryBytes = n }},
	}
}

// memoryBudget returns the node's memory, and the source of that number.
func (o *Options) memoryBudget() (bytes int64, source string) {
	if o.Memory != 0 {
		return o.Memory, "the configuration"
	}
	return defaultMemory(os.DirFS("/"))
}

// defaultMemory is memoryBudget without a configured size. root is the file system of the machine.
func defaultMemory(root fs.FS) (bytes int64, source string) {
	bytes, source = machineMemory(root)
	if source != "the cgroup" {
		bytes = bytes / 4 * 3 // other programs run there, too
	}
	if bytes == 0 || bytes > DefaultMaxMemory {
		return DefaultMaxMemory, "the default"
	}
	return max(bytes, MinMemory), source
}

// divideMemory sets each size that is 0 to its part of the budget.
func (o *Options) divideMemory(budget int64) {
	for _, p := range memoryParts() {
		if p.size(o) != 0 {
			continue
		}
		n := budget / 64 * p.share
		if p.most > 0 {
			n = min(n, p.most)
		}
		p.set(o, n)
	}
	// One connection or one turn may take at most the bound for all.
	few := func(v *int64, most, all int64) {
		if *v == 0 {
			*v = min(most, all)
		}
	}
	few(&o.SQL.ConnMemory, defaultConnMemory, max(o.SQL.MaxMemory/2, 1<<20))
	few(&o.SQL.CacheBytes, defaultConnCache, max(o.SQL.MaxMemory/64, 64<<10))
	few(&o.SQL.Temporary, defaultTemporary, o.SQL.MaxTemporary)
	few(&o.SQL.TurnBytes, defaultWriteSet, o.MaxWriteBytes)
	if o.Limits.WriteSetBytes == 0 {
		o.Limits.WriteSetBytes = int(min(defaultWriteSet, o.MaxWriteBytes))
	}
}

// checkMemory returns an error if the memory that o sets is too small, for a node or for its parts.
func (o *Options) checkMemory() error {
	if o.Memory == 0 {
		return nil
	}
	if o.Memory < MinMemory {
		return fmt.Errorf("runtime: Options.Memory is %d bytes; the least is %d (128 MiB)", o.Memory, MinMemory)
	}
	divided := *o
	divided.divideMemory(o.Memory)
	sum, named, most := int64(0), "", int64(0)
	for _, p := range memoryParts() {
		sum = plus(sum, p.size(&divided))
		if set := p.size(o); set > most {
			most, named = set, p.field
		}
	}
	if least := plus(sum, sum/7); least > o.Memory {
		return fmt.Errorf("runtime: Options.Memory is %d bytes, of which Options.%s and the other parts take %d; with an eighth for Go the least is %d",
			o.Memory, named, sum, least)
	}
	return nil
}

// plus adds two sizes, up to the largest int64.
func plus(a, b int64) int64 {
	if a > math.MaxInt64-b {
		return math.MaxInt64
	}
	return a + b
}

// logMemory logs how the memory is divided.
func (o *Options) logMemory(budget int64, source string) {
	attrs := []any{"budget", slog.AnyValue(sizeText(budget)), "by", source}
	for _, p := range memoryParts() {
		attrs = append(attrs, p.name, sizeText(p.size(o)))
	}
	o.Logger.Info("memory is divided", attrs...)
	if n, _ := machineMemory(os.DirFS("/")); n > 0 && budget > n {
		o.Logger.Warn("the node is given more memory than it may have", "budget", sizeText(budget), "has", sizeText(n))
	}
}

// sizeText formats a number of bytes for people: in GiB if that is exact, else rounded down to MiB,
// KiB or bytes.
func sizeText(n int64) string {
	switch {
	case n >= 1<<30 && n%(1<<30) == 0:
		return fmt.Sprintf("%dGiB", n>>30)
	case n >= 1<<20:
		return fmt.Sprintf("%dMiB", n>>20)
	case n >= 1<<10:
		return fmt.Sprintf("%dKiB", n>>10)
	}
	return fmt.Sprint(n)
}

// memoryMetrics registers the metrics of how the memory is divided.
func (o *Options) memoryMetrics(r prometheus.Registerer, budget int64) error {
	g := prometheus.NewGaugeVec(prometheus.GaugeOpts{
		Name: "cairn_memory_budget_bytes", Help: "Memory that a part of the node may take; all is the whole node.",
	}, []string{"part"})
	g.WithLabelValues("all").Set(float64(budget))
	for _, p := range memoryParts() {
		g.WithLabelValues(p.name).Set(float64(p.size(o)))
	}
	return r.Register(g)
}

// gcPercent is how much the heap grows between two collections, in percent of what is live. A
// node's live heap is small beside its budget, and collections were a fifth of a short workflow
// run's processor time at Go's default of 100. The memory limit still holds: close to it Go
// collects sooner.
const gcPercent = 400

// limitGo sets Go's soft memory limit to the budget without the parts that Go does not manage,
// unless GOMEMLIMIT is set. It sets gcPercent unless GOGC or the program has set that. The function
// that it returns undoes both.
func (o *Options) limitGo() (undo func()) {
	undo = func() {}
	if os.Getenv("GOGC") == "" {
		before := debug.SetGCPercent(gcPercent)
		if undo = func() { debug.SetGCPercent(before) }; before != 100 {
			undo() // the program has set it
		}
	}
	if os.Getenv("GOMEMLIMIT") != "" {
		return undo
	}
	budget, _ := o.memoryBudget()
	divided := *o
	divided.divideMemory(budget)
	limit := budget - budget/8
	for _, p := range memoryParts() {
		switch n := p.size(&divided); {
		case p.name == "sql":
			limit -= n
		case cgo && (p.name == "cache" || p.name == "memtables"):
			limit -= n + n/2 // C's allocator keeps some of what it gets back
		}
	}
	before, percent := debug.SetMemoryLimit(max(limit, budget/4)), undo
	return func() {
		debug.SetMemoryLimit(before)
		percent()
	}
}
