package handle

import (
	"context"
	"iter"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Queue is one queue of one actor, for its senders, its workers and operators. Out is the type of
// the replies; it is actor.None in a queue without replies. Made by actor.Queue.Of. Safe for
// concurrent use.
type Queue[In, Out any] struct {
	_ [0]func(In, Out) // keeps types of other values from being converted into it
	*queue
}

// A queue is a Queue without its Go types: it takes pointers to bodies and replies. Each handle
// does its work in such a type, because generic code is compiled for each type of a program.
type queue struct {
	site  site.Site
	body  *codec.Value
	reply *codec.Value
	lock  time.Duration
}

// A Sent is the result of sending a message: its id, and whether it is a duplicate of an earlier
// message with the same actor.DedupID.
type Sent = host.Sent

// QueueStats are the counts of one queue.
type QueueStats = host.QueueStats

// A SendOption changes how messages are sent: an actor.MessageOption, actor.IdempotencyKey,
// actor.Existing or actor.Traceparent.
type SendOption = site.SendOption

// Send sends a message to the queue and returns when the message is durable. The first call creates
// the actor. Sending again after an error may send the message twice; actor.DedupID prevents that.
//
// The error code is Overloaded if the queue is full, TooLarge if the body is over the queue's
// limit, and FailedPrecondition in a turn, because the message would not be part of the turn's
// commit. Turns use actor.Queue.Put and actor.Queue.Post. See actor.QueueConfig for the limits of a
// queue; a delay and a time to live are up to 30 days.
func (q Queue[In, Out]) Send(ctx context.Context, body In, opts ...SendOption) (Sent, error) {
	sent, err := q.send(ctx, valuesOf([]In{body}), false, opts)
	if err != nil {
		return Sent{}, err
	}
	return sent[0], nil
}

// SendAll sends up to 1,000 messages with the same options, all or none. It returns the result of
// each. The error codes are those of [Queue.Send]; the code is also TooLarge for more messages than
// the queue can hold.
func (q Queue[In, Out]) SendAll(ctx context.Context, bodies []In, opts ...SendOption) ([]Sent, error) {
	if len(bodies) == 0 {
		return nil, nil
	}
	return q.send(ctx, valuesOf(bodies), false, opts)
}

func (q *queue) send(ctx context.Context, bodies values, reply bool, opts []SendOption) ([]Sent, error) {
	if q.site.Fault != nil {
		return nil, q.site.Fault
	}
	if turn := q.site.InsideOf(ctx); turn != nil && turn.Fail != nil {
		return nil, turn.Fail(host.Errorf(host.FailedPrecondition,
			"%s: Send in a turn would be no part of its commit; use Put for the "+
				"actor's own queue and Post for another actor's", q.site.Contract))
	}
	var s site.Sending
	for _, o := range opts {
		o.ApplySend(&s)
	}
	r, err := sendRequest(&q.site, q.body, &s, bodies, reply)
	if err != nil {
		return nil, err
	}
	var out host.QueueSendOutput
	if err := q.site.Send(ctx, r, &out); err != nil {
		return nil, err
	}
	if len(out.Messages) != bodies.n {
		return nil, host.Errorf(host.Internal, "the output of %s is about %d messages, not %d",
			host.QueueSend, len(out.Messages), bodies.n)
	}
	return out.Messages, nil
}

// Ask sends a message to the queue and waits for its reply. In a queue without replies it waits
// until the message is handled. The first call creates the actor.
//
// If all attempts fail and the message becomes a dead letter, the error is that of the last
// attempt. The other error codes are those of [Queue.Send]. If ctx ends first, the code is
// DeadlineExceeded or Canceled, and Metadata "message" has the message's id; the message stays in
// the queue and will be handled.
//
// With actor.DedupID, asking again waits for the reply to the first message. The error code is
// NotFound if the first message was sent without asking, or if its reply is no longer kept, and
// Destroyed if the actor is destroyed while Ask waits.
//
// Ask in a turn would stop the actor: the error code is InvalidArgument, and nothing is sent.
func (q Queue[In, Out]) Ask(ctx context.Context, body In, opts ...SendOption) (Out, error) {
	var out Out
	err := q.ask(ctx, valuesOf([]In{body}), &out, opts)
	return out, err
}

func (q *queue) ask(ctx context.Context, body values, reply any, opts []SendOption) error {
	if q.site.Fault != nil {
		return q.site.Fault
	}
	if q.site.InsideOf(ctx) != nil {
		return host.Errorf(host.InvalidArgument,
			"%s: Ask cannot wait inside a turn; ask from a task, or send and take the reply "+
				"as a message of its own", q.site.Contract)
	}
	sent, err := q.send(ctx, body, true, opts)
	if err != nil {
		return err
	}
	raw, err := q.result(ctx, sent[0].ID)
	if err != nil {
		return err
	}
	if err := q.reply.Decode(host.CBOR, raw, reply); err != nil {
		return host.Errorf(host.Internal,
			"the reply of %s does not decode: caller and actor disagree about its type", q.site.Contract)
	}
	return nil
}

// result waits for the reply to a message, or the error of its last attempt, until ctx ends.
func (q *queue) result(ctx context.Context, id uint64) (host.Raw, error) {
	var pause site.Pacer
	for {
		start := time.Now()
		in := host.QueueResultInput{Queue: q.site.Name, ID: id, WaitMS: site.WaitSlice.Milliseconds()}
		out, err := site.Ask(ctx, &q.site, method.QueueResult, &in)
		switch {
		case err == nil && out.Done && out.Error != nil:
			return nil, out.Error
		case err == nil && out.Done:
			return out.Reply, nil
		case ctx.Err() != nil:
			message := site.ContextError(ctx, "waiting for the reply to a message, which stays in the queue")
			return nil, message.With("message", strconv.FormatUint(id, 10))
		case err == nil:
			pause.Waited(ctx, start, true)
		case !site.Again(err):
			return nil, err
		default:
			pause.Pause(ctx)
		}
	}
}

// Stats counts the messages of the queue.
func (q *queue) Stats(ctx context.Context) (QueueStats, error) {
	out, err := site.Ask(ctx, &q.site, method.QueueStats, &host.QueueStatsInput{Queue: q.site.Name})
	if err != nil || len(out.Queues) == 0 {
		return QueueStats{Queue: q.site.Name}, err
	}
	return out.Queues[0], nil
}

// A Listed is a message of a queue, for operators.
type Listed[In any] struct {
	ID    uint64
	Queue string
	Body  In
	// State is "pending", "delayed", "processing" or "dead".
	State    string
	Priority int
	Attempts int
	Sent     time.Time
	// Due is when a delayed or locked message can be received. Expires is when it becomes a dead
	// letter if it was not received. Both are zero if there is no such time.
	Due, Expires time.Time
	DedupID      string
	// Error is why the last attempt failed, with details that senders do not get; Tried is when it
	// failed; Died is when the message became a dead letter.
	Error       string
	Tried, Died time.Time
}

// Peek ranges over the messages that wait or are locked, in the order of their ids, and changes
// nothing. It reads page by page. If a body does not decode, the pair has the rest of the message
// and an error, and the loop may go on. Any other error ends the loop.
func (q Queue[In, Out]) Peek(ctx context.Context) iter.Seq2[Listed[In], error] {
	return listed[In](ctx, q.queue, &method.QueuePeek)
}

// Delete removes messages that wait or are locked, and counts them. It takes up to 1,000 ids; the
// error code is TooLarge for more. It ignores ids without such a message. The messages do not
// become dead letters.
func (q *queue) Delete(ctx context.Context, ids ...uint64) (int64, error) {
	if len(ids) == 0 {
		return 0, q.site.Fault
	}
	return site.Count(ctx, &q.site, method.QueueDelete, &host.QueueSelectInput{Queue: q.site.Name, IDs: ids})
}

// Purge removes and counts all waiting messages, except messages that workers hold. They do not
// become dead letters.
func (q *queue) Purge(ctx context.Context) (int64, error) {
	return q.count(ctx, &method.QueuePurge)
}

// Skip makes the next message a dead letter, so that later messages can run. It returns the number
// of skipped messages, 1 or 0.
func (q *queue) Skip(ctx context.Context) (int64, error) {
	return q.count(ctx, &method.QueueSkip)
}

func (q *queue) count(ctx context.Context, m *site.Counting[host.QueueInput]) (int64, error) {
	return site.Count(ctx, &q.site, *m, &host.QueueInput{Queue: q.site.Name})
}

// list yields the messages that a method lists, or the error that ends them.
func (q *queue) list(
	ctx context.Context, m *method.Typed[host.QueueListInput,
		host.QueueListOutput], yield func(*host.ListedMessage, error) bool,
) {
	in := host.QueueListInput{Queue: q.site.Name}
	for {
		page, err := site.Ask(ctx, &q.site, *m, &in)
		if err != nil {
			yield(nil, err)
			return
		}
		for i := range page.Messages {
			if !yield(&page.Messages[i], nil) {
				return
			}
			in.After = page.Messages[i].ID
		}
		if !page.More || len(page.Messages) == 0 {
			return
		}
	}
}

// listed ranges over the messages that a method lists.
func listed[In any](
	ctx context.Context, q *queue, m *method.Typed[host.QueueListInput, host.QueueListOutput],
) iter.Seq2[Listed[In], error] {
	return func(yield func(Listed[In], error) bool) {
		q.list(ctx, m, func(h *host.ListedMessage, err error) bool {
			var l Listed[In]
			if err == nil {
				err = l.fill(q, h)
			}
			return yield(l, err)
		})
	}
}

// fill fills in l from a listed message.
func (l *Listed[In]) fill(q *queue, m *host.ListedMessage) error {
	*l = Listed[In]{
		ID: m.ID, Queue: m.Queue, State: m.State, Priority: m.Priority, Attempts: m.Attempts, Sent: m.Sent, DedupID: m.DedupID,
		Due: timeOf(m.Due), Expires: timeOf(m.Expires), Error: m.Error, Tried: timeOf(m.Tried), Died: timeOf(m.Died),
	}
	return q.decodeBody(m.ID, m.Body, &l.Body)
}

func (q *queue) decodeBody(id uint64, data host.Raw, body any) error {
	if err := q.body.Decode(host.CBOR, data, body); err != nil {
		return host.Errorf(host.Internal, "the body of message %d of %s does not decode: %s", id, q.site.Contract, err)
	}
	return nil
}

// timeOf returns the time that p points to, or the zero time.
func timeOf(p *time.Time) time.Time {
	if p == nil {
		return time.Time{}
	}
	return *p
}
