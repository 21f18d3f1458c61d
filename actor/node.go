package actor

import (
	"context"
	"fmt"
	"iter"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/site"
	"github.com/cairn-run/cairn/actor/kv"
)

// A Node takes calls to actors: a runtime in this process, a client of a remote one, or a running
// turn ([Context], [ReadContext]). Calls made with the context of a turn carry its deadline, its
// trace context and its place in the chain of calls, through any node.
type Node = host.Node

// A Status describes an actor without waking it.
type Status = host.Status

// A Ref names one actor: a type, a key, and the node that takes the calls. Making a Ref does
// nothing to the actor. A Ref is a small value, and safe for concurrent use if its node is. A Ref
// that was made from a turn's context works only during that turn.
type Ref[S any] struct{ ref ref }

// A ref is a Ref to an actor of any type.
type ref struct {
	core *core
	node Node
	key  []string
}

// Ref names the actor of this type with the given key: zero or more parts, compared byte for byte.
// The slice must not be changed afterwards. A bad key is reported by the calls.
func (t *Type[S]) Ref(node Node, key ...string) Ref[S] {
	return Ref[S]{ref: ref{t.core, node, key}}
}

// site returns the actor for a handle of a contract value.
func (r *ref) site(l label) site.Site {
	s := site.Site{Node: r.node, Codec: l.decl.core.codec, Contract: l.decl.String(), Name: l.name,
		Fault: r.check(l.decl.core)}
	if s.Fault == nil {
		s.At, s.Fault = r.address(), l.err()
	}
	switch node := r.node.(type) {
	case *Context:
		s.Inside = &site.Inside{Fail: node.fail}
	case *ReadContext:
		s.Inside = new(site.Inside)
	}
	return s
}

// DeadLetters returns the dead letters of the actor: messages to other actors ([Action.Send],
// [Queue.Post]) that were given up.
func (r Ref[S]) DeadLetters() handle.DeadLetters[handle.DeadLetter] {
	return handle.NewDeadLetters(r.ref.plain())
}

// plain returns the actor for a handle that belongs to no contract value.
func (r *ref) plain() site.Site {
	s := site.Site{Node: r.node, Fault: r.check(r.core)}
	if s.Fault == nil {
		s.At, s.Codec = r.address(), r.core.codec
	}
	return s
}

// KV returns the actor's key-value store. A turn of the actor itself uses [Context.KV].
func (r Ref[S]) KV() kv.Store {
	return kv.New(r.ref.plain())
}

// Key returns the parts of the actor's key, which must not be changed.
func (r Ref[S]) Key() []string { return r.ref.key }

// Type returns the name of the actor's type.
func (r Ref[S]) Type() string { return r.ref.typ() }

func (r *ref) typ() string {
	if r.core == nil {
		return ""
	}
	return r.core.name
}

func (r *ref) address() host.Address { return host.Address{Type: r.core.name, Key: r.key} }

// check returns an error if the ref cannot be used with a contract of c.
func (r *ref) check(c *core) error {
	switch {
	case r.core == nil || r.node == nil:
		return Errorf(InvalidArgument, "the Ref names no actor: make it with Type.Ref and a node")
	case r.core != c:
		return Errorf(InvalidArgument,
			"the Ref names an actor of type %q, the contract belongs to type %q", r.core.name, c.name)
	}
	return nil
}

// Create creates the actor without input, running Spec.OnCreate but no creation method. The error
// code is AlreadyExists if the key is taken.
func (r Ref[S]) Create(ctx context.Context, opts ...CreateOption) error {
	return r.ref.create(ctx, opts)
}

func (r *ref) create(ctx context.Context, opts []CreateOption) error {
	if err := r.check(r.core); err != nil {
		return err
	}
	req := host.Request{Address: r.address(), Codec: host.CBOR, Create: true}
	for _, o := range opts {
		o.applyCreate(&req)
	}
	_, err := r.node.Call(ctx, &req)
	return err
}

// Lookup describes the actor without waking or creating it. The error code is NotFound if there is
// none.
func (r Ref[S]) Lookup(ctx context.Context) (Status, error) { return r.ref.lookup(ctx) }

func (r *ref) lookup(ctx context.Context) (Status, error) {
	if err := r.check(r.core); err != nil {
		return Status{}, err
	}
	return r.node.Lookup(ctx, r.address())
}

// Destroy runs Spec.OnDestroy and removes everything that the actor stored. The error code is
// NotFound if there is none. The key may be used again, for another actor. To destroy the actor
// whose turn is running, use [Context.DestroySelf].
func (r Ref[S]) Destroy(ctx context.Context) error { return r.ref.destroy(ctx) }

func (r *ref) destroy(ctx context.Context) error {
	if err := r.check(r.core); err != nil {
		return err
	}
	return r.node.Destroy(ctx, r.address())
}

