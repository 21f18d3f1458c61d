package actor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
)

// createName is the name under which a type's creation method is called.
const createName = "create"

// A method is the part of an action, query or creation method without its Go types. Generic code is
// compiled for each type of a program, so it only passes pointers to its values.
type method struct {
	decl *declared
	in   *codec.Value
	out  *codec.Value
}

// both derives an encoding in CBOR and JSON.
func both[T any](c *core) *codec.Value { return codec.Of[T](c.codec, codec.CBOR|codec.JSON) }

func (c *core) method(k kind, name string, in, out *codec.Value) method {
	return method{in: in, out: out, decl: c.declare(declared{
		kind: k, name: name, faults: endFaults(in, out),
		values: []codec.Described{in.Describe(host.MethodInput), out.Describe(host.MethodOutput)},
	})}
}

// Name returns the name of the method.
func (m *method) Name() string { return m.decl.name }

// An Action is a method that may read and write: each call is a turn. Bind it with [On]. In and Out
// must be encodable both as CBOR and as JSON.
//
// A field of In that is a list may have a tag such as max:"1000". An input of 64 KiB or more is
// refused as TooLarge if the list is longer, before it takes memory; the handler checks shorter
// inputs.
type Action[S, In, Out any] struct {
	_ [0]func(S, In, Out) // keeps types of other values from being converted into it
	method
}

// NewAction declares an action of t. The name has the form that [NewType] describes and is unique
// among the type's methods. Mistakes are reported by [Definition.Validate].
func NewAction[In, Out, S any](t *Type[S], name string) *Action[S, In, Out] {
	c := coreOf(t)
	return &Action[S, In, Out]{method: c.method(kindAction, name, both[In](c), both[Out](c))}
}

// Call runs the action on an actor and returns when its effects are durable. The first call creates
// the actor. The error is an [*Error]. An error of the handler that is not an Error has the code
// Internal and no details.
func (a *Action[S, In, Out]) Call(ctx context.Context, ref Ref[S], in In, opts ...CallOption) (out Out, err error) {
	err = a.act(ctx, &ref.ref, &in, &out, opts)
	return out, err
}

func (m *method) act(ctx context.Context, ref *ref, in, out any, opts []CallOption) error {
	req, err := m.request(ref, in)
	if err != nil {
		return err
	}
	for _, o := range opts {
		o.applyCall(req)
	}
	return m.call(ctx, ref.node, req, out)
}

// Send queues a one-way call to the action as part of the turn's commit. It is delivered after the
// commit, in order for each pair of actors, and handled exactly once. A failed handler is tried
// again with growing pauses. After the attempts that the sender's limits allow, the message becomes
// a dead letter of the sender ([Ref.DeadLetters]). The output is dropped.
//
// If Send fails, so does the turn, whether or not the handler looks at the error.
func (a *Action[S, In, Out]) Send(ctx *Context, ref Ref[S], in In) error {
	return a.send(ctx, &ref.ref, &in)
}

func (m *method) send(ctx *Context, ref *ref, in any) error {
	if ref.core != m.decl.core {
		return ctx.fail(Errorf(InvalidArgument, "%s of type %q: the Ref names an actor of type %q",
			m.decl, m.decl.core.name, ref.typ()))
	}
	input, err := m.in.Append(host.CBOR, nil, in)
	if err != nil {
		return ctx.fail(inputError(m.decl, err))
	}
	return ctx.fail(ctx.turn.Send(&host.Message{Type: ref.core.name, Key: ref.key, Method: m.decl.name, Input: input}))
}

// A Query is a method that reads a committed state. It takes no turn, so queries of one actor run
// beside each other and beside turns. Bind it with [OnQuery]. In and Out must be encodable both as
// CBOR and as JSON.
type Query[S, In, Out any] struct {
	_ [0]func(S, In, Out) // keeps types of other values from being converted into it
	method
}

// NewQuery declares a query of t. The name has the form that [NewType] describes and is unique
// among the type's methods.
func NewQuery[In, Out, S any](t *Type[S], name string) *Query[S, In, Out] {
	c := coreOf(t)
	return &Query[S, In, Out]{method: c.method(kindQuery, name, both[In](c), both[Out](c))}
}

// Call runs the query on an actor's last committed state and returns when that state is durable.
// The error is an [*Error].
func (q *Query[S, In, Out]) Call(ctx context.Context, ref Ref[S], in In, opts ...QueryOption) (out Out, err error) {
	err = q.ask(ctx, &ref.ref, &in, &out, opts)
	return out, err
}

func (m *method) ask(ctx context.Context, ref *ref, in, out any, opts []QueryOption) error {
	req, err := m.request(ref, in)
	if err != nil {
		return err
	}
	for _, o := range opts {
		o.applyQuery(req)
	}
	return m.call(ctx, ref.node, req, out)
}

// A Create is the creation method of a type: explicit creation with an input. Bind it with
// [OnCreate]. It runs after [Spec.OnCreate], in the same turn. It does not run if the first call of
// another method creates the actor; pass [Existing] to those calls to prevent that.
type Create[S, In any] struct {
	_ [0]func(S, In) // keeps types of other values from being converted into it
	creation
}

// creation hides the methods of a method from [Create].
type creation struct{ method method }

// NewCreate declares the creation method of t, named "create". A type has at most one. In must be
// encodable both as CBOR and as JSON.
func NewCreate[In, S any](t *Type[S]) *Create[S, In] {
	c := coreOf(t)
	return &Create[S, In]{creation: creation{c.method(kindCreate, createName, both[In](c), both[None](c))}}
}

// Call creates an actor and returns when it is durable. The error is an [*Error], with code
// AlreadyExists if the key is taken; if the handler fails, the actor does not exist.
func (c *Create[S, In]) Call(ctx context.Context, ref Ref[S], in In, opts ...CreateOption) error {
	return c.create(ctx, &ref.ref, &in, opts)
}

func (c *creation) create(ctx context.Context, ref *ref, in any, opts []CreateOption) error {
	req, err := c.method.request(ref, in)
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

// request makes the request of a call; in points to the input.
func (m *method) request(ref *ref, in any) (*host.Request, error) {
	if err := ref.check(m.decl.core); err != nil {
		return nil, err
	}
	input, err := m.in.Append(host.CBOR, nil, in)
	if err != nil {
		return nil, inputError(m.decl, err)
	}
	return &host.Request{Address: ref.address(), Method: m.decl.name, Codec: host.CBOR, Input: input}, nil
}

// call sends a request and decodes the reply into the value that out points to.
func (m *method) call(ctx context.Context, node Node, req *host.Request, out any) error {
	reply, err := node.Call(ctx, req)
	if err != nil {
		return err
	}
	if err := m.out.Decode(host.CBOR, reply.Output, out); err != nil {
		return Errorf(Internal, "the reply of %s does not decode: caller and actor disagree about its type", m.decl)
	}
	return nil
}

// decodeInput decodes an input into the value that v points to. It refuses lists that are longer
// than the max tags of their fields allow.
func decodeInput(d *declared, w *codec.Value, as host.Codec, input []byte, v any) error {
	if len(input) == 0 && w.IsNone() {
		return nil
	}
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

func endFaults(in, out *codec.Value) []string {
	return append(prefixed("input ", in.Faults()), prefixed("output ", out.Faults())...)
}

func prefixed(prefix string, faults []string) []string {
	out := make([]string, len(faults))
	for i, f := range faults {
		out[i] = prefix + f
	}
	return out
}
