package actor

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Listed is a message of a queue as operators see it.
type Listed[In any] struct {
	ID    uint64
	Queue string
	Body  In
	// State is "pending", "delayed", "processing" or "dead".
	State    string
	Priority int
	Attempts int
	Sent     time.Time
	// Due is when a delayed or locked message can be received, Expires when it becomes a dead
	// letter unless it is; zero if there is no such time.
	Due, Expires time.Time
	DedupID      string
	// Error is why the last attempt failed, with what a sender that waits for the reply is not
	// told; Tried when it did; Died when the message became a dead letter.
	Error       string
	Tried, Died time.Time
}

// DeadLetters ranges over the messages of an actor's queue that were given up, in the order of
// their ids. It reads page by page. A body that does not decode is an error beside the rest of its
// message, after which the loop may go on; any other error, which is an [*Error], ends it.
func (q *queue[S, In]) DeadLetters(ctx context.Context, ref Ref[S]) iter.Seq2[Listed[In], error] {
	return q.list(ctx, ref, method.QueueDeadList)
}

// Peek ranges over the messages of an actor's queue that wait or are locked, like
// [Queue.DeadLetters]. It changes nothing.
func (q *queue[S, In]) Peek(ctx context.Context, ref Ref[S]) iter.Seq2[Listed[In], error] {
	return q.list(ctx, ref, method.QueuePeek)
}

func (q *queue[S, In]) list(
	ctx context.Context, ref Ref[S], m method.Typed[host.QueueListInput, host.QueueListOutput],
) iter.Seq2[Listed[In], error] {
	return func(yield func(Listed[In], error) bool) {
		at, err := q.site(ref)
		if err != nil {
			yield(Listed[In]{}, err)
			return
		}
		in := host.QueueListInput{Queue: q.name}
		for {
			page, err := ask(ctx, at, m, &in)
			if err != nil {
				yield(Listed[In]{}, err)
				return
			}
			for i := range page.Messages {
				if !yield(q.listed(&page.Messages[i])) {
					return
				}
				in.After = page.Messages[i].ID
			}
			if !page.More || len(page.Messages) == 0 {
				return
			}
		}
	}
}

func (q *queue[S, In]) listed(m *host.ListedMessage) (Listed[In], error) {
	l := Listed[In]{
		ID: m.ID, Queue: m.Queue, State: m.State, Priority: m.Priority, Attempts: m.Attempts, Sent: m.Sent, DedupID: m.DedupID,
		Due: timeOf(m.Due), Expires: timeOf(m.Expires), Error: m.Error, Tried: timeOf(m.Tried), Died: timeOf(m.Died),
	}
	if err := q.body.decode(host.CBOR, m.Body, &l.Body); err != nil {
		return l, Errorf(Internal, "the body of message %d of %s does not decode: %s", m.ID, q.decl, err)
	}
	return l, nil
}

// timeOf returns the time that p points to, or the zero time.
func timeOf(p *time.Time) time.Time {
	if p == nil {
		return time.Time{}
	}
	return *p
}

// StatsOf counts the messages of an actor's queue from outside. The error code is NotFound if there
// is no such actor.
func (q *queue[S, In]) StatsOf(ctx context.Context, ref Ref[S]) (QueueStats, error) {
	at, err := q.site(ref)
	if err != nil {
		return QueueStats{}, err
	}
	out, err := ask(ctx, at, method.QueueStats, &host.QueueStatsInput{Queue: q.name})
	if err != nil || len(out.Queues) == 0 {
		return QueueStats{Queue: q.name}, err
	}
	return out.Queues[0], nil
}

// Requeue sends dead letters of an actor's queue again, as new first attempts, and counts them. Ids
// that are no dead letters count for nothing.
func (q *queue[S, In]) Requeue(ctx context.Context, ref Ref[S], ids ...uint64) (int64, error) {
	return q.selected(ctx, ref, method.QueueDeadRequeue, ids)
}

// RequeueAll sends all dead letters of an actor's queue again, and counts them.
func (q *queue[S, In]) RequeueAll(ctx context.Context, ref Ref[S]) (int64, error) {
	return countIn(ctx, q, ref, method.QueueDeadRequeue, &host.QueueSelectInput{Queue: q.name, All: true})
}

// DeleteDead removes dead letters of an actor's queue for good, and counts them.
func (q *queue[S, In]) DeleteDead(ctx context.Context, ref Ref[S], ids ...uint64) (int64, error) {
	return q.selected(ctx, ref, method.QueueDeadDelete, ids)
}

// DeleteAllDead removes all dead letters of an actor's queue for good, and counts them.
func (q *queue[S, In]) DeleteAllDead(ctx context.Context, ref Ref[S]) (int64, error) {
	return countIn(ctx, q, ref, method.QueueDeadDelete, &host.QueueSelectInput{Queue: q.name, All: true})
}

// Delete removes messages that wait or are locked from an actor's queue, and counts them. They
// become no dead letters.
func (q *queue[S, In]) Delete(ctx context.Context, ref Ref[S], ids ...uint64) (int64, error) {
	return q.selected(ctx, ref, method.QueueDelete, ids)
}

// Purge removes all waiting messages from an actor's queue, except messages that workers hold, and
// counts them. They do not become dead letters.
func (q *queue[S, In]) Purge(ctx context.Context, ref Ref[S]) (int64, error) {
	return countIn(ctx, q, ref, method.QueuePurge, &host.QueueInput{Queue: q.name})
}

// Skip makes the next message of an actor's queue a dead letter, so that later messages can run. It
// returns 0 if there is none.
func (q *queue[S, In]) Skip(ctx context.Context, ref Ref[S]) (int64, error) {
	return countIn(ctx, q, ref, method.QueueSkip, &host.QueueInput{Queue: q.name})
}

func (q *queue[S, In]) selected(ctx context.Context, ref Ref[S], m counting[host.QueueSelectInput], ids []uint64) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return countIn(ctx, q, ref, m, &host.QueueSelectInput{Queue: q.name, IDs: ids})
}

// countIn calls a method about an actor's queue that counts.
func countIn[S, Body, In any](ctx context.Context, q *queue[S, Body], ref Ref[S], m counting[In], in *In) (int64, error) {
	at, err := q.site(ref)
	if err != nil {
		return 0, err
	}
	return count(ctx, at, m, in)
}
