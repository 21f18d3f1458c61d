package event

import (
	"context"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A Subscription is one subscriber's end of it, as host.EventStream.
//
// position is the sequence of the last event that the reader got, or that was skipped for it.
// Events up to it are never delivered; the next one is position+1, from the buffer if it is there,
// else from the history, else it is missed.
//
// life is the actor's life that position counts in. Pushed events are of that life, because end
// ends the subscription before a successor pushes any. Events from the history may be a
// successor's, which ends the subscription. Only the first position may be of another life: the
// subscription then takes the current life, once, and sets Delivery.Reset.
type Subscription struct {
	S     *kernel.Kernel
	Hub   *Hub
	addr  host.Address
	Key   string
	names []string
	// guarded are the events that have a subscribe hook, which is for connections.
	guarded []string

	Mu       sync.Mutex
	buffer   []*eventBatch
	Count    int           // events in buffer
	bytes    int           // and their size
	hand     []*eventBatch // the result of the last Next
	page     PageHold
	lagging  bool // events were dropped from the buffer, or may stand in the history
	end      *host.Error
	Signal   chan struct{}
	started  bool
	position uint64
	life     keyspace.ActorID // zero until it is known

	// begin is where the subscription begins, if it is known. Subscribe sets it.
	begin      host.Position
	beginKnown bool

	// Of the goroutine that reads.
	adopting bool // the history was not read yet: life is as the subscriber has it
	reset    bool // the subscriber's position was of another life, and the subscriber was not notified yet
}

// Subscribe implements host.EventSource. The subscriber is anonymous: it gets no events that are
// sent to one connection, and none that have a hook of their own.
func Subscribe(s *kernel.Kernel, ctx context.Context, addr host.Address,
	sub host.Subscription) (host.EventStream, error) {
	t, err := s.TypeOf(addr)
	if err != nil {
		return nil, err
	}
	if t.Behavior.Connections.Connect != "" {
		return nil, host.Errorf(host.PermissionDenied, "actor type %q accepts connections only", addr.Type)
	}
	for _, n := range sub.Names {
		i, err := Event(t, n)
		if err != nil {
			return nil, err
		}
		if t.Events[i].Subscribe != "" {
			return nil, host.Errorf(host.PermissionDenied, "the event %q is for connections only", n).With("event", n)
		}
	}
	st := &Subscription{
		S: s, Hub: HubOf(s), addr: addr, Key: string(address.Append(nil,
			addr)), names: sub.Names, Signal: make(chan struct{}, 1),
		lagging: sub.Resume, started: sub.Resume, adopting: sub.Resume, position: sub.After,
	}
	if err := host.CheckLife(sub.Life); err != nil {
		return nil, err
	}
	if sub.Resume && sub.Life != "" {
		if err := st.life.UnmarshalText([]byte(sub.Life)); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "life is %q, which is no actor id",
				sub.Life).With("field", "life")
		}
	}
	for _, e := range t.Events {
		if e.Subscribe != "" {
			st.guarded = append(st.guarded, e.Name)
		}
	}
	if err := st.Hub.Add(st); err != nil {
		return nil, err
	}
	if !sub.Resume {
		st.locate(ctx)
	}
	return st, nil
}

// locate sets the begin of the subscription to after the actor's last event. If no actor can be
// read, it begins with the first event that is pushed. Events later than the one read here are
// pushed, because the hub has the subscription already.
func (s *Subscription) locate(ctx context.Context) {
	snap, id, err := s.S.Durable(ctx, s.addr)
	if err != nil {
		return
	}
	defer snap.Close()
	last, err := lastEvent(snap)
	if err != nil {
		return
	}
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if !s.started {
		s.started, s.position, s.life = true, last, id
	}
	s.begin, s.beginKnown = host.Position{Sequence: s.position, Life: s.life.String()}, true
}

// Position is the place before the subscription's first event, if it does not resume and the actor
// was there. From it a client that gets no event can resume.
func (s *Subscription) Position() (host.Position, bool) { return s.begin, s.beginKnown }

// push takes a batch of an incarnation's events, and reports whether the subscription holds it.
// full: it may not hold much.
func (s *Subscription) push(id keyspace.ActorID, b *eventBatch, full bool) (held bool) {
	s.Mu.Lock()
	if s.end != nil {
		s.Mu.Unlock()
		return false
	}
	if !s.started {
		s.started, s.position = true, b.events[0].Sequence-1
	}
	if s.life.IsZero() {
		s.life = id
	}
	count, bytes := s.Count+len(b.events), s.bytes+b.size
	switch {
	case s.lagging && s.Count == 0: // the history has it
	case count > MaxBuffered, bytes > maxBufferedBytes && count > 1, full && bytes > MinBuffered:
		// The reader is slow: it goes on from the history.
		s.drop()
		s.lagging = true
	default:
		s.buffer = append(s.buffer, b)
		s.Count, s.bytes, held = count, bytes, true
	}
	s.Mu.Unlock()
	s.wake()
	return held
}

// drop empties the buffer.
//
// REQUIRES: s.mu
func (s *Subscription) drop() {
	s.buffer = releaseBatches(s.buffer)
	s.Count, s.bytes = 0, 0
}

