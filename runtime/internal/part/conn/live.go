package conn

import (
	"context"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// A LiveConnection is a client's end of a connection, as host.LiveConnection. It is in the hub,
// apart from the actor, which may sleep. Only its record, in the actor, is durable.
//
// Invariants:
//  1. It joins the hub in the turn that writes its record, and leaves it once: when it is closed,
//     cut off, taken over, or when the actor or the node ends. The goroutine that removes it from
//  2. position is the sequence of the last event that the client was given, or that was skipped for
//     it. Pushed events up to it are dropped. While lagging, the next events are read from the
//     actor's history, and nothing is buffered.
//  3. end is set once. Then nothing more is buffered; buffered events are still delivered, unless
//     the client closes its side.
type LiveConnection struct {
	S     *kernel.Kernel
	Hub   *event.Hub
	t     *kernel.Type
	addr  host.Address
	Key   string
	Limit int // bytes in buffer

	// Set in the turn of the connection, before it joins.
	ID          string
	incarnation keyspace.ActorID
	token       [tokenHash]byte
	welcome     host.Welcome

	// settled gets the result of that turn; fate says whether that or the caller of Connect came
	// first.
	settled chan error
	fate    atomic.Int32

	mu            sync.Mutex
	Subscriptions map[string]uint64 // event name -> the sequence of the last event before it was subscribed to
	buffer        []*event.PublishedEvent
	bytes         int
	hand          []*event.PublishedEvent // the result of the last Next
	page          event.PageHold
	Position      uint64
	Lagging       bool
	reading       bool // the client waits for events: the last Next has returned none
	reset         bool // the client came with a position of another life, and was not notified yet
	end           *host.Error
	quits         bool          // the client ended it: events that it lags behind with are still read
	Signal        chan struct{} // capacity 1
}

// The fates of a connect request.
const (
	fateJoined  = 1 // the caller has, or will get, the connection
	fateGivenUp = 2 // the caller has gone
)

// Identity implements event.recipient.
func (l *LiveConnection) Identity() (string, keyspace.ActorID) { return l.ID, l.incarnation }

// leave removes the connection from the hub, and reports whether it was there.
func (l *LiveConnection) leave() bool { return l.Hub.Leave(l.Key, l) }

// Push implements event.recipient. If full, a client that waits for events, or had read what came
// before this commit, reads on from the history.
func (l *LiveConnection) Push(id keyspace.ActorID, e *event.PublishedEvent, full bool) (held, ok bool) {
	if l.incarnation != id {
		return false, true
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.Lagging || l.end != nil || e.Sequence <= l.Position || !l.wants(&e.EmittedEvent) {
		return false, true
	}
	bytes := l.bytes + event.EventBytes(&e.EmittedEvent)
	switch full = full && bytes > event.MinBuffered; {
	case full && (l.reading || len(l.buffer) == 0 || l.buffer[0].Batch.Commit == e.Batch.Commit):
		first := e
		if len(l.buffer) > 0 {
			first = l.buffer[0]
		}
		l.Position, l.Lagging = first.Sequence-1, true
		l.drop()
		l.wake()
		return false, true
	case full:
		l.stop(host.Errorf(host.Overloaded,
			"the client reads too slowly: the events that wait for the clients of the node take more than %d bytes", e.Batch.Hub.Limit).Retry())
		return false, false
	case bytes > l.Limit && len(l.buffer) > 0:
		l.stop(host.Errorf(host.Overloaded,
			"the client reads too slowly: more than %d bytes wait for it", l.Limit).Retry())
		return false, false
	}
	l.buffer = append(l.buffer, e)
	l.bytes = bytes
	if len(l.buffer) == 1 {
		l.wake()
	}
	return true, true
}

// wants reports whether the connection gets an event that does not except it.
//
// REQUIRES: l.mu
func (l *LiveConnection) wants(e *host.EmittedEvent) bool {
	if e.To != "" {
		return e.To == l.ID
	}
	since, ok := l.Subscriptions[e.Name]
	return ok && e.Sequence > since
}

func (l *LiveConnection) wake() {
	select {
	case l.Signal <- struct{}{}:
	default:
	}
}

// stop ends the connection, if nothing has yet.
//
// REQUIRES: l.mu
func (l *LiveConnection) stop(err *host.Error) {
	if l.end == nil {
		l.end = err
		l.wake()
	}
}

// Finish implements event.recipient.
func (l *LiveConnection) Finish(err *host.Error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.stop(err)
}

// Replaced implements event.recipient.
func (l *LiveConnection) Replaced() {
	l.Finish(fault.Unavailable("the connection was taken over: its token was used again").With("reason", "taken_over"))
}

// Ended implements event.recipient.
func (l *LiveConnection) Ended() *host.Error {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.end
}

// CutOff implements event.recipient: the client may come back.
func (l *LiveConnection) CutOff() {
	kernel.PartOf[*Part](l.S).slow.Add(1)
	if l.leave() {
		tend(l.S, l.t, l.addr, &tending{id: l.ID}, nil)
	}
}

// Welcome implements host.LiveConnection.
func (l *LiveConnection) Welcome() host.Welcome {
	w := l.welcome
	w.Events = slices.Clone(w.Events)
	return w
}

// Next implements host.LiveConnection.
func (l *LiveConnection) Next(ctx context.Context) (host.Delivery, error) {
	for {
		l.mu.Lock()
		l.LetGo()
		if l.Lagging && (l.end == nil || l.quits) {
			l.reading = true
			l.Lagging = false // events pushed from here on are buffered; they may overlap with the history
			after := l.Position
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
		d, end := l.Take(), l.end
		l.reading = !d.Reset && len(d.Events) == 0
		l.mu.Unlock()
		if d.Reset || len(d.Events) > 0 {
			return d, nil
		}
		if end != nil {
			return host.Delivery{}, end
		}
		select {
		case <-l.Signal:
		case <-ctx.Done():
			return host.Delivery{}, fault.Ended(ctx)
		}
	}
}

// Take returns up to maxBuffered events of the buffer.
//
// REQUIRES: l.mu; earlier events were released
func (l *LiveConnection) Take() host.Delivery {
	d := host.Delivery{Reset: l.reset}
	l.reset = false
	n := min(len(l.buffer), event.MaxBuffered)
	if n == 0 {
		return d
	}
	d.Events = make([]host.EmittedEvent, 0, n)
	for _, e := range l.buffer[:n] {
		l.bytes -= event.EventBytes(&e.EmittedEvent)
		if e.Sequence > l.Position {
			d.Events = append(d.Events, e.EmittedEvent)
			l.Position = e.Sequence
		}
	}
	l.hand = append(l.hand, l.buffer[:n]...)
	rest := copy(l.buffer, l.buffer[n:])
	clear(l.buffer[rest:])
	if l.buffer = l.buffer[:rest]; rest == 0 {
		l.buffer = event.Empty(l.buffer)
	}
	return d
}

// LetGo releases the events that the last Next returned.
//
// REQUIRES: l.mu
func (l *LiveConnection) LetGo() {
	l.hand = releaseEvents(l.hand)
	l.page.LetGo(l.Hub)
}

// drop empties the buffer.
//
// REQUIRES: l.mu
func (l *LiveConnection) drop() {
	l.buffer, l.bytes = releaseEvents(l.buffer), 0
}

// discard drops everything that the connection holds. Nothing more is pushed to it.
func (l *LiveConnection) discard() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.drop()
	l.LetGo()
	l.page.Closed = true
}

// releaseEvents releases events, and returns the slice emptied, to keep its memory.
func releaseEvents(held []*event.PublishedEvent) []*event.PublishedEvent {
	for at := 0; at < len(held); {
		b, from := held[at].Batch, at
		for at < len(held) && held[at].Batch == b {
			at++
		}
		b.Release(int64(at-from), at-from)
	}
	return event.Empty(held)
}

// catchUp reads a page of the kept history after the position.
func (l *LiveConnection) catchUp(ctx context.Context, after uint64) (d host.Delivery, err error) {
	page, err := event.History(l.S, ctx, l.addr, l.incarnation, after)
	l.mu.Lock()
	defer l.mu.Unlock()
	l.Position = after // push may have moved it meanwhile
	if err != nil || page.More {
		l.Lagging = true
		l.drop() // the history has it
	}
	if err != nil {
		return d, err
	}
	if page.ID != l.incarnation {
		l.stop(fault.Destroyed())
		return d, nil
	}
	d.Reset, l.reset = l.reset, false
	for i := range page.Events {
		e := &page.Events[i]
		if e.Sequence > l.Position+1 {
			d.Missed += e.Sequence - l.Position - 1
		}
		l.Position = e.Sequence
		if l.wants(e) && !slices.Contains(e.Except, l.ID) {
			d.Events = append(d.Events, *e)
		}
	}
	l.reading = d.Missed == 0 && !d.Reset && len(d.Events) == 0
	l.page.Take(l.Hub, d.Events)
	return d, nil
}

// Call implements host.LiveConnection.
func (l *LiveConnection) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if err := l.Ended(); err != nil {
		return host.Reply{}, err
	}
	q := *r
	q.Address, q.Connection, q.Existing = l.addr, l.ID, r.Existing || !r.Create
	return l.S.Call(ctx, &q)
}

// Close implements host.LiveConnection. A connection that ended already stays as it is.
func (l *LiveConnection) Close(ctx context.Context, lost bool) error {
	there := l.leave()
	l.discard()
	if !there {
		return nil
	}
	return l.quit(ctx, lost)
}

// quit ends a connection that has left the hub, and updates the actor.
func (l *LiveConnection) quit(ctx context.Context, lost bool) error {
	l.mu.Lock()
	l.quits = true
	l.stop(connectionClosed("the client ended the connection"))
	l.mu.Unlock()
	return tendAndWait(l.S, ctx, l.t, l.addr, &tending{id: l.ID, end: !lost})
}

// connectionClosed makes the client's error for a connection that ended on purpose.
func connectionClosed(message string) *host.Error {
	return host.Errorf(host.FailedPrecondition, "%s", message)
}
