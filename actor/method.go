package actor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// createName is the name under which a type's creation method is called.
const createName = "create"

// An Action is a method that may read and write: each call is a turn. Bind it with [On]. In and Out
// must be encodable both as CBOR and as JSON.
//
// A field of In that is a list may have a tag such as max:"1000". An input of 64 KiB or more is
// refused as TooLarge if the list is longer, before it takes memory; the handler checks shorter inputs.
type Action[S, In, Out any] struct {
	decl *declared
	in   *codec.Value
	out  *codec.Value
}

// NewAction declares an action of t. The name has the form that [NewType] describes and is unique
// among the type's methods. Mistakes are reported by [Definition.Validate].
func NewAction[In, Out, S any](t *Type[S], name string) *Action[S, In, Out] {
	c := coreOf(t)
	a := &Action[S, In, Out]{in: codec.Of[In](c.codec, codec.CBOR|codec.JSON), out: codec.Of[Out](c.codec, codec.CBOR|codec.JSON)}
	a.decl = declare(t, declared{
		kind: kindAction, name: name, faults: methodFaults(a.in, a.out), values: methodValues(a.in, a.out),
	})
	return a
}

// Name returns the action's name.
func (a *Action[S, In, Out]) Name() string { return a.decl.name }

// Call runs the action on an actor and returns when its effects are durable. The first call creates
// the actor. The error is an [*Error]. An error of the handler that is not an Error has the code
// Internal and no details.
func (a *Action[S, In, Out]) Call(ctx context.Context, ref Ref[S], in In, opts ...CallOption) (Out, error) {
	req, err := request(a.decl, a.in, ref, &in)
	if err != nil {
		var none Out
		return none, err
	}
	for _, o := range opts {
		o.applyCall(req)
	}
	return call[Out](ctx, ref.node, req, a.decl, a.out)
}

// Send queues a one-way call to the action as part of the turn's commit. It is delivered after the
// commit, in order for each pair of actors, and handled exactly once. A failed handler is tried
// again with growing pauses. After the attempts that the sender's limits allow, the message becomes
// a dead letter of the sender ([Ref.DeadLetters]). The output is dropped.
//
// If Send fails, so does the turn, whether or not the handler looks at the error.
func (a *Action[S, In, Out]) Send(ctx *Context, ref Ref[S], in In) error {
	if ref.core != a.decl.core {
		return ctx.fail(Errorf(InvalidArgument, "%s of type %q: the Ref names an actor of type %q", a.decl, a.decl.core.name, ref.Type()))
	}
	input, err := a.in.Append(host.CBOR, nil, &in)
	if err != nil {
		return ctx.fail(inputError(a.decl, err))
	}
	return ctx.fail(ctx.turn.Send(&host.Message{Type: ref.core.name, Key: ref.key, Method: a.decl.name, Input: input}))
}

// A Query is a method that reads a committed state. It takes no turn, so queries of one actor run
// beside each other and beside turns. Bind it with [OnQuery]. In and Out must be encodable both as
// CBOR and as JSON.
type Query[S, In, Out any] struct {
	decl *declared
	in   *codec.Value
	out  *codec.Value
}

// NewQuery declares a query of t. The name has the form that [NewType] describes and is unique
// among the type's methods.
func NewQuery[In, Out, S any](t *Type[S], name string) *Query[S, In, Out] {
	c := coreOf(t)
	q := &Query[S, In, Out]{in: codec.Of[In](c.codec, codec.CBOR|codec.JSON), out: codec.Of[Out](c.codec, codec.CBOR|codec.JSON)}
	q.decl = declare(t, declared{
		kind: kindQuery, name: name, faults: methodFaults(q.in, q.out), values: methodValues(q.in, q.out),
	})
	return q
}

// Name returns the query's name.
func (q *Query[S, In, Out]) Name() string { return q.decl.name }

// Call runs the query on an actor's last committed state and returns when that state is durable.
// The error is an [*Error].
func (q *Query[S, In, Out]) Call(ctx context.Context, ref Ref[S], in In, opts ...QueryOption) (Out, error) {
	req, err := request(q.decl, q.in, ref, &in)
	if err != nil {
		var none Out
		return none, err
	}
	for _, o := range opts {
		o.applyQuery(req)
	}
	return call[Out](ctx, ref.node, req, q.decl, q.out)
}

// A Create is the creation method of a type: explicit creation with an input. Bind it with
// [OnCreate]. It runs after [Spec.OnCreate], in the same turn. It does not run if the first call of
// another method creates the actor; pass [Existing] to those calls to prevent that.
type Create[S, In any] struct {
	decl *declared
	in   *codec.Value
}

// NewCreate declares the creation method of t, named "create". A type has at most one. In must be
// encodable both as CBOR and as JSON.
func NewCreate[In, S any](t *Type[S]) *Create[S, In] {
	core := coreOf(t)
	c := &Create[S, In]{in: codec.Of[In](core.codec, codec.CBOR|codec.JSON)}
	c.decl = declare(t, declared{
		kind: kindCreate, name: createName, faults: prefixed("input ", c.in.Faults()),
		values: methodValues(c.in, codec.Of[None](core.codec, codec.CBOR|codec.JSON)),
	})
	return c
}

// Call creates an actor and returns when it is durable. The error is an [*Error], with code
// AlreadyExists if the key is taken; if the handler fails, the actor does not exist.
func (c *Create[S, In]) Call(ctx context.Context, ref Ref[S], in In, opts ...CreateOption) error {
	req, err := request(c.decl, c.in, ref, &in)
	if err != nil {
		return err
	}
	req.Create = true
	for _, o := range opts {
		o.applyCreate(req)
	}
	_, err = ref.node.Call(ctx, req)
	return err
}

// request makes the request of a call to d.
func request[S, In any](d *declared, w *codec.Value, ref Ref[S], in *In) (*host.Request, error) {
	if err := ref.check(d.core); err != nil {
		return nil, err
	}
	input, err := w.Append(host.CBOR, nil, in)
	if err != nil {
		return nil, inputError(d, err)
	}
	return &host.Request{Address: ref.address(), Method: d.name, Codec: host.CBOR, Input: input}, nil
}

// call sends a request and decodes the reply.
func call[Out any](ctx context.Context, node Node, req *host.Request, d *declared, w *codec.Value) (Out, error) {
	var out Out
	reply, err := node.Call(ctx, req)
	if err != nil {
		return out, err
	}
	if err := w.Decode(host.CBOR, reply.Output, &out); err != nil {
		return out, Errorf(Internal, "the reply of %s does not decode: caller and actor disagree about its type", d)
	}
	return out, nil
}

// decodeInput decodes an input, unless its lists are longer than the tags max of their fields say.
func decodeInput[T any](d *declared, w *codec.Value, as host.Codec, input []byte, v *T) error {
	if err := host.CheckLimits(as, input, v); err != nil {
		return err
	}
	if err := w.Decode(as, input, v); err != nil {
		return inputError(d, err)
	}
	return nil
}

// inputError says that an input cannot be encoded or decoded.
func inputError(d *declared, err error) error {
	return host.WithMember(Errorf(InvalidArgument, "input of %s: %s", d, err), "", err)
}

func methodFaults(in, out *codec.Value) []string {
	return append(prefixed("input ", in.Faults()), prefixed("output ", out.Faults())...)
}

func methodValues(in, out *codec.Value) []codec.Described {
	return []codec.Described{in.Describe(host.MethodInput), out.Describe(host.MethodOutput)}
}

func prefixed(prefix string, faults []string) []string {
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = prefix + f
	}
	return out
}
