package run

import (
	"bytes"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// maxOutcome is the largest output that is kept in memory, in bytes.
const maxOutcome = 1 << 10

// An outcome is the answer to callers that wait for the result of a run. Immutable.
type outcome struct {
	run      string
	workflow string
	state    wfhost.State
	output   []byte
	failure  *wfhost.Failure
}

// result makes the answer for a caller.
func (o *outcome) result(on kernel.Target) (out host.WorkflowResultOutput, err error) {
	out = host.WorkflowResultOutput{State: o.state, Done: o.state.Over(), Run: o.run, Failure: o.failure}
	if on.Veiled {
		out.Failure = veil(out.Failure)
	}
	if o.state != wfhost.StateCompleted {
		return out, nil
	}
	i := workflowIndex(on.Typ, o.workflow)
	if i < 0 {
		return host.WorkflowResultOutput{},
			host.Errorf(host.FailedPrecondition,
				"actor type %q no longer has the workflow %q, which can read the result", on.Typ.Type, o.workflow)
	}
	out.Output, err = on.Typ.Workflows[i].Output(o.output, on.Codec)
	return out, err
}

// A known is the outcome of an actor's run in memory: a caller that waits for a run asks twice, and
// then reads no row.
//
// Invariant: what it holds is durable, and no later turn has written that the run begins, ends, or
// goes on after its end. So a turn forgets it before its commit, and it is set when a commit is
// durable.
type known struct {
	mu     sync.Mutex
	of     *outcome
	writes uint64 // turns with events of the run's life, to check whether a write is still the last when it is durable
	lives  bool   // the last of them began a run
}

// wrote records that a turn writes the state of the run, and returns the number of that write.
func (k *known) wrote(s wfhost.State) uint64 {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.lives && s != wfhost.StatePending && !s.Over() {
		return k.writes // it goes on
	}
	k.of, k.lives = nil, false
	k.writes++
	return k.writes
}

// forget records that a turn removes rows of the run.
func (k *known) forget() { k.wrote(wfhost.StatePending) }

// keep sets the outcome of a turn when the turn is durable. writes is the number of its write of
// the state: if another one came since, the actor was taken away from the turn.
func (k *known) keep(h *kernel.Turn, o *outcome, writes uint64) {
	k.mu.Lock()
	if k.writes == writes {
		k.lives = !o.state.Over()
	}
	k.mu.Unlock()
	h.Then(func() {
		k.mu.Lock()
		defer k.mu.Unlock()
		if k.writes == writes {
			k.of = o
		}
	})
}

// began records a run that a turn has written.
func (k *known) began(h *kernel.Turn, id string, writes uint64) {
	k.keep(h, &outcome{run: id, state: wfhost.StateRunning}, writes)
}

// completed records the result of a run that has come to its end.
func (k *known) completed(h *kernel.Turn, st *wfhost.RunStatus, writes uint64) {
	if st != nil && len(st.Output) <= maxOutcome {
		k.keep(h, &outcome{run: st.ID, workflow: st.Workflow, state: st.State, output: bytes.Clone(st.Output)}, writes)
	}
}

// outcomeOf returns the outcome of an actor's run that is in memory; nil if none is.
func outcomeOf(s *kernel.Kernel, addr host.Address) *outcome {
	a := s.Find(addr)
	if a == nil {
		return nil
	}
	own := attach.Get[*runActor](&a.Attached)
	if own == nil {
		return nil
	}
	own.known.mu.Lock()
	defer own.known.mu.Unlock()
	return own.known.of
}
