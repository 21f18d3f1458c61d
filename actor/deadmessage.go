package actor

import (
	"context"
	"iter"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A DeadMessage is a message to another actor ([Action.Send]) that was given up, as operators see
// it. The sender keeps it for 14 days, and 10,000 of them.
type DeadMessage = host.DeadMessage

// DeadMessages ranges over the messages of the actor to other actors that were given up, in the
// order in which they were sent. It reads page by page. An error, which is an [*Error], ends it.
func (r Ref[S]) DeadMessages(ctx context.Context) iter.Seq2[DeadMessage, error] {
	return func(yield func(DeadMessage, error) bool) {
		at, err := r.operated()
		if err != nil {
			yield(DeadMessage{}, err)
			return
		}
		var in host.SendListInput
		for {
			page, err := ask(ctx, at, method.SendDeadList, &in)
			if err != nil {
				yield(DeadMessage{}, err)
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

// RequeueDeadMessages sends given-up messages of the actor again, as new messages behind the
// waiting ones, and counts them. It ignores ids without such a message. A target that was destroyed
// is created anew.
func (r Ref[S]) RequeueDeadMessages(ctx context.Context, ids ...uint64) (int64, error) {
	return r.deadMessages(ctx, method.SendDeadRequeue, ids)
}

// RequeueAllDeadMessages is [Ref.RequeueDeadMessages] of all.
func (r Ref[S]) RequeueAllDeadMessages(ctx context.Context) (int64, error) {
	return r.countDeadMessages(ctx, method.SendDeadRequeue, &host.SendSelectInput{All: true})
}

// DeleteDeadMessages removes messages of the actor for good that were given up, and counts them.
func (r Ref[S]) DeleteDeadMessages(ctx context.Context, ids ...uint64) (int64, error) {
	return r.deadMessages(ctx, method.SendDeadDelete, ids)
}

// DeleteAllDeadMessages is [Ref.DeleteDeadMessages] of all.
func (r Ref[S]) DeleteAllDeadMessages(ctx context.Context) (int64, error) {
	return r.countDeadMessages(ctx, method.SendDeadDelete, &host.SendSelectInput{All: true})
}

func (r Ref[S]) deadMessages(ctx context.Context, m counting[host.SendSelectInput], ids []uint64) (int64, error) {
	if len(ids) == 0 {
		return 0, nil
	}
	return r.countDeadMessages(ctx, m, &host.SendSelectInput{IDs: ids})
}

func (r Ref[S]) countDeadMessages(ctx context.Context, m counting[host.SendSelectInput], in *host.SendSelectInput) (int64, error) {
	at, err := r.operated()
	if err != nil {
		return 0, err
	}
	return count(ctx, at, m, in)
}

// operated returns the actor for methods that belong to no contract.
func (r Ref[S]) operated() (site, error) {
	if err := r.check(r.core); err != nil {
		return site{}, err
	}
	return site{node: r.node, at: r.address(), codec: r.core.codec}, nil
}
