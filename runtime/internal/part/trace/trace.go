// Package trace records what actors do as spans in their keyspaces, and shows it to operators. It
// is the tracer of the kernel.
package trace

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	"github.com/cairn-run/cairn/traces"
)

// Options say which traces are recorded, and how much of them an actor keeps. The zero Options are
// the defaults.
type Options struct {
	// Off records nothing.
	Off bool
	// PerSecond is how many traces may begin at this node in a second; 0 is DefaultPerSecond.
	// Requests of traces that began elsewhere are recorded if those traces are: up to ten times as
	// many in a second.
	PerSecond int64
	// Share is the part of the traces that begin at this node, above 0 and up to 1; 0 is 1.
	Share float64
	// Slow is how long a turn or query must take to be recorded in any case; 0 is span.Slow.
	Slow time.Duration
	// Types have rules of their own.
	Types map[string]trace.Rule
	// MaxAge and MaxBytes bound what an actor keeps; 0 is traces.DefaultMaxAge and
	// traces.DefaultMaxBytes.
	MaxAge   time.Duration
	MaxBytes int64
	// Exporter gets every span; may be nil. Attributes are added to those of its actor.
	Exporter   traces.Exporter
	Attributes []traces.Attribute
}

// DefaultPerSecond is how many traces that begin at a node in a second are recorded.
const DefaultPerSecond = 100

// foreignRates is how many times as many requests in a second may be recorded because they ask for
// it themselves. Without it anyone could flood the store.
const foreignRates = 10

// flushEvery is how long a span waits in memory for its flush.
const flushEvery = 5 * time.Second

// Part shows spans.
type Part struct{}

// Name implements kernel.Part.
func (*Part) Name() string { return "trace" }

// A Recorder records spans.
type Recorder struct {
	o       Options
	k       *kernel.Kernel
	rules   atomic.Pointer[rules]
	setting sync.Mutex // held while the rules are replaced, so that the audit log has them in their order
	dropped *prometheus.CounterVec
	users   *traces.Provider
	tails   tails

	mu      sync.Mutex
	armed   bool // a flush comes
	dirty   []*journal
	late    map[keyspace.ActorID]*late
	waiting int            // bytes of late
	flying  map[*late]bool // that are being stored
}

var (
	_ survey.Reporter = (*Part)(nil)

	_ kernel.Tracer = (*Recorder)(nil)
	_ kernel.Opener = (*Recorder)(nil)
	_ kernel.Meter  = (*Recorder)(nil)
)

// New makes the parts: one that shows spans, and one that records them, unless that is off.
func New(o Options) []kernel.Part {
	if o.Off {
		return []kernel.Part{new(Part)}
	}
	p := &Recorder{o: o, flying: make(map[*late]bool), dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cairn_trace_spans_dropped_total", Help: "Spans that were not stored, by reason.",
	}, []string{"reason"})}
	for reason := range (traces.Drops{}) { // a rate leaves out the first value of a new series
		p.dropped.WithLabelValues(traces.Reason(reason).String())
	}
	p.users = traces.NewProvider(time.Now)
	return []kernel.Part{new(Part), p}
}

// Name implements kernel.Part.
func (*Recorder) Name() string { return "recorder" }

// Open implements kernel.Opener.
func (p *Recorder) Open(k *kernel.Kernel) error {
	p.k = k
	r, err := p.newRules(trace.Sampling{})
	p.rules.Store(r)
	return err
}

// Close implements kernel.Opener. Actors were flushed when they left memory.
func (p *Recorder) Close(*kernel.Kernel) error {
	p.flushLate()
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, l := range p.late { // of actors that did not end
		p.drop(traces.DropWrite, len(l.spans))
	}
	return nil
}

// Collectors implements kernel.Meter.
func (p *Recorder) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.dropped}
}

// A journal records an actor: it has the spans that are not stored yet.
type journal struct {
	p      *Recorder
	a      *kernel.Actor
	buffer atomic.Pointer[buffer] // nil before the first span
	over   atomic.Bool            // the actor of the buffer is destroyed
	ended  atomic.Int64           // when the last one was destroyed, as a duration since the start of the kernel
	dirty  atomic.Bool            // it is in the list of the part
	rush   atomic.Uint32          // calm, rushing or futile

	mu sync.Mutex // of a flush
}

// The states of the flush of a full chunk. At most one is on its way, for any number of waiting
// spans.
const (
	calm    = iota
	rushing // it is on its way
	futile  // the last one could write nothing: the next one waits for a turn, or for its time
)

// A buffer has the spans of one life.
type buffer struct {
	*traces.Buffer
	drops traces.Drops // that are counted; guarded by the journal's mu
}

// Sink implements kernel.Tracer.
func (p *Recorder) Sink(a *kernel.Actor) span.Sink { return &journal{p: p, a: a} }

// life returns the buffer of the actor's life.
func (j *journal) life() *buffer {
	for {
		if b := j.buffer.Load(); b != nil {
			return b
		}
		o := &j.p.o
		j.buffer.CompareAndSwap(nil, &buffer{Buffer: traces.NewBuffer(traces.Options{
			Incarnation: rand.Uint64() | 1, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Exporter: j, Resource: resourceOf(j.a.Address, o.Attributes), Added: j.added,
		})})
	}
}

