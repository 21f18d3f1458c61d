package actor

import (
	"context"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A Sent is the result of sending a message: its id, and whether it is a duplicate of the earlier
// message with this id.
type Sent = host.Sent

// An outgoing is a message on its way into a queue.
type outgoing struct {
	host.Enqueue
	keys []tuple.Tuple
}

// A sending is an outgoing message from outside, with the request that takes it.
type sending struct {
	outgoing
	request host.Request
}

// A SendOption changes how messages are sent from outside: a [MessageOption], [IdempotencyKey],
// [Existing] or [Traceparent].
type SendOption interface{ applySend(*sending) }

// A MessageOption changes one message, or all messages that are sent together.
type MessageOption interface {
	SendOption
	applyMessage(*outgoing)
}

type messageOption func(*outgoing)

func (o messageOption) applyMessage(m *outgoing) { o(m) }
func (o messageOption) applySend(s *sending)     { o(&s.outgoing) }

// Delay makes the message wait for d, at most 30 days, before it is handled.
func Delay(d time.Duration) MessageOption { return messageOption(func(m *outgoing) { m.Delay = d }) }

// Priority is -1,000 to 1,000, 0 without it: higher first.
func Priority(p int) MessageOption { return messageOption(func(m *outgoing) { m.Priority = p }) }

// DedupID makes a second message with the same id, within the queue's [DedupWindow], no message at
// all: sending it returns the id of the first. At most 255 bytes.
func DedupID(id string) MessageOption { return messageOption(func(m *outgoing) { m.DedupID = id }) }

// MessageTTL is how long the message may wait to be handled, at most 30 days; then it becomes a
// dead letter.
func MessageTTL(d time.Duration) MessageOption {
	return messageOption(func(m *outgoing) { m.TTL = d })
}

// Backoff overrides the queue's [RetryBackoff] for the message. Without pauses it is tried once.
func Backoff(pauses ...time.Duration) MessageOption {
	return messageOption(func(m *outgoing) { m.Backoff = append([]time.Duration{}, pauses...) })
}

// KeysIfUndelivered names keys of the actor's key-value store that get the body, in CBOR, if the
// message becomes a dead letter. From outside, the elements of keys are strings, integers, float64
// and booleans.
func KeysIfUndelivered(keys ...tuple.Tuple) MessageOption {
	return messageOption(func(m *outgoing) { m.keys = keys })
}

// Put sends a message to the actor's own queue, as part of the turn's commit.
//
// If Put fails, so does the turn, whether or not the handler looks at the error. The error code is
// Overloaded if the queue is full, TooLarge if the body is.
func (q *queue[S, In]) Put(ctx *Context, body In, opts ...MessageOption) (Sent, error) {
	sent, err := q.PutAll(ctx, []In{body}, opts...)
	if err != nil || len(sent) == 0 {
		return Sent{}, err
	}
	return sent[0], nil
}

// PutAll is Put of up to 1,000 messages with the same options. It returns the result of each.
func (q *queue[S, In]) PutAll(ctx *Context, bodies []In, opts ...MessageOption) ([]Sent, error) {
	if err := q.inTurn(ctx); err != nil {
		return nil, ctx.fail(err)
	}
	if len(bodies) == 0 {
		return nil, nil
	}
	var m outgoing
	for _, o := range opts {
		o.applyMessage(&m)
	}
	for _, key := range m.keys {
		packed, err := packKey(nil, key)
		if err != nil {
			return nil, ctx.fail(err)
		}
		m.KeysIfUndelivered = append(m.KeysIfUndelivered, packed)
	}
	messages := make([]host.Enqueue, len(bodies))
	for i := range bodies {
		body, err := q.body.append(host.CBOR, nil, &bodies[i])
		if err != nil {
			return nil, ctx.fail(valueError(q.decl, err))
		}
		messages[i] = m.Enqueue
		messages[i].Body = body
	}
	sent, err := ctx.turn.Enqueue(q.name, messages)
	return sent, ctx.fail(err)
}

// Send sends a message to the queue of an actor, which the first call creates, and returns when it
// is durable. Sending it again after an error may send it twice; [DedupID] keeps that from
// happening. The error is an [*Error], with code Overloaded if the queue is full and TooLarge if
// the body is.
//
// A turn cannot use it, because it would be no part of the turn's commit: the error code is
// FailedPrecondition. [Queue.Put] and [Queue.Post] are.
func (q *queue[S, In]) Send(ctx context.Context, ref Ref[S], body In, opts ...SendOption) (Sent, error) {
	sent, err := q.send(ctx, ref, []In{body}, false, opts)
	if err != nil {
		return Sent{}, err
	}
	return sent[0], nil
}

// SendAll is Send of up to 1,000 messages, all or none, with the same options. It returns the
// result of each.
func (q *queue[S, In]) SendAll(ctx context.Context, ref Ref[S], bodies []In, opts ...SendOption) ([]Sent, error) {
	if len(bodies) == 0 {
		return nil, nil
	}
	return q.send(ctx, ref, bodies, false, opts)
}

func (q *queue[S, In]) send(ctx context.Context, ref Ref[S], bodies []In, reply bool, opts []SendOption) ([]Sent, error) {
	at, err := q.site(ref)
	if err != nil {
		return nil, err
	}
	if err := q.refuseTurn(ctx, ref.node); err != nil {
		return nil, err
	}
	var s sending
	for _, o := range opts {
		o.applySend(&s)
	}
	in, err := q.input(&s.outgoing, bodies, reply)
	if err != nil {
		return nil, err
	}
	r, err := requestOf(at, method.QueueSend, &in)
	if err != nil {
		return nil, err
	}
	r.IdempotencyKey, r.Existing, r.Traceparent = s.request.IdempotencyKey, s.request.Existing, s.request.Traceparent
	var out host.QueueSendOutput
	if err := at.send(ctx, r, &out); err != nil {
		return nil, err
	}
	if len(out.Messages) != len(bodies) {
		return nil, Errorf(Internal, "the output of %s is about %d messages, not %d", host.QueueSend, len(out.Messages), len(bodies))
	}
	return out.Messages, nil
}

// input is the input of queue.send for messages with the same options.
func (q *queue[S, In]) input(m *outgoing, bodies []In, reply bool) (host.QueueSendInput, error) {
	message := host.QueueMessageInput{
		DelayMS: millis(m.Delay), Priority: m.Priority, DedupID: m.DedupID, WantReply: reply,
	}
	if m.TTL != 0 {
		ttl := millis(m.TTL)
		message.TTLMS = &ttl
	}
	if m.Backoff != nil {
		message.BackoffMS = make([]int64, len(m.Backoff))
		for i, pause := range m.Backoff {
			message.BackoffMS[i] = millis(pause)
		}
	}
	var err error
	if message.KeysIfUndelivered, err = plainKeys(m.keys); err != nil {
		return host.QueueSendInput{}, err
	}
	in := host.QueueSendInput{Queue: q.name, Messages: make([]host.QueueMessageInput, len(bodies))}
	for i := range bodies {
		body, err := q.body.append(host.CBOR, nil, &bodies[i])
		if err != nil {
			return host.QueueSendInput{}, Errorf(InvalidArgument, "body of %s: %s", q.decl, err)
		}
		in.Messages[i] = message
		in.Messages[i].Body = body
	}
	return in, nil
}

// Post sends a message to the queue of another actor of the queue's type, as part of the turn's
// commit. It is delivered after the commit, which creates the actor if it is not there, in order
// for each pair of actors with [Action.Send], and put into the queue exactly once. A [Delay] counts
// from then. A queue that is full is tried again; a message that is refused, such as a message that
// is too large, or that failed in all attempts, is moved aside as failed at the sender.
//
// If Post fails, so does the turn, whether or not the handler looks at the error.
func (q *queue[S, In]) Post(ctx *Context, ref Ref[S], body In, opts ...MessageOption) error {
	return q.PostAll(ctx, ref, []In{body}, opts...)
}

// PostAll is Post of several messages, at most 1,000, all or none, with the same options.
func (q *queue[S, In]) PostAll(ctx *Context, ref Ref[S], bodies []In, opts ...MessageOption) error {
	if len(bodies) == 0 {
		return nil
	}
	at, err := q.site(ref)
	if err != nil {
		return ctx.fail(err)
	}
	var m outgoing
	for _, o := range opts {
		o.applyMessage(&m)
	}
	in, err := q.input(&m, bodies, false)
	if err != nil {
		return ctx.fail(err)
	}
	r, err := requestOf(at, method.QueueSend, &in)
	if err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.Send(&host.Message{Type: at.at.Type, Key: at.at.Key, Method: r.Method, Input: r.Input}))
}

