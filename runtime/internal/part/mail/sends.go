package mail

import (
	"bytes"
	"cmp"
	"errors"
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A sender delivers one actor's messages: per target in order, one batch at a time, until each is
// handled or moved aside.
//
// Exactly once comes from three durable facts. The message's row is in the sender's keyspace from
// the commit that sent it. The receiver's commit that handles it records the message's sequence,
// which only grows per sender, and so reveals a second arrival. And a message is bound to one
// incarnation of its target before it is first delivered, so that neither a destroyed actor's
// successor nor an actor that was created in between can handle it a second time. The row is
// removed last, by a commit of the sender.
type sender struct {
	Part  *Part
	owner *kernel.Actor
	id    keyspace.ActorID // of the incarnation that sends

	mu       sync.Mutex
	loaded   bool
	Closed   bool // the actor was destroyed: its remains send the waiting messages, and this sender does nothing
	channels map[string]*channel
	room     int // how many channels there may be before idle ones are forgotten
	Pending  int // messages in all channels and on their way to being settled
	// dormant: the actor has left memory although messages wait, all of them for paused targets.
	// roused: it must send them again.
	dormant, roused bool
}

// A channel is the messages to one target.
type channel struct {
	addr     host.Address
	queue    []outgoing
	busy     bool // a batch is on its way, being settled or pinned, or waits for its next attempt
	attempts int  // failures of the first message of queue
	// held: the channel is busy because it waits: until next, or for a paused target if next is
	// zero. Each wait has a number, so that it is ended once. cause is why the first message was
	// not handled when it was last tried.
	held  bool
	waits uint64
	next  time.Time
	cause error
	// reason is cause for operators; "" for its text.
	reason string
	most   int // of messages in the next batch; 0 for as many as may be
	lost   int // batches in a row that were lost because of something else

	// The target's current incarnation, valid while no actor was destroyed since.
	incarnation keyspace.ActorID
	asOf        uint64
}

// minChannels is how many idle channels a sender may always keep, for the incarnations in them.
const minChannels = 256

// maxDelivery is how many messages one batch carries.
const maxDelivery = 64

// An outbox has the sender of an Actor's current incarnation. It is attached to the Actor.
type outbox struct {
	sender atomic.Pointer[sender] // replaced under Actor.Mu
}

func newOutbox() *outbox { return new(outbox) }

// Busy implements kernel.Resident.
func (o *outbox) Busy() bool {
	s := o.sender.Load()
	return s != nil && s.Busy()
}

// Leave implements kernel.Resident.
func (o *outbox) Leave() bool {
	s := o.sender.Load()
	if s == nil {
		return true
	}
	if !s.Leave() {
		return false
	}
	o.sender.Store(nil) // if the actor stays after all, another one reads the rows
	return true
}

// senderOf returns the sender of the actor, and makes a missing one.
func senderOf(c *kernel.Core) *sender {
	o := attach.Make(&c.Actor.Attached, newOutbox)
	if s := o.sender.Load(); s != nil && s.id == c.ID {
		return s
	}
	s := &sender{Part: kernel.PartOf[*Part](c.Actor.Kernel), owner: c.Actor, id: c.ID}
	c.Actor.Mu.Lock()
	defer c.Actor.Mu.Unlock()
	if !c.Gone() {
		o.sender.Store(s)
	} // else nothing of the turn is kept
	return s
}

// Mail returns the actor's sender, for goroutines that do not run the actor.
func Mail(a *kernel.Actor) *sender {
	if o := attach.Get[*outbox](&a.Attached); o != nil {
		if s := o.sender.Load(); s != nil {
			return s
		}
	}
	return &sender{owner: a}
}

// A postbox has a core's counts of its actor's messages.
type postbox struct {
	// waiting counts the rows of messages that wait.
	waiting cached.Value[int]
	// Dead counts the messages that were given up.
	Dead cached.Value[int]
	// counted is when they were counted, in Unix milliseconds. Messages that expired later are
	// still in the count.
	counted int64
}

func newPostbox() *postbox { return new(postbox) }

// Post returns the core's counts of its actor's messages.
func Post(c *kernel.Core) *postbox { return attach.Make(&c.Attached, newPostbox) }

// Forget implements kernel.Facet.
func (b *postbox) Forget(_ *kernel.Core, version engine.Version) {
	b.waiting.Forget(version)
	b.Dead.Forget(version)
}

// Close implements kernel.Facet.
func (*postbox) Close(*kernel.Core) {}

// Abandon implements kernel.Facet.
func (*postbox) Abandon(*kernel.Core) {}

// countOutgoing returns how many messages wait, in rows that are durable or on their way there. A
// bare core, which serves one item of work, does not count all: beyond enough, it may return any
// larger number.
func countOutgoing(c *kernel.Core, enough int) (int, error) {
	b := Post(c)
	if c.Bare && !b.waiting.Known {
		start, end := keyspace.Outgoing.Range()
		page, err := c.Rows.List(engine.ListQuery{Start: start, End: end, KeysOnly: true, Limit: enough + 1})
		return len(page.Entries), err
	}
	return b.waiting.Get(c.Rows, func() (int, error) { return countRows(c, keyspace.Outgoing.Kind) })
}

// wait counts messages whose rows a turn has written, or, if negative, removed.
func (b *postbox) wait(c *kernel.Core, n int) {
	if b.waiting.Known {
		b.waiting.Set(c.Rows, b.waiting.Value+n)
	}
}

// countRows counts the actor's keys of a kind.
func countRows(c *kernel.Core, kind keyspace.Kind) (n int, err error) {
	start, end := kind.Range()
	q := engine.ListQuery{Start: start, End: end, KeysOnly: true}
	for {
		page, err := c.Rows.List(q)
		if err != nil {
			return 0, err
		}
		n += len(page.Entries)
		if q.After = page.Next; q.After == nil {
			return n, nil
		}
	}
}

// Durable implements kernel.Consequence: the actor is destroyed.
func (s *sender) Durable() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Closed, s.Pending, s.channels = true, 0, nil
}

