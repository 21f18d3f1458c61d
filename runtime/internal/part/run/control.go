package run

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// startRun starts a run in a turn.
func startRun(c *kernel.Core, h *kernel.Turn, s host.RunStart) (host.RunStarted, error) {
	i := workflowIndex(c.Actor.Type, s.Workflow)
	if i < 0 {
		return host.RunStarted{}, noWorkflow(c, s.Workflow)
	}
	if err := flowKnown(c); err != nil {
		return host.RunStarted{}, err
	}
	flow := &c.Actor.Type.Workflows[i]
	input, err := flow.Input(s.Codec, s.Input)
	if err != nil {
		return host.RunStarted{}, err
	}
	out, err := wfhost.Start(&RunRows{H: h}, flow.Program, input, wfhost.StartOptions{Replace: s.Replace})
	if err != nil {
		return host.RunStarted{}, runError(err)
	}
	started := host.RunStarted{Run: out.ID, Started: out.Started}
	if !out.Started {
		return started, nil
	}
	if err := runBegun(c, h); err != nil {
		return started, err
	}
	RunOf(c.Actor).known.began(h, out.ID, flowOf(c).writes)
	return started, nil
}

// runBegun records a run that a turn has written.
func runBegun(c *kernel.Core, h *kernel.Turn) error {
	staleRun(c)
	p := kernel.PartOf[*Part](c.Actor.Kernel)
	p.blames.Delete(c.Actor.Key)
	if err := keepRun(c, h, runRecord{}); err != nil {
		return err
	}
	if err := listRun(c, h, ""); err != nil {
		return err
	}
	runNews(c, h)
	h.Notify(runTopic)
	h.Then(p.started.WithLabelValues(c.Actor.Type.Type).Inc)
	return nil
}

// controlRun controls the run in a turn.
func controlRun(c *kernel.Core, h *kernel.Turn, in host.RunControl) error {
	if n := len(in.Reason); n > park.MaxReason {
		return host.OverLimit("bytes of the reason", park.MaxReason, int64(n)).With("field", "reason")
	}
	if err := flowKnown(c); err != nil {
		return err
	}
	if flowOf(c).advancing {
		return host.Errorf(host.FailedPrecondition, "a run cannot %s itself", in.Verb)
	}
	t := &RunRows{H: h, exempt: true}
	if in.Run != "" {
		if st, err := wfhost.ReadOutcome(t); err != nil {
			return runError(err)
		} else if st.ID != in.Run {
			return host.Errorf(host.FailedPrecondition, "the actor's run is %s, not %s", st.ID, in.Run)
		}
	}
	var err error
	anew := false
	switch in.Verb {
	case host.WorkflowCancel:
		err = wfhost.Cancel(t, in.Reason)
	case host.WorkflowTerminate:
		err, anew = wfhost.Terminate(t, in.Reason), true
	case host.WorkflowPause:
		err = wfhost.Hold(t, in.Reason)
	case host.WorkflowResume:
		err = wfhost.Resume(t)
	case host.WorkflowRetry:
		err, anew = wfhost.RetryEntry(t, wfhost.EntryID(in.Entry)), true
	case host.WorkflowRewind:
		err, anew = wfhost.Rewind(t, wfhost.EntryID(in.Entry)), true
	default:
		return host.Errorf(host.InvalidArgument, "a run has no verb %q", in.Verb)
	}
	if err != nil {
		return runError(err)
	}
	return runControlled(c, h, anew)
}

// runControlled records the changes of a turn to a run. anew: the run in memory no longer matches
// the store.
func runControlled(c *kernel.Core, h *kernel.Turn, anew bool) error {
	h.Notify(runTopic)
	f := flowOf(c)
	st, err := wfhost.ReadOutcome(&RunRows{H: h})
	if err != nil {
		return err
	}
	if anew {
		staleRun(c)
	} else if f.run != nil {
		f.run.ControlChanged()
	}
	if st.State.Over() {
		if f.live {
			return runEnded(c, h)
		}
		return nil
	}
	if !f.live {
		if err := readmit(c, h); err != nil {
			return err
		}
	}
	rec := f.rec // empty if the run was over
	if rec.Listed = ""; st.Pause != nil {
		rec.Listed = string(st.Pause.Reason)
	}
	if err := keepRun(c, h, rec); err != nil {
		return err
	}
	if err := listRun(c, h, rec.Listed); err != nil {
		return err
	}
	runNews(c, h)
	return nil
}

// runError makes an error of package workflow public.
func runError(err error) error {
	switch {
	case errors.Is(err, wfhost.ErrNoRun):
		return host.Errorf(host.NotFound, "the actor has no workflow run")
	case errors.Is(err, wfhost.ErrExists):
		return host.Errorf(host.AlreadyExists, "%s", err)
	}
	if e, ok := errors.AsType[*wfhost.ControlError](err); ok {
		return host.Errorf(host.FailedPrecondition, "%s", e.Error())
	}
	if e, ok := errors.AsType[*workflow.CodecError](err); ok {
		return host.Errorf(host.InvalidArgument, "%s", e.Error())
	}
	return err
}
