package trace

import (
	"errors"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/traces"
)

const (
	// maxLate bounds the bytes of the spans that wait although no core of their actor can store
	// them, and maxLateOf those of one.
	maxLate   = 4 << 20
	maxLateOf = 64 << 10
	// lateBatch bounds the actors that cannot be woken while such spans are written.
	lateBatch = 256
)

// late has such spans of one actor: of calls that ended after the actor had failed, and of requests
// that do not wake it.
type late struct {
	p     *Recorder
	at    host.Address
	id    keyspace.ActorID
	spans []traces.Span
	size  int

	exported bool
}

// Late implements kernel.Tracer. Callers without access cannot make the store write.
func (p *Recorder) Late(at host.Address, o span.Operation) {
	if code := host.CodeOf(o.Err); code == host.Unauthenticated || code == host.PermissionDenied ||
		!keeps(&o, p.rules.Load().of(p.k.Types[at.Type]).slow) {
		return
	}
	s := spanOf(&o)
	end(&s, &o)
	p.keep(at, s)
}

// keep keeps a span of an actor, if the actor exists, until the next flush.
func (p *Recorder) keep(at host.Address, s traces.Span) {
	id, ok, err := p.k.Store.Lookup(p.k.Identity(at))
	if err != nil {
		p.drop(traces.DropWrite, 1)
	}
	s.Message = strings.Clone(s.Message[:min(len(s.Message), traces.MaxString)])
	if ok && err == nil {
		p.hold(&late{p: p, at: host.Address{Type: at.Type, Key: slices.Clone(at.Key)}, id: id,
			spans: []traces.Span{s}, size: s.Size()})
	}
}

// hold adds late spans to the ones that wait for the next flush.
func (p *Recorder) hold(more *late) {
	p.mu.Lock()
	l := p.late[more.id]
	if p.waiting+more.size > maxLate || l != nil && l.size+more.size > maxLateOf {
		p.mu.Unlock()
		p.drop(traces.DropFull, len(more.spans))
		return
	}
	p.waiting += more.size
	if l != nil {
		l.spans, l.size = append(l.spans, more.spans...), l.size+more.size
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

// held returns the late spans of an actor that are perhaps not stored. Take them before a snapshot:
// see [traces.Buffer.Pending].
func (p *Recorder) held(at host.Address) traces.Pending {
	p.mu.Lock()
	none := len(p.late)+len(p.flying) == 0
	p.mu.Unlock()
	if none {
		return traces.Pending{}
	}
	id, ok, err := p.k.Store.Lookup(p.k.Identity(at))
	if !ok || err != nil {
		return traces.Pending{} // the reader finds the same
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	b := traces.NewBuffer(traces.Options{Incarnation: rand.Uint64() | 1})
	if l := p.late[id]; l != nil {
		b.Add(l.spans...)
	}
	for l := range p.flying {
		if l.id == id {
			b.Add(l.spans...)
		}
	}
	return b.Pending()
}

// flushLate stores the late spans: through the journal of an actor that is awake by now, else
// beside the actor.
func (p *Recorder) flushLate() {
	p.mu.Lock()
	list := slices.Collect(maps.Values(p.late))
	for _, l := range list {
		p.flying[l] = true
	}
	p.late, p.waiting = nil, 0
	p.mu.Unlock()
	asleep := slices.DeleteFunc(slices.Clone(list), (*late).join)
	for some := range slices.Chunk(asleep, lateBatch) {
		p.writeLate(some)
	}
	p.mu.Lock()
	for _, l := range list {
		delete(p.flying, l)
	}
	p.mu.Unlock()
}

// join gives the spans to the journal of the actor; false if it sleeps, or is another one now.
func (l *late) join() bool {
	a := l.p.k.Find(l.at)
	if a == nil {
		return false
	}
	c := a.Waking()
	if c == nil || c.ID != l.id {
		return false
	}
	j := a.Spans.(*journal)
	if j.attend(&c.Attached); c.Attached.Ended.Load() {
		return false
	}
	j.life().Add(l.spans...)
	return true
}

// writeLate stores spans of actors that sleep.
func (p *Recorder) writeLate(list []*late) {
	ids := make([]keyspace.ActorID, len(list))
	for i, l := range list {
		ids[i] = l.id
	}
	drops := make([]traces.Drops, len(list))
	open, err := p.k.Store.AsideOf(ids, func(i int, w *engine.Aside) error {
		l, o := list[i], &p.o
		var exporter traces.Exporter = l
		if l.exported {
			exporter = nil
		}
		b := traces.NewBuffer(traces.Options{
			Incarnation: rand.Uint64() | 1, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Exporter: exporter, Resource: resourceOf(l.at, o.Attributes),
		})
		b.Add(l.spans...)
		err := b.Flush(w, w, time.Now().UnixNano())
		l.exported, drops[i] = true, b.Drops()
		return err
	})
	for _, i := range open { // it is being woken, or an earlier life of it in memory has not ended
		p.hold(list[i])
	}
	if err == nil {
		for _, d := range drops {
			p.count(d, traces.Drops{})
		}
		return
	}
	full := errors.Is(err, engine.ErrReadOnly) || errors.Is(err, engine.ErrDiskFull) || errors.Is(err, engine.ErrClosed)
	for i, l := range list {
		if slices.Contains(open, i) {
			continue
		}
		if !full && len(list) > 1 { // the rows of one are damaged
			p.writeLate([]*late{l})
			continue
		}
		if !l.exported {
			for k := range l.spans {
				l.Export(resourceOf(l.at, p.o.Attributes), &l.spans[k])
			}
		}
		p.drop(traces.DropWrite, len(l.spans))
		if !full { // else it is logged once, by others
			p.k.Logger.Warn("spans of a sleeping actor were not stored", "actor_type", l.at.Type,
				"actor_key", l.at.Key, "error", err)
		}
	}
}

// Export implements traces.Exporter.
func (l *late) Export(r *traces.Resource, s *traces.Span) {
	l.p.export(string(address.Append(nil, l.at)), r, s)
}
