package supervisor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// A hub hands the events of durable commits to those who follow their actor: subscriptions and live connections. It is apart from
// the activations, so that an actor sleeps while its clients stay. A subscription holds a bounded number of events; one that falls
// behind reads what it missed from the actor's kept history. A connection that falls behind is cut off.
//
// The gate hands over one commit at a time, in order. So whoever joins in a turn, before that turn is committed, gets every
// event after it, and tells those before it by their sequence.
type hub struct {
	mu        sync.RWMutex
	closed    bool
	audiences map[string]*audience // by actor
	live      int                  // recipients in all of them that have joined

	// held is what the events take that clients hold: see eventBatch. Beyond limit, a client that holds more than minBuffered
	// gets no more: a subscription, and a connection that reads, go on from the history; a connection that does not is cut off.
	held  atomic.Int64
	limit int64
}

// An audience is who follows one actor.
type audience struct {
	subscriptions map[*subscription]bool
	recipients    map[string]recipient // by id
	// joining are recipients whose turn is not durable yet. They are pushed to like the others.
	joining map[recipient]bool
}

// A recipient has an id among those who follow its actor, by which an event can be for it alone or for all but it: a live
// connection. Of one id there is one at most, and those that are joining.
type recipient interface {
	// who returns its id, and the incarnation that it follows.
	who() (id string, incarnation keyspace.ActorID)
	// push takes an event of an incarnation that is not kept from the recipient, and reports whether it holds it. ok is false
	// if it has not read for too long, and has ended for that. full says that it may not hold much.
	push(incarnation keyspace.ActorID, e *publishedEvent, full bool) (held, ok bool)
	// cutOff is called after a push that was not ok.
	cutOff()
	// finish ends it, if nothing has yet. It does not block.
	finish(err *host.Error)
	// replaced ends it: another one has its id.
	replaced()
	// ended returns why it has ended, or nil.
	ended() *host.Error
}

// audience returns the audience of an actor, making one if there is none.
//
// REQUIRES: h.mu for writing
func (h *hub) audience(key string) *audience {
	au := h.audiences[key]
	if au == nil {
		if h.audiences == nil {
			h.audiences = make(map[string]*audience)
		}
		au = &audience{
			subscriptions: make(map[*subscription]bool), recipients: make(map[string]recipient), joining: make(map[recipient]bool),
		}
		h.audiences[key] = au
	}
	return au
}

// tidy forgets an audience that nobody is left of.
//
// REQUIRES: h.mu for writing
func (h *hub) tidy(key string) {
	if au := h.audiences[key]; au != nil && len(au.subscriptions)+len(au.recipients)+len(au.joining) == 0 {
		delete(h.audiences, key)
	}
}

// maxBuffered bounds the events that a subscription holds for its reader, by count and bytes.
const (
	maxBuffered      = 256
	maxBufferedBytes = 1 << 20
	// minBuffered is what each client may hold though the clients of the node hold too much. It is less than what a client
	// takes besides.
	minBuffered = 4 << 10
	// placeBytes is what an event takes in each client that holds it: a place in the buffer, and a host.EmittedEvent when it
	// is delivered.
	placeBytes = 160
	// eventOverhead is what an event counts for besides its name and data.
	eventOverhead = 128
	// frames is how many encoded forms an event has at most that goes to many clients, see host.SharedFrames.
	frames = 2
)

// eventBytes is what an event counts for in a buffer.
func eventBytes(e *host.EmittedEvent) int { return eventOverhead + len(e.Name) + len(e.Data) }

// A publishedEvent is an event that clients may hold.
type publishedEvent struct {
	host.EmittedEvent
	batch *eventBatch
}

// A commitName tells the commits of an actor apart, also those of one time that the actor was awake from those of another.
type commitName struct {
	awake  *eventCore
	number uint64
}