// releaseBatches releases batches, and returns the slice emptied, to keep its memory.
func releaseBatches(held []*eventBatch) []*eventBatch {
	for _, b := range held {
		b.Release(1, len(b.events))
	}
	return Empty(held)
}

// Empty returns a slice without elements, which keeps its memory if that is not much.
func Empty[T any](s []T) []T {
	if cap(s) > MaxBuffered {
		return nil
	}
	clear(s)
	return s[:0]
}

// A PageHold counts the events that were read from the history towards hub.held, from one Next to
// the next.
type PageHold struct {
	bytes  int64
	Closed bool // pages are no longer counted
}

// Take counts a page.
func (p *PageHold) Take(h *Hub, events []host.EmittedEvent) {
	if p.Closed {
		return
	}
	for i := range events {
		p.bytes += int64(EventBytes(&events[i])) + PlaceBytes
	}
	h.Held.Add(p.bytes)
}

// LetGo counts a page off.
func (p *PageHold) LetGo(h *Hub) {
	if p.bytes > 0 {
		h.Held.Add(-p.bytes)
		p.bytes = 0
	}
}

func (s *Subscription) wake() {
	select {
	case s.Signal <- struct{}{}:
	default:
	}
}

func (s *Subscription) finish(err *host.Error) {
	s.Mu.Lock()
	if s.end == nil {
		s.end = err
	}
	s.Mu.Unlock()
	s.wake()
}

// Close implements host.EventStream.
func (s *Subscription) Close() {
	s.Hub.remove(s)
	s.Mu.Lock()
	defer s.Mu.Unlock()
	s.drop()
	s.hand = releaseBatches(s.hand)
	s.page.LetGo(s.Hub)
	s.page.Closed = true
}

// Next implements host.EventStream.
func (s *Subscription) Next(ctx context.Context) (host.Delivery, error) {
	for {
		s.Mu.Lock()
		s.hand = releaseBatches(s.hand)
		s.page.LetGo(s.Hub)
		lagging, end := s.lagging, s.end
		var d host.Delivery
		took := false
		if lagging {
			s.lagging = false // events pushed from here on are buffered; they may overlap with the history
		} else if took = s.Count > 0; took {
			for _, b := range s.buffer {
				for i := range b.events {
					s.take(&d, &b.events[i].EmittedEvent)
				}
			}
			s.buffer, s.hand = s.hand, s.buffer
			s.Count, s.bytes = 0, 0
		}
		s.Mu.Unlock()
		if lagging {
			d, more, err := s.catchUp(ctx)
			s.Mu.Lock()
			if err != nil || more {
				s.lagging = true
			}
			s.page.Take(s.Hub, d.Events)
			s.Mu.Unlock()
			if err != nil {
				return host.Delivery{}, err
			}
			if d.Missed > 0 || d.Reset || len(d.Events) > 0 {
				return d, nil
			}
			continue
		}
		if len(d.Events) > 0 || d.Missed > 0 || d.Reset {
			return d, nil
		}
		if took {
			continue
		}
		if end != nil {
			return host.Delivery{}, end
		}
		select {
		case <-s.Signal:
		case <-ctx.Done():
			return host.Delivery{}, fault.Ended(ctx)
		}
	}
}

// dropEnded reports whether the subscription has ended, and then drops its events.
func (s *Subscription) dropEnded() bool {
	s.Mu.Lock()
	defer s.Mu.Unlock()
	if s.end != nil {
		s.drop()
	}
	return s.end != nil
}

// take advances the position over an event, and adds it to d if the subscription asks for it.
func (s *Subscription) take(d *host.Delivery, e *host.EmittedEvent) {
	d.Reset, s.reset = d.Reset || s.reset, false
	if e.Sequence <= s.position {
		return
	}
	d.Missed += e.Sequence - s.position - 1
	s.position = e.Sequence
	if s.wants(e) {
		d.Events = append(d.Events, *e)
	}
}

func (s *Subscription) wants(e *host.EmittedEvent) bool {
	return e.To == "" && !slices.Contains(s.guarded, e.Name) && (len(s.names) == 0 || slices.Contains(s.names, e.Name))
}

// catchUp reads the kept history after the position. more reports whether it stopped before the
// end.
func (s *Subscription) catchUp(ctx context.Context) (d host.Delivery, more bool, err error) {
	s.Mu.Lock()
	life := s.life
	s.Mu.Unlock()
	page, err := History(s.S, ctx, s.addr, life, s.position)
	if err != nil {
		return d, false, err
	}
	if s.adopting && s.dropEnded() {
		return d, false, nil // the events may be a successor's
	}
	if page.ID != life && !life.IsZero() && (page.ID.IsZero() || !s.adopting) {
		s.finish(fault.Destroyed()) // its kept events are gone, too
		return d, false, nil
	}
	if page.ID.IsZero() {
		// There is no actor. The events of the next one count from 1.
		s.reset = s.reset || s.position > 0
		s.position = 0
		return d, false, nil
	}
	s.adopting = false
	s.Mu.Lock()
	s.life = page.ID
	s.Mu.Unlock()
	s.reset = s.reset || page.reset
	s.position = page.after
	for i := range page.Events {
		s.take(&d, &page.Events[i])
	}
	d.Reset, s.reset = d.Reset || s.reset, false
	return d, page.More, nil
}
