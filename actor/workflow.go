package actor

import (
	"errors"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/workflow"
)

// A Workflow is a durable workflow of an actor: an ordinary function that survives crashes, sleeps
// and deploys. Package workflow has its operations. Bind the function with [OnRun]. An actor has
// one run at a time. The history of the run is part of the actor. Each entry is one commit with the
// state, the rows and the messages that belong to it.
//
// In and Out must be encodable both as CBOR and as JSON.
type Workflow[S, In, Out any] struct {
	decl *declared
	in   *codec.Value
	out  *codec.Value
}

// NewWorkflow declares a workflow of t. The name has the form that [NewType] describes and is
// unique among the type's workflows. Each run stores the name, so do not change it while there are
// runs.
func NewWorkflow[In, Out, S any](t *Type[S], name string) *Workflow[S, In, Out] {
	c := coreOf(t)
	w := &Workflow[S, In, Out]{in: codec.Of[In](c.codec, codec.CBOR|codec.JSON), out: codec.Of[Out](c.codec, codec.CBOR|codec.JSON)}
	w.decl = declare(t, declared{
		kind: kindWorkflow, name: name, faults: methodFaults(w.in, w.out),
		values: []codec.Described{w.in.Describe(host.WorkflowInput), w.out.Describe(host.WorkflowOutput)},
	})
	return w
}

// OnRun binds a workflow to its function: OnRun(Checkout, checkout). Values are encoded like the
// actor's other values, and an [*Error] of a step reaches the function as an [*Error], unless
// options say otherwise. A step is not tried again if it fails with an Error that is not marked
// retryable and whose code rules out success, such as NotFound; a step's own policy decides that
// for itself.
func OnRun[S, In, Out any](w *Workflow[S, In, Out], fn workflow.Func[In, Out], opts ...workflow.Option) Binding[S] {
	if w == nil {
		return Binding[S]{}
	}
	d, in, out := w.decl, w.in, w.out
	opts = append([]workflow.Option{
		workflow.WithCodec(runCodec{d.core.codec}), workflow.WithError[*Error](errorName),
		workflow.WithStepDefaults(workflow.Retry(workflow.RetryPolicy{Retryable: worthAgain})),
	}, opts...)
	p := workflow.NewFunction(d.name, fn, opts...).Program()
	b := Binding[S]{tie: tie{decl: d, handler: funcName(fn)}}
	b.workflow = &host.Workflow{Name: d.name, Handler: b.handler, Program: p}
	b.workflow.Input = func(from host.Codec, data []byte) ([]byte, error) {
		var v In
		if err := decodeInput(d, in, from, data, &v); err != nil {
			return nil, err
		}
		stored, err := p.EncodeInput(v)
		if err != nil {
			return nil, inputError(d, err)
		}
		return stored, nil
	}
	b.workflow.Output = func(stored []byte, to host.Codec) ([]byte, error) {
		var v Out
		if err := p.DecodeOutput(stored, &v); err != nil {
			return nil, Errorf(Internal, "output of %s: %s", d, err)
		}
		return out.AppendInside(to, nil, &v)
	}
	return b
}

// worthAgain reports whether another attempt of a step may succeed.
func worthAgain(err error) bool {
	var e *Error
	if !errors.As(err, &e) || e.Retryable {
		return true
	}
	switch e.Code {
	case Overloaded, Canceled, DeadlineExceeded, Unavailable, Internal, Crashed, ActorFailed, ActorPaused:
		return true
	}
	return false
}

// errorName is the name under which an Error is stored in histories.
const errorName = "actor.Error"

// runCodec encodes what runs store as the actor's other values are encoded.
type runCodec struct{ codec *codec.Codec }

// Encode implements workflow.Codec.
func (c runCodec) Encode(v any) ([]byte, error) {
	if _, ok := v.(None); ok {
		return []byte{0xF6}, nil
	}
	return c.codec.AppendCBOR(nil, v)
}

// Decode implements workflow.Codec.
func (c runCodec) Decode(data []byte, v any) error {
	if _, ok := v.(*None); ok {
		return codec.DecodeNone(host.CBOR, data)
	}
	return c.codec.DecodeCBOR(data, v)
}

// Start starts a run in a turn of the actor itself, as part of its commit. The run goes on when the
// turn is durable. Starting again with the same input finds the run that is there, live or ended.
// The error code is AlreadyExists if the actor has another run.
//
// If Start fails, so does the turn, whether or not the handler looks at the error.
func (w *Workflow[S, In, Out]) Start(ctx *Context, in In, opts ...handle.StartOption) (handle.Started, error) {
	if err := ctx.own(w.decl); err != nil {
		return handle.Started{}, ctx.fail(err)
	}
	input, err := w.in.Append(host.CBOR, nil, &in)
	if err != nil {
		return handle.Started{}, ctx.fail(inputError(w.decl, err))
	}
	s := handle.NewStart(w.decl.name, opts)
	s.Codec, s.Input = host.CBOR, input
	out, err := ctx.turn.StartRun(s)
	return out, ctx.fail(err)
}

// Of returns the run of an actor, for callers and operators.
func (w *Workflow[S, In, Out]) Of(ref Ref[S]) handle.Run[In, Out] {
	return handle.NewRun[In, Out](ref.site(label{decl: w.decl, name: w.decl.name}), w.in, w.out)
}