// An eventBatch is the events of one turn, which its clients share. It counts towards hub.held once, from push until the
// last client has released its last event; each event that a client holds counts placeBytes besides. A client holds what is
// in its buffer, and what the last Next returned until the next one: a slow client's events wait for the network there.
type eventBatch struct {
	hub    *hub
	commit commitName // of the turn; those of one commit are handed out one right after the other
	events []publishedEvent
	size   int          // of all events
	bytes  int64        // what the batch counts for
	refs   atomic.Int64 // clients' holds, and pushing until all are known
}

// pushing keeps a batch counted until all clients have it, however quick the first are.
const pushing = 1 << 40

// begin counts a batch that is about to be pushed. many says that the clients may share encoded forms.
func (h *hub) begin(events []publishedEvent, life string, commit commitName, many bool) *eventBatch {
	b := &eventBatch{hub: h, commit: commit, events: events}
	for i := range events {
		e := &events[i]
		e.batch, e.Life = b, life
		n := eventBytes(&e.EmittedEvent)
		b.size += n
		b.bytes += int64(n)
		if many && e.To == "" {
			e.Shared = new(host.SharedFrames)
			b.bytes += frames * int64(n)
		}
	}
	b.refs.Store(pushing)
	h.held.Add(b.bytes)
	return b
}

// pushed notes how many holds there are, of how many events.
func (b *eventBatch) pushed(holds, places int) {
	b.hub.held.Add(int64(places) * placeBytes)
	b.release(pushing-int64(holds), 0)
}

// release gives holds back, of so many events.
func (b *eventBatch) release(holds int64, places int) {
	n := int64(places) * placeBytes
	if b.refs.Add(-holds) == 0 {
		n += b.bytes
	}
	b.hub.held.Add(-n)
}

// full reports whether clients hold as much as they may.
func (h *hub) full() bool { return h.held.Load() > h.limit }

// publish hands out the events of one turn of an incarnation, whose name is life. commit is the turn's. It does not
// block.
func (h *hub) publish(key string, id keyspace.ActorID, life string, commit commitName, events []publishedEvent) {
	for _, l := range h.push(key, id, life, commit, events) {
		l.cutOff()
	}
}

// push is publish, and returns the connections that do not read.
func (h *hub) push(key string, id keyspace.ActorID, life string, commit commitName, events []publishedEvent) (slow []recipient) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	au := h.audiences[key]
	if au == nil {
		return nil
	}
	b := h.begin(events, life, commit, len(au.subscriptions)+len(au.recipients)+len(au.joining) > 1)
	full, holds, places := h.full(), 0, 0
	for s := range au.subscriptions {
		if s.push(id, b, full) {
			holds++
			places += len(events)
		}
	}
	one := func(l recipient, e *publishedEvent) {
		held, ok := l.push(id, e, full)
		if held {
			holds++
			places++
		}
		if !ok {
			slow = append(slow, l)
		}
	}
	for i := range events {
		e := &events[i]
		if e.To != "" {
			if l := au.recipients[e.To]; l != nil {
				one(l, e)
			}
			for l := range au.joining {
				if name, _ := l.who(); name == e.To {
					one(l, e)
				}
			}
			continue
		}
		excepted := exceptions(e.Except)
		for name, l := range au.recipients {
			if !excepted(name) {
				one(l, e)
			}
		}
		for l := range au.joining {
			if name, _ := l.who(); !excepted(name) {
				one(l, e)
			}
		}
	}
	b.pushed(holds, places)
	return slow
}

// exceptions returns a test for being among ids that is quick for many of them, too.
func exceptions(ids []string) func(string) bool {
	if len(ids) <= 4 {
		return func(id string) bool { return slices.Contains(ids, id) }
	}
	set := make(map[string]bool, len(ids))
	for _, id := range ids {
		set[id] = true
	}
	return func(id string) bool { return set[id] }
}

// end tells the subscriptions and connections of an incarnation that it was destroyed. It is called before anything of its
// successor is durable, so the subscriptions are all of this incarnation, or of none.
func (h *hub) end(key string, id keyspace.ActorID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[key]
	if au == nil {
		return
	}
	gone := errDestroyed()
	for s := range au.subscriptions {
		s.finish(gone)
	}
	for name, l := range au.recipients {
		if _, of := l.who(); of == id {
			l.finish(gone)
			delete(au.recipients, name)
			h.live--
		}
	}
	for l := range au.joining {
		if _, of := l.who(); of == id {
			l.finish(gone)
			delete(au.joining, l)
		}
	}
	h.tidy(key)
}

