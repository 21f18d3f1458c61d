package actor

import (
	"context"
	"errors"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/workflow"
)

// A Workflow is a durable workflow that actors of a type can run: an ordinary function that
// survives crashes, sleeps and deploys, in the words of package workflow. Bind it with [OnRun]. An
// actor has one run at a time; its history is part of the actor, and each of its entries is one
// commit with the state, the rows and the messages that belong to it.
//
// In and Out must be encodable both as CBOR and as JSON.
type Workflow[S, In, Out any] struct {
	decl *declared
	in   *wire[In]
	out  *wire[Out]
}

// NewWorkflow declares a workflow of t. The name has the form that [NewType] describes and is
// unique among the type's workflows. It is stored with each run and must not change while there are
// any.
func NewWorkflow[In, Out, S any](t *Type[S], name string) *Workflow[S, In, Out] {
	c := coreOf(t)
	w := &Workflow[S, In, Out]{in: newWire[In](c, cborValue|jsonValue), out: newWire[Out](c, cborValue|jsonValue)}
	w.decl = declare(t, declared{
		kind: kindWorkflow, name: name, faults: methodFaults(w.in, w.out),
		values: []value{w.in.value(c, host.WorkflowInput), w.out.value(c, host.WorkflowOutput)},
	})
	return w
}

