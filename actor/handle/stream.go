package handle

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
)

// A Stream is one stream of one actor, for its readers, for clients that append to it, and for
// operators. Made by actor.Stream.Of. Safe for concurrent use.
type Stream[T any] struct {
	_ [0]func(T) // keeps types of other values from being converted into it
	*stream
}

// A stream is a Stream without its Go type.
type stream struct {
	site  site.Site
	items *codec.Value
}

// StreamInfo describes a stream.
type StreamInfo = host.StreamInfo

// A Position is a place in a stream. The zero value is the beginning. A reader that continues later
// keeps both fields.
type Position struct {
	// After is the sequence of the last item that the reader has; 0 for none.
	After uint64
	// Life is the id of the actor's life that After counts in. If the actor was destroyed and
	// created again since, reading reports a reset and begins with the first item of the present
	// life. "" is the present life.
	Life string
}

// An Item is one item of a stream.
type Item[T any] struct {
	// Sequence counts the items of the stream from 1, without gaps, in one life of the actor.
	Sequence uint64
	// Life is the id of that life.
	Life  string
	Time  time.Time
	Value T
}

// Position returns the position of a reader that has the item.
func (i Item[T]) Position() Position { return Position{After: i.Sequence, Life: i.Life} }

// A Page is a part of a stream after a position.
type Page[T any] struct {
	// Missed counts the items between the position and the first of Items that are no longer kept.
	Missed uint64
	// Reset is set if the position belongs to another life of the actor, which was destroyed and
	// created again, or restored. Items and Missed begin with the first item of the present life.
	Reset bool
	Items []Item[T]
	// Next is the position after Items, to continue from.
	Next Position
	// Closed is set if the stream is closed and nothing comes after Items.
	Closed bool
}

// A ReadConfig configures [Stream.Read]. Zero fields have defaults.
type ReadConfig struct {
	// Max bounds the items to read, 1 to 1,000; 0 is 100.
	Max int
	// Wait is how long to wait for the first item; 0 does not wait.
	Wait time.Duration
}

// A GapError says that items after a reader's position are no longer kept. The reader may go on
// after them.
type GapError struct {
	// Missed counts the items.
	Missed uint64
	// Reset is set if the position belongs to another life of the actor. Missed then counts from
	// the first item of the present life.
	Reset bool
}

// Error says how many items are missing.
func (e *GapError) Error() string {
	if e.Reset {
		return fmt.Sprintf("the position belongs to another life of the actor; the stream begins anew, with %d items no longer kept", e.Missed)
	}
	return fmt.Sprintf("%d items of the stream are no longer kept", e.Missed)
}

// Append appends up to 1,000 items, all or none, and returns the sequence of the last item when
// that is durable. The first call creates the actor. Without items, Append does nothing and returns
// 0. Appending again after an error may append the items twice.
//
// The error code is PermissionDenied unless the stream is External, FailedPrecondition if the
// stream is closed, and TooLarge if there are more items or an item is over the stream's limit
// (actor.StreamConfig).
func (s Stream[T]) Append(ctx context.Context, items ...T) (uint64, error) {
	return s.append(ctx, valuesOf(items))
}

func (s *stream) append(ctx context.Context, items values) (uint64, error) {
	if s.site.Fault != nil || items.n == 0 {
		return 0, s.site.Fault
	}
	in := host.StreamAppendInput{Stream: s.site.Name, Items: make([]host.Raw, items.n)}
	for i := range in.Items {
		var err error
		if in.Items[i], err = s.items.Append(host.CBOR, nil, items.at(i)); err != nil {
			return 0, host.Errorf(host.InvalidArgument, "item %d of %s: %s", i+1, s.site.Contract, err)
		}
	}
	out, err := site.Ask(ctx, &s.site, method.StreamAppend, &in)
	return out.Last, err
}

// Close closes the stream: its readers end after the last item. Closing it again does nothing. The
// error code is PermissionDenied unless the stream is External.
func (s *stream) Close(ctx context.Context) error {
	_, err := site.Ask(ctx, &s.site, method.StreamClose, &host.StreamInput{Stream: s.site.Name})
	return err
}

// Info describes the stream.
func (s *stream) Info(ctx context.Context) (StreamInfo, error) {
	out, err := site.Ask(ctx, &s.site, method.StreamList, &host.StreamListInput{Stream: s.site.Name})
	if err != nil {
		return StreamInfo{}, err
	}
	if len(out.Streams) == 0 {
		return StreamInfo{Stream: s.site.Name, First: 1}, nil
	}
	return out.Streams[0], nil
}

// Delete removes the items of the stream, and opens the stream if it was closed. The sequence goes
// on. Delete reports whether there was such a stream.
func (s *stream) Delete(ctx context.Context) (bool, error) {
	n, err := site.Count(ctx, &s.site, method.StreamDelete, &host.StreamInput{Stream: s.site.Name})
	return n > 0, err
}

