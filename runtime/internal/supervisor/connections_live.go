package supervisor

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// A liveConnection is a client's end of a connection, as host.LiveConnection. It stands in the hub, apart from the actor,
// which may sleep: what is durable of it is its record, in the actor.
//
// Invariants:
//  1. It joins the hub in the turn that writes its record, and leaves it once: when it is closed, cut off, taken over,
//     or when the actor or the node ends. Whoever takes it out of the hub sees to it that the record follows.
//  2. position is the sequence of the last event that the client was given or passed over. What is pushed up to it is
//     dropped. While lagging, the next events are read from the actor's history, and nothing is buffered.
//  3. end is set once, after which nothing is buffered; what was is still delivered, unless the client's side closes it.
type liveConnection struct {
	s     *Supervisor
	hub   *hub
	t     *actorType
	addr  host.Address
	key   string
	limit int // bytes in buffer

	// Set in the turn of the connection, before it joins.
	id          string
	incarnation keyspace.ActorID
	token       [tokenHash]byte
	welcome     host.Welcome

	// settled gets what became of that turn; fate says whether that or the caller of Connect came first.
	settled chan error
	fate    atomic.Int32

	mu            sync.Mutex
	subscriptions map[string]uint64 // event name -> the sequence of the last event before it was subscribed to
	buffer        []*publishedEvent
	bytes         int
	hand          []*publishedEvent // what the last Next returned
	page          pageHold
	position      uint64
	lagging       bool
	reading       bool // the client waits for events: the last Next has returned none
	reset         bool // the client came with a position of another life, and is not told yet
	end           *host.Error
	quits         bool          // the client ended it: what it lags behind with is still read
	signal        chan struct{} // capacity 1
}

// The fates of a connect request.
const (
	fateJoined  = 1 // the caller has, or will get, the connection
	fateGivenUp = 2 // the caller has gone
)

// who implements recipient.
func (l *liveConnection) who() (string, keyspace.ActorID) { return l.id, l.incarnation }

// leave takes the connection out of the hub, and reports whether it was there.
func (l *liveConnection) leave() bool { return l.hub.leave(l.key, l) }

// push implements recipient. If full, a client that waits for events, or had read what came before this commit, reads on
// from the history.
func (l *liveConnection) push(id keyspace.ActorID, e *publishedEvent, full bool) (held, ok bool) {
	if l.incarnation != id {
		return false, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.lagging || l.end != nil || e.Sequence <= l.position || !l.wants(&e.EmittedEvent) {
		return false, true
	}
	bytes := l.bytes + eventBytes(&e.EmittedEvent)
	switch full = full && bytes > minBuffered; {
	case full && (l.reading || len(l.buffer) == 0 || l.buffer[0].batch.commit == e.batch.commit):
		first := e
		if len(l.buffer) > 0 {
			first = l.buffer[0]
		}
		l.position, l.lagging = first.Sequence-1, true
		l.drop()
		l.wake()
		return false, true
	case full:
		l.stop(host.Errorf(host.Overloaded, "the client reads too slowly: the events that wait for the clients of the node take more than %d bytes", e.batch.hub.limit).Retry())
		return false, false
	case bytes > l.limit && len(l.buffer) > 0:
		l.stop(host.Errorf(host.Overloaded, "the client reads too slowly: more than %d bytes wait for it", l.limit).Retry())
		return false, false
	}
	l.buffer = append(l.buffer, e)
	l.bytes = bytes
	if len(l.buffer) == 1 {
		l.wake()
	}
	return true, true
}

// wants reports whether the connection is to get an event that does not except it.
//
// REQUIRES: l.mu
func (l *liveConnection) wants(e *host.EmittedEvent) bool {
	if e.To != "" {
		return e.To == l.id
	}
	since, ok := l.subscriptions[e.Name]
	return ok && e.Sequence > since
}

func (l *liveConnection) wake() {
	select {
	case l.signal <- struct{}{}:
	default:
	}
}

// stop ends the connection, if nothing has yet.
//
// REQUIRES: l.mu
func (l *liveConnection) stop(err *host.Error) {
	if l.end == nil {
		l.end = err
		l.wake()
	}
}

// finish implements recipient.
func (l *liveConnection) finish(err *host.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(err)
}

// replaced implements recipient.
func (l *liveConnection) replaced() {
	l.finish(unavailable("the connection was taken over: its token was used again").With("reason", "taken_over"))
}

// ended implements recipient.
func (l *liveConnection) ended() *host.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// cutOff implements recipient: the client may come back.
func (l *liveConnection) cutOff() {
	partOf[*connPart](l.s).slow.Add(1)
	if l.leave() {
		l.s.tend(l.t, l.addr, &tending{id: l.id}, nil)
	}
}

// Welcome implements host.LiveConnection.
func (l *liveConnection) Welcome() host.Welcome {
	w := l.welcome
	w.Events = slices.Clone(w.Events)
	return w
}

// Next implements host.LiveConnection.
func (l *liveConnection) Next(ctx context.Context) (host.Delivery, error) {
	for {
		l.mu.Lock()
		l.letGo()
		if l.lagging && (l.end == nil || l.quits) {
			l.reading = true
			l.lagging = false // what is pushed from here on is buffered, and overlaps with the history at most
			after := l.position
			l.mu.Unlock()
			d, err := l.catchUp(ctx, after)
			if err != nil {
				return host.Delivery{}, err
			}
			if d.Missed > 0 || d.Reset || len(d.Events) > 0 {
				return d, nil
			}
			continue
		}
		d, end := l.take(), l.end
		l.reading = !d.Reset && len(d.Events) == 0
		l.mu.Unlock()
		if d.Reset || len(d.Events) > 0 {
			return d, nil
		}
		if end != nil {
			return host.Delivery{}, end
		}
		select {
		case <-l.signal:
		case <-ctx.Done():
			return host.Delivery{}, contextError(ctx)
		}
	}
}

// take returns what is in the buffer, up to maxBuffered events.
//
// REQUIRES: l.mu; what was taken before was let go of
func (l *liveConnection) take() host.Delivery {
	d := host.Delivery{Reset: l.reset}
	l.reset = false
	n := min(len(l.buffer), maxBuffered)
	if n == 0 {
		return d
	}
	d.Events = make([]host.EmittedEvent, 0, n)
	for _, e := range l.buffer[:n] {
		l.bytes -= eventBytes(&e.EmittedEvent)
		if e.Sequence > l.position {
			d.Events = append(d.Events, e.EmittedEvent)
			l.position = e.Sequence
		}
	}
	l.hand = append(l.hand, l.buffer[:n]...)
	rest := copy(l.buffer, l.buffer[n:])
	clear(l.buffer[rest:])
	if l.buffer = l.buffer[:rest]; rest == 0 {
		l.buffer = empty(l.buffer)
	}
	return d
}

// letGo releases what the last Next returned.
//
// REQUIRES: l.mu
func (l *liveConnection) letGo() {
	l.hand = releaseEvents(l.hand)
	l.page.letGo(l.hub)
}

// drop empties the buffer.
//
// REQUIRES: l.mu
func (l *liveConnection) drop() {
	l.buffer, l.bytes = releaseEvents(l.buffer), 0
}

// discard drops everything that the connection holds. Nothing is pushed to it any more.
func (l *liveConnection) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.letGo()
	l.page.closed = true
}

