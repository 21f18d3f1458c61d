package event

import (
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A Hub passes the events of durable commits to the subscriptions and live connections of their
// actor. It is apart from the Actors, so an actor sleeps while its clients stay. A subscription
// holds a bounded number of events; a slow one reads missed events from the actor's history. A slow
// connection is cut off.
//
// The gate passes one commit at a time, in order. So a recipient that joins in a turn, before its
// commit, gets every later event, and recognises earlier events by their sequence.
type Hub struct {
	mu        sync.RWMutex
	closed    bool
	Audiences map[string]*audience // by actor
	live      int                  // recipients in all of them that have joined

	// Held is the size of the events that clients hold: see eventBatch. Beyond limit, a client that
	// holds more than minBuffered gets no further events: a subscription, and a connection that
	// reads, go on from the history; a connection that does not is cut off.
	Held  atomic.Int64
	Limit int64
}

// An audience is the recipients of one actor's events.
type audience struct {
	subscriptions map[*Subscription]bool
	recipients    map[string]recipient // by id
	// joining are recipients whose turn is not durable yet. They are pushed to like the others.
	joining map[recipient]bool
}

// A recipient is a live connection. Its id is unique in the audience, except for recipients that
// are joining. An event can be for this id alone, or for all others.
type recipient interface {
	// Identity returns its id, and the incarnation that it follows.
	Identity() (id string, incarnation keyspace.ActorID)
	// Push passes an event of an incarnation that the recipient may get, and reports whether it
	// holds the event. ok is false if it has not read for too long, and has ended for that. full:
	// it may not hold much.
	Push(incarnation keyspace.ActorID, e *PublishedEvent, full bool) (held, ok bool)
	// CutOff is called after a push that was not ok.
	CutOff()
	// Finish ends it, if nothing has yet. It does not block.
	Finish(err *host.Error)
	// Replaced ends it: another one has its id.
	Replaced()
	// Ended returns why it has ended, or nil.
	Ended() *host.Error
}

// audience returns the audience of an actor, making one if there is none.
//
// REQUIRES: h.mu for writing
func (h *Hub) audience(key string) *audience {
	au := h.Audiences[key]
	if au == nil {
		if h.Audiences == nil {
			h.Audiences = make(map[string]*audience)
		}
		au = &audience{
			subscriptions: make(map[*Subscription]bool), recipients: make(map[string]recipient), joining: make(map[recipient]bool),
		}
		h.Audiences[key] = au
	}
	return au
}

// tidy forgets an empty audience.
//
// REQUIRES: h.mu for writing
func (h *Hub) tidy(key string) {
	if au := h.Audiences[key]; au != nil && len(au.subscriptions)+len(au.recipients)+len(au.joining) == 0 {
		delete(h.Audiences, key)
	}
}

// MaxBuffered bounds the events that a subscription holds for its reader, by count and bytes.
const (
	MaxBuffered      = 256
	maxBufferedBytes = 1 << 20
	// MinBuffered is how much each client may hold when the clients of the node hold too much. It
	// is less than the other memory of a client.
	MinBuffered = 4 << 10
	// PlaceBytes is the size of an event in each client that holds it: a place in the buffer, and a
	// host.EmittedEvent when it is delivered.
	PlaceBytes = 160
	// EventOverhead is the size of an event besides its name and data.
	EventOverhead = 128
	// Frames is how many encoded forms an event has at most that goes to many clients, see
	// host.SharedFrames.
	Frames = 2
)

// EventBytes is the size of an event in a buffer.
func EventBytes(e *host.EmittedEvent) int { return EventOverhead + len(e.Name) + len(e.Data) }

// A PublishedEvent is an event that clients may hold.
type PublishedEvent struct {
	host.EmittedEvent
	Batch *eventBatch
}

// A CommitName identifies a commit of an actor, even across sleeps.
type CommitName struct {
	awake  *eventCore
	Number uint64
}

// An eventBatch is the events of one turn, which its clients share. It counts towards hub.held
// once, from push until the last client has released its last event; each event that a client holds
// counts placeBytes besides. A client holds the events in its buffer, and the result of Next until
// the next call: a slow client's events wait for the network there.
type eventBatch struct {
	Hub    *Hub
	Commit CommitName // of the turn; those of one commit are handed out one right after the other
	events []PublishedEvent
	size   int          // of all events
	bytes  int64        // the size of the batch in Held
	refs   atomic.Int64 // clients' holds, and pushing until all are known
}

// pushing keeps a batch counted until all clients have it, even if the first are quick.
const pushing = 1 << 40

// begin counts a batch that is about to be pushed. many: the clients may share encoded forms.
func (h *Hub) begin(events []PublishedEvent, life string, commit CommitName, many bool) *eventBatch {
	b := &eventBatch{Hub: h, Commit: commit, events: events}
	for i := range events {
		e := &events[i]
		e.Batch, e.Life = b, life
		n := EventBytes(&e.EmittedEvent)
		b.size += n
		b.bytes += int64(n)
		if many && e.To == "" {
			e.Shared = new(host.SharedFrames)
			b.bytes += Frames * int64(n)
		}
	}
	b.refs.Store(pushing)
	h.Held.Add(b.bytes)
	return b
}

// pushed records how many holds there are, of how many events.
func (b *eventBatch) pushed(holds, places int) {
	b.Hub.Held.Add(int64(places) * PlaceBytes)
	b.Release(pushing-int64(holds), 0)
}

// Release gives holds back, of so many events.
func (b *eventBatch) Release(holds int64, places int) {
	n := int64(places) * PlaceBytes
	if b.refs.Add(-holds) == 0 {
		n += b.bytes
	}
	b.Hub.Held.Add(-n)
}

// full reports whether clients hold as much as they may.
func (h *Hub) full() bool { return h.Held.Load() > h.Limit }

// Publish hands out the events of one turn of an incarnation, whose name is life. commit is the
// turn's. It does not block. It returns how many bytes of names and data clients get.
func (h *Hub) Publish(key string, id keyspace.ActorID, life string, commit CommitName, events []PublishedEvent) int {
	slow, bytes := h.push(key, id, life, commit, events)
	for _, l := range slow {
		l.CutOff()
	}
	return bytes
}

// push is publish, and also returns the connections that do not read.
func (h *Hub) push(key string, id keyspace.ActorID, life string, commit CommitName,
	events []PublishedEvent) (slow []recipient, bytes int) {
	h.mu.RLock()
	defer h.mu.RUnlock()
	au := h.Audiences[key]
	if au == nil {
		return nil, 0
	}
	b := h.begin(events, life, commit, len(au.subscriptions)+len(au.recipients)+len(au.joining) > 1)
	full, holds, places := h.full(), 0, 0
	for s := range au.subscriptions {
		if s.push(id, b, full) {
			holds++
			places += len(events)
			for i := range events {
				if e := &events[i].EmittedEvent; s.wants(e) {
					bytes += EventBytes(e) - EventOverhead
				}
			}
		}
	}
	one := func(l recipient, e *PublishedEvent) {
		held, ok := l.Push(id, e, full)
		if held {
			holds++
			places++
			bytes += EventBytes(&e.EmittedEvent) - EventOverhead
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
				if name, _ := l.Identity(); name == e.To {
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
			if name, _ := l.Identity(); !excepted(name) {
				one(l, e)
			}
		}
	}
	b.pushed(holds, places)
	return slow, bytes
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

// end ends the subscriptions and connections of an incarnation that was destroyed. It is called
// before anything of its successor is durable, so the subscriptions are all of this incarnation, or
// of none.
func (h *Hub) end(key string, id keyspace.ActorID) {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.Audiences[key]
	if au == nil {
		return
	}
	gone := fault.Destroyed()
	for s := range au.subscriptions {
		s.finish(gone)
	}
	for name, l := range au.recipients {
		if _, of := l.Identity(); of == id {
			l.Finish(gone)
			delete(au.recipients, name)
			h.live--
		}
	}
	for l := range au.joining {
		if _, of := l.Identity(); of == id {
			l.Finish(gone)
			delete(au.joining, l)
		}
	}
	h.tidy(key)
}

// close ends all subscriptions and connections. It waits for no turn: the next start finds the lost
// connections.
func (h *Hub) close() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.closed = true
	down := fault.Unavailable("the node is shutting down")
	for key, au := range h.Audiences {
		for s := range au.subscriptions {
			s.finish(down)
		}
		for _, l := range au.recipients {
			l.Finish(down)
		}
		for l := range au.joining {
			l.Finish(down)
		}
		clear(au.recipients)
		clear(au.joining)
		h.tidy(key)
	}
	h.live = 0
}

// Join adds a recipient whose turn is not durable yet.
func (h *Hub) Join(key string, l recipient) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fault.Unavailable("the node is shutting down")
	}
	h.audience(key).joining[l] = true
	return nil
}

