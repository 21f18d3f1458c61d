package handle

import (
	"context"
	"iter"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// DeadLetters are messages that were given up: those of a queue ([Queue.DeadLetters]), or messages
// that an actor sent to other actors (actor.Ref.DeadLetters). Safe for concurrent use.
type DeadLetters[M any] struct {
	*deadLetters
	list func(context.Context) iter.Seq2[M, error]
}

// deadLetters are DeadLetters without their Go type.
type deadLetters struct{ requeue, remove selection }

// A selection applies a method to the messages of ids, or to all, and counts them.
type selection func(ctx context.Context, ids []uint64, all bool) (int64, error)

// List ranges over the messages in the order of their ids. It reads page by page. If a body does
// not decode, the pair has the rest of the message and an error, and the loop may go on. Any other
// error ends the loop.
func (d DeadLetters[M]) List(ctx context.Context) iter.Seq2[M, error] { return d.list(ctx) }

// Requeue sends messages again, as new first attempts behind the waiting messages, and counts them.
// It takes up to 1,000 ids; the error code is TooLarge for more, and Overloaded if the queue is
// full. It ignores ids without a dead letter.
func (d *deadLetters) Requeue(ctx context.Context, ids ...uint64) (int64, error) {
	return d.requeue(ctx, ids, false)
}

// RequeueAll is Requeue of all dead letters.
func (d *deadLetters) RequeueAll(ctx context.Context) (int64, error) {
	return d.requeue(ctx, nil, true)
}

// Delete removes messages for good and counts them. It takes up to 1,000 ids; the error code is
// TooLarge for more. It ignores ids without a dead letter.
func (d *deadLetters) Delete(ctx context.Context, ids ...uint64) (int64, error) {
	return d.remove(ctx, ids, false)
}

// DeleteAll is Delete of all dead letters.
func (d *deadLetters) DeleteAll(ctx context.Context) (int64, error) { return d.remove(ctx, nil, true) }

// DeadLetters returns the messages of the queue that were given up.
func (q Queue[In, Out]) DeadLetters() DeadLetters[Listed[In]] {
	return DeadLetters[Listed[In]]{q.dead(), func(ctx context.Context) iter.Seq2[Listed[In], error] {
		return listed[In](ctx, q.queue, &method.QueueDeadList)
	}}
}

func (q *queue) dead() *deadLetters {
	with := func(m site.Counting[host.QueueSelectInput]) selection {
		return selecting(&q.site, m, func(ids []uint64, all bool) *host.QueueSelectInput {
			return &host.QueueSelectInput{Queue: q.site.Name, IDs: ids, All: all}
		})
	}
	return &deadLetters{requeue: with(method.QueueDeadRequeue), remove: with(method.QueueDeadDelete)}
}

// selecting makes a selection of a counting method.
func selecting[In any](at *site.Site, m site.Counting[In], input func(ids []uint64, all bool) *In) selection {
	return func(ctx context.Context, ids []uint64, all bool) (int64, error) {
		if !all && len(ids) == 0 {
			return 0, at.Fault
		}
		return site.Count(ctx, at, m, input(ids, all))
	}
}

// A DeadLetter is a message to another actor (actor.Action.Send, actor.Queue.Post) that was given
// up. The sender keeps it for 14 days, and up to 10,000 of them.
type DeadLetter = host.DeadLetter

func deadSends(ctx context.Context, at *site.Site) iter.Seq2[DeadLetter, error] {
	return func(yield func(DeadLetter, error) bool) {
		var in host.SendListInput
		for {
			page, err := site.Ask(ctx, at, method.SendDeadList, &in)
			if err != nil {
				yield(DeadLetter{}, err)
				return
			}
			for _, m := range page.Messages {
				if !yield(m, nil) {
					return
				}
				in.After = m.ID
			}
			if !page.More || len(page.Messages) == 0 {
				return
			}
		}
	}
}