// releaseEvents releases events, and returns what is left of the memory of the slice.
func releaseEvents(held []*publishedEvent) []*publishedEvent {
	for at := 0; at < len(held); {
		b, from := held[at].batch, at
		for at < len(held) && held[at].batch == b {
			at++
		}
		b.release(int64(at-from), at-from)
	}
	return empty(held)
}

// catchUp reads a page of the kept history after the position.
func (l *liveConnection) catchUp(ctx context.Context, after uint64) (d host.Delivery, err error) {
	page, err := l.s.history(ctx, l.addr, l.incarnation, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.position = after // push may have moved it meanwhile
	if err != nil || page.more {
		l.lagging = true
		l.drop() // the history has it
	}
	if err != nil {
		return d, err
	}
	if page.id != l.incarnation {
		l.stop(errDestroyed())
		return d, nil
	}
	d.Reset, l.reset = l.reset, false
	for i := range page.events {
		e := &page.events[i]
		if e.Sequence > l.position+1 {
			d.Missed += e.Sequence - l.position - 1
		}
		l.position = e.Sequence
		if l.wants(e) && !slices.Contains(e.Except, l.id) {
			d.Events = append(d.Events, *e)
		}
	}
	l.reading = d.Missed == 0 && !d.Reset && len(d.Events) == 0
	l.page.take(l.hub, d.Events)
	return d, nil
}

// Call implements host.LiveConnection.
func (l *liveConnection) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if err := l.ended(); err != nil {
		return host.Reply{}, err
	}
	q := *r
	q.Address, q.Connection, q.Existing = l.addr, l.id, r.Existing || !r.Create
	return l.s.Call(ctx, &q)
}

// Close implements host.LiveConnection. A connection that ended already stays as it is.
func (l *liveConnection) Close(ctx context.Context, lost bool) error {
	there := l.leave()
	l.discard()
	if !there {
		return nil
	}
	return l.quit(ctx, lost)
}

// quit ends a connection that has left the hub, and tells the actor.
func (l *liveConnection) quit(ctx context.Context, lost bool) error {
	l.mu.Lock()
	l.quits = true
	l.stop(connectionClosed("the client ended the connection"))
	l.mu.Unlock()
	return l.s.tendAndWait(ctx, l.t, l.addr, &tending{id: l.id, end: !lost})
}

// connectionClosed makes the error that a client sees whose connection ended on purpose.
func connectionClosed(message string) *host.Error {
	return host.Errorf(host.FailedPrecondition, "%s", message)
}