// channel returns the channel to addr.
//
// REQUIRES: s.mu
func (s *sender) channel(addr host.Address) *channel {
	var buf [128]byte
	key := address.Append(buf[:0], addr)
	ch := s.channels[string(key)]
	if ch == nil {
		if s.channels == nil {
			s.channels = make(map[string]*channel)
		}
		if len(s.channels) >= s.room {
			maps.DeleteFunc(s.channels, func(_ string, ch *channel) bool { return !ch.busy && len(ch.queue) == 0 })
			s.room = max(minChannels, 2*len(s.channels))
		}
		ch = &channel{addr: addr}
		s.channels[string(key)] = ch
	}
	return ch
}

// incarnation returns the current id of the target, or the zero id if it does not exist.
func (s *sender) incarnation(addr host.Address) (keyspace.ActorID, error) {
	sup := s.owner.Kernel
	s.mu.Lock()
	ch := s.channel(addr)
	epoch := sup.Destroys.Load()
	known, asOf := ch.incarnation, ch.asOf
	s.mu.Unlock()
	if !known.IsZero() && asOf == epoch {
		return known, nil
	}
	id, ok, err := sup.Store.Lookup(sup.Identity(addr)) // not under mu, which the gate would wait for
	if err != nil || !ok {
		return keyspace.ActorID{}, err
	}
	s.mu.Lock()
	ch.incarnation, ch.asOf = id, epoch
	s.mu.Unlock()
	return id, nil
}

// load reads the messages of earlier lives of the actor, once per Actor and before any of this life
// is sent.
func (s *sender) load(c *kernel.Core) error {
	s.mu.Lock()
	loaded := s.loaded
	s.loaded = true
	s.mu.Unlock()
	if loaded {
		return nil
	}
	start, end := keyspace.Outgoing.Range()
	var found []outgoing
	var after []byte
	for {
		page, err := c.Rows.List(engine.ListQuery{Start: start, End: end, After: after})
		if err == nil {
			found, err = AppendOutgoing(found, page.Entries)
		}
		if err != nil {
			s.mu.Lock()
			s.loaded = false
			s.mu.Unlock()
			return err
		}
		if after = page.Next; after == nil {
			break
		}
	}
	Post(c).waiting.Set(c.Rows, len(found))
	if len(found) > 0 {
		c.Standing.Note(keyspace.WakeSends, standing.Armed)
		s.add(found)
	}
	return nil
}

