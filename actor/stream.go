package actor

import (
	"context"
	"fmt"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// A Stream is a durable log of an actor, such as tokens of a model, lines of a build or changes of
// a document. Its items are of type T. Turns and tasks append to it. Clients read the kept items
// and follow new ones, each from its own position ([handle.Stream.Follow]). The oldest items are
// removed when there are too many ([StreamConfig]).
type Stream[S, T any] struct {
	_ [0]func(S, T) // keeps types of other values from being converted into it
	stream
}

// A stream is a Stream of items of any type.
type stream struct {
	label
	items *codec.Value
}

// A StreamConfig declares how long a stream keeps items, and whether clients may append. Zero
// fields have defaults; negative ones are faults.
type StreamConfig struct {
	// MaxItems is how many items a stream keeps; 0 is 100,000.
	MaxItems int
	// MaxBytes is how much a stream keeps, the sum of its items in CBOR; 0 is 64 MiB.
	MaxBytes int64
	// MaxAge is how long a stream keeps items; 0 is without end.
	MaxAge time.Duration
	// MaxItemBytes bounds one item in CBOR; 0 is 1 MiB. A larger one has the error code TooLarge.
	MaxItemBytes int
	// External allows clients to append to the stream and to close it ([handle.Stream.Append],
	// [handle.Stream.Close]).
	External bool
}

// NewStream declares a stream of t. The name has the form that [NewType] describes and is unique
// among the type's streams. The name "*" stands for every name that is not declared, each a
// separate stream; [Stream.Named] selects one. T must be encodable both as CBOR and as JSON.
func NewStream[T, S any](t *Type[S], name string, cfg StreamConfig) *Stream[S, T] {
	c := coreOf(t)
	return &Stream[S, T]{stream: c.stream(name, both[T](c), &cfg)}
}

func (c *core) stream(name string, items *codec.Value, cfg *StreamConfig) stream {
	d := declared{
		kind: kindStream, name: name,
		stream: host.Stream{
			Name: name, Items: cfg.MaxItems, Bytes: cfg.MaxBytes, Age: cfg.MaxAge, ItemBytes: cfg.MaxItemBytes, External: cfg.External,
		},
		values: []codec.Described{items.Describe(host.StreamValue)},
		faults: append(prefixed("item ", items.Faults()), negative("StreamConfig", []setting{
			{"MaxItems", int64(cfg.MaxItems)}, {"MaxBytes", cfg.MaxBytes}, {"MaxAge", int64(cfg.MaxAge)},
			{"MaxItemBytes", int64(cfg.MaxItemBytes)},
		})...),
	}
	if cfg.MaxBytes > 0 && int64(cfg.MaxItemBytes) > cfg.MaxBytes {
		d.faults = append(d.faults,
			fmt.Sprintf("StreamConfig.MaxItemBytes is %d, more than MaxBytes of the whole stream, %d", cfg.MaxItemBytes, cfg.MaxBytes))
	}
	return stream{labelOf(c.declare(d)), items}
}

// Named returns the stream of that name, if the stream was declared as "*". Using a stream fails if
// its name does not have the form of names, or has a declaration of its own.
func (s *Stream[S, T]) Named(name string) *Stream[S, T] {
	return &Stream[S, T]{stream: stream{s.label.named(name), s.items}}
}

// Of returns the stream of an actor, for readers, for clients that append to it, and for operators.
func (s *Stream[S, T]) Of(ref Ref[S]) handle.Stream[T] {
	return handle.NewStream[T](ref.ref.site(s.label), s.items)
}

// An appender can append to a stream of its actor: *[Context], as part of the turn's commit, and
// *[Task], in a separate turn. Only they implement it.
type appender interface {
	context.Context
	Node
	own(*declared) error
	appendItems(stream string, items [][]byte) (uint64, error)
	fail(error) error
}

var (
	_ appender = (*Context)(nil)
	_ appender = (*Task)(nil)
)

func (c *Context) appendItems(stream string, items [][]byte) (uint64, error) {
	return c.turn.StreamAppend(stream, items)
}

// Append appends up to 1,000 items to the actor's stream and returns the sequence of the last;
// without items it does nothing and returns 0. In a turn they are part of its commit; in a task
// they are durable when Append returns.
//
// If Append fails in a turn, so does the turn, whether or not the handler looks at the error. The
// error code is FailedPrecondition if the stream is closed, and TooLarge if an item is too large.
func (s *Stream[S, T]) Append(ctx appender, items ...T) (uint64, error) {
	return s.append(ctx, len(items), func(i int) any { return &items[i] })
}

// append appends items; item returns a pointer to one.
func (s *stream) append(ctx appender, n int, item func(i int) any) (uint64, error) {
	if err := ctx.own(s.decl); err != nil {
		return 0, ctx.fail(err)
	}
	if err := s.err(); err != nil {
		return 0, ctx.fail(err)
	}
	if n == 0 {
		return 0, nil
	}
	data := make([][]byte, n)
	for i := range data {
		var err error
		if data[i], err = s.items.Append(host.CBOR, nil, item(i)); err != nil {
			return 0, ctx.fail(valueError(s.decl, err))
		}
	}
	last, err := ctx.appendItems(s.name, data)
	return last, ctx.fail(err)
}

// Close closes the actor's stream: readers end after its last item. Closing it again does nothing.
//
// If Close fails, so does the turn, whether or not the handler looks at the error.
func (s *stream) Close(ctx *Context) error {
	if err := s.inTurn(ctx); err != nil {
		return ctx.fail(err)
	}
	return ctx.fail(ctx.turn.StreamClose(s.name))
}

// Info describes the actor's stream. It works in a turn and in a query.
func (s *stream) Info(ctx Reader) (handle.StreamInfo, error) {
	if err := s.inTurn(ctx); err != nil {
		return handle.StreamInfo{}, err
	}
	return ctx.reader().StreamInfo(s.name)
}

// Range ranges over the kept items of the actor's stream after a sequence, 0 for all. If the items
// after it are gone, it begins with the oldest that is kept. It works in a turn and in a query, and
// reads page by page. An error ends it.
func (s *Stream[S, T]) Range(ctx Reader, after uint64) iter.Seq2[handle.Item[T], error] {
	return func(yield func(handle.Item[T], error) bool) {
		item := new(handle.Item[T]) // for all, which saves much
		err := s.walk(ctx, after, func(fresh bool, p *host.StreamItem, life string) any {
			if fresh {
				item = new(handle.Item[T])
			}
			*item = handle.Item[T]{Sequence: p.Sequence, Time: p.Time, Life: life}
			return &item.Value
		}, func() bool { return yield(*item, nil) })
		if err != nil {
			yield(handle.Item[T]{}, err)
		}
	}
}

// walk decodes each item into the memory that place returns, and then calls there. If fresh is set,
// place returns new memory.
func (s *stream) walk(ctx Reader, after uint64,
	place func(fresh bool, p *host.StreamItem, life string) any, there func() bool) error {
	if err := s.inTurn(ctx); err != nil {
		return err
	}
	life, fresh := ctx.reader().Self().ID, s.items.DecodesItself()
	for {
		page, err := ctx.reader().StreamRead(s.name, after, pageEntries)
		if err != nil {
			return err
		}
		for i := range page.Items {
			p := &page.Items[i]
			if err := s.items.Decode(host.CBOR, p.Data, place(fresh, p, life)); err != nil {
				return valueError(s.decl, fmt.Errorf("item %d: %w", p.Sequence, err))
			}
			if !there() {
				return nil
			}
			after = p.Sequence
		}
		if len(page.Items) == 0 {
			return nil
		}
	}
}