// refuseTurn returns an error if a message is about to be sent beside the commit of the turn that
// sends it, and fails the turn.
func (q *queue[S, In]) refuseTurn(ctx context.Context, node Node) error {
	if inside, ok := node.(*Context); ok {
		ctx = inside
	}
	if turn, ok := ctx.Value(contextKey{}).(*Context); ok {
		return turn.fail(Errorf(FailedPrecondition, "%s: Send in a turn would be no part of its commit; use Put for the actor's "+
			"own queue and Post for another actor's", q.decl))
	}
	return nil
}

// site returns the actor that the queue is used on from outside.
func (q *queue[S, In]) site(ref Ref[S]) (site, error) {
	at, err := ref.site(q.decl)
	if err == nil {
		err = q.err()
	}
	return at, err
}

// plainKeys returns keys as they stand in requests, where an element's type is all that JSON tells
// apart.
func plainKeys(keys []tuple.Tuple) ([][]any, error) {
	var out [][]any
	for _, key := range keys {
		for i, element := range key {
			switch element.(type) {
			case string, bool, float64, int, int8, int16, int32, int64, uint8, uint16, uint32:
			default:
				return nil, Errorf(InvalidArgument, "KeysIfUndelivered: key part %d is a %T; from outside it is a string, an integer, "+
					"a float64 or a boolean", i+1, element)
			}
		}
		out = append(out, key)
	}
	return out, nil
}

