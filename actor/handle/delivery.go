package handle

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// maxCause bounds the text of an error that is kept with a message, in bytes.
const maxCause = 1024

// A ReceiveConfig configures [Queue.Receive]. Zero fields have defaults.
type ReceiveConfig struct {
	// Max bounds the messages to receive, 1 to 1,000; 0 is one.
	Max int
	// Wait is how long to wait for the first message; 0 does not wait.
	Wait time.Duration
	// Lock is how long the messages are locked, 1 ms to 30 days; 0 is the queue's time.
	Lock time.Duration
}

// A Message describes a message of a queue.
type Message struct {
	// ID is unique within the actor.
	ID    uint64
	Queue string
	// Attempt counts from 1.
	Attempt  int
	Priority int
	Sent     time.Time
	DedupID  string
	// WantReply is set if the sender waits for the reply.
	WantReply bool
}

// A Delivery is a received message that is locked for its worker. Settle it before the lock ends,
// with Ack, Nack, RetryAfter or GiveUp. Otherwise the message returns to the queue, and another
// worker may receive it. Safe for concurrent use.
//
// The error code of each method is FailedPrecondition if the lock has ended or the message is
// settled already, and Destroyed if the actor was destroyed.
type Delivery[In, Out any] struct {
	Message
	Body In
	*lease
}

// Ack removes the message from the queue as done. A sender that waits for a reply gets the reply,
// which is actor.None{} in a queue without replies. The error code is TooLarge if the reply is too
// large.
func (d *Delivery[In, Out]) Ack(ctx context.Context, reply Out) error {
	raw, err := d.of.encodeReply(&reply)
	if err != nil {
		return err
	}
	return d.ack(ctx, raw)
}

// Nack gives the message back as a failed attempt. The message is tried again after the queue's
// pause, or becomes a dead letter after the last attempt. The message keeps the first 1,024 bytes
// of the cause's text for operators. A sender that waits for a reply gets the cause when the
// message becomes a dead letter.
func (l *lease) Nack(ctx context.Context, cause error) error {
	return l.nack(ctx, cause, nil, false)
}

// RetryAfter is Nack with another pause before the next attempt, 0 to 30 days.
func (l *lease) RetryAfter(ctx context.Context, pause time.Duration, cause error) error {
	ms := site.Millis(pause)
	return l.nack(ctx, cause, &ms, false)
}

// GiveUp is Nack that makes the message a dead letter at once.
func (l *lease) GiveUp(ctx context.Context, cause error) error {
	return l.nack(ctx, cause, nil, true)
}

// Receive takes messages out of a queue with workers and locks them. It returns none if none arrive
// in time. A missing actor has none, and Receive does not create it; a send while Receive waits
// does. If ctx ends during a call, the messages that the call locked return to the queue when their
// locks end.
//
// A message whose body does not decode is given back as a failed attempt; that is an error only if
// there is no other message. The error code is FailedPrecondition if the actor itself handles the
// queue, and Destroyed if the actor is destroyed while Receive waits.
func (q Queue[In, Out]) Receive(ctx context.Context, cfg ReceiveConfig) ([]*Delivery[In, Out], error) {
	messages, err := q.receive(ctx, cfg)
	var out []*Delivery[In, Out]
	for i := range messages {
		d := &Delivery[In, Out]{lease: new(lease)}
		if err = q.open(&messages[i], d.lease, &d.Message, &d.Body); err != nil {
			d.Nack(ctx, err) // if this fails, the message comes back when its lock ends
			continue
		}
		out = append(out, d)
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, err
}

// open fills in a Delivery from a received message: all except the body if that does not decode.
func (q *queue) open(m *host.ReceivedMessage, l *lease, message *Message, body any) error {
	l.of, l.queue, l.id, l.receipt, l.until = q, m.Queue, m.ID, m.Receipt, m.LockedUntil
	*message = Message{
		ID: m.ID, Queue: m.Queue, Attempt: m.Attempt, Priority: m.Priority, Sent: m.Sent, DedupID: m.DedupID, WantReply: m.WantReply,
	}
	return q.decodeBody(m.ID, m.Body, body)
}

// encodeReply encodes the reply that v points to.
func (q *queue) encodeReply(v any) (host.Raw, error) {
	if q.reply.IsNone() {
		return nil, nil
	}
	raw, err := q.reply.Append(host.CBOR, nil, v)
	if err != nil {
		return nil, host.Errorf(host.InvalidArgument, "reply of %s: %s", q.site.Contract, err)
	}
	return raw, nil
}

// receive waits for messages for up to cfg.Wait.
func (q *queue) receive(ctx context.Context, cfg ReceiveConfig) ([]host.ReceivedMessage, error) {
	until := time.Now().Add(cfg.Wait)
	for left := cfg.Wait; ; {
		in := host.QueueReceiveInput{
			Queue: q.site.Name, Limit: cfg.Max, LockMS: site.Millis(cfg.Lock), WaitMS: site.Millis(min(left, site.WaitSlice)),
		}
		out, err := site.Ask(ctx, &q.site, method.QueueReceive, &in)
		if err != nil || len(out.Messages) > 0 {
			return out.Messages, err
		}
		if left = time.Until(until); left <= 0 {
			return nil, nil
		}
	}
}

// A lease is a worker's hold on a message: a Delivery without its Go types.
//
//  1. calling is held during each call about the message. Otherwise an extension that meets a
//     settled message would be taken for a lost lock. It is locked before mu.
//  2. Once it is over, the message gets no more requests.
type lease struct {
	of      *queue
	queue   string
	id      uint64
	receipt string

	calling sync.Mutex
	mu      sync.Mutex
	until   time.Time // guarded by mu
	settled bool      // guarded by mu
	lost    bool      // guarded by mu
}

// LockedUntil returns when the lock ends, by the clock of the node.
func (l *lease) LockedUntil() time.Time {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.until
}

// over reports whether the message is settled or its lock known to have ended.
func (l *lease) over() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settled || l.lost
}

