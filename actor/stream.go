package actor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// A Stream is a durable log of each actor of a type, whose items are of type T, in order: tokens of
// a model, lines of a build, changes of a document. Turns and tasks append to it; clients read what
// there is and follow what comes, each from where it wants ([Stream.Follow]). The oldest items go
// when there are too many ([Keep], [KeepBytes], [KeepFor]).
type Stream[S, T any] struct {
	label
	items *wire[T]
}

// NewStream declares a stream of t. The name has the form that [NewType] describes and is unique
// among the type's streams; or it is "*", which stands for every name that is not declared, each a
// stream of its own: [Stream.Named] says which. T must be encodable both as CBOR and as JSON.
func NewStream[T, S any](t *Type[S], name string, opts ...StreamOption) *Stream[S, T] {
	c := coreOf(t)
	items := newWire[T](c, cborValue|jsonValue)
	d := declared{
		kind: kindStream, name: name, stream: host.Stream{Name: name},
		values: []value{items.value(c, host.StreamValue)}, faults: prefixed("item ", items.faults()),
	}
	for _, o := range opts {
		o.applyStream(&d)
	}
	return &Stream[S, T]{labelOf(declare(t, d)), items}
}

// Name returns the stream's name.
func (s *Stream[S, T]) Name() string { return s.name }

// Named returns the stream of that name, if the stream was declared as "*". A name that has not the
// form of names, or is declared by itself, is reported when the stream is used.
func (s *Stream[S, T]) Named(name string) *Stream[S, T] {
	return &Stream[S, T]{s.label.named(name), s.items}
}

// A StreamOption changes a stream's declaration.
type StreamOption interface{ applyStream(*declared) }

type streamOption func(*declared)

func (o streamOption) applyStream(d *declared) { o(d) }

// Keep sets how many items a stream keeps; 100,000 by default.
func Keep(items int) StreamOption {
	return streamOption(func(d *declared) { d.stream.Items = positive(d, "Keep", items) })
}

// KeepBytes sets how much a stream keeps, the sum of its items in CBOR; 64 MiB by default.
func KeepBytes(n int64) StreamOption {
	return streamOption(func(d *declared) { d.stream.Bytes = positive(d, "KeepBytes", n) })
}

// KeepFor sets how long a stream keeps items; by default age does not matter.
func KeepFor(age time.Duration) StreamOption {
	return streamOption(func(d *declared) { d.stream.Age = positive(d, "KeepFor", age) })
}

// MaxItemBytes bounds one item in CBOR; 1 MiB by default. A larger one has the error code TooLarge.
func MaxItemBytes(n int) StreamOption {
	return streamOption(func(d *declared) { d.stream.ItemBytes = positive(d, "MaxItemBytes", n) })
}

// External allows clients to append to the stream and close it ([Stream.AppendTo],
// [Stream.CloseOf]).
func External() StreamOption { return streamOption(func(d *declared) { d.stream.External = true }) }

// An Appender is what may append to a stream of the actor itself: *[Context], as part of the turn's
// commit, and *[Task], in a turn of its own. Only they implement it.
type Appender interface {
	context.Context
	Node
	own(*declared) error
	appendItems(stream string, items [][]byte) (uint64, error)
	fail(error) error
}

var (
	_ Appender = (*Context)(nil)
	_ Appender = (*Task)(nil)
)

func (c *Context) appendItems(stream string, items [][]byte) (uint64, error) {
	return c.turn.StreamAppend(stream, items)
}

// Append appends items, at most 1,000, to the actor's stream and returns the sequence of the last;
// without items it does nothing and returns 0. In a turn they are part of its commit; in a task
// they are durable when Append returns.
//
// If Append fails in a turn, so does the turn, whether or not the handler looks at the error. The
// error code is FailedPrecondition if the stream is closed, TooLarge if an item is.
func (s *Stream[S, T]) Append(ctx Appender, items ...T) (uint64, error) {
	if err := ctx.own(s.decl); err != nil {
		return 0, ctx.fail(err)
	}
	if err := s.err(); err != nil {
		return 0, ctx.fail(err)
	}
	if len(items) == 0 {
		return 0, nil
	}
	data := make([][]byte, len(items))
	for i := range items {
		var err error
		if data[i], err = s.items.append(host.CBOR, nil, &items[i]); err != nil {
			return 0, ctx.fail(valueError(s.decl, err))
		}
	}
	last, err := ctx.appendItems(s.name, data)
	return last, ctx.fail(err)
}

// Close closes the actor's stream: readers end after its last item. Closing it again does nothing.
//
// If Close fails, so does the turn, whether or not the handler looks at the error.
func (s *Stream[S, T]) Close(ctx *Context) error {
	if err := s.inTurn(ctx); err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.StreamClose(s.name))
}

