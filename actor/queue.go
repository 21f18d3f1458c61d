package actor

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A Queue is a durable queue of an actor, with messages of type In. The actor's own turns put
// messages into it ([Queue.Put]), as part of their commit. Other senders use the handle
// ([Queue.Of], [handle.Queue.Send]).
//
// Usually the actor handles the messages: bind the handler with [OnMessage]. The handler of a
// message runs in a turn, and the commit of the turn removes the message. So each message is
// handled exactly once. A handler that fails leaves nothing behind. The message is tried again
// after a pause, and becomes a dead letter after the last attempt ([QueueConfig.Backoff],
// [handle.Queue.DeadLetters]).
//
// A queue with [QueueConfig.Workers] is received from outside instead ([handle.Queue.Work],
// [handle.Queue.Receive]). Each message is received at least once, by one worker at a time, for as
// long as its lock lasts.
//
// A queue that is declared with [NewRequestQueue] has replies of type Out for its senders
// ([handle.Queue.Ask]); otherwise Out is [None].
//
// Messages are handled by priority, and within a priority in the order of sending. Other messages
// pass a message that is delayed or has failed.
type Queue[S, In, Out any] struct {
	_ [0]func(S, In, Out) // keeps types of other values from being converted into it
	queue
}

// A queue is a Queue of messages and replies of any types. Its methods take pointers to them.
type queue struct {
	label
	body  *codec.Value
	reply *codec.Value
}

// A QueueConfig declares how a queue works. Zero fields have defaults; negative ones are faults.
type QueueConfig struct {
	// Workers leaves the queue to workers outside the actor; the actor has no handler for it.
	Workers bool
	// ByRun leaves the queue to the actor's workflow run (workflow.Receive): it has neither a
	// handler nor workers. The commit that receives a message records it in the history. Messages
	// that wait when a run ends become dead letters; messages sent before the next run begins are
	// for the next run.
	ByRun bool

	// MaxMessages bounds the messages that wait or are locked; 0 is 1,000,000. Sending more has the
	// error code Overloaded.
	MaxMessages int
	// MaxBytes bounds the sum of the bodies, in CBOR, of these messages; 0 is the actor's storage.
	// Sending more has the error code Overloaded.
	MaxBytes int64
	// MaxMessageBytes bounds one body, in CBOR; 0 is 1 MiB. A larger one has the error code
	// TooLarge.
	MaxMessageBytes int

	// Backoff lists the pauses, up to 30 days each, before new attempts of a message whose handler
	// or worker failed. So a message has one attempt more than there are pauses; after the last it
	// becomes a dead letter. Nil is 1 s, 5 s, 10 s; empty means one attempt.
	Backoff []time.Duration
	// Lock is how long a received message is locked, 1 ms to 30 days, unless the worker overrides
	// it; 0 is 30 s.
	Lock time.Duration
	// DedupWindow is how long a [DedupID] is remembered; 0 is 24 h.
	DedupWindow time.Duration

	// DeadLetterRetention is how long dead letters are kept; 0 is 14 days.
	DeadLetterRetention time.Duration
	// MaxDeadLetters is how many dead letters are kept, the oldest going first; 0 is 10,000.
	MaxDeadLetters int
	// ReplyRetention is how long the reply to a message is kept for its sender; 0 is 1 h.
	ReplyRetention time.Duration
}

// validate returns every fault.
func (c *QueueConfig) validate() []string {
	f := negative("QueueConfig", []setting{
		{"MaxMessages", int64(c.MaxMessages)}, {"MaxBytes", c.MaxBytes}, {"MaxMessageBytes", int64(c.MaxMessageBytes)},
		{"Lock", int64(c.Lock)}, {"DedupWindow", int64(c.DedupWindow)}, {"DeadLetterRetention",
			int64(c.DeadLetterRetention)},
		{"MaxDeadLetters", int64(c.MaxDeadLetters)}, {"ReplyRetention", int64(c.ReplyRetention)},
	})
	for i, p := range c.Backoff {
		if p < 0 || p > host.MaxQueueDelay {
			f = append(f, fmt.Sprintf("QueueConfig.Backoff[%d] is %s; a pause is 0 to %s", i, p, host.MaxQueueDelay))
		}
	}
	if c.Lock > host.MaxQueueDelay || c.Lock > 0 && c.Lock < time.Millisecond {
		f = append(f, fmt.Sprintf("QueueConfig.Lock is %s; it is 1ms to %s", c.Lock, host.MaxQueueDelay))
	}
	if c.MaxBytes > 0 && int64(c.MaxMessageBytes) > c.MaxBytes {
		f = append(f, fmt.Sprintf("QueueConfig.MaxMessageBytes is %d, more than MaxBytes of the whole queue, %d", c.MaxMessageBytes, c.MaxBytes))
	}
	if c.Workers && c.ByRun {
		f = append(f, "QueueConfig.Workers and QueueConfig.ByRun exclude each other")
	}
	return f
}