// close ends all subscriptions and connections. No turn is waited for: the next start finds out which connections were lost.
func (h *hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	down := unavailable("the node is shutting down")
	for key, au := range h.audiences {
		for s := range au.subscriptions {
			s.finish(down)
		}
		for _, l := range au.recipients {
			l.finish(down)
		}
		for l := range au.joining {
			l.finish(down)
		}
		clear(au.recipients)
		clear(au.joining)
		h.tidy(key)
	}
	h.live = 0
}

// join adds a recipient whose turn is not durable yet.
func (h *hub) join(key string, l recipient) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unavailable("the node is shutting down")
	}
	h.audience(key).joining[l] = true
	return nil
}

// promote gives a recipient whose turn is durable its place, and ends the one that had it. false means that it ended
// before.
func (h *hub) promote(key string, l recipient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[key]
	if au == nil || !au.joining[l] {
		return false
	}
	delete(au.joining, l)
	if l.ended() != nil {
		h.tidy(key)
		return false
	}
	id, _ := l.who()
	if old := au.recipients[id]; old != nil {
		old.replaced()
	} else {
		h.live++
	}
	au.recipients[id] = l
	return true
}

// leave takes a recipient out and reports whether it was there.
func (h *hub) leave(key string, l recipient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[key]
	if au == nil {
		return false
	}
	there := au.joining[l]
	delete(au.joining, l)
	if id, _ := l.who(); au.recipients[id] == l {
		there = true
		delete(au.recipients, id)
		h.live--
	}
	h.tidy(key)
	return there
}

// drop ends whatever recipients have an id.
func (h *hub) drop(key, id string, reason *host.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.audiences[key]
	if au == nil {
		return
	}
	if l := au.recipients[id]; l != nil {
		l.finish(reason)
		delete(au.recipients, id)
		h.live--
	}
	for l := range au.joining {
		if name, _ := l.who(); name == id {
			l.finish(reason)
			delete(au.joining, l)
		}
	}
	h.tidy(key)
}

// recipient returns the one that has joined under an id, or nil.
func (h *hub) recipient(key, id string) recipient {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if au := h.audiences[key]; au != nil {
		return au.recipients[id]
	}
	return nil
}

// holds reports whether there is a recipient of an id, or is about to be.
func (h *hub) holds(key, id string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	au := h.audiences[key]
	if au == nil {
		return false
	}
	if au.recipients[id] != nil {
		return true
	}
	for l := range au.joining {
		if name, _ := l.who(); name == id {
			return true
		}
	}
	return false
}

// count returns how many recipients an actor has, total how many all have.
func (h *hub) count(addr host.Address) int {
	var buf [128]byte
	key := appendAddress(buf[:0], addr)
	h.mu.RLock()
	defer h.mu.RUnlock()
	if au := h.audiences[string(key)]; au != nil {
		return len(au.recipients)
	}
	return 0
}

func (h *hub) total() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.live
}

// add adds a subscription.
func (h *hub) add(s *subscription) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return unavailable("the node is shutting down")
	}
	h.audience(s.key).subscriptions[s] = true
	return nil
}

func (h *hub) remove(s *subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if au := h.audiences[s.key]; au != nil {
		delete(au.subscriptions, s)
		h.tidy(s.key)
	}
}