// List ranges over the actors of the type whose keys begin with the parts of prefix, in the order
// of their keys, without waking them. It reads page by page: actors that are created or destroyed
// meanwhile may or may not appear. An error ends the loop.
//
// After a failure of the disk the last pair has an error of code Unavailable with the keys of the
// actors that List left out. Their state is unknown until the node restarts.
func (t *Type[S]) List(ctx context.Context, node Node, prefix ...string) iter.Seq2[Status, error] {
	return t.core.list(ctx, node, "List", host.ListQuery{Prefix: prefix})
}

// Find ranges over the actors of the type that a query selects, without waking them. Its pages and
// its last pair are as with [Type.List].
func (t *Type[S]) Find(ctx context.Context, node Node, q handle.FindQuery) iter.Seq2[Ref[S], error] {
	found := t.core.list(ctx, node, "Find", host.ListQuery{Prefix: q.Prefix, Where: q.Where, Sort: q.Sort, Brief: true})
	return func(yield func(Ref[S], error) bool) {
		found(func(s Status, err error) bool {
			if err != nil {
				return yield(Ref[S]{}, err)
			}
			return yield(t.Ref(node, s.Key...), nil)
		})
	}
}

// list reads a list page by page. Inlining would compile it into its callers, for each type.
//
//go:noinline
func (c *core) list(ctx context.Context, node Node, name string, q host.ListQuery) iter.Seq2[Status, error] {
	return func(yield func(Status, error) bool) {
		q := q // each loop begins with the first page
		q.Type = c.name
		if node == nil {
			yield(Status{}, Errorf(InvalidArgument, "%s needs a node", name))
			return
		}
		var without []host.Address
		for {
			page, err := node.List(ctx, q)
			if err != nil {
				yield(Status{}, err)
				return
			}
			for _, s := range page.Actors {
				if !yield(s, nil) {
					return
				}
			}
			without = append(without, page.Uncertain...)
			if page.Cursor == "" {
				break
			}
			q.Cursor = page.Cursor
		}
		if len(without) > 0 {
			slices.SortFunc(without, func(a, b host.Address) int { return slices.Compare(a.Key, b.Key) })
			// pages may name them again
			without = slices.CompactFunc(without, func(a, b host.Address) bool { return slices.Equal(a.Key, b.Key) })
			yield(Status{}, leftOut(without))
		}
	}
}

// leftOut returns the error of a list that had to leave actors out.
func leftOut(without []host.Address) *Error {
	var keys strings.Builder
	for _, a := range without[:min(len(without), 10)] {
		fmt.Fprintf(&keys, " %q", a.Key)
	}
	if len(without) > 10 {
		keys.WriteString(" and others")
	}
	return Errorf(Unavailable,
		"the list is without actors whose last commit may be lost, because the disk failed before it was durable; "+
			"restart the node: %d with the keys%s", len(without), keys.String()).With("reason", host.ReasonUncertain)
}

// A CallOption changes one call of an action.
type CallOption interface{ applyCall(*host.Request) }

// A QueryOption changes one call of a query.
type QueryOption interface{ applyQuery(*host.Request) }

// A CreateOption changes one explicit creation.
type CreateOption interface{ applyCreate(*host.Request) }

// IdempotencyKey makes the reply part of the commit: repeating the call with the same key within 24
// hours returns the stored reply instead of running the method again. The key is 1 to 255 bytes; ""
// is no key. Using it for another request has the error code IdempotencyMismatch. A destroyed actor
// takes its replies along: to repeat a call that may destroy its actor, pass [Existing] too.
func IdempotencyKey(key string) interface {
	CallOption
	CreateOption
	handle.SendOption
} {
	return idempotencyKey(key)
}

type idempotencyKey string

func (k idempotencyKey) applyCall(r *host.Request)   { r.IdempotencyKey = string(k) }
func (k idempotencyKey) applyCreate(r *host.Request) { r.IdempotencyKey = string(k) }
func (k idempotencyKey) ApplySend(s *site.Sending)   { s.Request.IdempotencyKey = string(k) }

// Existing demands that the actor exists: the error code is NotFound if it does not. Without it the
// first call to a key creates the actor.
func Existing() interface {
	CallOption
	QueryOption
	handle.SendOption
} {
	return existing{}
}

type existing struct{}

func (existing) applyCall(r *host.Request)  { r.Existing = true }
func (existing) applyQuery(r *host.Request) { r.Existing = true }
func (existing) ApplySend(s *site.Sending)  { s.Request.Existing = true }

// Traceparent passes on the W3C trace context of a caller that is not an actor. Turns pass on their
// own.
func Traceparent(value string) interface {
	CallOption
	QueryOption
	CreateOption
	handle.SendOption
} {
	return traceparent(value)
}

type traceparent string

func (p traceparent) applyCall(r *host.Request)   { r.Traceparent = string(p) }
func (p traceparent) applyQuery(r *host.Request)  { r.Traceparent = string(p) }
func (p traceparent) applyCreate(r *host.Request) { r.Traceparent = string(p) }
func (p traceparent) ApplySend(s *site.Sending)   { s.Request.Traceparent = string(p) }
