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

// maxLate bounds the spans that wait although no core of their actor can store them.
const maxLate = 4_000

// late has such spans of one actor: of calls that were over after it had failed, and of requests that do not wake it.
type late struct {
	p     *Recorder
	at    host.Address
	key   string
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

// keep keeps spans until the next flush.
func (p *Recorder) keep(at host.Address, spans ...traces.Span) {
	key := string(address.Append(nil, at))
	p.mu.Lock()
	if p.waiting+len(spans) > maxLate {
		p.mu.Unlock()
		p.dropped.WithLabelValues(traces.DropFull.String()).Add(float64(len(spans)))
		return
	}
	l := p.late[key]
	if l == nil {
		if p.late == nil {
			p.late = make(map[string]*late)
		}
		l = &late{p: p, at: host.Address{Type: at.Type, Key: slices.Clone(at.Key)}, key: key}
		p.late[key] = l
	}
	l.spans = append(l.spans, spans...)
	p.waiting += len(spans)
	p.arm()
}

// flushLate stores what is late: through the journal of an actor that is awake by now, else beside it. What is of no actor goes.
func (p *Recorder) flushLate() {
	p.mu.Lock()
	all := p.late
	p.late, p.waiting = nil, 0
	p.mu.Unlock()
	var list []*late
	var ids []keyspace.ActorID
	for _, l := range all {
		if a := p.k.Find(l.at); a != nil {
			if j := a.Spans.(*journal); j.attend(nil) {
				j.life().Add(l.spans...)
				continue
			}
		}
		if id, ok, err := p.k.Store.Lookup(p.k.Identity(l.at)); ok && err == nil {
			list, ids = append(list, l), append(ids, id)
		}
	}
	if len(list) == 0 {
		return
	}
	open, err := p.k.Store.AsideOf(ids, func(i int, w *engine.Aside) error {
		l, o := list[i], &p.o
		b := traces.NewBuffer(traces.Options{
			Incarnation: rand.Uint64() | 1, MaxAge: o.MaxAge, MaxBytes: o.MaxBytes, Exporter: l, Resource: resourceOf(l.at, o.Attributes),
		})
		b.Add(l.spans...)
		return b.Flush(w, w, time.Now().UnixNano())
	})
	for _, i := range open { // it is being woken
		p.keep(list[i].at, list[i].spans...)
		list[i] = nil
	}
	if err == nil {
		return
	}
	for _, l := range list {
		if l != nil {
			p.dropped.WithLabelValues(traces.DropWrite.String()).Add(float64(len(l.spans)))
		}
	}
	if !errors.Is(err, engine.ErrReadOnly) && !errors.Is(err, engine.ErrDiskFull) && !errors.Is(err, engine.ErrClosed) { // else it is logged once, by others
		p.k.Logger.Warn("spans of sleeping actors were not stored", "actors", len(list)-len(open), "error", err)
	}
}

// Export implements traces.Exporter.
func (l *late) Export(r *traces.Resource, s *traces.Span) { l.p.export(l.key, r, s) }
