package trace

import (
	"context"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/signal"
	"github.com/cairn-run/cairn/traces"
)

// The bounds of the spans that readers have not taken: bytes for one reader, and for all of a node.
const (
	maxTail  = 1 << 20
	maxTails = 64 << 20
)

// tails has the readers that follow actors. It is apart from the actors in memory, so an actor
// sleeps while it is followed.
type tails struct {
	count atomic.Int64 // of readers
	bytes atomic.Int64 // that they hold

	mu  sync.RWMutex
	all map[string][]*tail // by the key of the actor's address
}

// A tail receives the spans of an actor for one reader. It holds up to maxTail bytes, and drops and
// counts what exceeds them. It ends with the life of the actor.
type tail struct {
	k       *kernel.Kernel
	of      *tails
	address host.Address
	actor   string
	in      trace.FollowInput    // Life is set
	id      traces.TraceID       // in's trace
	life    *signal.Subscription // is signalled when the actor is destroyed
	ready   chan struct{}        // there is something to take

	mu     sync.Mutex
	spans  []traces.Span
	bytes  int
	missed uint64 // since spans; while it is not 0, nothing is added to spans, so that the gap has one place
}

// Follow implements trace.Follower.
func Follow(ctx context.Context, k *kernel.Kernel, addr host.Address, in trace.FollowInput) (trace.Tail, error) {
	if _, err := k.StoredTypeOf(addr); err != nil {
		return nil, err
	}
	p := kernel.PartOf[*Recorder](k)
	if p == nil {
		return nil, host.Errorf(host.FailedPrecondition, "the configuration of the node turns traces off")
	}
	id, err := traceID(in.TraceID)
	if err != nil {
		return nil, err
	}
	if err := host.CheckLife(in.Life); err != nil {
		return nil, err
	}
	key := string(address.Append(nil, addr))
	t := &tail{
		k: k, of: &p.tails, address: addr, actor: key, in: in, id: id,
		life: k.Signals.Subscribe(key, "trace"), ready: make(chan struct{}, 1),
	}
	if err := t.join(); err != nil {
		t.life.Close()
		return nil, err
	}
	snap, life, err := k.Durable(ctx, addr)
	if err == nil {
		snap.Close()
	}
	if in.Life != "" && (err == nil && life.String() != in.Life || host.CodeOf(err) == host.NotFound) {
		err = fault.DestroyedAt(addr)
	}
	if err != nil {
		t.Close()
		return nil, err
	}
	if t.life.Destroyed() { // perhaps the actor before, which has also left spans here
		t.Close()
		return Follow(ctx, k, addr, in)
	}
	t.in.Life = life.String()
	return t, nil
}

// Life implements trace.Tail.
func (t *tail) Life() string { return t.in.Life }

func (t *tail) join() error {
	s := t.of
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.all[t.actor]) >= trace.MaxFollowers {
		return host.Errorf(host.Overloaded, "the actor has %d followers of its spans",
			trace.MaxFollowers).With("limit", strconv.Itoa(trace.MaxFollowers)).Retry()
	}
	if s.all == nil {
		s.all = make(map[string][]*tail)
	}
	s.all[t.actor] = append(s.all[t.actor], t)
	s.count.Add(1)
	return nil
}

// Close implements trace.Tail.
func (t *tail) Close() {
	t.life.Close()
	s := t.of
	s.mu.Lock()
	if i := slices.Index(s.all[t.actor], t); i >= 0 {
		s.count.Add(-1)
		if s.all[t.actor] = slices.Delete(s.all[t.actor], i, i+1); len(s.all[t.actor]) == 0 {
			delete(s.all, t.actor)
		}
	}
	s.mu.Unlock()
	t.take()
}

// Export implements traces.Exporter.
func (j *journal) Export(r *traces.Resource, s *traces.Span) { j.p.export(j.a.Key, r, s) }

// export gives a span of an actor to all its exporters and readers.
func (p *Recorder) export(actor string, r *traces.Resource, s *traces.Span) {
	if e := p.o.Exporter; e != nil {
		e.Export(r, s)
	}
	if p.tails.count.Load() > 0 {
		p.tails.send(actor, s)
	}
}

// send gives a span to the readers of an actor. They share one copy of it.
func (s *tails) send(actor string, of *traces.Span) {
	s.mu.RLock()
	defer s.mu.RUnlock()
	if len(s.all[actor]) == 0 {
		return
	}
	span, size := of.Clone(), of.Size()
	for _, t := range s.all[actor] {
		t.send(&span, size)
	}
}

func (t *tail) send(s *traces.Span, size int) {
	if t.id != (traces.TraceID{}) && t.id != s.TraceID || t.in.Name != "" && t.in.Name != s.Name ||
		t.in.Errors && s.Status != traces.Error || t.life.Destroyed() {
		return
	}
	t.mu.Lock()
	if t.missed > 0 || t.bytes+size > maxTail || t.of.bytes.Load()+int64(size) > maxTails {
		t.missed++
	} else {
		t.spans = append(t.spans, *s)
		t.bytes += size
		t.of.bytes.Add(int64(size))
	}
	t.mu.Unlock()
	select {
	case t.ready <- struct{}{}:
	default:
	}
}

// take empties the tail.
func (t *tail) take() (spans []traces.Span, missed uint64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	spans, missed = t.spans, t.missed
	t.of.bytes.Add(-int64(t.bytes))
	t.spans, t.bytes, t.missed = nil, 0, 0
	return spans, missed
}

// Next implements trace.Tail.
func (t *tail) Next(ctx context.Context) (trace.News, error) {
	for {
		if spans, missed := t.take(); len(spans) > 0 || missed > 0 {
			return trace.News{Spans: shownAll(spans), Missed: missed}, nil
		}
		if t.life.Destroyed() {
			return trace.News{}, fault.DestroyedAt(t.address)
		}
		select {
		case <-t.ready:
		case <-t.life.C:
		case <-ctx.Done():
			return trace.News{}, fault.Ended(ctx)
		case <-t.k.NoWaits():
			return trace.News{}, fault.Unavailable("the node is shutting down")
		}
	}
}