// A setting is a number of a config.
type setting struct {
	field string
	value int64
}

// negative returns a fault for each negative setting.
func negative(config string, settings []setting) (faults []string) {
	for _, s := range settings {
		if s.value < 0 {
			faults = append(faults, fmt.Sprintf("%s.%s is negative", config, s.field))
		}
	}
	return faults
}

// NewQueue declares a queue of t without replies. The name has the form that [NewType] describes
// and is unique among the type's queues. The name "*" stands for every name that is not declared,
// each a separate queue; [Queue.Named] selects one. In must be encodable both as CBOR and as JSON.
func NewQueue[In, S any](t *Type[S], name string, cfg QueueConfig) *Queue[S, In, None] {
	c := coreOf(t)
	return &Queue[S, In, None]{queue: c.queue(name, both[In](c), both[None](c), &cfg, false)}
}

// NewRequestQueue declares a queue of t with replies, like [NewQueue]. In and Out must be encodable
// both as CBOR and as JSON.
func NewRequestQueue[In, Out, S any](t *Type[S], name string, cfg QueueConfig) *Queue[S, In, Out] {
	c := coreOf(t)
	return &Queue[S, In, Out]{queue: c.queue(name, both[In](c), both[Out](c), &cfg, true)}
}

func (c *core) queue(name string, body, reply *codec.Value, cfg *QueueConfig, replies bool) queue {
	return queue{body: body, reply: reply, label: labelOf(c.declare(declared{
		kind: kindQueue, name: name, workers: cfg.Workers, replies: replies,
		queue: host.Queue{
			Name: name, ByRun: cfg.ByRun, Messages: cfg.MaxMessages, Bytes: cfg.MaxBytes, MessageBytes: cfg.MaxMessageBytes,
			Backoff: slices.Clone(cfg.Backoff), Lock: cfg.Lock, DedupWindow: cfg.DedupWindow,
			DeadFor: cfg.DeadLetterRetention, Dead: cfg.MaxDeadLetters, ReplyFor: cfg.ReplyRetention,
		},
		values: []codec.Described{body.Describe(host.QueueBody), reply.Describe(host.QueueReplyValue)},
		faults: append(append(prefixed("body ", body.Faults()),
			prefixed("reply ", reply.Faults())...), cfg.validate()...),
	}))}
}

// Named returns the queue of that name, if the queue was declared as "*". Using a queue fails if
// its name does not have the form of names, or has a declaration of its own.
func (q *Queue[S, In, Out]) Named(name string) *Queue[S, In, Out] {
	return &Queue[S, In, Out]{queue: queue{q.label.named(name), q.body, q.reply}}
}

// Of returns the queue of an actor, for its senders, its workers and operators.
func (q *Queue[S, In, Out]) Of(ref Ref[S]) handle.Queue[In, Out] {
	return handle.NewQueue[In, Out](ref.ref.site(q.label), q.body, q.reply, q.lock())
}

func (q *queue) lock() time.Duration {
	settings := q.decl.queue
	settings.EnsureDefaults()
	return settings.Lock
}

// Stats counts the messages of the queue. It works in a turn and in a query.
func (q *queue) Stats(ctx Reader) (handle.QueueStats, error) {
	if err := q.inTurn(ctx); err != nil {
		return handle.QueueStats{}, err
	}
	return ctx.reader().QueueStats(q.name)
}

// A Message describes the message of a queue that is being handled.
type Message = handle.Message

// OnMessage binds a queue to a method of the state: OnMessage(Jobs, (*Tenant).job).
// [Context.Message] describes the message. If the handler fails, the message is tried again.
func OnMessage[S, In any](q *Queue[S, In, None], handler func(*S, *Context, In) error) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: q.decl, handler: funcName(handler), in: q.body, call: quiet(handler)}}
}

// OnRequest binds a queue with replies to a method of the state: OnRequest(Price, (*Tenant).price).
// Its result is kept for the sender. If the handler fails, the message is tried again; the sender
// gets the error of the last attempt.
func OnRequest[S, In, Out any](q *Queue[S, In, Out], handler func(*S, *Context, In) (Out, error)) Binding[S] {
	if q == nil {
		return Binding[S]{}
	}
	return Binding[S]{tie: tie{decl: q.decl, handler: funcName(handler), in: q.body, out: q.reply, call: loud(handler)}}
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