// A subscription is one subscriber's end of it, as host.EventStream.
//
// position is the sequence of the last event that the reader was given or passed over. Events up to it are never
// delivered; the next one is position+1, from the buffer if it is there, else from the history, else it is missed.
//
// life is the actor's life that position counts in. What is pushed is of that life, because end ends the subscription before a
// successor pushes anything. What is read from the history may be a successor's, and ends the subscription then. Only the
// position that the subscriber came with may be one of another life: the subscription takes the life that there is, once, and
// says so (Delivery.Reset).
type subscription struct {
	s     *Supervisor
	hub   *hub
	addr  host.Address
	key   string
	names []string
	// guarded are the events that have a subscribe hook, which is for connections.
	guarded []string

	mu       sync.Mutex
	buffer   []*eventBatch
	count    int           // events in buffer
	bytes    int           // and their size
	hand     []*eventBatch // what the last Next returned
	page     pageHold
	lagging  bool // events were dropped from the buffer, or may stand in the history
	end      *host.Error
	signal   chan struct{}
	started  bool
	position uint64
	life     keyspace.ActorID // zero until it is known

	// Of the goroutine that reads.
	adopting bool // the history was not read yet: life is what the subscriber says
	reset    bool // the subscriber's position was none of this life, and the subscriber is not told yet
}

// Subscribe implements host.EventSource. The subscriber is anonymous: it gets no events that are sent to one connection, and
// none that have a hook of their own.
func (s *Supervisor) Subscribe(ctx context.Context, addr host.Address, sub host.Subscription) (host.EventStream, error) {
	t, err := s.typeOf(addr)
	if err != nil {
		return nil, err
	}
	if t.Behavior.Connections.Connect != "" {
		return nil, host.Errorf(host.PermissionDenied, "actor type %q is open to connections only, which it may refuse", addr.Type)
	}
	for _, n := range sub.Names {
		i, err := t.event(n)
		if err != nil {
			return nil, err
		}
		if t.Events[i].Subscribe != "" {
			return nil, host.Errorf(host.PermissionDenied, "the event %q is for connections only", n).With("event", n)
		}
	}
	st := &subscription{
		s: s, hub: hubOf(s), addr: addr, key: string(appendAddress(nil, addr)), names: sub.Names, signal: make(chan struct{}, 1),
		lagging: sub.Resume, started: sub.Resume, adopting: sub.Resume, position: sub.After,
	}
	if err := host.CheckLife(sub.Life); err != nil {
		return nil, err
	}
	if sub.Resume && sub.Life != "" {
		if err := st.life.UnmarshalText([]byte(sub.Life)); err != nil {
			return nil, host.Errorf(host.InvalidArgument, "life is %q, which no actor has as its id", sub.Life).With("field", "life")
		}
	}
	for _, e := range t.Events {
		if e.Subscribe != "" {
			st.guarded = append(st.guarded, e.Name)
		}
	}
	if err := st.hub.add(st); err != nil {
		return nil, err
	}
	return st, nil
}

// push takes a batch of an incarnation's events, and reports whether the subscription holds it. full says that it may not hold
// much.
func (s *subscription) push(id keyspace.ActorID, b *eventBatch, full bool) (held bool) {
	s.mu.Lock()
	if s.end != nil {
		s.mu.Unlock()
		return false
	}
	if !s.started {
		s.started, s.position = true, b.events[0].Sequence-1
	}
	if s.life.IsZero() {
		s.life = id
	}
	count, bytes := s.count+len(b.events), s.bytes+b.size
	switch {
	case s.lagging && s.count == 0: // the history has it
	case count > maxBuffered, bytes > maxBufferedBytes && count > 1, full && bytes > minBuffered:
		// The reader is slow: it goes on from the history.
		s.drop()
		s.lagging = true
	default:
		s.buffer = append(s.buffer, b)
		s.count, s.bytes, held = count, bytes, true
	}
	s.mu.Unlock()
	s.wake()
	return held
}

// drop empties the buffer.
//
// REQUIRES: s.mu
func (s *subscription) drop() {
	s.buffer = releaseBatches(s.buffer)
	s.count, s.bytes = 0, 0
}

// releaseBatches releases batches, and returns what is left of the memory of the slice.
func releaseBatches(held []*eventBatch) []*eventBatch {
	for _, b := range held {
		b.release(1, len(b.events))
	}
	return empty(held)
}

// empty returns a slice without elements, which keeps its memory if that is not much.
func empty[T any](s []T) []T {
	if cap(s) > maxBuffered {
		return nil
	}
	clear(s)
	return s[:0]
}

