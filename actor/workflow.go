package actor

import (
	"errors"
	"reflect"

	"github.com/cairn-run/cairn/actor/handle"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A Workflow is a durable workflow of an actor: an ordinary function that survives crashes, sleeps
// and deploys. Package workflow has its operations. Bind the function with [OnRun]. An actor has
// one run at a time. The history of the run is part of the actor. Each entry is one commit with the
// state, the rows and the messages that belong to it.
//
// In and Out must be encodable both as CBOR and as JSON.
type Workflow[S, In, Out any] struct {
	_ [0]func(S, In, Out) // keeps types of other values from being converted into it
	run
}

// A run is a Workflow with an input and an output of any types.
type run struct {
	decl *declared
	in   *codec.Value
	out  *codec.Value
}

// NewWorkflow declares a workflow of t. The name has the form that [NewType] describes and is
// unique among the type's workflows. Each run stores the name, so do not change it while there are
// runs.
func NewWorkflow[In, Out, S any](t *Type[S], name string) *Workflow[S, In, Out] {
	c := coreOf(t)
	return &Workflow[S, In, Out]{run: c.run(name, both[In](c), both[Out](c))}
}

func (c *core) run(name string, in, out *codec.Value) run {
	return run{in: in, out: out, decl: c.declare(declared{
		kind: kindWorkflow, name: name, faults: endFaults(in, out),
		values: []codec.Described{in.Describe(host.WorkflowInput), out.Describe(host.WorkflowOutput)},
	})}
}

// OnRun binds a workflow to its function: OnRun(Checkout, checkout). Values are encoded like the
// actor's other values, and an [*Error] of a step reaches the function as an [*Error], unless
// options say otherwise. A step is not tried again if it fails with an Error that is not marked
// retryable and whose code rules out success, such as NotFound; a step's own policy replaces this.
func OnRun[S, In, Out any](w *Workflow[S, In, Out], fn workflow.Func[In, Out], opts ...workflow.Option) Binding[S] {
	if w == nil {
		return Binding[S]{}
	}
	p := workflow.NewFunction(w.decl.name, fn, append(w.options(), opts...)...).Program()
	return Binding[S]{tie: w.tie(funcName(fn), p)}
}

// options returns the default options of a run, which later options override.
func (r *run) options() []workflow.Option {
	return []workflow.Option{
		workflow.WithCodec(runCodec{r.decl.core.codec}), workflow.WithError[*Error](errorName),
		workflow.WithStepDefaults(workflow.Retry(workflow.RetryPolicy{Retryable: worthAgain})),
	}
}

func (r *run) tie(handler string, p *wfhost.Program) tie {
	h := &host.Workflow{Name: r.decl.name, Handler: handler, Program: p}
	h.Input = func(from host.Codec, data []byte) ([]byte, error) {
		v := r.in.New()
		if err := decodeInput(r.decl, r.in, from, data, v); err != nil {
			return nil, err
		}
		stored, err := p.EncodeInput(reflect.ValueOf(v).Elem().Interface())
		if err != nil {
			return nil, inputError(r.decl, err)
		}
		return stored, nil
	}
	h.Output = func(stored []byte, to host.Codec) ([]byte, error) {
		v := r.out.New()
		if err := p.DecodeOutput(stored, v); err != nil {
			return nil, Errorf(Internal, "output of %s: %s", r.decl, err)
		}
		return r.out.AppendInside(to, nil, v)
	}
	return tie{decl: r.decl, handler: handler, workflow: h}
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

// runCodec encodes the stored values of runs like the actor's other values.
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
// turn is durable. Starting again with the same input finds the existing run, live or ended. The
// error code is AlreadyExists if the actor has another run.
//
// If Start fails, so does the turn, whether or not the handler looks at the error.
func (w *Workflow[S, In, Out]) Start(ctx *Context, in In, opts ...handle.StartOption) (handle.Started, error) {
	return w.start(ctx, &in, opts)
}

func (r *run) start(ctx *Context, in any, opts []handle.StartOption) (handle.Started, error) {
	if err := ctx.own(r.decl); err != nil {
		return handle.Started{}, ctx.fail(err)
	}
	input, err := r.in.Append(host.CBOR, nil, in)
	if err != nil {
		return handle.Started{}, ctx.fail(inputError(r.decl, err))
	}
	s := handle.NewStart(r.decl.name, opts)
	s.Codec, s.Input = host.CBOR, input
	out, err := ctx.turn.StartRun(s)
	return out, ctx.fail(err)
}

// Of returns the run of an actor, for callers and operators.
func (w *Workflow[S, In, Out]) Of(ref Ref[S]) handle.Run[In, Out] {
	return handle.NewRun[In, Out](ref.ref.site(label{decl: w.decl, name: w.decl.name}), w.in, w.out)
}
