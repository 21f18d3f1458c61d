package trace

import (
	"errors"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/traces"
)

const (
	// maxLate bounds the spans that wait although no core of their actor can store them.
	maxLate = 4_000
	// lateBatch bounds the actors that cannot be woken while such spans are written.
	lateBatch = 256
)

// late has such spans of one actor: of calls that were over after it had failed, and of requests that do not wake it.
type late struct {
	p     *Recorder
	at    host.Address
	id    keyspace.ActorID
	spans []traces.Span
}

// Late implements kernel.Tracer.
func (p *Recorder) Late(at host.Address, o span.Operation) {
	if keeps(&o, p.rules.Load().of(p.k.Types[at.Type]).slow) {
		s := spanOf(&o)
		end(&s, &o)
		p.keep(at, s)
	}
}

// keep keeps a span of an actor, if that is there, until the next flush.
func (p *Recorder) keep(at host.Address, s traces.Span) {
	id, ok, err := p.k.Store.Lookup(p.k.Identity(at))
	if err != nil {
		p.drop(traces.DropWrite, 1)
	}
	if ok && err == nil {
		p.hold(&late{p: p, at: host.Address{Type: at.Type, Key: slices.Clone(at.Key)}, id: id, spans: []traces.Span{s}})
	}
}

// hold joins what is late with what waits for the next flush.
func (p *Recorder) hold(more *late) {
	p.mu.Lock()
	if p.waiting+len(more.spans) > maxLate {
		p.mu.Unlock()
		p.drop(traces.DropFull, len(more.spans))
		return
	}
	p.waiting += len(more.spans)
	if l := p.late[more.id]; l != nil {
		l.spans = append(l.spans, more.spans...)
	} else {
		if p.late == nil {
			p.late = make(map[keyspace.ActorID]*late)
		}
		p.late[more.id] = more
	}
	p.arm()
}

// drop counts spans that are dropped.
func (p *Recorder) drop(why traces.Reason, n int) {
	p.dropped.WithLabelValues(why.String()).Add(float64(n))
}

// flushLate stores what is late: through the journal of an actor that is awake by now, else beside it.
func (p *Recorder) flushLate() {
	p.mu.Lock()
	all := p.late
	p.late, p.waiting = nil, 0
	p.mu.Unlock()
	list := make([]*late, 0, len(all))
	for _, l := range all {
		if a := p.k.Find(l.at); a != nil {
			if c := a.Waking(); c != nil && c.ID == l.id {
				j := a.Spans.(*journal)
				j.attend(&c.Attached)
				j.life().Add(l.spans...)
				continue
			}
		}
		list = append(list, l)
	}
	for some := range slices.Chunk(list, lateBatch) {
		p.writeLate(some)
	}
}

// writeLate stores spans of actors that sleep.
func (p *Recorder) writeLate(list []*late) {
	ids := make([]keyspace.ActorID, len(list))
	for i, l := range list {
		ids[i] = l.id
	}
	open, err := p.k.Store.AsideOf(ids, func(i int, w *engine.Aside) error {
		l, o := list[i], &p.o
		b := traces.NewBuffer(traces.Options{
			Incarnation: rand.Uint64() | 1, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Exporter: l, Resource: resourceOf(l.at, o.Attributes),
		})
		b.Add(l.spans...)
		defer func() { p.count(b.Drops(), traces.Drops{}) }()
		return b.Flush(w, w, time.Now().UnixNano())
	})
	for _, i := range open { // it is being woken
		p.hold(list[i])
		list[i] = nil
	}
	if err == nil {
		return
	}
	for _, l := range list {
		if l != nil {
			p.drop(traces.DropWrite, len(l.spans))
		}
	}
	if !errors.Is(err, engine.ErrReadOnly) && !errors.Is(err, engine.ErrDiskFull) && !errors.Is(err, engine.ErrClosed) { // else it is logged once, by others
		p.k.Logger.Warn("spans of sleeping actors were not stored", "actors", len(list)-len(open), "error", err)
	}
}

// Export implements traces.Exporter.
func (l *late) Export(r *traces.Resource, s *traces.Span) {
	l.p.export(string(address.Append(nil, l.at)), r, s)
}
