package actor

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// queue is what queues with and without replies have in common.
type queue[S, In any] struct {
	label
	body *wire[In]
}

// A Queue is a durable queue of each actor of a type, whose messages are of type In. Messages are
// put into it by the actor's own turns ([Queue.Put]), as part of their commit, and from outside
// ([Queue.Send]).
//
// Usually the actor handles them itself: bind the handler with [OnMessage]. Each message is a turn,
// so it is gone when what its handler did is durable, and is handled exactly once. A handler that
// fails leaves nothing behind; the message is tried again after a pause, and becomes a dead letter
// after the last ([RetryBackoff], [Queue.DeadLetters]).
//
// A queue declared with [Workers] is received from outside instead ([Queue.Work], [Queue.Receive]):
// each message at least once, by one worker at a time, for as long as its lock lasts.
//
// Messages are handled by priority, and within a priority in the order in which they were sent.
// Others pass a message that is delayed or has failed.
type Queue[S, In any] struct {
	queue[S, In]
}

// NewQueue declares a queue of t. The name has the form that [NewType] describes and is unique
// among the type's queues; or it is "*", which stands for every name that is not declared, each a
// queue of its own: [Queue.Named] says which. In must be encodable both as CBOR and as JSON.
func NewQueue[In, S any](t *Type[S], name string, opts ...QueueOption) *Queue[S, In] {
	c := coreOf(t)
	reply := newWire[None](c, cborValue|jsonValue)
	return &Queue[S, In]{newQueue[In](t, kindQueue, name, reply.value(c, host.QueueReplyValue), nil, opts)}
}

// Named returns the queue of that name, if the queue was declared as "*". A name that has not the
// form of names, or is declared by itself, is reported when the queue is used.
func (q *Queue[S, In]) Named(name string) *Queue[S, In] {
	return &Queue[S, In]{queue[S, In]{q.label.named(name), q.body}}
}

// A RequestQueue is a [Queue] whose messages are answered: the sender gets the reply of the
// handler, or an error ([RequestQueue.Ask]). Bind the handler with [OnRequest], or declare the
// queue with [Workers].
type RequestQueue[S, In, Out any] struct {
	queue[S, In]
	reply *wire[Out]
}

// NewRequestQueue declares a queue of t with replies, like [NewQueue]. In and Out must be encodable
// both as CBOR and as JSON.
func NewRequestQueue[In, Out, S any](t *Type[S], name string, opts ...QueueOption) *RequestQueue[S, In, Out] {
	c := coreOf(t)
	q := &RequestQueue[S, In, Out]{reply: newWire[Out](c, cborValue|jsonValue)}
	faults := prefixed("reply ", q.reply.faults())
	q.queue = newQueue[In](t, kindRequests, name, q.reply.value(c, host.QueueReplyValue), faults, opts)
	return q
}

// Named returns the queue of that name, if the queue was declared as "*", like [Queue.Named].
func (q *RequestQueue[S, In, Out]) Named(name string) *RequestQueue[S, In, Out] {
	return &RequestQueue[S, In, Out]{queue[S, In]{q.label.named(name), q.body}, q.reply}
}

func newQueue[In, S any](t *Type[S], k kind, name string, reply value, faults []string, opts []QueueOption) queue[S, In] {
	c := coreOf(t)
	body := newWire[In](c, cborValue|jsonValue)
	d := declared{
		kind: k, name: name, queue: host.Queue{Name: name},
		values: []value{body.value(c, host.QueueBody), reply}, faults: append(prefixed("body ", body.faults()), faults...),
	}
	for _, o := range opts {
		o.applyQueue(&d)
	}
	return queue[S, In]{labelOf(declare(t, d)), body}
}

// Name returns the queue's name.
func (q *queue[S, In]) Name() string { return q.name }

// A QueueOption changes a queue's declaration.
type QueueOption interface{ applyQueue(*declared) }

type queueOption func(*declared)

func (o queueOption) applyQueue(d *declared) { o(d) }

// Workers declares that the queue is received by workers outside the actor, which has no handler
// for it.
func Workers() QueueOption { return queueOption(func(d *declared) { d.workers = true }) }

// MaxMessages bounds the messages that wait or are locked; 1,000,000 by default. Sending more has
// the error code Overloaded.
func MaxMessages(n int) QueueOption {
	return queueOption(func(d *declared) { d.queue.Messages = positive(d, "MaxMessages", n) })
}

// MaxQueueBytes bounds the sum of the bodies, in CBOR, of the messages that wait or are locked; by
// default only the actor's storage does. Sending more has the error code Overloaded.
func MaxQueueBytes(n int64) QueueOption {
	return queueOption(func(d *declared) { d.queue.Bytes = positive(d, "MaxQueueBytes", n) })
}

// MaxMessageBytes bounds one body, in CBOR; 1 MiB by default. A larger one has the error code
// TooLarge.
func MaxMessageBytes(n int) QueueOption {
	return queueOption(func(d *declared) { d.queue.MessageBytes = positive(d, "MaxMessageBytes", n) })
}