// A pageHold counts the events that were read from the history towards hub.held, from one Next to the next.
type pageHold struct {
	bytes  int64
	closed bool // no page is counted any more
}

// take counts a page.
func (p *pageHold) take(h *hub, events []host.EmittedEvent) {
	if p.closed {
		return
	}
	for i := range events {
		p.bytes += int64(eventBytes(&events[i])) + placeBytes
	}
	h.held.Add(p.bytes)
}

// letGo counts a page off.
func (p *pageHold) letGo(h *hub) {
	if p.bytes > 0 {
		h.held.Add(-p.bytes)
		p.bytes = 0
	}
}

func (s *subscription) wake() {
	select {
	case s.signal <- struct{}{}:
	default:
	}
}

func (s *subscription) finish(err *host.Error) {
	s.mu.Lock()
	if s.end == nil {
		s.end = err
	}
	s.mu.Unlock()
	s.wake()
}

// Close implements host.EventStream.
func (s *subscription) Close() {
	s.hub.remove(s)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.drop()
	s.hand = releaseBatches(s.hand)
	s.page.letGo(s.hub)
	s.page.closed = true
}

// Next implements host.EventStream.
func (s *subscription) Next(ctx context.Context) (host.Delivery, error) {
	for {
		s.mu.Lock()
		s.hand = releaseBatches(s.hand)
		s.page.letGo(s.hub)
		lagging, end := s.lagging, s.end
		var d host.Delivery
		took := false
		if lagging {
			s.lagging = false // what is pushed from here on is buffered, and overlaps with the history at most
		} else if took = s.count > 0; took {
			for _, b := range s.buffer {
				for i := range b.events {
					s.take(&d, &b.events[i].EmittedEvent)
				}
			}
			s.buffer, s.hand = s.hand, s.buffer
			s.count, s.bytes = 0, 0
		}
		s.mu.Unlock()
		if lagging {
			d, more, err := s.catchUp(ctx)
			s.mu.Lock()
			if err != nil || more {
				s.lagging = true
			}
			s.page.take(s.hub, d.Events)
			s.mu.Unlock()
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
		case <-s.signal:
		case <-ctx.Done():
			return host.Delivery{}, contextError(ctx)
		}
	}
}

// dropEnded reports whether the subscription has ended, and drops what it holds then.
func (s *subscription) dropEnded() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.end != nil {
		s.drop()
	}
	return s.end != nil
}

// take advances the position over an event, and adds it to d if the subscription asks for it.
func (s *subscription) take(d *host.Delivery, e *host.EmittedEvent) {
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

func (s *subscription) wants(e *host.EmittedEvent) bool {
	return e.To == "" && !slices.Contains(s.guarded, e.Name) && (len(s.names) == 0 || slices.Contains(s.names, e.Name))
}

// catchUp reads the kept history after the position. more reports that it did not reach the end.
func (s *subscription) catchUp(ctx context.Context) (d host.Delivery, more bool, err error) {
	s.mu.Lock()
	life := s.life
	s.mu.Unlock()
	page, err := s.s.history(ctx, s.addr, life, s.position)
	if err != nil {
		return d, false, err
	}
	if s.adopting && s.dropEnded() {
		return d, false, nil // what was read may be a successor's
	}
	if page.id != life && !life.IsZero() && (page.id.IsZero() || !s.adopting) {
		s.finish(errDestroyed()) // what was kept of its events is gone, too
		return d, false, nil
	}
	if page.id.IsZero() {
		// There is no actor. The events of the next one count from 1.
		s.reset = s.reset || s.position > 0
		s.position = 0
		return d, false, nil
	}
	s.adopting = false
	s.mu.Lock()
	s.life = page.id
	s.mu.Unlock()
	s.reset = s.reset || page.reset
	s.position = page.after
	for i := range page.events {
		s.take(&d, &page.events[i])
	}
	d.Reset, s.reset = d.Reset || s.reset, false
	return d, page.more, nil
}
