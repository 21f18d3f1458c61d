package run

import (
	"context"
	"encoding/hex"
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// Methods implements call.Server: the verbs of workflow runs. Reading verbs wake nothing, so they
// work on sleeping and failed actors.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Act(method.WorkflowStart,
			func(c *kernel.Core, h *kernel.Turn, codec host.Codec,
				in *host.WorkflowStartInput) (host.RunStarted, error) {
				return startRun(c, h,
					host.RunStart{Workflow: in.Workflow, Codec: codec, Input: in.Input, Replace: in.Replace})
			}),
		runVerb(method.WorkflowCancel), runVerb(method.WorkflowTerminate), runVerb(method.WorkflowPause), runVerb(method.WorkflowResume),
		runVerb(method.WorkflowRetry), runVerb(method.WorkflowRewind),
		call.Act(method.WorkflowImport, importRun),
		call.Ordered(call.Serve(method.WorkflowStatus, runStatus)),
		call.Waiting(call.Ordered(call.Serve(method.WorkflowResult, runResult)),
			func(in *host.WorkflowResultInput) (string, int64) { return runEndedTopic, in.WaitMS },
			func(_ *host.WorkflowResultInput, codec host.Codec, out []byte) bool {
				return !wire.Read[host.WorkflowResultOutput](codec, out).Done
			}),
		call.Ordered(call.Serve(method.WorkflowHistory, runHistory)),
		call.Waiting(call.Ordered(call.Serve(method.WorkflowWatch, watchRun)),
			func(in *host.WorkflowWatchInput) (string, int64) { return runTopic, in.WaitMS },
			func(_ *host.WorkflowWatchInput, codec host.Codec, out []byte) bool {
				return wire.Read[host.WorkflowWatchOutput](codec, out).Changed == nil
			}),
		call.Serve(method.WorkflowExport, exportRun),
	}
}

// runVerb makes a built-in method that controls the run.
func runVerb(m method.Typed[host.WorkflowControlInput, method.None]) *call.Method {
	return call.Act(m, func(c *kernel.Core, h *kernel.Turn, _ host.Codec,
		in *host.WorkflowControlInput) (method.None, error) {
		return method.None{},
			controlRun(c, h, host.RunControl{Verb: m.Row.Name, Reason: in.Reason, Entry: in.Entry, Run: in.Run})
	})
}

// importRun makes a run of a recording.
func importRun(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.WorkflowImportInput) (host.RunStarted, error) {
	if err := flowKnown(c); err != nil {
		return host.RunStarted{}, err
	}
	rec, err := wfhost.DecodeRecording(in.Recording)
	if errors.Is(err, workflow.ErrTooLarge) {
		return host.RunStarted{}, err
	}
	if err != nil {
		return host.RunStarted{}, host.Errorf(host.InvalidArgument, "the recording: %s", err).With("field", "recording")
	}
	out, err := wfhost.Import(&RunRows{H: h}, rec,
		wfhost.StartOptions{Replace: in.Replace, UpTo: wfhost.EntryID(in.UpTo)})
	if err != nil {
		return host.RunStarted{}, runError(err)
	}
	started := host.RunStarted{Run: out.ID, Started: out.Started}
	made, err := wfhost.ReadOutcome(&RunRows{H: h})
	switch {
	case err != nil:
		return host.RunStarted{}, runError(err)
	case workflowIndex(c.Actor.Type, made.Workflow) < 0:
		return host.RunStarted{}, noWorkflow(c, made.Workflow)
	case made.State.Over():
		return started, nil
	}
	return started, runBegun(c, h)
}

// flushFor commits the earlier turns of the actor that calls: the run may wait for their messages.
func flushFor(on kernel.Target) error {
	if on.From != nil && on.From.Kind == kernel.FromTurn {
		return on.From.Waiter.Flush()
	}
	return nil
}

// ofRun reads the rows of an actor's run as of one commit that is durable.
func ofRun(s *kernel.Kernel, ctx context.Context, on kernel.Target, read func(rows storedRun) error) error {
	if err := flushFor(on); err != nil {
		return err
	}
	snap, _, err := s.Durable(ctx, on.Addr)
	if err != nil {
		return err
	}
	err = read(storedRun{snap})
	snap.Close()
	if err = runError(err); err == nil {
		return nil
	}
	if _, ok := errors.AsType[*host.Error](err); !ok {
		return s.StoreError(err)
	}
	return err
}

func runStatus(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	_ *method.None) (st wfhost.RunStatus, err error) {
	err = ofRun(s, ctx, on, func(rows storedRun) (err error) {
		st, err = wfhost.ReadStatus(rows)
		return err
	})
	if on.Veiled {
		st.Failure = veil(st.Failure)
		for i := range st.Waiting {
			st.Waiting[i].Failure = veil(st.Waiting[i].Failure)
		}
		if p := st.Pause; p != nil && p.Reason != wfhost.PausedOperator {
			p.Text = ""
		}
	}
	showRun(on.Codec, &st, nil)
	return st, err
}