// isSettled reports whether the message is settled.
func (l *lease) isSettled() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.settled
}

// err returns why the message takes no further requests; nil if it takes them.
func (l *lease) err() error {
	l.mu.Lock()
	defer l.mu.Unlock()
	switch {
	case l.settled:
		return host.Errorf(host.FailedPrecondition, "message %d is settled already", l.id)
	case l.lost:
		return host.Errorf(host.FailedPrecondition,
			"the lock of message %d has ended: it waits again, is with another worker, or gone", l.id)
	}
	return nil
}

func (l *lease) ack(ctx context.Context, reply host.Raw) error {
	in := host.QueueAckInput{Queue: l.queue, Receipts: []string{l.receipt}, Reply: reply}
	return release(ctx, l, method.QueueAck, &in)
}

func (l *lease) nack(ctx context.Context, cause error, delayMS *int64, dead bool) error {
	in := host.QueueNackInput{Queue: l.queue, Receipts: []string{l.receipt}, DelayMS: delayMS, Dead: dead}
	if cause != nil {
		in.Error = clip(cause.Error())
	}
	return release(ctx, l, method.QueueNack, &in)
}

// release settles a message with the method m.
func release[In any](ctx context.Context, l *lease, m method.Typed[In, host.QueueSettleOutput], in *In) error {
	l.calling.Lock()
	defer l.calling.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	out, err := site.Ask(ctx, &l.of.site, m, in)
	if err != nil {
		return destroyed(err)
	}
	if out.Settled == 0 {
		return l.end(&l.lost)
	}
	l.end(&l.settled)
	return nil
}

// Extend locks the message for a duration from now, 1 ms to 30 days; 0 is the queue's time.
func (l *lease) Extend(ctx context.Context, lock time.Duration) error {
	l.calling.Lock()
	defer l.calling.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	in := host.QueueExtendInput{Queue: l.queue, Receipts: []string{l.receipt}, LockMS: site.Millis(lock)}
	out, err := site.Ask(ctx, &l.of.site, method.QueueExtend, &in)
	if err != nil {
		return destroyed(err)
	}
	if len(out.Lost) > 0 {
		return l.end(&l.lost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = out.LockedUntil
	return nil
}

// destroyed returns Destroyed for a missing actor, which must have existed: it had a message.
func destroyed(err error) error {
	if host.CodeOf(err) == host.NotFound {
		return host.Errorf(host.Destroyed, "the actor was destroyed")
	}
	return err
}

// end records how the lease ended, and returns its error from now on.
func (l *lease) end(how *bool) error {
	l.mu.Lock()
	*how = true
	l.mu.Unlock()
	return l.err()
}

// clip cuts a text to maxCause bytes of whole characters.
func clip(s string) string {
	s = strings.ToValidUTF8(s, "?")
	if len(s) <= maxCause {
		return s
	}
	end := maxCause
	for !utf8.RuneStart(s[end]) {
		end--
	}
	return s[:end]
}
