package actor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Page is what follows a position in a stream.
type Page[T any] struct {
	// Missed counts the items between the position and the first of Items that are no longer kept.
	Missed uint64
	// Reset: the position is none of this life of the actor, which was destroyed and created again,
	// or restored. Items and Missed begin with its first item.
	Reset bool
	Items []Item[T]
	// Next is the position after Items, to continue from, and Life the id of the actor's life that
	// it belongs to: [InLife].
	Next uint64
	Life string
	// Closed: the stream is closed, and nothing comes after Items.
	Closed bool
}

// A GapError says that a reader of a stream asked for items that are no longer kept. It may go on
// after them.
type GapError struct {
	// Missed counts the items.
	Missed uint64
	// Reset: the position belongs to another life of the actor. The items that follow begin with
	// the first of the life that is there, Missed of which are no longer kept.
	Reset bool
}

// Error says how many items are missing.
func (e *GapError) Error() string {
	if e.Reset {
		return fmt.Sprintf("the position belongs to another life of the actor; the stream begins anew, with %d items no longer kept", e.Missed)
	}
	return fmt.Sprintf("%d items of the stream are no longer kept", e.Missed)
}

// Read reads items of an actor's stream after a sequence, 0 for all; at most 100 or as many as
// [Max] says. It returns none if there is none, or with [Wait] if none came in time. The error is
// an [*Error].
func (s *Stream[S, T]) Read(ctx context.Context, ref Ref[S], after uint64, opts ...ReadOption) (Page[T], error) {
	at, err := s.site(ref)
	if err != nil {
		return Page[T]{Next: after}, err
	}
	var r receiving
	for _, o := range opts {
		o.applyRead(&r)
	}
	until := time.Now().Add(r.wait)
	for {
		out, err := at.read(ctx, s.name, after, r)
		if err != nil {
			return Page[T]{Next: after, Life: r.life}, err
		}
		wait := time.Until(until)
		if len(out.Items) > 0 || out.Missed > 0 || out.Reset || out.Closed || wait <= 0 {
			return s.page(&out)
		}
		r.wait, r.life = wait, out.Life
	}
}

// read makes one call.
func (s site) read(ctx context.Context, stream string, after uint64, r receiving) (host.StreamReadOutput, error) {
	in := host.StreamReadInput{
		Stream: stream, After: after, Life: r.life, Limit: r.limit, WaitMS: millis(min(r.wait, waitSlice)),
	}
	return ask(ctx, s, method.StreamRead, &in)
}

func (s *Stream[S, T]) page(out *host.StreamReadOutput) (Page[T], error) {
	page := Page[T]{
		Missed: out.Missed, Reset: out.Reset, Items: make([]Item[T], len(out.Items)),
		Next: out.Next, Life: out.Life, Closed: out.Closed,
	}
	for i := range out.Items {
		var err error
		if page.Items[i], err = s.received(&out.Items[i], out.Life); err != nil {
			page.Items, page.Next = page.Items[:i], out.Items[i].Sequence-1
			return page, err
		}
	}
	return page, nil
}

func (s *Stream[S, T]) received(r *host.ReadStreamItem, life string) (Item[T], error) {
	item, err := s.item(r.Sequence, r.Time, r.Value)
	item.Life = life
	if err != nil {
		return item, Errorf(Internal, "%s: %s", s.decl, err)
	}
	return item, nil
}

// Follow ranges over the items of an actor's stream after a sequence, 0 for all, each once and in
// order, and waits for new items. It ends when the stream is closed and its last item was yielded.
// It continues after temporary errors for as long as ctx lasts, such as a paused actor or a restart
// of the node.
//
// It follows one life of the actor: when the actor is destroyed it ends with an [*Error] of code
// Destroyed, whether or not the actor was created again. A reader that comes back says with
// [InLife] which life its position is of.
//
// Some errors are yielded and do not end it, if the loop goes on: a [*GapError], once for each gap,
// before the first item after it; and an item whose value does not decode. Any other is an [*Error]
// and ends it; the last one has the code Canceled or DeadlineExceeded when ctx ended.
func (s *Stream[S, T]) Follow(ctx context.Context, ref Ref[S], after uint64, opts ...FollowOption) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		at, err := s.site(ref)
		if err != nil {
			yield(Item[T]{}, err)
			return
		}
		var pause pacer
		r := receiving{wait: waitSlice}
		for _, o := range opts {
			o.applyFollow(&r)
		}
		position, begun := after, false
		for {
			start := time.Now()
			out, err := at.read(ctx, s.name, position, r)
			if err == nil && begun && out.Life != r.life {
				err = Errorf(Destroyed, "the actor was destroyed, and created again")
			}
			switch {
			case err == nil:
				next, more := s.deliver(&out, position, yield)
				if !more {
					return
				}
				pause.waited(ctx, start, next == position && !out.Reset)
				position, r.life, begun = next, out.Life, true
			case ctx.Err() == nil && again(err):
				pause.pause(ctx)
			case ctx.Err() == nil:
				yield(Item[T]{}, err)
				return
			}
			if ctx.Err() != nil {
				yield(Item[T]{}, contextError(ctx, "following a stream"))
				return
			}
		}
	}
}

// deliver yields what was read after a position, and returns the position after it and whether to
// go on.
func (s *Stream[S, T]) deliver(out *host.StreamReadOutput, after uint64, yield func(Item[T], error) bool) (uint64, bool) {
	if (out.Missed > 0 || out.Reset) && !yield(Item[T]{}, &GapError{Missed: out.Missed, Reset: out.Reset}) {
		return after, false
	}
	if out.Reset {
		after = 0
	}
	for i := range out.Items {
		if out.Items[i].Sequence <= after {
			continue
		}
		after = out.Items[i].Sequence
		if !yield(s.received(&out.Items[i], out.Life)) {
			return after, false
		}
	}
	return max(after, out.Next), !out.Closed
}