// Promote gives a recipient with a durable turn its place, and ends the previous one. It returns
// false if the recipient ended before.
func (h *Hub) Promote(key string, l recipient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.Audiences[key]
	if au == nil || !au.joining[l] {
		return false
	}
	delete(au.joining, l)
	if l.Ended() != nil {
		h.tidy(key)
		return false
	}
	id, _ := l.Identity()
	if old := au.recipients[id]; old != nil {
		old.Replaced()
	} else {
		h.live++
	}
	au.recipients[id] = l
	return true
}

// Leave removes a recipient and reports whether it was there.
func (h *Hub) Leave(key string, l recipient) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.Audiences[key]
	if au == nil {
		return false
	}
	there := au.joining[l]
	delete(au.joining, l)
	if id, _ := l.Identity(); au.recipients[id] == l {
		there = true
		delete(au.recipients, id)
		h.live--
	}
	h.tidy(key)
	return there
}

// Drop ends all recipients that have an id.
func (h *Hub) Drop(key, id string, reason *host.Error) {
	h.mu.Lock()
	defer h.mu.Unlock()
	au := h.Audiences[key]
	if au == nil {
		return
	}
	if l := au.recipients[id]; l != nil {
		l.Finish(reason)
		delete(au.recipients, id)
		h.live--
	}
	for l := range au.joining {
		if name, _ := l.Identity(); name == id {
			l.Finish(reason)
			delete(au.joining, l)
		}
	}
	h.tidy(key)
}

