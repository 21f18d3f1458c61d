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

// A Run is the workflow run of one actor, for callers that start it and wait for it, and for
// operators. Made by actor.Workflow.Of. Safe for concurrent use.
//
// The error code of each method is NotFound if the actor has no run, except where the method starts
// one, and FailedPrecondition with the reason if the state of the run does not allow the call.
// Without a run, History has no entries.
type Run[In, Out any] struct {
	_ [0]func(In, Out) // keeps types of other values from being converted into it
	*run
}

// A run is a Run without its Go types.
type run struct {
	site site.Site
	in   *codec.Value
	out  *codec.Value
}

// A Started is the result of starting a run.
type Started = host.RunStarted

// A StartOption changes the start of a run.
type StartOption interface {
	ImportOption
	applyStart(*host.RunStart)
}

// An ImportOption changes [Run.Import] and [Run.Fork]. Each StartOption is one.
type ImportOption interface {
	applyImport(*host.WorkflowImportInput)
}

type importOption func(*host.WorkflowImportInput)

func (o importOption) applyImport(in *host.WorkflowImportInput) { o(in) }

type replace struct{}

func (replace) applyStart(s *host.RunStart)              { s.Replace = true }
func (replace) applyImport(in *host.WorkflowImportInput) { in.Replace = true }

// Replace starts a new run in place of a run that has ended, and drops its history. It never
// replaces a live run.
func Replace() StartOption { return replace{} }

// UpTo continues a run of a recording after an entry of the recording, as if nothing had happened
// since.
func UpTo(entry wfhost.EntryID) ImportOption {
	return importOption(func(in *host.WorkflowImportInput) { in.UpTo = string(entry) })
}

// Start starts a run and returns when that is durable. The first call creates the actor. Starting
// again with the same input finds the existing run, live or ended. The error code is AlreadyExists
// if the actor has another run.
func (r Run[In, Out]) Start(ctx context.Context, in In, opts ...StartOption) (Started, error) {
	return r.start(ctx, &in, opts)
}

func (r *run) start(ctx context.Context, in any, opts []StartOption) (Started, error) {
	input, err := r.in.Append(host.CBOR, nil, in)
	if err != nil {
		return Started{},
			host.WithMember(host.Errorf(host.InvalidArgument, "input of %s: %s", r.site.Contract, err), "", err)
	}
	if r.in.IsNone() {
		input = nil
	}
	s := NewStart(r.site.Name, opts)
	return site.Ask(ctx, &r.site, method.WorkflowStart,
		&host.WorkflowStartInput{Workflow: s.Workflow, Input: input, Replace: s.Replace})
}

// Status describes the run without waking the actor: what the run waits for, since when, and why it
// is paused.
func (r *run) Status(ctx context.Context) (wfhost.RunStatus, error) {
	return site.Ask(ctx, &r.site, method.WorkflowStatus, new(method.None))
}

// Result waits until the run has ended, and returns the result of its function, which is durable.
// If the run failed, the error has the code of the failure, or FailedPrecondition. If the run was
// cancelled or terminated, the code is Canceled. If the actor is destroyed first, it is Destroyed,
// and if ctx ends first, DeadlineExceeded or Canceled.
func (r Run[In, Out]) Result(ctx context.Context) (Out, error) {
	var out Out
	err := r.result(ctx, &out)
	return out, err
}

func (r *run) result(ctx context.Context, out any) error {
	var pace site.Pacer
	for {
		start := time.Now()
		got, err := site.Ask(ctx, &r.site, method.WorkflowResult,
			&host.WorkflowResultInput{WaitMS: site.Millis(site.WaitSlice)})
		switch {
		case err != nil && ctx.Err() == nil && site.Again(err):
			if pace.Pause(ctx) {
				continue
			}
			return site.ContextError(ctx, "waiting for the run")
		case err != nil:
			return err
		case !got.Done:
			if ctx.Err() != nil {
				return site.ContextError(ctx, "waiting for the run")
			}
			pace.Waited(ctx, start, true)
			continue
		case got.State != wfhost.StateCompleted:
			return runFailure(&got)
		}
		if r.out.IsNone() {
			return nil
		}
		if err := r.out.Decode(host.CBOR, got.Output, out); err != nil {
			return host.Errorf(host.Internal,
				"the output of %s does not decode: caller and actor disagree about its type", r.site.Contract)
		}
		return nil
	}
}

