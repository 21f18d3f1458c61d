package replay

import (
	"fmt"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A function that ends the process (os.Exit, a stack overflow, a concurrent write to a map) does so
// each time that it goes on. So a host whose last process ended without notice counts before it
// continues a run:
//
//  1. Enter counts, in a transaction that must be durable before the next Advance. An Advance that
//     succeeds takes the count back, in its own transaction. If it recorded something, or paused or
//     ended the run, it sets the count to zero. So the count is the number of processes that ended
//     inside of an Advance, one after another.
//  2. A process counts a run once, even if its Advance is undone several times.
//  3. A process does not count a run again after the run has recorded something in it.
//  4. While earlier processes are counted, executions of steps are not: the function ended the
//     process before the step's result was on disk. So the run is paused, and does not fail for a
//     step that succeeded each time.

// maxEntered is how many processes may end inside of an Advance of a run before the run is paused.
// It is as many as a step has attempts by default.
const maxEntered = 4

// Enter counts that this process is about to continue the run, and reports whether it did.
// process names the process. The transaction must be durable before Advance. Enter is for hosts
// whose last process ended without notice. When too many processes ended inside of Advance, the
// next Advance pauses the run with PausedCrashing, and only Resume continues it.
func (r *Run) Enter(t Turn, process uint64) (counted bool, err error) {
	if r.gone {
		return false, ErrClosed
	}
	if r.safe {
		return false, nil
	}
	f, err := loadFields(t)
	switch {
	case err != nil:
		return false, err
	case f.state == "" || f.state.Over() || f.form != journal.Form2:
		return false, nil
	case f.pause != nil && (f.pause.Reason == PausedOperator || f.pause.Next.IsZero() || f.pause.Next.After(t.Now())):
		return false, nil
	}
	r.entered = true
	if f.run.EnteredIn == process && f.run.Entered > 0 {
		return true, nil // perhaps not durable yet
	}
	if n := f.run.Entered; n >= maxEntered {
		r.failForGood(PausedCrashing,
			fmt.Sprintf("the process has ended %d times in a row while the workflow function ran, and nothing was recorded in between. "+
				"A function that calls os.Exit, overflows its stack or writes to a map from two goroutines ends the process each time it goes on. "+
				"Mend the code, then resume the run.", n))
		return false, nil
	}
	f.run.Entered, f.run.EnteredIn = f.run.Entered+1, process
	r.record.Entered, r.record.EnteredIn = f.run.Entered, process
	return true, putRecord(t, &f.run)
}

// blamed reports whether the function, not its steps, is the reason why the last executions left no
// result. It is, if nothing was recorded since it ended an earlier process or was at fault for a
// pause.
func (r *Run) blamed() bool {
	n := r.record.Entered
	if r.entered {
		n-- // this process
	}
	return n > 0 || r.lifted != nil && r.lifted.Reason != PausedCrashing
}

// leaveEntered takes back the count of Enter, in the transaction of an Advance that succeeded.
func (r *Run) leaveEntered(out *Outcome) error {
	r.entered = false
	f, err := loadFields(r.turn)
	if err != nil || f.form != journal.Form2 || f.run.Entered == 0 {
		return err
	}
	n := f.run.Entered - 1
	if r.resolved > 0 || out.Paused || out.Ended {
		n = 0
	}
	r.safe = r.resolved > 0
	f.run.Entered, f.run.EnteredIn = n, 0
	r.record.Entered, r.record.EnteredIn = n, 0
	return putRecord(r.turn, &f.run)
}
