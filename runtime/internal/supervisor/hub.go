package supervisor

import (
	"context"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A hub hands the events of durable commits to the streams that subscribed to their actor. A stream holds a bounded
// number of events; one that falls behind reads what it missed from the actor's kept history.
type hub struct {
	mu      sync.RWMutex
	closed  bool
	streams map[string]map[*stream]bool
}

// maxBuffered bounds the events that a stream holds for its reader, by count and bytes.
const (
	maxBuffered      = 256
	maxBufferedBytes = 1 << 20
)

func (h *hub) publish(key string, events []host.EmittedEvent) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.streams[key] {
		s.push(events)
	}
}

// end tells the streams of an actor that it was destroyed.
func (h *hub) end(key string) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	for s := range h.streams[key] {
		s.finish(host.Errorf(host.Destroyed, "the actor was destroyed"))
	}
}

func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	for _, streams := range h.streams {
		for s := range streams {
			s.finish(unavailable("the node is shutting down"))
		}
	}
}

func (h *hub) add(s *stream) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unavailable("the node is shutting down")
	}
	if h.streams == nil {
		h.streams = make(map[string]map[*stream]bool)
	}
	if h.streams[s.key] == nil {
		h.streams[s.key] = make(map[*stream]bool)
	}
	h.streams[s.key][s] = true
	return nil
}

func (h *hub) remove(s *stream) {
	h.mu.Lock()
	defer h.mu.Unlock()
	delete(h.streams[s.key], s)
	if len(h.streams[s.key]) == 0 {
		delete(h.streams, s.key)
	}
}

// A stream is one subscription, as host.EventStream.
//
// position is the sequence of the last event that the reader was given or passed over. Events up to it are never
// delivered; the next one is position+1, from the buffer if it is there, else from the history, else it is missed.
type stream struct {
	s     *Supervisor
	addr  host.Address
	key   string
	names []string

	mu       sync.Mutex
	buffer   []host.EmittedEvent
	bytes    int
	lagging  bool // events were dropped from the buffer, or may stand in the history
	end      *host.Error
	signal   chan struct{}
	started  bool
	position uint64
}

// Subscribe implements host.EventSource.
func (s *Supervisor) Subscribe(ctx context.Context, addr host.Address, sub host.Subscription) (host.EventStream, error) {
	t, err := s.typeOf(addr)
	if err != nil {
		return nil, err
	}
	for _, n := range sub.Names {
		if !slices.ContainsFunc(t.Events, func(e host.Event) bool { return e.Name == n }) {
			return nil, host.Errorf(host.InvalidArgument, "actor type %q has no event %q", addr.Type, n).With("event", n)
		}
	}
	st := &stream{
		s: s, addr: addr, key: string(appendAddress(nil, addr)), names: sub.Names, signal: make(chan struct{}, 1),
		lagging: sub.Resume, started: sub.Resume, position: sub.After,
	}
	if err := s.hub.add(st); err != nil {
		return nil, err
	}
	return st, nil
}

// push takes events in the order of their sequence.
func (s *stream) push(events []host.EmittedEvent) {
	s.mu.Lock()
	if !s.started {
		s.started, s.position = true, events[0].Sequence-1
	}
	for _, e := range events {
		if len(s.buffer) >= maxBuffered || s.bytes+len(e.Data) > maxBufferedBytes && len(s.buffer) > 0 {
			// The reader is slow: it goes on from the history.
			clear(s.buffer)
			s.buffer, s.bytes, s.lagging = s.buffer[:0], 0, true
			break
		}
		if s.lagging && len(s.buffer) == 0 {
			continue // the history has it
		}
		s.buffer = append(s.buffer, e)
		s.bytes += len(e.Data)
	}
	s.mu.Unlock()
	s.wake()
}

func (s *stream) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *stream) finish(err *host.Error) {
	s.mu.Lock()
	if s.end == nil {
		s.end = err
	}
	s.mu.Unlock()
	s.wake()
}

// Close implements host.EventStream.
func (s *stream) Close() { s.s.hub.remove(s) }