// runFailure returns the error of a run that did not complete.
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

// control calls a method that controls the run of an actor.
func (r *run) control(
	ctx context.Context, m method.Typed[host.WorkflowControlInput, method.None], reason, entry string,
) error {
	_, err := site.Ask(ctx, &r.site, m, &host.WorkflowControlInput{Reason: reason, Entry: entry})
	return err
}

// Cancel asks the run to end, and returns when the request is durable. Waits of the run end with
// workflow.ErrCanceled, and the contexts of its steps end. Steps with an undo are undone. The final
// state of the run is cancelled.
func (r *run) Cancel(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowCancel, reason, "")
}

// Terminate ends the run at once. Its code no longer runs, and nothing is undone.
func (r *run) Terminate(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowTerminate, reason, "")
}

// Pause stops the run until Resume. Running attempts of steps are finished, and their results are
// kept; only the functions of StepCtx.OnCommit wait, in memory, for Resume.
func (r *run) Pause(ctx context.Context, reason string) error {
	return r.control(ctx, method.WorkflowPause, reason, "")
}

// Resume continues a paused run, regardless of the cause. A run that does not fit its code is
// paused again.
func (r *run) Resume(ctx context.Context) error {
	return r.control(ctx, method.WorkflowResume, "", "")
}

// Retry runs a failed step again, and everything after it. An entry is an ID of [Run.History].
func (r *run) Retry(ctx context.Context, entry wfhost.EntryID) error {
	return r.control(ctx, method.WorkflowRetry, "", string(entry))
}

// Rewind removes an entry and everything after it from the history, and the run goes on from there.
// The run may have ended: then its result is gone, and [Run.Result] waits again. A run that was
// terminated, or whose parent has its result, cannot be rewound.
func (r *run) Rewind(ctx context.Context, entry wfhost.EntryID) error {
	return r.control(ctx, method.WorkflowRewind, "", string(entry))
}

// History ranges over the entries of the run in the order of their places: each entry comes before
// the entries inside it. An error ends the loop.
func (r *run) History(ctx context.Context) iter.Seq2[wfhost.HistoryEntry, error] {
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

// A Change is a change of a run: see [Run.Watch].
type Change = host.WorkflowWatchOutput

// Watch ranges over the changes of the run after a version of the actor. The first change after
// version 0 is the whole run. Watch ends with the last change of the run, or with an error: its
// code is Destroyed if the actor is destroyed. To go on later, watch after Change.Version.
func (r *run) Watch(ctx context.Context, after uint64) iter.Seq2[Change, error] {
	return func(yield func(Change, error) bool) {
		var pace site.Pacer
		for {
			start := time.Now()
			c, err := site.Ask(ctx, &r.site, method.WorkflowWatch,
				&host.WorkflowWatchInput{After: after, WaitMS: site.Millis(site.WaitSlice)})
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

// Export returns the run with its whole history, as of one commit. The result is an encoded
// Recording of package workflow/host, for tests and for [Run.Import].
func (r *run) Export(ctx context.Context) ([]byte, error) {
	out, err := site.Ask(ctx, &r.site, method.WorkflowExport, new(method.None))
	return out.Recording, err
}

// Import makes a run from a recording. The run goes on from the end of the recording, or from an
// entry ([UpTo]). The error codes are those of [Run.Start]; the code is InvalidArgument if the
// recording does not decode, and NotFound if the type does not have its workflow.
func (r *run) Import(ctx context.Context, recording []byte, opts ...ImportOption) (Started, error) {
	in := host.WorkflowImportInput{Recording: recording}
	for _, o := range opts {
		o.applyImport(&in)
	}
	return site.Ask(ctx, &r.site, method.WorkflowImport, &in)
}

// Fork copies the run with its history to another actor, where the copy goes on independently. The
// state and the other data of the actor are not copied. The error codes are those of [Run.Import].
func (r Run[In, Out]) Fork(ctx context.Context, to Run[In, Out], opts ...ImportOption) (Started, error) {
	return r.fork(ctx, to.run, opts)
}

func (r *run) fork(ctx context.Context, to *run, opts []ImportOption) (Started, error) {
	recording, err := r.Export(ctx)
	if err != nil {
		return Started{}, err
	}
	return to.Import(ctx, recording, opts...)
}