// veil returns a failure for callers that are not operators. It leaves out the text of an error
// without a code, even inside an error that has one, unless an operator wrote it.
func veil(f *wfhost.Failure) *wfhost.Failure {
	switch {
	case f == nil || f.Reason == "terminated" || f.Code != "" && f.Own == "":
		return f
	case f.Code != "":
		return &wfhost.Failure{Code: f.Code, Message: f.Own, Reason: f.Reason, Metadata: f.Metadata}
	}
	return &wfhost.Failure{Reason: f.Reason, Message: "the error is shown to operators only"}
}

// showRun presents payloads for answers that are JSON.
func showRun(codec host.Codec, st *wfhost.RunStatus, entries []wfhost.HistoryEntry) {
	if codec != host.JSON {
		return
	}
	if st != nil {
		st.Show()
	}
	for i := range entries {
		entries[i].Show()
	}
}

func runResult(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	in *host.WorkflowResultInput) (out host.WorkflowResultOutput, err error) {
	if err := flushFor(on); err != nil {
		return out, err
	}
	if o := outcomeOf(s, on.Addr); o != nil {
		return o.result(on)
	}
	err = ofRun(s, ctx, on, func(rows storedRun) error {
		st, err := wfhost.ReadOutcome(rows)
		if err != nil {
			return err
		}
		o := outcome{run: st.ID, workflow: st.Workflow, state: st.State, output: st.Output, failure: st.Failure}
		if _, _, live, err := readRun(rows.Snapshot); err != nil {
			return err
		} else if live {
			o = outcome{run: st.ID, state: wfhost.StateRunning}
		}
		out, err = o.result(on)
		return err
	})
	return out, err
}

func runHistory(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	in *host.WorkflowHistoryInput) (out host.WorkflowHistoryOutput, err error) {
	if in.Limit == 0 {
		in.Limit = 100
	}
	out.Entries = []wfhost.HistoryEntry{}
	err = ofRun(s, ctx, on, func(rows storedRun) error {
		for e, err := range wfhost.History(rows,
			wfhost.Filter{Under: wfhost.EntryID(in.Under), After: wfhost.EntryID(in.After)}) {
			if err != nil {
				return err
			}
			if len(out.Entries) == in.Limit {
				out.More = true
				return nil
			}
			out.Entries = append(out.Entries, e)
		}
		return nil
	})
	showRun(on.Codec, nil, out.Entries)
	return out, err
}

// maxChanges is how many entries one answer of workflow.watch has.
const maxChanges = 1000

func watchRun(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	in *host.WorkflowWatchInput) (out host.WorkflowWatchOutput, err error) {
	err = ofRun(s, ctx, on, func(rows storedRun) (err error) {
		changed := make(map[string]bool)
		start, end := keyspace.KindWorkflow.Range()
		prefix, _ := keyspace.WorkflowHistory.Range()
		news := false
		var after []byte
		for {
			page, err := rows.List(engine.ListQuery{Start: start, End: end, After: after, KeysOnly: true})
			if err != nil {
				return err
			}
			for i := range page.Entries {
				e := &page.Entries[i]
				entry := len(e.Key) > len(prefix) && string(e.Key[:len(prefix)]) == string(prefix)
				if entry {
					out.Count++
				}
				if uint64(e.Version) <= in.After {
					continue
				}
				news = true
				out.Version = max(out.Version, uint64(e.Version))
				if entry {
					changed[hex.EncodeToString(e.Key[len(prefix):])] = true
				}
			}
			if after = page.Next; after == nil {
				break
			}
		}
		if out.Status, err = wfhost.ReadStatus(rows); err != nil {
			return err
		}
		if !news {
			out.Version = in.After
			return nil // Changed stays nil: nothing has changed
		}
		out.Changed = []wfhost.HistoryEntry{}
		if len(changed) == 0 {
			return nil
		}
		for e, err := range wfhost.History(rows, wfhost.Filter{}) {
			if err != nil {
				return err
			}
			if !changed[string(e.ID)] {
				continue
			}
			if len(out.Changed) == maxChanges {
				out.More = true
				break
			}
			out.Changed = append(out.Changed, e)
		}
		return nil
	})
	showRun(on.Codec, &out.Status, out.Changed)
	return out, err
}

func exportRun(s *kernel.Kernel, ctx context.Context, on kernel.Target,
	_ *method.None) (out host.WorkflowRecording, err error) {
	err = ofRun(s, ctx, on, func(rows storedRun) error {
		rec, err := wfhost.Export(rows)
		if err != nil {
			return err
		}
		rec.Manifest.Time = time.Now().UTC()
		out.Time = rec.Manifest.Time
		out.Recording, err = rec.Encode()
		return err
	})
	return out, err
}
