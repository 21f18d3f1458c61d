package handle

import (
	"context"
	"iter"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/actor/internal/site"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A Run is the run of a workflow in one actor: for callers that start it and wait for it, and for
// operators. Made by actor.Workflow.Of. Safe for concurrent use.
type Run[In, Out any] struct {
	site site.Site
	in   *codec.Value[In]
	out  *codec.Value[Out]
}

// A Started is the result of starting a run.
type Started = host.RunStarted

// A StartOption changes how a run is started.
type StartOption interface{ applyStart(*host.RunStart) }

type startOption func(*host.RunStart)

func (o startOption) applyStart(s *host.RunStart) { o(s) }

// Replace starts a new run although the actor has had one. It drops the history of a run that has
// ended, and never replaces a run that lives.
func Replace() StartOption { return startOption(func(s *host.RunStart) { s.Replace = true }) }

// UpTo makes a run of a recording ([Run.Import], [Run.Fork]) go on after an entry of it, as if
// nothing had happened since.
func UpTo(entry wfhost.EntryID) StartOption {
	return startOption(func(s *host.RunStart) { s.UpTo = string(entry) })
}

// Start starts a run on the actor, which the first start creates, and returns when that is durable.
// Starting again with the same input finds the run that is there, whether it lives or has ended;
// the error code is AlreadyExists if it is another.
func (r Run[In, Out]) Start(ctx context.Context, in In, opts ...StartOption) (Started, error) {
	input, err := r.in.Append(host.CBOR, nil, &in)
	if err != nil {
		return Started{}, host.WithMember(host.Errorf(host.InvalidArgument, "input of %s: %s", r.site.Contract, err), "", err)
	}
	if r.in.IsNone() {
		input = nil
	}
	s := NewStart(r.site.Name, opts)
	return site.Ask(ctx, &r.site, method.WorkflowStart, &host.WorkflowStartInput{Workflow: s.Workflow, Input: input, Replace: s.Replace})
}

// Status describes the actor's run without waking the actor: what it waits for, since when, and why
// it is paused if it is. The error code is NotFound if the actor has none.
func (r Run[In, Out]) Status(ctx context.Context) (wfhost.RunStatus, error) {
	return site.Ask(ctx, &r.site, method.WorkflowStatus, new(method.None))
}

// Result waits until the run has ended, and returns what its function returned. A run that failed
// has the code of the error that it failed with, or FailedPrecondition. A run that was
// cancelled or terminated has code Canceled. The result is durable.
func (r Run[In, Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	var pace site.Pacer
	for {
		start := time.Now()
		got, err := site.Ask(ctx, &r.site, method.WorkflowResult, &host.WorkflowResultInput{WaitMS: site.Millis(site.WaitSlice)})
		switch {
		case err != nil && ctx.Err() == nil && site.Again(err):
			if pace.Pause(ctx) {
				continue
			}
			return out, site.ContextError(ctx, "waiting for the run")
		case err != nil:
			return out, err
		case !got.Done:
			if ctx.Err() != nil {
				return out, site.ContextError(ctx, "waiting for the run")
			}
			pace.Waited(ctx, start, true)
			continue
		case got.State != wfhost.StateCompleted:
			return out, runFailure(&got)
		}
		if r.out.IsNone() {
			return out, nil
		}
		if err := r.out.Decode(host.CBOR, got.Output, &out); err != nil {
			return out, host.Errorf(host.Internal, "the output of %s does not decode: caller and actor disagree about its type", r.site.Contract)
		}
		return out, nil
	}
}

// runFailure is the error of a run that did not complete.
func runFailure(r *host.WorkflowResultOutput) *host.Error {
	code := host.FailedPrecondition
	if r.State != wfhost.StateFailed {
		code = host.Canceled
	}
	text, metadata := "the run is "+string(r.State), map[string]string(nil)
	if f := r.Failure; f != nil {
		if c := host.Code(f.Code); c.Known() {
			code = c
		}
		metadata = f.Metadata
		if f.Message != "" {
			text += ": " + f.Message
		}
	}
	e := &host.Error{Code: code, Message: text, Metadata: metadata}
	return e.With("state", string(r.State)).With("run", r.Run)
}

// control does something to the run of an actor.
func (r Run[In, Out]) control(
	ctx context.Context, m method.Typed[host.WorkflowControlInput, method.None], reason, entry string,
) error {
	_, err := site.Ask(ctx, &r.site, m, &host.WorkflowControlInput{Reason: reason, Entry: entry})
	return err
}

// Cancel asks the run to end, and returns when the request is durable. Its waits end with
// workflow.ErrCanceled, and the contexts of its steps end. Steps with an undo are undone, and its
// final state is cancelled.
func (r Run[In, Out]) Cancel(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowCancel, reason, "")
}

// Terminate ends the run at once: its code no longer runs, and nothing is undone.
func (r Run[In, Out]) Terminate(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowTerminate, reason, "")
}