// Ask sends a message to the queue of an actor, which the first call creates, and waits until it is
// handled. The error is an [*Error]: why the message could not be sent, or, if all attempts failed
// and it became a dead letter, what the handler returned the last time.
//
// With a [DedupID], asking again waits for the reply to the first message; the error code is
// NotFound if that was sent without asking, or its reply is no longer kept ([ReplyRetention]).
//
// When ctx ends first, the error code is DeadlineExceeded or Canceled and Metadata "message" is the
// message's id; the message stays in the queue and will be handled. Ask cannot wait in a turn,
// whose actor would stand still meanwhile: the error code is then InvalidArgument, and nothing is
// sent.
func (q *RequestQueue[S, In, Out]) Ask(ctx context.Context, ref Ref[S], body In, opts ...SendOption) (Out, error) {
	var out Out
	if _, err := q.site(ref); err != nil {
		return out, err
	}
	for _, v := range []any{ctx, ref.node} {
		if _, ok := v.(Reader); ok {
			return out, Errorf(InvalidArgument, "%s: Ask cannot wait inside a turn; ask from a task, or send and take the reply "+
				"as a message of its own", q.decl)
		}
	}
	sent, err := q.send(ctx, ref, []In{body}, true, opts)
	if err != nil {
		return out, err
	}
	at, err := q.site(ref)
	if err != nil {
		return out, err
	}
	result, err := at.result(ctx, q.name, sent[0].ID)
	switch {
	case err != nil:
		return out, err
	case result.Error != nil:
		return out, result.Error
	}
	if err := q.reply.decode(host.CBOR, result.Reply, &out); err != nil {
		return out, Errorf(Internal, "the reply of %s does not decode: caller and actor disagree about its type", q.decl)
	}
	return out, nil
}

// result waits for the result of a message, for as long as ctx lasts.
func (s site) result(ctx context.Context, queue string, id uint64) (host.QueueResultOutput, error) {
	var pause pacer
	for {
		start := time.Now()
		in := host.QueueResultInput{Queue: queue, ID: id, WaitMS: waitSlice.Milliseconds()}
		out, err := ask(ctx, s, method.QueueResult, &in)
		switch {
		case err == nil && out.Done:
			return out, nil
		case ctx.Err() != nil:
			message := contextError(ctx, "waiting for the reply to a message, which stays in the queue")
			return out, message.With("message", strconv.FormatUint(id, 10))
		case err == nil:
			pause.waited(ctx, start, true)
		case !again(err):
			return out, err
		default:
			pause.pause(ctx)
		}
	}
}
