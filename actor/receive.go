package actor

import (
	"context"
	"strings"
	"sync"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// maxCause is how much of an error is kept with a message, in bytes.
const maxCause = 1024

// A receiving is what ReceiveOptions and WorkOptions ask for.
type receiving struct {
	limit      int
	lock, wait time.Duration
	life       string
}

// A ReceiveOption changes how messages are received: [Max], [Lock] and [Wait].
type ReceiveOption interface{ applyReceive(*receiving) }

// A ReadOption changes how a stream is read from outside: [Max], [Wait] and [InLife].
type ReadOption interface{ applyRead(*receiving) }

// A FollowOption changes how a stream is followed: [InLife].
type FollowOption interface{ applyFollow(*receiving) }

// A WorkOption changes how workers receive: [Lock].
type WorkOption interface{ applyWork(*receiving) }

// Max takes at most n messages or items at once: 1 to 1,000. Without it one message, or 100 items.
func Max(n int) interface {
	ReceiveOption
	ReadOption
} {
	return maxOption(n)
}

type maxOption int

func (n maxOption) applyReceive(r *receiving) { r.limit = int(n) }
func (n maxOption) applyRead(r *receiving)    { r.limit = int(n) }

// Lock is how long received messages are locked, at most 30 days. Without it the queue says so
// ([LockFor]).
func Lock(d time.Duration) interface {
	ReceiveOption
	WorkOption
} {
	return lockOption(d)
}

type lockOption time.Duration

func (d lockOption) applyReceive(r *receiving) { r.lock = time.Duration(d) }
func (d lockOption) applyWork(r *receiving)    { r.lock = time.Duration(d) }

// InLife names the life of the actor that the position of a reader belongs to, by the actor's id:
// [Item.Life] of the last item that the reader has, or [Page.Life]. If the actor was destroyed and
// created again since, the reader is told, and begins with the first item of the life that is
// there. Without it, or with "", a position counts in that life, whichever it is.
func InLife(id string) interface {
	ReadOption
	FollowOption
} {
	return lifeOption(id)
}

type lifeOption string

func (id lifeOption) applyRead(r *receiving)   { r.life = string(id) }
func (id lifeOption) applyFollow(r *receiving) { r.life = string(id) }

// Wait is how long to wait for the first message or item, if there is none. Without it the answer
// comes at once.
func Wait(d time.Duration) interface {
	ReceiveOption
	ReadOption
} {
	return waitOption(d)
}

type waitOption time.Duration

func (d waitOption) applyReceive(r *receiving) { r.wait = time.Duration(d) }
func (d waitOption) applyRead(r *receiving)    { r.wait = time.Duration(d) }

// A Delivery is a message that a worker received and that is locked for it. Settle it, with Ack or
// Nack, before the lock ends: then it returns to the queue, and another worker may have it. Safe
// for concurrent use.
type Delivery[In any] struct {
	Message
	Body  In
	lease *lease
}

// Ack says that the message is done: it is removed from the queue. The error code is
// FailedPrecondition if the lock has ended, or the message is settled already.
func (d *Delivery[In]) Ack(ctx context.Context) error { return d.lease.ack(ctx, nil) }

// Nack gives the message back as a failed attempt, to be tried again after the queue's pause, or to
// become a dead letter after the last. The cause's text, cut to 1,024 bytes, is kept with the
// message for operators. The error code is FailedPrecondition if the lock has ended, or the message
// is settled already.
func (d *Delivery[In]) Nack(ctx context.Context, cause error, opts ...NackOption) error {
	return d.lease.nack(ctx, cause, opts)
}

// Extend locks the message for another d, counted from now; 0 is the queue's time. The error code
// is FailedPrecondition if the lock has ended.
func (d *Delivery[In]) Extend(ctx context.Context, lock time.Duration) error {
	return d.lease.extend(ctx, lock)
}

// LockedUntil returns when the lock ends, by the clock of the node.
func (d *Delivery[In]) LockedUntil() time.Time { return d.lease.lockedUntil() }

// A RequestDelivery is a received message that a worker must answer. It is like a [Delivery].
type RequestDelivery[In, Out any] struct {
	Message
	Body  In
	reply func(*Out) (host.Raw, error)
	lease *lease
}

// Reply acknowledges the message and answers its sender. The error is like that of [Delivery.Ack].
func (d *RequestDelivery[In, Out]) Reply(ctx context.Context, reply Out) error {
	raw, err := d.reply(&reply)
	if err != nil {
		return err
	}
	return d.lease.ack(ctx, raw)
}

// Nack is [Delivery.Nack]. When the message becomes a dead letter, its sender gets an error that
// names the cause.
func (d *RequestDelivery[In, Out]) Nack(ctx context.Context, cause error, opts ...NackOption) error {
	return d.lease.nack(ctx, cause, opts)
}

// Extend is [Delivery.Extend].
func (d *RequestDelivery[In, Out]) Extend(ctx context.Context, lock time.Duration) error {
	return d.lease.extend(ctx, lock)
}

// LockedUntil is [Delivery.LockedUntil].
func (d *RequestDelivery[In, Out]) LockedUntil() time.Time { return d.lease.lockedUntil() }

// A NackOption changes how a message is given back.
type NackOption interface{ applyNack(*host.QueueNackInput) }

// RetryAfter sets the pause before the next attempt instead of the queue's, at most 30 days.
func RetryAfter(d time.Duration) NackOption { return retryAfter(d) }

type retryAfter time.Duration

func (d retryAfter) applyNack(in *host.QueueNackInput) {
	ms := millis(time.Duration(d))
	in.DelayMS = &ms
}

// GiveUp makes the message a dead letter at once.
func GiveUp() NackOption { return giveUp{} }

type giveUp struct{}

func (giveUp) applyNack(in *host.QueueNackInput) { in.Dead = true }

// Receive takes messages out of a queue that was declared with [Workers] and locks them. It returns
// none if none came in time. When ctx ends while a call is under way, messages that were locked by
// it return to the queue when their lock ends.
//
// A message whose body does not decode is given back; that is an error only if there is no other.
func (q *Queue[S, In]) Receive(ctx context.Context, ref Ref[S], opts ...ReceiveOption) ([]*Delivery[In], error) {
	return receive(ctx, &q.queue, ref, opts, func(m Message, body In, l *lease) *Delivery[In] {
		return &Delivery[In]{Message: m, Body: body, lease: l}
	})
}

// Receive is [Queue.Receive].
func (q *RequestQueue[S, In, Out]) Receive(
	ctx context.Context, ref Ref[S], opts ...ReceiveOption,
) ([]*RequestDelivery[In, Out], error) {
	return receive(ctx, &q.queue, ref, opts, q.delivery)
}

func (q *RequestQueue[S, In, Out]) delivery(m Message, body In, l *lease) *RequestDelivery[In, Out] {
	return &RequestDelivery[In, Out]{Message: m, Body: body, reply: q.encodeReply, lease: l}
}

func (q *RequestQueue[S, In, Out]) encodeReply(v *Out) (host.Raw, error) {
	raw, err := q.reply.append(host.CBOR, nil, v)
	if err != nil {
		return nil, Errorf(InvalidArgument, "reply of %s: %s", q.decl, err)
	}
	return raw, nil
}

func receive[S, In, D any](
	ctx context.Context, q *queue[S, In], ref Ref[S], opts []ReceiveOption, deliver func(Message, In, *lease) D,
) ([]D, error) {
	at, err := q.site(ref)
	if err != nil {
		return nil, err
	}
	var r receiving
	for _, o := range opts {
		o.applyReceive(&r)
	}
	messages, err := at.receive(ctx, q.name, r)
	if err != nil {
		return nil, err
	}
	var out []D
	var bad error
	for i := range messages {
		l := newLease(at, &messages[i])
		body, err := q.decodeBody(&messages[i])
		if err != nil {
			bad = err
			l.nack(ctx, err, nil) // if this fails, the message comes back when its lock ends
			continue
		}
		out = append(out, deliver(messageOf(&messages[i]), body, l))
	}
	if len(out) > 0 {
		return out, nil
	}
	return nil, bad
}

// receive waits for messages for as long as r says.
func (s site) receive(ctx context.Context, queue string, r receiving) ([]host.ReceivedMessage, error) {
	until := time.Now().Add(r.wait)
	for {
		wait := min(r.wait, waitSlice)
		in := host.QueueReceiveInput{Queue: queue, Limit: r.limit, LockMS: millis(r.lock), WaitMS: millis(wait)}
		out, err := ask(ctx, s, method.QueueReceive, &in)
		if err != nil || len(out.Messages) > 0 {
			return out.Messages, err
		}
		if r.wait = time.Until(until); r.wait <= 0 {
			return nil, nil
		}
	}
}

func (q *queue[S, In]) decodeBody(m *host.ReceivedMessage) (In, error) {
	var body In
	if err := q.body.decode(host.CBOR, m.Body, &body); err != nil {
		return body, Errorf(Internal, "the body of message %d of %s does not decode: %s", m.ID, q.decl, err)
	}
	return body, nil
}

func messageOf(m *host.ReceivedMessage) Message {
	return Message{
		ID: m.ID, Queue: m.Queue, Attempt: m.Attempt, Priority: m.Priority, Sent: m.Sent, DedupID: m.DedupID, WantReply: m.WantReply,
	}
}

// A lease is a worker's hold on a message.
//
//  1. calling is held over each call about the message, so that extending its lock is never taken
//     for losing it because it was settled meanwhile. It is locked before mu.
//  2. Once it is over, the message gets no more requests.
type lease struct {
	site    site
	queue   string
	id      uint64
	receipt string

	calling sync.Mutex
	mu      sync.Mutex
	until   time.Time // guarded by mu
	settled bool      // guarded by mu
	lost    bool      // guarded by mu
}

func newLease(s site, m *host.ReceivedMessage) *lease {
	return &lease{site: s, queue: m.Queue, id: m.ID, receipt: m.Receipt, until: m.LockedUntil}
}

func (l *lease) lockedUntil() time.Time {
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
		return Errorf(FailedPrecondition, "message %d is settled already", l.id)
	case l.lost:
		return Errorf(FailedPrecondition, "the lock of message %d has ended: it waits again, is with another worker, or gone", l.id)
	}
	return nil
}

