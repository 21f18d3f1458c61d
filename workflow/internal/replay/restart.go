package replay

import (
	"fmt"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A restartError is the error of Restart.
type restartError struct{ input []byte }

func (*restartError) Error() string {
	return "workflow: the function has not returned what Restart returned"
}

// Restart ends the run's history and begins it anew with another input: same run, same id, next
// epoch.
func Restart[In any](ctx Context, in In) error {
	s := ctx.scope()
	s.own()
	data, err := s.run.encode(in)
	if err == nil {
		err = s.run.fits("the input", data)
	}
	if err != nil {
		return fmt.Errorf("workflow: restart: %w", err)
	}
	return &restartError{data}
}

// restart begins the run anew.
func (r *Run) restart(to *restartError) (Outcome, error) {
	if err := r.flush(); err != nil {
		return Outcome{}, err
	}
	for _, family := range []func() (start, end []byte){
		keyspace.WorkflowName.Range, keyspace.WorkflowHistory.Range, keyspace.WorkflowMetadata.Range, keyspace.WorkflowUndo.Range, keyspace.WorkflowBlob.Range,
	} {
		start, end := family()
		if err := r.turn.DeleteRange(start, end); err != nil {
			return Outcome{}, err
		}
	}
	if err := r.discharge(journal.Location{}); err != nil {
		return Outcome{}, err
	}
	r.record.Epoch++
	r.record.Started = r.clock()
	r.record.Seed = 0
	r.record.Boots, r.record.SeqAtBoot = 0, 0
	if err := putRecord(r.turn, &r.record); err != nil {
		return Outcome{}, err
	}
	if err := putInput(r.turn, to.input); err != nil {
		return Outcome{}, err
	}
	if r.pause != nil {
		r.pause = nil
		if err := deletePause(r.turn); err != nil {
			return Outcome{}, err
		}
	}
	r.setState(StatePending) // nothing of the epoch has run: its first Advance is no replay
	if r.err != nil {
		return Outcome{}, r.err
	}
	r.stopAttempts()
	r.kill()
	return Outcome{Again: true}, nil
}