// Read reads items after a position. It returns none if there are none, or if none came in time
// ([ReadConfig.Wait]).
//
// If the value of an item does not decode, the page ends before the item, and the error code is
// Internal. It is Destroyed if the actor is destroyed while Read waits.
func (s Stream[T]) Read(ctx context.Context, from Position, cfg ReadConfig) (Page[T], error) {
	var out host.StreamReadOutput
	if err := s.wait(ctx, &from, cfg, &out); err != nil {
		return Page[T]{Next: from}, err
	}
	page := Page[T]{
		Missed: out.Missed, Reset: out.Reset, Items: make([]Item[T], len(out.Items)),
		Next: Position{out.Next, out.Life}, Closed: out.Closed,
	}
	for i := range out.Items {
		if err := page.Items[i].fill(s.stream, &out.Items[i], out.Life); err != nil {
			page.Items, page.Next.After = page.Items[:i], out.Items[i].Sequence-1
			return page, err
		}
	}
	return page, nil
}

// fill fills in i from an item that was read.
func (i *Item[T]) fill(s *stream, r *host.ReadStreamItem, life string) error {
	i.Sequence, i.Life, i.Time = r.Sequence, life, r.Time
	return s.decode(r, &i.Value)
}

func (s *stream) decode(r *host.ReadStreamItem, value any) error {
	if err := s.items.Decode(host.CBOR, r.Value, value); err != nil {
		return host.Errorf(host.Internal, "%s: item %d: %s", s.site.Contract, r.Sequence, err)
	}
	return nil
}

// wait reads until there is something to return, or cfg.Wait has passed. It sets from.Life if it
// reads again.
func (s *stream) wait(ctx context.Context, from *Position, cfg ReadConfig, out *host.StreamReadOutput) error {
	until := time.Now().Add(cfg.Wait)
	for {
		if err := s.read(ctx, *from, cfg, out); err != nil {
			return err
		}
		wait := time.Until(until)
		if len(out.Items) > 0 || out.Missed > 0 || out.Reset || out.Closed || wait <= 0 {
			return nil
		}
		cfg.Wait, from.Life = wait, out.Life
	}
}

// read makes one call.
func (s *stream) read(ctx context.Context, from Position, cfg ReadConfig, out *host.StreamReadOutput) (err error) {
	in := host.StreamReadInput{
		Stream: s.site.Name, After: from.After, Life: from.Life, Limit: cfg.Max, WaitMS: site.Millis(min(cfg.Wait, site.WaitSlice)),
	}
	*out, err = site.Ask(ctx, &s.site, method.StreamRead, &in)
	return err
}

// Follow ranges over the items of the stream after a position, each once and in order, and waits
// for new items. It ends after the last item of a closed stream. It continues after temporary
// errors, such as a paused actor or a restart of the node, until ctx ends.
//
// Follow stays in one life of the actor. When the actor is destroyed, Follow ends with the error
// code Destroyed, whether or not the actor is created again.
//
// Two errors do not end the loop: a [*GapError], once for each gap, before the first item after the
// gap; and the error of an item whose value does not decode. Any other error is an [*host.Error]
// and ends the loop. When ctx ends, its code is Canceled or DeadlineExceeded.
func (s Stream[T]) Follow(ctx context.Context, from Position) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		s.follow(ctx, from, func(r *host.ReadStreamItem, life string, err error) bool {
			var item Item[T]
			if err == nil {
				err = item.fill(s.stream, r, life)
			}
			return yield(item, err)
		})
	}
}

// follow yields each item with its life, or an error, for Follow.
func (s *stream) follow(ctx context.Context, from Position, yield func(*host.ReadStreamItem, string, error) bool) {
	var pause site.Pacer
	at, begun := from, false
	for {
		start := time.Now()
		var out host.StreamReadOutput
		err := s.read(ctx, at, ReadConfig{Wait: site.WaitSlice}, &out)
		if err == nil && begun && out.Life != at.Life {
			err = host.Errorf(host.Destroyed, "the actor was destroyed, and created again")
		}
		switch {
		case err == nil:
			next, more := s.deliver(&out, at.After, yield)
			if !more {
				return
			}
			pause.Waited(ctx, start, next == at.After && !out.Reset)
			at, begun = Position{next, out.Life}, true
		case ctx.Err() == nil && site.Again(err):
			pause.Pause(ctx)
		case ctx.Err() == nil:
			yield(nil, "", err)
			return
		}
		if ctx.Err() != nil {
			yield(nil, "", site.ContextError(ctx, "following a stream"))
			return
		}
	}
}

// deliver yields the items read after a position. It returns the position after them and whether to
// go on.
func (s *stream) deliver(
	out *host.StreamReadOutput, after uint64, yield func(*host.ReadStreamItem, string, error) bool,
) (uint64, bool) {
	if (out.Missed > 0 || out.Reset) && !yield(nil, "", &GapError{Missed: out.Missed, Reset: out.Reset}) {
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
		if !yield(&out.Items[i], out.Life, nil) {
			return after, false
		}
	}
	return max(after, out.Next), !out.Closed
}