// Next implements host.EventStream.
func (s *stream) Next(ctx context.Context) (host.Delivery, error) {
	for {
		s.mu.Lock()
		lagging, end := s.lagging, s.end
		var events []host.EmittedEvent
		if !lagging {
			events = slices.Clone(s.buffer)
			clear(s.buffer)
			s.buffer, s.bytes = s.buffer[:0], 0
		} else {
			s.lagging = false // what is pushed from here on is buffered, and overlaps with the history at most
		}
		s.mu.Unlock()
		if lagging {
			d, more, err := s.catchUp(ctx)
			if err != nil || more {
				s.mu.Lock()
				s.lagging = true
				s.mu.Unlock()
			}
			if err != nil {
				return host.Delivery{}, err
			}
			if d.Missed > 0 || len(d.Events) > 0 {
				return d, nil
			}
			continue
		}
		if d := s.take(events); len(d.Events) > 0 || d.Missed > 0 {
			return d, nil
		}
		if len(events) > 0 {
			continue
		}
		if end != nil {
			return host.Delivery{}, end
		}
		select {
		case <-s.signal:
		case <-ctx.Done():
			return host.Delivery{}, contextError(ctx)
		}
	}
}

// take advances the position over events and returns those that the subscription asks for.
func (s *stream) take(events []host.EmittedEvent) host.Delivery {
	var d host.Delivery
	for _, e := range events {
		if e.Sequence <= s.position {
			continue
		}
		if e.Sequence > s.position+1 {
			d.Missed += e.Sequence - s.position - 1
		}
		s.position = e.Sequence
		if len(s.names) == 0 || slices.Contains(s.names, e.Name) {
			d.Events = append(d.Events, e)
		}
	}
	return d
}

// catchUp reads the kept history after the position. more reports that it did not reach the end.
func (s *stream) catchUp(ctx context.Context) (d host.Delivery, more bool, err error) {
	read := func(l lister) error {
		last, err := lastEvent(l)
		if err != nil {
			return err
		}
		if s.position > last {
			s.position = 0 // the position is another incarnation's
		}
		_, end := keyspace.KindRange(keyspace.KindEventHistory)
		page, err := l.List(engine.ListQuery{Start: keyspace.AppendEvent(nil, s.position+1), End: end, Limit: maxBuffered, MaxBytes: maxBufferedBytes})
		if err != nil {
			return err
		}
		events := make([]host.EmittedEvent, 0, len(page.Entries))
		for _, e := range page.Entries {
			ev, err := decodeEvent(e)
			if err != nil {
				return err
			}
			events = append(events, ev)
		}
		d, more = s.take(events), page.Next != nil
		return nil
	}
	if a := s.s.find(s.addr); a != nil {
		if v := a.acquireView(); v != nil {
			defer a.releaseView(v)
			// What the view shows may not be durable yet; like a query, the reader waits at the gate.
			if err := a.pass(ctx, v.commit); err != nil {
				return d, false, err
			}
			snap, err := a.snapshotOf(v)
			if err != nil {
				return d, false, err
			}
			err = read(snap)
			return d, more, s.publicErr(err)
		}
	}
	id, ok, err := s.s.store.Lookup(s.s.identity(s.addr))
	if err != nil {
		return d, false, s.publicErr(err)
	}
	if !ok {
		s.position = 0 // the events of a new incarnation count from 1
		return d, false, nil
	}
	snap := s.s.store.Snapshot(id)
	defer snap.Close()
	// What the snapshot shows beyond the disk was committed by an activation that cannot have left since.
	if a := s.s.find(s.addr); a != nil {
		if err := a.pass(ctx, a.applied.Load()); err != nil {
			return d, false, err
		}
	}
	err = read(snap)
	return d, more, s.publicErr(err)
}

func (s *stream) publicErr(err error) error {
	if err == nil {
		return nil
	}
	return s.s.storeError(err)
}

func decodeEvent(e engine.Entry) (host.EmittedEvent, error) {
	seq, err := keyspace.ParseEvent(e.Key)
	if err != nil {
		return host.EmittedEvent{}, err
	}
	var r eventRecord
	if err := record.Decode(e.Value, &r); err != nil {
		return host.EmittedEvent{}, err
	}
	return host.EmittedEvent{Sequence: seq, Version: r.Version, Name: r.Name, Time: timeMS(r.Time).UTC(), Data: r.Data}, nil
}

// lastEvent returns the sequence of the actor's last event; 0 if it has emitted none.
func lastEvent(l lister) (uint64, error) {
	start, end := keyspace.KindRange(keyspace.KindEventHistory)
	page, err := l.List(engine.ListQuery{Start: start, End: end, Reverse: true, Limit: 1, KeysOnly: true})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return keyspace.ParseEvent(page.Entries[0].Key)
}
