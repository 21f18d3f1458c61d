// Package trace records what actors do as spans in their keyspaces, and shows it to operators. It is the tracer of the kernel.
package trace

import (
	"cmp"
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/traces"
)

// Options say which traces are recorded, and how much of them an actor keeps. The zero Options are the defaults.
type Options struct {
	// Off records nothing.
	Off bool
	// PerSecond is how many traces may begin at this node in a second; 0 is DefaultPerSecond. Traces that began elsewhere are
	// recorded if they are there.
	PerSecond int64
	// Share is the part of the traces that begin at this node, above 0 and up to 1; 0 is 1.
	Share float64
	// MaxAge and MaxBytes bound what an actor keeps; 0 is traces.DefaultMaxAge and traces.DefaultMaxBytes.
	MaxAge   time.Duration
	MaxBytes int64
	// Exporter gets every span; nil if nothing does. Attributes are added to those of its actor.
	Exporter   traces.Exporter
	Attributes []traces.Attribute
}

// DefaultPerSecond is how many traces begin at a node in a second that are recorded.
const DefaultPerSecond = 100

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
	sampler sampler
	dropped *prometheus.CounterVec
	users   *traces.Provider

	mu    sync.Mutex
	dirty []*journal // that wait for the next flush; the first has armed it
}

var (
	_ kernel.Tracer = (*Recorder)(nil)
	_ kernel.Opener = (*Recorder)(nil)
	_ kernel.Meter  = (*Recorder)(nil)
)

// New makes the parts: one that shows spans, and one that records them, unless that is off.
func New(o Options) []kernel.Part {
	if o.Off {
		return []kernel.Part{new(Part)}
	}
	p := &Recorder{o: o, dropped: prometheus.NewCounterVec(prometheus.CounterOpts{
		Name: "cairn_trace_spans_dropped_total", Help: "Spans that were not stored, by reason.",
	}, []string{"reason"})}
	p.users = traces.NewProvider(func() int64 { return time.Now().UnixNano() })
	p.sampler.ratio, p.sampler.rate = cmp.Or(o.Share, 1), cmp.Or(o.PerSecond, DefaultPerSecond)
	p.sampler.left.Store(p.sampler.rate)
	p.sampler.later = func(d time.Duration, f func()) { p.k.Later(d, f) }
	return []kernel.Part{new(Part), p}
}

// Name implements kernel.Part.
func (*Recorder) Name() string { return "recorder" }

// Open implements kernel.Opener.
func (p *Recorder) Open(k *kernel.Kernel) error {
	p.k = k
	return nil
}

// Close implements kernel.Opener. Actors that are not asleep by now are flushed.
func (p *Recorder) Close(*kernel.Kernel) error {
	p.flushAll()
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
	buffer atomic.Pointer[traces.Buffer] // nil before the first span
	dirty  atomic.Bool                   // it is in the list of the part

	mu    sync.Mutex   // of a flush
	drops traces.Drops // that are counted; guarded by mu
}

// Sink implements kernel.Tracer.
func (p *Recorder) Sink(a *kernel.Actor) span.Sink { return &journal{p: p, a: a} }

// life returns the buffer of the actor's life.
func (j *journal) life() *traces.Buffer {
	for {
		if b := j.buffer.Load(); b != nil {
			return b
		}
		o := &j.p.o
		j.buffer.CompareAndSwap(nil, traces.NewBuffer(traces.Options{
			Incarnation: rand.Uint64() | 1, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Exporter: o.Exporter, Resource: resourceOf(j.a.Address, o.Attributes),
		}))
	}
}

// added sees that what was added is flushed: soon if a chunk is full.
func (j *journal) added(full bool) {
	if full {
		j.p.k.Go(j.flush)
	}
	if j.dirty.Swap(true) {
		return
	}
	p := j.p
	p.mu.Lock()
	p.dirty = append(p.dirty, j)
	first := len(p.dirty) == 1
	p.mu.Unlock()
	if first {
		p.k.Later(flushEvery, p.flushAll)
	}
}

// flushAll flushes what waits for it.
func (p *Recorder) flushAll() {
	p.mu.Lock()
	all := p.dirty
	p.dirty = nil
	p.mu.Unlock()
	for _, j := range all {
		j.dirty.Store(false)
		j.flush()
	}
}

// flush stores what the journal has, if the actor is awake.
func (j *journal) flush() {
	if c := j.a.Waking(); c != nil {
		j.flushTo(c)
	}
}

// flushTo stores what the journal has through a core of its actor. What the core cannot store now waits for the next one.
func (j *journal) flushTo(c *kernel.Core) {
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
	if begun {
		b.Committed(err)
	}
	if err := cmp.Or(fault, err); err != nil && !passing(err) {
		j.p.k.Logger.Warn("spans were not stored", "actor_type", j.a.Address.Type, "actor_key", j.a.Address.Key, "error", err)
	}
	now := b.Drops()
	for reason, n := range now {
		if more := n - j.drops[reason]; more > 0 {
			j.p.dropped.WithLabelValues(traces.Reason(reason).String()).Add(float64(more))
		}
	}
	j.drops = now
	if errors.Is(err, engine.ErrDestroyed) { // a successor is not told what its predecessor did
		b.Close()
		j.buffer.Store(nil)
		j.drops = traces.Drops{}
	}
}

// passing reports whether an error says that the core is over, or that the actor is not there: nothing is wrong.
func passing(err error) bool {
	for _, e := range []error{engine.ErrClosed, engine.ErrFenced, engine.ErrDestroyed, engine.ErrNotAside, engine.ErrReadOnly} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// attend sees that the journal is flushed before its actor leaves memory.
func (j *journal) attend() {
	if c := j.a.Waking(); c != nil {
		attach.Make(&c.Attached, func() *ending { return &ending{j} })
	}
}

// An ending flushes the journal before its actor leaves memory.
type ending struct{ j *journal }

// Forget implements kernel.Facet.
func (*ending) Forget(*kernel.Core, engine.Version) {}

// Close implements kernel.Facet.
func (e *ending) Close(c *kernel.Core) { e.j.flushTo(c) }

// Abandon implements kernel.Facet. The next core stores what the journal has.
func (*ending) Abandon(*kernel.Core) {}