// Name returns the workflow's name.
func (w *Workflow[S, In, Out]) Name() string { return w.decl.name }

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
	p := workflow.Define(d.name, fn, opts...).Program()
	b := Binding[S]{decl: d, handler: funcName(fn)}
	b.workflow = &host.Workflow{Name: d.name, Handler: b.handler, Program: p}
	b.workflow.Input = func(from host.Codec, data []byte) ([]byte, error) {
		var v In
		if err := in.decode(from, data, &v); err != nil {
			return nil, inputError(d, err)
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
		return out.appendInside(to, nil, &v)
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
type runCodec struct{ codec *codec }

// Encode implements workflow.Codec.
func (c runCodec) Encode(v any) ([]byte, error) {
	if _, ok := v.(None); ok {
		return []byte{0xF6}, nil
	}
	return c.codec.appendCBOR(nil, v)
}

// Decode implements workflow.Codec.
func (c runCodec) Decode(data []byte, v any) error {
	if _, ok := v.(*None); ok {
		return decodeNone(host.CBOR, data)
	}
	return c.codec.decodeCBOR(data, v)
}

// A StartOption changes how a run is started.
type StartOption interface{ applyStart(*host.RunStart) }

type startOption func(*host.RunStart)

func (o startOption) applyStart(s *host.RunStart) { o(s) }

// Replace starts a new run although the actor has had one. It drops the history of a run that has
// ended, and never replaces a run that lives.
func Replace() StartOption { return startOption(func(s *host.RunStart) { s.Replace = true }) }

// UpTo makes a run of a recording ([Workflow.Import], [Workflow.Fork]) go on after an entry of it,
// as if nothing had happened since.
func UpTo(entry workflow.EntryID) StartOption {
	return startOption(func(s *host.RunStart) { s.UpTo = string(entry) })
}

// A Started is the result of starting a run.
type Started = host.RunStarted

// Begin starts a run in a turn of the actor itself, as part of its commit. The run goes on when the
// turn is durable. Beginning again with the same input finds the run that is there, whether it
// lives or has ended; the error code is AlreadyExists if it is another. If Begin fails, so does the
// turn.
func (w *Workflow[S, In, Out]) Begin(ctx *Context, in In, opts ...StartOption) (Started, error) {
	if err := ctx.own(w.decl); err != nil {
		return Started{}, ctx.fail(err)
	}
	input, err := w.in.append(host.CBOR, nil, &in)
	if err != nil {
		return Started{}, ctx.fail(inputError(w.decl, err))
	}
	s := host.RunStart{Workflow: w.decl.name, Codec: host.CBOR, Input: input}
	for _, o := range opts {
		o.applyStart(&s)
	}
	out, err := ctx.turn.StartRun(s)
	return out, ctx.fail(err)
}

// Start starts a run on an actor, which the first start creates, and returns when that is durable.
// Starting again with the same input finds the run that is there, whether it lives or has ended;
// the error code is AlreadyExists if it is another.
func (w *Workflow[S, In, Out]) Start(ctx context.Context, ref Ref[S], in In, opts ...StartOption) (Started, error) {
	input, err := w.in.append(host.CBOR, nil, &in)
	if err != nil {
		return Started{}, inputError(w.decl, err)
	}
	if w.in.none {
		input = nil
	}
	s := host.RunStart{Workflow: w.decl.name}
	for _, o := range opts {
		o.applyStart(&s)
	}
	at, err := ref.site(w.decl)
	if err != nil {
		return Started{}, err
	}
	return ask(ctx, at, method.WorkflowStart, &host.WorkflowStartInput{Workflow: s.Workflow, Input: input, Replace: s.Replace})
}

// Status describes the actor's run without waking the actor: what it waits for, since when, and why
// it is paused if it is. The error code is NotFound if the actor has none.
func (w *Workflow[S, In, Out]) Status(ctx context.Context, ref Ref[S]) (workflow.RunStatus, error) {
	at, err := ref.site(w.decl)
	if err != nil {
		return workflow.RunStatus{}, err
	}
	return ask(ctx, at, method.WorkflowStatus, new(method.None))
}

// Result waits until the run has ended, and returns what its function returned. A run that failed
// has the code of the error that it failed with, or FailedPrecondition. A run that was
// cancelled or terminated has code Canceled. The result is durable.
func (w *Workflow[S, In, Out]) Result(ctx context.Context, ref Ref[S]) (Out, error) {
	var out Out
	at, err := ref.site(w.decl)
	if err != nil {
		return out, err
	}
	var pace pacer
	for {
		start := time.Now()
		r, err := ask(ctx, at, method.WorkflowResult, &host.WorkflowResultInput{WaitMS: millis(waitSlice)})
		switch {
		case err != nil && ctx.Err() == nil && again(err):
			if pace.pause(ctx) {
				continue
			}
			return out, contextError(ctx, "waiting for the run")
		case err != nil:
			return out, err
		case !r.Done:
			if ctx.Err() != nil {
				return out, contextError(ctx, "waiting for the run")
			}
			pace.waited(ctx, start, true)
			continue
		case r.State != workflow.StateCompleted:
			return out, runFailure(&r)
		}
		if err := w.out.decode(host.CBOR, noneAsNothing(w.out.none, r.Output), &out); err != nil {
			return out, Errorf(Internal, "the output of %s does not decode: caller and actor disagree about its type", w.decl)
		}
		return out, nil
	}
}

// noneAsNothing drops the null that stands for nothing inside of other values.
func noneAsNothing(none bool, data []byte) []byte {
	if none {
		return nil
	}
	return data
}

// runFailure is the error of a run that did not complete.
func runFailure(r *host.WorkflowResultOutput) *Error {
	code := FailedPrecondition
	if r.State != workflow.StateFailed {
		code = Canceled
	}
	text, metadata := "the run is "+string(r.State), map[string]string(nil)
	if f := r.Failure; f != nil {
		if c := Code(f.Code); c.Known() {
			code = c
		}
		metadata = f.Metadata
		if f.Message != "" {
			text += ": " + f.Message
		}
	}
	e := &Error{Code: code, Message: text, Metadata: metadata}
	return e.With("state", string(r.State)).With("run", r.Run)
}

// control does something to the run of an actor.
func (w *Workflow[S, In, Out]) control(
	ctx context.Context, ref Ref[S], m method.Typed[host.WorkflowControlInput, method.None], reason, entry string,
) error {
	at, err := ref.site(w.decl)
	if err != nil {
		return err
	}
	_, err = ask(ctx, at, m, &host.WorkflowControlInput{Reason: reason, Entry: entry})
	return err
}

// Cancel asks the run to end, and returns when the request is durable. Its waits end with
// workflow.ErrCanceled, and the contexts of its steps end. Steps with an undo are undone, and its
// final state is cancelled.
func (w *Workflow[S, In, Out]) Cancel(ctx context.Context, ref Ref[S], reason string) error {
	return w.control(ctx, ref, method.WorkflowCancel, reason, "")
}

// Terminate ends the run at once: its code no longer runs, and nothing is undone.
func (w *Workflow[S, In, Out]) Terminate(ctx context.Context, ref Ref[S], reason string) error {
	return w.control(ctx, ref, method.WorkflowTerminate, reason, "")
}

// Pause keeps the run from going on until Resume. Attempts of steps that are under way are
// finished.
func (w *Workflow[S, In, Out]) Pause(ctx context.Context, ref Ref[S], reason string) error {
	return w.control(ctx, ref, method.WorkflowPause, reason, "")
}

// Resume continues a paused run, whatever paused it. A run that does not fit its code is paused
// again.
func (w *Workflow[S, In, Out]) Resume(ctx context.Context, ref Ref[S]) error {
	return w.control(ctx, ref, method.WorkflowResume, "", "")
}

// Retry runs a step again that has failed for good, and what came after it. The error code is
// FailedPrecondition, with the reason, if that cannot be done.
func (w *Workflow[S, In, Out]) Retry(ctx context.Context, ref Ref[S], entry workflow.EntryID) error {
	return w.control(ctx, ref, method.WorkflowRetry, "", string(entry))
}

// Rewind forgets an entry of the history and all that came after it, so that the run goes on from
// there, also if it was over: then its result is gone, and [Workflow.Result] waits again. The error
// code is FailedPrecondition, with the reason, if that cannot be done, such as for a run that was
// terminated, or whose parent has its outcome.
func (w *Workflow[S, In, Out]) Rewind(ctx context.Context, ref Ref[S], entry workflow.EntryID) error {
	return w.control(ctx, ref, method.WorkflowRewind, "", string(entry))
}

// History returns the entries of the run in the order of their places: each before the entries
// inside it. An error ends it.
func (w *Workflow[S, In, Out]) History(ctx context.Context, ref Ref[S]) iter.Seq2[workflow.HistoryEntry, error] {
	return func(yield func(workflow.HistoryEntry, error) bool) {
		at, err := ref.site(w.decl)
		in := host.WorkflowHistoryInput{Limit: 1000}
		for err == nil {
			var page host.WorkflowHistoryOutput
			if page, err = ask(ctx, at, method.WorkflowHistory, &in); err != nil {
				break
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
				in.After = string(e.ID)
			}
			if !page.More {
				return
			}
		}
		yield(workflow.HistoryEntry{}, err)
	}
}

// A Change is what has changed in a run: see [Workflow.Watch].
type Change = host.WorkflowWatchOutput

// Watch returns what changes in the run after a version of the actor, which 0 is before all; the
// first is what is there. It ends with the run, after its last change, or with an error. To go on
// later, watch after Change.Version.
func (w *Workflow[S, In, Out]) Watch(ctx context.Context, ref Ref[S], after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		at, err := ref.site(w.decl)
		if err != nil {
			yield(Change{}, err)
			return
		}
		var pace pacer
		for {
			start := time.Now()
			c, err := ask(ctx, at, method.WorkflowWatch, &host.WorkflowWatchInput{After: after, WaitMS: millis(waitSlice)})
			switch {
			case err != nil && ctx.Err() == nil && again(err) && pace.pause(ctx):
				continue
			case err != nil:
				yield(Change{}, err)
				return
			case c.Version > after:
				after = c.Version
				if !yield(c, nil) {
					return
				}
			}
			switch {
			case c.Status.State.Over():
				return
			case ctx.Err() != nil:
				yield(Change{}, contextError(ctx, "watching the run"))
				return
			}
			pace.waited(ctx, start, c.Changed == nil)
		}
	}
}

// Export returns the run with its whole history, as of one commit: a workflow.Recording in its
// encoded form, for tests and for [Workflow.Fork].
func (w *Workflow[S, In, Out]) Export(ctx context.Context, ref Ref[S]) ([]byte, error) {
	at, err := ref.site(w.decl)
	if err != nil {
		return nil, err
	}
	r, err := ask(ctx, at, method.WorkflowExport, new(method.None))
	return r.Recording, err
}

// Import makes a run of a recording on an actor, which goes on from where the recording ends.
func (w *Workflow[S, In, Out]) Import(ctx context.Context, ref Ref[S], recording []byte, opts ...StartOption) (Started, error) {
	var s host.RunStart
	for _, o := range opts {
		o.applyStart(&s)
	}
	at, err := ref.site(w.decl)
	if err != nil {
		return Started{}, err
	}
	return ask(ctx, at, method.WorkflowImport, &host.WorkflowImportInput{Recording: recording, Replace: s.Replace, UpTo: s.UpTo})
}

// Fork copies the run of an actor, with its history, to another actor, where it goes on by itself.
// The actor's state and all else that it stores is not copied.
func (w *Workflow[S, In, Out]) Fork(ctx context.Context, from, to Ref[S], opts ...StartOption) (Started, error) {
	rec, err := w.Export(ctx, from)
	if err != nil {
		return Started{}, err
	}
	return w.Import(ctx, to, rec, opts...)
}