// AppendOutgoing appends the messages that entries of kind outgoing hold.
func AppendOutgoing(dst []outgoing, entries []engine.Entry) ([]outgoing, error) {
	for _, e := range entries {
		seq, err := keyspace.Outgoing.Parse(e.Key)
		if err != nil {
			return dst, err
		}
		o := outgoing{seq: seq}
		if err := record.Decode(e.Value, &o.Record); err != nil {
			return dst, err
		}
		dst = append(dst, o)
	}
	return dst, nil
}

// add queues messages whose rows are durable, or were found in the store, and sends what it can. It
// does not block.
func (s *sender) add(messages []outgoing) {
	s.mu.Lock()
	if s.Closed {
		s.mu.Unlock()
		return
	}
	s.Pending += len(messages)
	var ready []*channel
	for _, m := range messages {
		ch := s.channel(m.Record.Address())
		ch.queue = append(ch.queue, m)
		if !ch.busy {
			ch.busy = true
			ready = append(ready, ch)
		}
	}
	s.mu.Unlock()
	for _, ch := range ready {
		s.send(ch)
	}
}

// alike returns how many of the first messages have the same Target, up to most.
//
// REQUIRES: sender.mu; there is a message
func (ch *channel) alike(most int) int {
	n, target := 1, ch.queue[0].Record.Target
	for n < len(ch.queue) && n < most && bytes.Equal(ch.queue[n].Record.Target, target) {
		n++
	}
	return n
}

// send delivers the first messages of a channel that is busy on the caller's behalf.
func (s *sender) send(ch *channel) {
	s.mu.Lock()
	if len(ch.queue) == 0 || s.Closed {
		ch.busy = false
		s.mu.Unlock()
		return
	}
	run := append([]outgoing(nil), ch.queue[:ch.alike(cmp.Or(ch.most, maxDelivery))]...)
	ch.most = 0
	s.mu.Unlock()
	sup := s.owner.Kernel
	if sup.Killed.Load() || sup.Offline {
		return // the next start sends them
	}
	d := &Delivery{mail: s.Part, from: s.id, target: run[0].Record.Pinned(), messages: run}
	for i := range run {
		d.bytes += int64(len(run[i].Record.Input)) + 64
	}
	if d.target.IsZero() {
		s.pin(ch)
		return
	}
	if sup.Pauses.At(ch.addr) != nil {
		s.await(ch)
		return
	}
	t, err := sup.TypeOf(ch.addr)
	if err == nil {
		w := &kernel.Work{Job: d, Finish: func(w *kernel.Work) {
			d.paused = w.Paused
			if w.Err != nil {
				d.lost = d.handled > 0
				if d.handled < len(d.messages) {
					d.hung = d.handled
				}
				d.err, d.reason, d.handled = w.Err, "", 0 // what ran was not committed
			}
			s.delivered(ch, d)
		}}
		_, err = sup.Post(t, ch.addr, w, nil)
	}
	if err != nil {
		d.err = err
		s.delivered(ch, d)
	}
}