// Pause keeps the run from going on until Resume. Attempts of steps that are under way are
// finished.
func (r Run[In, Out]) Pause(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowPause, reason, "")
}

// Resume continues a paused run, whatever paused it. A run that does not fit its code is paused
// again.
func (r Run[In, Out]) Resume(ctx context.Context) error {
	return r.control(ctx, method.WorkflowResume, "", "")
}

// Retry runs a step again that has failed for good, and what came after it. The error code is
// FailedPrecondition, with the reason, if that cannot be done.
func (r Run[In, Out]) Retry(ctx context.Context, entry wfhost.EntryID) error {
	return r.control(ctx, method.WorkflowRetry, "", string(entry))
}

// Rewind forgets an entry of the history and all that came after it, so that the run goes on from
// there, also if it was over: then its result is gone, and [Run.Result] waits again. The error
// code is FailedPrecondition, with the reason, if that cannot be done, such as for a run that was
// terminated, or whose parent has its outcome.
func (r Run[In, Out]) Rewind(ctx context.Context, entry wfhost.EntryID) error {
	return r.control(ctx, method.WorkflowRewind, "", string(entry))
}

// History returns the entries of the run in the order of their places: each before the entries
// inside it. An error ends it.
func (r Run[In, Out]) History(ctx context.Context) iter.Seq2[wfhost.HistoryEntry, error] {
	return func(yield func(wfhost.HistoryEntry, error) bool) {
		in := host.WorkflowHistoryInput{Limit: 1000}
		for {
			page, err := site.Ask(ctx, &r.site, method.WorkflowHistory, &in)
			if err != nil {
				yield(wfhost.HistoryEntry{}, err)
				return
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
	}
}

// A Change is what has changed in a run: see [Run.Watch].
type Change = host.WorkflowWatchOutput

// Watch returns what changes in the run after a version of the actor, which 0 is before all; the
// first is what is there. It ends with the run, after its last change, or with an error. To go on
// later, watch after Change.Version.
func (r Run[In, Out]) Watch(ctx context.Context, after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var pace site.Pacer
		for {
			start := time.Now()
			c, err := site.Ask(ctx, &r.site, method.WorkflowWatch, &host.WorkflowWatchInput{After: after, WaitMS: site.Millis(site.WaitSlice)})
			switch {
			case err != nil && ctx.Err() == nil && site.Again(err) && pace.Pause(ctx):
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
				yield(Change{}, site.ContextError(ctx, "watching the run"))
				return
			}
			pace.Waited(ctx, start, c.Changed == nil)
		}
	}
}

// Export returns the run with its whole history, as of one commit: a workflow.Recording in its
// encoded form, for tests and for [Run.Fork].
func (r Run[In, Out]) Export(ctx context.Context) ([]byte, error) {
	out, err := site.Ask(ctx, &r.site, method.WorkflowExport, new(method.None))
	return out.Recording, err
}

// Import makes a run of a recording, which goes on from where the recording ends.
func (r Run[In, Out]) Import(ctx context.Context, recording []byte, opts ...StartOption) (Started, error) {
	s := NewStart("", opts)
	return site.Ask(ctx, &r.site, method.WorkflowImport, &host.WorkflowImportInput{Recording: recording, Replace: s.Replace, UpTo: s.UpTo})
}

// Fork copies the run with its history to another actor, where it goes on by itself. The actor's
// state and its other data are not copied.
func (r Run[In, Out]) Fork(ctx context.Context, to Run[In, Out], opts ...StartOption) (Started, error) {
	recording, err := r.Export(ctx)
	if err != nil {
		return Started{}, err
	}
	return to.Import(ctx, recording, opts...)
}