// Recipient returns the recipient that has joined under an id, or nil.
func (h *Hub) Recipient(key, id string) recipient {
	h.mu.RLock()
	defer h.mu.RUnlock()
	if au := h.Audiences[key]; au != nil {
		return au.recipients[id]
	}
	return nil
}

// Holds reports whether an id has a recipient, or is about to have one.
func (h *Hub) Holds(key, id string) bool {
	h.mu.RLock()
	defer h.mu.RUnlock()
	au := h.Audiences[key]
	if au == nil {
		return false
	}
	if au.recipients[id] != nil {
		return true
	}
	for l := range au.joining {
		if name, _ := l.Identity(); name == id {
			return true
		}
	}
	return false
}

// Count returns how many recipients of an actor have joined.
func (h *Hub) Count(addr host.Address) int {
	var buf [128]byte
	key := address.Append(buf[:0], addr)
	h.mu.RLock()
	defer h.mu.RUnlock()
	if au := h.Audiences[string(key)]; au != nil {
		return len(au.recipients)
	}
	return 0
}

// Total returns the number of recipients that have joined.
func (h *Hub) Total() int {
	h.mu.RLock()
	defer h.mu.RUnlock()
	return h.live
}

// Add adds a subscription.
func (h *Hub) Add(s *Subscription) error {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.closed {
		return fault.Unavailable("the node is shutting down")
	}
	h.audience(s.Key).subscriptions[s] = true
	return nil
}

func (h *Hub) remove(s *Subscription) {
	h.mu.Lock()
	defer h.mu.Unlock()
	if au := h.Audiences[s.Key]; au != nil {
		delete(au.subscriptions, s)
		h.tidy(s.Key)
	}
}