// delivered handles the result of a batch of messages.
func (s *sender) delivered(ch *channel, d *Delivery) {
	s.mu.Lock()
	if s.Closed {
		s.mu.Unlock()
		return // the actor's remains deliver it again, and find that it was handled
	}
	owner := s.owner
	handled, rest := d.messages[:d.handled], d.messages[d.handled:]
	ch.queue = ch.queue[len(handled):]
	if len(handled) > 0 {
		ch.attempts, ch.lost, ch.cause = 0, 0, nil
	}
	set := &settlement{sender: s}
	for _, m := range handled {
		set.handled = append(set.handled, m.seq)
	}
	var wait time.Duration
	repin, paused := false, false
	if d.err != nil && len(rest) > 0 {
		switch {
		case errors.Is(d.err, errRepin):
			repin = true
		case d.paused:
			paused = true // which is no failure of the message
		case owner.Kernel.Draining.Load() && host.CodeOf(d.err) == host.Unavailable:
			s.mu.Unlock()
			if len(set.handled) > 0 {
				s.settle(set)
			}
			return // the messages stay in the store until the next start
		case d.lost && ch.lost < maxLost: // if one of these took it along, those before it are sent without it
			ch.most = d.hung
			ch.lost++
			wait = retry.In(d.err, retry.Backoff(ch.lost, sendRetryMin, sendRetryMax))
		default:
			if host.CodeOf(d.err) != host.Overloaded {
				ch.attempts++
				s.Part.Failures.Inc()
			}
			ch.cause, ch.reason = d.err, d.reason
			if permanent(d.err) || ch.attempts >= owner.Type.Base.SendAttempts && !s.Part.handlers[rest[0].Record.Method].Lasts {
				set.failed = append(set.failed,
					failedSend{message: rest[0], err: d.err, reason: d.reason, attempts: ch.attempts})
				ch.queue = ch.queue[1:]
				ch.attempts, ch.lost, ch.cause = 0, 0, nil
			} else {
				wait = retry.In(d.err, retry.Backoff(max(1, ch.attempts), sendRetryMin, sendRetryMax))
			}
		}
	}
	s.mu.Unlock()
	aside := len(set.failed) > 0
	if aside { // until then, handling a later message would make it count as handled, too
		set.settled = func(error) { s.send(ch) }
	}
	if aside || len(set.handled) > 0 {
		s.settle(set)
	}
	switch {
	case aside:
	case repin:
		s.pin(ch)
	case paused:
		s.await(ch)
	case wait > 0:
		owner.Kernel.Later(wait, s.hold(ch, time.Now().Add(wait)))
	default:
		s.send(ch)
	}
}

// maxLost is how many batches in a row may be lost with no message blamed.
const maxLost = 16

// A message that was not handled is tried again after 100 milliseconds, doubling up to a minute.
const (
	sendRetryMin = 100 * time.Millisecond
	sendRetryMax = time.Minute
)

// permanent reports whether another attempt is useless.
func permanent(err error) bool {
	switch host.CodeOf(err) {
	case host.UnknownMethod, host.InvalidArgument, host.TooLarge, host.Destroyed:
		return true
	}
	return false
}

// pin binds the waiting messages of a channel to the target's incarnation, in turns of the actor,
// and then sends them.
func (s *sender) pin(ch *channel) { s.bindMore(&binding{sender: s, channel: ch}) }

func (s *sender) bindMore(b *binding) {
	s.post(&kernel.Work{Job: b, Finish: func(w *kernel.Work) {
		s.mu.Lock()
		if s.Closed {
			s.mu.Unlock()
			return
		}
		sup, wait := s.owner.Kernel, time.Duration(0)
		if w.Err == nil {
			copy(b.channel.queue[b.bound:], b.part) // whose rows are durable
			b.bound += len(b.part)
		} else {
			wait = retry.Soon
		}
		more := w.Err != nil || b.bound < b.of
		s.mu.Unlock()
		if w.Err != nil && sup.Draining.Load() {
			return
		}
		sup.Later(wait, func() {
			if more {
				s.bindMore(b)
			} else {
				s.send(b.channel)
			}
		})
	}})
}

// post puts work into the mailbox of the sending actor, which is in memory for as long as messages
// are on their way.
func (s *sender) post(w *kernel.Work) {
	if err := s.owner.Enqueue(w); err != nil && !s.owner.Kernel.Killed.Load() {
		w.Fail(err)
	}
}

// settle settles messages in a turn of the actor, and repeats that until it is durable. Until then
// their rows stay.
func (s *sender) settle(set *settlement) {
	n := len(set.handled) + len(set.failed)
	s.post(&kernel.Work{Job: set, Finish: func(w *kernel.Work) {
		s.mu.Lock()
		closed := s.Closed
		if w.Err == nil && !closed {
			s.Pending -= n
		}
		s.mu.Unlock()
		switch {
		case w.Err != nil && !closed:
			s.owner.Kernel.Later(retry.Soon, func() { s.settle(set) })
			return
		case set.settled == nil:
		case w.Err != nil:
			set.settled(fault.DestroyedAt(s.owner.Address))
		default:
			set.settled(nil)
		}
		if s.owner.Vacant.Load() {
			s.owner.Kernel.Go(s.owner.Vacate)
		}
	}})
}
