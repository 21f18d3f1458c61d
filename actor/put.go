package actor

import (
	"time"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/workflow"
)

// A MessageOption changes one message, or all messages that are sent together.
type MessageOption interface {
	handle.SendOption
	applyMessage(*site.Sending)
}

type messageOption func(*site.Sending)

func (o messageOption) applyMessage(m *site.Sending) { o(m) }

// ApplySend implements handle.SendOption.
func (o messageOption) ApplySend(m *site.Sending) { o(m) }

// Delay delays the handling of the message by d, up to 30 days.
func Delay(d time.Duration) MessageOption {
	return messageOption(func(m *site.Sending) { m.Delay = d })
}

// Priority is the priority of the message, from -1,000 to 1,000; the default is 0. Higher
// priorities come first.
func Priority(p int) MessageOption { return messageOption(func(m *site.Sending) { m.Priority = p }) }

// DedupID names the message, in up to 255 bytes. A second message with the same id within the
// queue's DedupWindow is not sent; its sender gets the id of the first message.
func DedupID(id string) MessageOption { return messageOption(func(m *site.Sending) { m.DedupID = id }) }

// MessageTTL is how long the message may wait to be handled, up to 30 days; then it becomes a dead
// letter.
func MessageTTL(d time.Duration) MessageOption {
	return messageOption(func(m *site.Sending) { m.TTL = d })
}

// Backoff overrides [QueueConfig.Backoff] for the message. Without pauses the message is tried
// once.
func Backoff(pauses ...time.Duration) MessageOption {
	return messageOption(func(m *site.Sending) { m.Backoff = append([]time.Duration{}, pauses...) })
}

// KeysIfUndelivered names keys of the actor's key-value store that get the body, in CBOR, if the
// message becomes a dead letter. From outside, the elements of keys are strings, integers, float64
// and booleans.
func KeysIfUndelivered(keys ...tuple.Tuple) MessageOption {
	return messageOption(func(m *site.Sending) { m.Keys = keys })
}

// Put sends a message to the actor's own queue, as part of the turn's commit.
//
// If Put fails, so does the turn, whether or not the handler looks at the error. The error code is
// Overloaded if the queue is full, and TooLarge if the body is too large.
func (q *Queue[S, In, Out]) Put(ctx *Context, body In, opts ...MessageOption) (handle.Sent, error) {
	sent, err := q.put(ctx, 1, func(int) any { return &body }, opts)
	if err != nil || len(sent) == 0 {
		return handle.Sent{}, err
	}
	return sent[0], nil
}

// PutAll is Put of up to 1,000 messages with the same options. It returns the result of each.
func (q *Queue[S, In, Out]) PutAll(ctx *Context, bodies []In, opts ...MessageOption) ([]handle.Sent, error) {
	return q.put(ctx, len(bodies), func(i int) any { return &bodies[i] }, opts)
}

// put sends messages with the same options; body returns a pointer to the body of one.
func (q *queue) put(ctx *Context, n int, body func(i int) any, opts []MessageOption) ([]handle.Sent, error) {
	if err := q.inTurn(ctx); err != nil {
		return nil, ctx.fail(err)
	}
	if n == 0 {
		return nil, nil
	}
	var m site.Sending
	for _, o := range opts {
		o.applyMessage(&m)
	}
	for _, key := range m.Keys {
		packed, err := packKey(nil, key)
		if err != nil {
			return nil, ctx.fail(err)
		}
		m.KeysIfUndelivered = append(m.KeysIfUndelivered, packed)
	}
	messages := make([]host.Enqueue, n)
	for i := range messages {
		data, err := q.body.Append(host.CBOR, nil, body(i))
		if err != nil {
			return nil, ctx.fail(valueError(q.decl, err))
		}
		messages[i] = m.Enqueue
		messages[i].Body = data
	}
	sent, err := ctx.turn.Enqueue(q.name, messages)
	return sent, ctx.fail(err)
}

// Post sends a message to the queue of another actor of the queue's type, as part of the turn's
// commit. The message is put into the other queue after the commit, exactly once. This creates the
// actor if there is none. Messages of one actor to another arrive in the order of sending, together
// with those of [Action.Send]. A [Delay] counts from the arrival. Delivery is tried again while the
// other queue is full. A message that is refused or failed in all attempts becomes a dead letter
// of the sender ([Ref.DeadLetters]).
//
// If Post fails, so does the turn, whether or not the handler looks at the error.
func (q *Queue[S, In, Out]) Post(ctx *Context, ref Ref[S], body In, opts ...MessageOption) error {
	return q.PostAll(ctx, ref, []In{body}, opts...)
}

// PostAll is Post of up to 1,000 messages, all or none, with the same options.
func (q *Queue[S, In, Out]) PostAll(ctx *Context, ref Ref[S], bodies []In, opts ...MessageOption) error {
	if len(bodies) == 0 {
		return nil
	}
	var m site.Sending
	for _, o := range opts {
		o.applyMessage(&m)
	}
	at := ref.ref.site(q.label)
	r, err := handle.SendRequest(&at, q.body, &m, bodies, false)
	if err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.Send(&host.Message{Type: at.At.Type, Key: at.At.Key, Method: r.Method, Input: r.Input}))
}

// QueueName implements workflow.Source: it returns the name of the queue.
func (q *queue) QueueName() string { return q.name }

// DecodeMessage implements workflow.Source: it decodes a body.
func (q *Queue[S, In, Out]) DecodeMessage(body []byte) (In, error) {
	var v In
	err := q.body.Decode(host.CBOR, body, &v)
	return v, err
}

// Reply answers a message that a workflow of the actor has received. It works in a turn of the run
// ([UpdateState], [OnCommit]), as part of its commit. Only the first answer counts. A sender that
// did not ask gets none. A message that is not answered within 30 days is forgotten. If Reply
// fails, so does the turn.
func (q *Queue[S, In, Out]) Reply(ctx *Context, m workflow.Received[In], reply Out) error {
	return q.answer(ctx, m.Queue, m.ID, &reply)
}

func (q *queue) answer(ctx *Context, name string, id uint64, reply any) error {
	data, err := appendOutput(q.decl, q.reply, host.CBOR, nil, reply)
	if err != nil {
		return ctx.fail(err)
	}
	return answer(ctx, name, id, data, nil)
}

// Refuse is Reply with an error, which the sender gets.
func (q *Queue[S, In, Out]) Refuse(ctx *Context, m workflow.Received[In], cause *Error) error {
	return q.refuse(ctx, m.Queue, m.ID, cause)
}

func (q *queue) refuse(ctx *Context, name string, id uint64, cause *Error) error {
	if cause == nil {
		return ctx.fail(Errorf(InvalidArgument, "%s: Refuse needs an error", q.decl))
	}
	return answer(ctx, name, id, nil, cause)
}

func answer(ctx *Context, queue string, id uint64, reply []byte, cause *Error) error {
	t, ok := ctx.turn.(host.RunTurn)
	if !ok {
		return ctx.fail(Errorf(FailedPrecondition,
			"message %d of queue %q can be answered in turns of the workflow run only", id, queue))
	}
	return ctx.fail(t.Answer(queue, id, reply, cause))
}
