package replay

import (
	"errors"
	"slices"
	"strconv"
	"time"
)

// A Report says whether a program agrees with the history of a run.
type Report struct {
	// Workflow is the name of the program, RunID that of the run.
	Workflow, RunID string
	// State is the recorded state of the run.
	State State
	// Problem says why the run would be paused; nil if it would go on.
	Problem *Pause
	// MissingUndos lists undo functions that the run would need if it failed, and that the program
	// no longer has: undo handlers by name, such as `undo handler "refund"`, and steps without
	// their undo function.
	MissingUndos []string
	// Resolutions counts the replayed resolutions of the history.
	Resolutions uint64
	// Ended is set if the function has returned, with Output, which the program's codec has
	// encoded, or with Failure.
	Ended   bool
	Output  []byte
	Failure *Failure
}

// errReadOnly is the error of a write during a verification. No write happens.
var errReadOnly = errors.New("workflow: a verification does not write")

// Verify replays the history of a run with the programs that lookup finds, up to its end.
func Verify(r Reader, lookup func(name string) *Program) (Report, error) {
	return verify(r, lookup, false)
}

// Replay is Verify, but it also replays the history of runs that have ended. It is for tests of
// programs against recordings.
func Replay(r Reader, lookup func(name string) *Program) (Report, error) {
	return verify(r, lookup, true)
}

func verify(r Reader, lookup func(name string) *Program, ended bool) (Report, error) {
	run := Open(RunOptions{Programs: lookup})
	run.verify, run.verifyEnded = true, ended
	defer run.Close()
	out, err := run.Advance(&verifyTurn{Reader: r})
	rep := Report{State: run.state}
	if err != nil {
		return rep, err
	}
	if run.st != nil {
		rep.RunID = run.id()
	}
	if run.program != nil {
		rep.Workflow = run.program.name
	}
	rep.Resolutions = run.seq
	if !out.Paused && !run.state.Over() {
		rep.MissingUndos = run.missingUndos()
	}
	if out.Paused {
		rep.Problem = run.pause
	}
	if run.rootOver && !out.Paused {
		rep.Ended = true
		if rep.Output = run.output; run.failed != nil {
			rep.Output, rep.Failure = nil, run.failure(run.failed)
		}
	}
	return rep, nil
}

// missingUndos returns the names of the undo functions that the run may need and the program lacks.
func (r *Run) missingUndos() (list []string) {
	for _, loc := range r.undoless {
		list = append(list, "the undo function of step "+strconv.Quote(r.names.Path(loc)))
	}
	for _, p := range r.obligations.list {
		name := ""
		switch {
		case p.Handler != "" && r.undoHandler(p.Handler) == nil:
			name = "undo handler " + strconv.Quote(p.Handler)
		case p.Handler == "" && p.undo == nil:
			name = "the undo function of step " + strconv.Quote(r.names.Path(p.Entry))
		}
		if name != "" && !slices.Contains(list, name) {
			list = append(list, name)
		}
	}
	return list
}

// A verifyTurn is a Turn that only reads.
type verifyTurn struct{ Reader }

func (*verifyTurn) Put(_, _ []byte) error                     { return errReadOnly }
func (*verifyTurn) Delete([]byte) error                       { return errReadOnly }
func (*verifyTurn) DeleteRange(_, _ []byte) error             { return errReadOnly }
func (*verifyTurn) Now() time.Time                            { return time.Time{} }
func (*verifyTurn) Value() any                                { return nil }
func (*verifyTurn) Receive([]string, int) ([]Delivery, error) { return nil, errReadOnly }
func (*verifyTurn) Return([]Delivery) error                   { return errReadOnly }
func (*verifyTurn) Reply(*Delivery, []byte, *Failure) error   { return errReadOnly }
func (*verifyTurn) Send(*Outgoing) error                      { return nil } // for messages that are not recorded