// RetryBackoff sets the pause before each new attempt of a message whose handler or worker failed.
// After the last attempt it becomes a dead letter; so a message is tried once more often than there
// are pauses. The default is 1 s, 5 s, 10 s. Without pauses a message is tried once.
func RetryBackoff(pauses ...time.Duration) QueueOption {
	return queueOption(func(d *declared) {
		for _, p := range pauses {
			if p < 0 || p > host.MaxQueueDelay {
				d.faults = append(d.faults, fmt.Sprintf("RetryBackoff: a pause of %s; it is 0 to %s", p, host.MaxQueueDelay))
			}
		}
		d.queue.Backoff = append([]time.Duration{}, pauses...)
	})
}

// LockFor sets how long a message that a worker received is locked, unless the worker says
// otherwise; 30 s by default.
func LockFor(lock time.Duration) QueueOption {
	return queueOption(func(d *declared) {
		d.queue.Lock = positive(d, "LockFor", lock)
		if lock > host.MaxQueueDelay {
			d.faults = append(d.faults, fmt.Sprintf("LockFor is %s; it is at most %s", lock, host.MaxQueueDelay))
		}
	})
}

// DedupWindow sets how long a [DedupID] is remembered; 24 h by default.
func DedupWindow(window time.Duration) QueueOption {
	return queueOption(func(d *declared) { d.queue.DedupWindow = positive(d, "DedupWindow", window) })
}

// DeadLetterRetention sets how long dead letters are kept; 14 days by default.
func DeadLetterRetention(keep time.Duration) QueueOption {
	return queueOption(func(d *declared) { d.queue.DeadFor = positive(d, "DeadLetterRetention", keep) })
}

// MaxDeadLetters sets how many dead letters are kept, the oldest going first; 10,000 by default.
func MaxDeadLetters(n int) QueueOption {
	return queueOption(func(d *declared) { d.queue.Dead = positive(d, "MaxDeadLetters", n) })
}

// ReplyRetention sets how long the reply to a message is kept for its sender; 1 h by default.
func ReplyRetention(keep time.Duration) QueueOption {
	return queueOption(func(d *declared) { d.queue.ReplyFor = positive(d, "ReplyRetention", keep) })
}

// positive notes a fault of a declaration unless n is positive.
func positive[N int | int64 | time.Duration](d *declared, option string, n N) N {
	if n <= 0 {
		d.faults = append(d.faults, fmt.Sprintf("%s is %v; it must be positive", option, n))
	}
	return n
}

// QueueStats are the counts of one queue.
type QueueStats = host.QueueStats

// Stats counts the messages of the queue. It works in a turn and in a query.
func (q *queue[S, In]) Stats(ctx Reader) (QueueStats, error) {
	if err := q.inTurn(ctx); err != nil {
		return QueueStats{}, err
	}
	return ctx.reader().QueueStats(q.name)
}

// A Message describes the message of a queue that is being handled.
type Message struct {
	// ID is unique within the actor.
	ID    uint64
	Queue string
	// Attempt counts from 1.
	Attempt  int
	Priority int
	Sent     time.Time
	DedupID  string
	// WantReply: the sender waits for the reply.
	WantReply bool
}

// OnMessage binds a queue to a method of the state: OnMessage(Jobs, (*Tenant).job).
// [Context.Message] describes the message. If the handler fails, the message is tried again.
func OnMessage[S, In any](q *Queue[S, In], handler func(*S, *Context, In) error) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	return bindMessage(&q.queue, funcName(handler), func(s *S, ctx *Context, body In, dst []byte) ([]byte, error) {
		return dst, handler(s, ctx, body)
	})
}

// OnRequest binds a queue with replies to a method of the state: OnRequest(Price, (*Tenant).price).
// Its result is kept for the sender. If the handler fails, the message is tried again; the sender
// gets the error of the last attempt.
func OnRequest[S, In, Out any](q *RequestQueue[S, In, Out], handler func(*S, *Context, In) (Out, error)) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	d, reply := q.decl, q.reply
	return bindMessage(&q.queue, funcName(handler), func(s *S, ctx *Context, body In, dst []byte) ([]byte, error) {
		out, err := handler(s, ctx, body)
		if err != nil {
			return dst, err
		}
		return appendOutput(d, reply, host.CBOR, dst, &out)
	})
}

func bindMessage[S, In any](q *queue[S, In], name string, handle func(*S, *Context, In, []byte) ([]byte, error)) Binding[S] {
	d, body := q.decl, q.body
	b := Binding[S]{decl: d, handler: name}
	b.message = func(s *S, t host.Turn, m *host.Received, dst []byte) ([]byte, error) {
		var arg In
		if err := body.decode(host.CBOR, m.Body, &arg); err != nil {
			return dst, valueError(d, err)
		}
		ctx := &Context{turn: t, core: d.core, message: m}
		out, err := handle(s, ctx, arg, dst)
		if err = ctx.end(err); err != nil {
			return dst, err
		}
		return out, nil
	}
	return b
}

// Message describes the message whose handler is running. It is zero in other turns.
func (c *Context) Message() Message {
	m := c.message
	if m == nil {
		return Message{}
	}
	return Message{
		ID: m.ID, Queue: m.Queue, Attempt: m.Attempt, Priority: m.Priority, Sent: m.Sent, DedupID: m.DedupID, WantReply: m.WantReply,
	}
}