func (l *lease) ack(ctx context.Context, reply host.Raw) error {
	in := host.QueueAckInput{Queue: l.queue, Receipts: []string{l.receipt}, Reply: reply}
	return release(ctx, l, method.QueueAck, &in)
}

func (l *lease) nack(ctx context.Context, cause error, opts []NackOption) error {
	in := host.QueueNackInput{Queue: l.queue, Receipts: []string{l.receipt}}
	if cause != nil {
		in.Error = clip(cause.Error())
	}
	for _, o := range opts {
		o.applyNack(&in)
	}
	return release(ctx, l, method.QueueNack, &in)
}

// release settles a message with a method for that.
func release[In any](ctx context.Context, l *lease, m method.Typed[In, host.QueueSettleOutput], in *In) error {
	l.calling.Lock()
	defer l.calling.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	out, err := ask(ctx, l.site, m, in)
	if err != nil {
		return err
	}
	if out.Settled == 0 {
		return l.end(&l.lost)
	}
	l.end(&l.settled)
	return nil
}

func (l *lease) extend(ctx context.Context, lock time.Duration) error {
	l.calling.Lock()
	defer l.calling.Unlock()
	if err := l.err(); err != nil {
		return err
	}
	in := host.QueueExtendInput{Queue: l.queue, Receipts: []string{l.receipt}, LockMS: millis(lock)}
	out, err := ask(ctx, l.site, method.QueueExtend, &in)
	if err != nil {
		return err
	}
	if len(out.Lost) > 0 {
		return l.end(&l.lost)
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	l.until = out.LockedUntil
	return nil
}

// end notes how the lease ended, and returns what to say of it from now on.
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