// StreamInfo says what is known of a stream.
type StreamInfo = host.StreamInfo

// Info describes the actor's stream. It works in a turn and in a query.
func (s *Stream[S, T]) Info(ctx Reader) (StreamInfo, error) {
	if err := s.inTurn(ctx); err != nil {
		return StreamInfo{}, err
	}
	return ctx.reader().StreamInfo(s.name)
}

// An Item is one item of a stream.
type Item[T any] struct {
	// Sequence counts the items of the stream from 1, without gaps, in one life of the actor.
	Sequence uint64
	// Life is the id of that life. A reader that keeps its position keeps both: [InLife].
	Life  string
	Time  time.Time
	Value T
}

// Range ranges over the items of the actor's stream after a sequence, 0 for all, as far as they are
// kept: the first may come later than asked for. It works in a turn and in a query, and reads page
// by page. An error ends it.
func (s *Stream[S, T]) Range(ctx Reader, after uint64) iter.Seq2[Item[T], error] {
	return func(yield func(Item[T], error) bool) {
		if err := s.inTurn(ctx); err != nil {
			yield(Item[T]{}, err)
			return
		}
		life := ctx.reader().Self().ID
		for {
			page, err := ctx.reader().StreamRead(s.name, after, pageEntries)
			if err != nil {
				yield(Item[T]{}, err)
				return
			}
			for i := range page.Items {
				p := &page.Items[i]
				item, err := s.item(p.Sequence, p.Time, p.Data)
				item.Life = life
				if err != nil {
					yield(Item[T]{}, valueError(s.decl, err))
					return
				}
				if !yield(item, nil) {
					return
				}
			}
			if len(page.Items) == 0 {
				return
			}
			after = page.Items[len(page.Items)-1].Sequence
		}
	}
}

func (s *Stream[S, T]) item(sequence uint64, at time.Time, data []byte) (Item[T], error) {
	item := Item[T]{Sequence: sequence, Time: at}
	if err := s.items.decode(host.CBOR, data, &item.Value); err != nil {
		return item, fmt.Errorf("item %d: %w", sequence, err)
	}
	return item, nil
}

// site returns the actor that the stream is used on from outside.
func (s *Stream[S, T]) site(ref Ref[S]) (site, error) {
	at, err := ref.site(s.decl)
	if err == nil {
		err = s.err()
	}
	return at, err
}

// AppendTo appends items, at most 1,000, to the stream of an actor, which the first call creates,
// and returns the sequence of the last when that is durable; without items it does nothing and
// returns 0. Appending again after an error may append twice. The error code is PermissionDenied
// unless the stream was declared with [External].
func (s *Stream[S, T]) AppendTo(ctx context.Context, ref Ref[S], items ...T) (uint64, error) {
	at, err := s.site(ref)
	if err != nil || len(items) == 0 {
		return 0, err
	}
	in := host.StreamAppendInput{Stream: s.name, Items: make([]host.Raw, len(items))}
	for i := range items {
		if in.Items[i], err = s.items.append(host.CBOR, nil, &items[i]); err != nil {
			return 0, Errorf(InvalidArgument, "item %d of %s: %s", i+1, s.decl, err)
		}
	}
	out, err := ask(ctx, at, method.StreamAppend, &in)
	return out.Last, err
}

// CloseOf closes the stream of an actor from outside. The error code is PermissionDenied unless the
// stream was declared with [External].
func (s *Stream[S, T]) CloseOf(ctx context.Context, ref Ref[S]) error {
	at, err := s.site(ref)
	if err != nil {
		return err
	}
	_, err = ask(ctx, at, method.StreamClose, &host.StreamInput{Stream: s.name})
	return err
}

// InfoOf describes the stream of an actor from outside. The error code is NotFound if there is no
// such actor.
func (s *Stream[S, T]) InfoOf(ctx context.Context, ref Ref[S]) (StreamInfo, error) {
	at, err := s.site(ref)
	if err != nil {
		return StreamInfo{}, err
	}
	out, err := ask(ctx, at, method.StreamList, &host.StreamListInput{Stream: s.name})
	if err != nil || len(out.Streams) == 0 {
		return StreamInfo{Stream: s.name, First: 1}, err
	}
	return out.Streams[0], nil
}

// Delete removes the items of an actor's stream and opens it again if it was closed; the sequence
// goes on. It reports whether there was such a stream.
func (s *Stream[S, T]) Delete(ctx context.Context, ref Ref[S]) (bool, error) {
	at, err := s.site(ref)
	if err != nil {
		return false, err
	}
	n, err := count(ctx, at, method.StreamDelete, &host.StreamInput{Stream: s.name})
	return n > 0, err
}