// added schedules a flush of added spans: soon if a chunk is full.
func (j *journal) added(full bool) {
	if full && j.rush.CompareAndSwap(calm, rushing) {
		j.p.k.Go(func() {
			if j.flush() {
				j.rush.Store(calm)
			} else {
				j.rush.Store(futile)
			}
		})
	}
	if j.dirty.Swap(true) {
		return
	}
	p := j.p
	p.mu.Lock()
	p.dirty = append(p.dirty, j)
	p.arm()
}

// arm schedules the next flush, if none is, and unlocks.
//
// REQUIRES: p.mu
func (p *Recorder) arm() {
	first := !p.armed
	p.armed = true
	p.mu.Unlock()
	if first {
		p.k.Later(flushEvery, p.flushAll)
	}
}

// flushAll flushes the journals and late spans that wait for it.
func (p *Recorder) flushAll() {
	p.mu.Lock()
	all := p.dirty
	p.dirty, p.armed = nil, false
	p.mu.Unlock()
	p.flushLate()
	for _, j := range all {
		j.dirty.Store(false)
		j.flush()
		j.rush.CompareAndSwap(futile, calm)
	}
}

// flush stores the spans of the journal, and reports whether it could: if the actor is awake and
// has a commit. Additions by users to open spans are looked for again later.
func (j *journal) flush() bool {
	c := j.a.Waking()
	if c == nil || !j.flushTo(c) {
		return false
	}
	if !j.life().Empty() {
		j.added(false)
	}
	return true
}

// flushTo stores the spans of the journal through a core of its actor. It returns false if the core
// is over, or the actor does not exist yet: then the spans wait for the next core.
func (j *journal) flushTo(c *kernel.Core) bool {
	j.mu.Lock()
	defer j.mu.Unlock()
	b := j.life()
	begun := false
	var fault error
	err := c.Aside(func(a *engine.Aside) error {
		begun = true
		fault = b.Flush(a, a, time.Now().UnixNano())
		return nil
	})
	gone := errors.Is(err, engine.ErrDestroyed)
	if gone && !j.over.Swap(true) { // a successor does not get the spans of its predecessor
		j.ended.Store(int64(j.p.k.Now()))
		b.Close()
	}
	if !begun {
		if early(err) {
			b.Committed(err) // others may write until the next core comes, so the stored rows are read again
			return false
		}
		// they are dropped: waiting spans would pile up without end
		fault = b.Flush(unable{err}, unable{err}, time.Now().UnixNano())
	}
	b.Committed(err)
	if c.Attached.Ended.Load() { // as if it were early
		b.Committed(engine.ErrClosed)
	}
	// else it is logged once, by others
	if err := cmp.Or(err, fault); err != nil && !gone && !errors.Is(err, engine.ErrReadOnly) &&
		!errors.Is(err, engine.ErrDiskFull) {
		j.p.k.Logger.Warn("spans were not stored", "actor_type", j.a.Address.Type, "actor_key",
			j.a.Address.Key, "error", err)
	}
	now := b.Drops()
	j.p.count(now, b.drops)
	b.drops = now
	return true
}

// count counts the spans that a buffer has dropped since before.
func (p *Recorder) count(now, before traces.Drops) {
	for reason, n := range now {
		if more := n - before[reason]; more > 0 {
			p.drop(traces.Reason(reason), int(more))
		}
	}
}

// early reports whether an error means that a core is over, or that the actor has no commit yet.
func early(err error) bool {
	return errors.Is(err, engine.ErrClosed) || errors.Is(err, engine.ErrFenced) || errors.Is(err, engine.ErrNotAside)
}

// unable is a store that cannot be used.
type unable struct{ err error }

// AppendValue implements traces.Reader.
func (u unable) AppendValue([]byte, []byte) ([]byte, bool, error) { return nil, false, u.err }

// Scan implements traces.Reader.
func (u unable) Scan(_, _ []byte, _ func(key, value []byte) bool) error { return u.err }

// Put implements traces.Writer.
func (u unable) Put(_, _ []byte) error { return u.err }

// DeleteRange implements traces.Writer.
func (u unable) DeleteRange(_, _ []byte) error { return u.err }

// attend attaches the flush of the journal to the core, before its actor leaves memory; false if
// the actor sleeps, or is about to. at is of the core in which the actor does something; only a
// turn passes it. The first turn of a successor drops the spans of its predecessor.
func (j *journal) attend(at *attach.List) (awake bool) {
	if at == nil {
		c := j.a.Waking()
		if c == nil {
			return false
		}
		at = &c.Attached
	} else if j.over.Load() && !at.Ended.Load() {
		j.mu.Lock()
		if j.over.Swap(false) {
			j.buffer.Store(nil)
		}
		j.mu.Unlock()
	}
	attach.Make(at, func() *ending { return &ending{j} })
	return !at.Ended.Load()
}

// An ending flushes the journal before its actor leaves memory.
type ending struct{ j *journal }

// Forget implements kernel.Facet.
func (*ending) Forget(*kernel.Core, engine.Version) {}

// Close implements kernel.Facet. Spans that users have not ended end with the core; otherwise they
// would be kept for ever.
func (e *ending) Close(c *kernel.Core) {
	if j := e.j; j.flushTo(c) && !j.over.Load() {
		j.mu.Lock()
		if b := j.buffer.Swap(nil); b != nil {
			b.Close()
		}
		j.mu.Unlock()
	}
}

// Abandon implements kernel.Facet. It comes before the core is fenced.
func (e *ending) Abandon(c *kernel.Core) { e.Close(c) }
