package replay

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// This file keeps the results of steps that end while the function does not go on: an operator or a
// step has paused the run, or the function has failed.
//
//  1. An end that the function has not handled stands in the step's metadata, as Held. When the
//     function comes to the step again, the step ends with it: see task.release.
//  2. While the coroutines wait, their steps are alive and handle the results of their attempts.
//  3. When the function fails, its transaction is undone and the coroutines are gone. The ends of
//     steps in that transaction are written again in the transaction that pauses the run, and later
//     results of attempts in the next ones. A failure that is followed by another attempt is
//     dropped: the attempt does not count. So is a success with functions of OnCommit.

// hearPaused handles the news of the attempts of a paused run, and records the ends of steps. Their
// coroutines go on with the run.
func (r *Run) hearPaused(out Outcome) (Outcome, error) {
	if r.top == nil {
		return out, r.salvage()
	}
	for a := r.nextReported(); a != nil; a = r.nextReported() {
		if err := a.t.heard(a); err != nil {
			return Outcome{}, err
		}
	}
	r.halt = nil // a step that pauses the run is tried again when the run goes on
	for _, o := range r.due.items[r.due.head:] {
		if t, ok := o.live.(*task); ok {
			t.hold()
		}
	}
	if r.err != nil {
		return Outcome{}, r.err
	}
	return out, r.flush()
}

// hold records, while the run is paused, the end of the step. An end that needs functions to run
// stays in memory only.
func (t *task) hold() {
	o := t.o
	if t.meta.Held != nil || t.save != nil || t.refused != nil || len(t.commits) > 0 {
		return
	}
	e := &o.entry
	t.meta.Held = &Held{Status: e.Status, Doubt: t.duty != nil && t.duty.doubt, Output: e.Output, Failure: e.Failure}
	e.Status, e.Output, e.Failure = Pending, nil, nil
	if t.options.atMostOnce {
		e.Status = Running
	}
	t.record()
	t.release()
}

// release ends the step with its held result.
func (t *task) release() {
	e, h := &t.o.entry, t.meta.Held
	e.Status, e.Output, e.Failure = h.Status, h.Output, h.Failure
	if t.duty != nil {
		t.duty.doubt = h.Doubt
	}
}

// An ended is the end of a step of a function that has failed.
type ended struct {
	t    *task
	held *Held
}

// gather keeps the ends of steps in a transaction that is about to be undone.
func (r *Run) gather() {
	for _, o := range append(r.settled, r.due.items[r.due.head:]...) {
		t, ok := o.live.(*task)
		if !ok || t.save != nil || t.refused != nil || len(t.commits) > 0 {
			continue
		}
		switch e := &o.entry; e.Status {
		case Completed, Failed, Exhausted:
			r.ends = append(r.ends, ended{t, &Held{Status: e.Status, Doubt: t.duty != nil && t.duty.doubt,
				Output: e.Output, Failure: e.Failure}})
		}
	}
}

// hurry ends the contexts of bodies whose coroutines are gone when their TotalTimeout has passed or
// the run is canceled. It returns the next deadline.
func (r *Run) hurry() (next time.Time) {
	for _, a := range r.inflight {
		d := a.t.o.entry.Deadline
		switch {
		case !d.IsZero() && !d.After(r.turnTime):
			a.stop(ErrTimeout)
		case !d.IsZero() && (next.IsZero() || d.Before(next)):
			next = d
		}
		if r.control != nil && (a.t.duty == nil || a.t.options.cancelable) && a.t.save == nil {
			a.stop(&CanceledError{})
		}
	}
	return next
}

// salvage records the ends of steps whose coroutines are gone.
func (r *Run) salvage() error {
	for a := r.nextReported(); a != nil; a = r.nextReported() {
		news, t := a.take(), a.t
		if !news.returned {
			continue
		}
		a.land()
		res := news.result
		switch {
		case a.settled, news.interrupted, t.save != nil, res.misuse != "", len(res.commits) > 0:
			continue
		case news.expired && !news.late:
			res = result{permanent: t.options.failOnTimeout, failure: &Failure{Reason: reasonTimeout,
				Message: fmt.Sprintf("attempt %d: %v (%v)", a.number, ErrTimeout, t.options.timeout)}}
		}
		h := &Held{Status: Completed, Output: res.output, Failure: res.failure}
		if h.Failure != nil {
			p := &t.options.retry
			bound := p.maxAttempts()
			h.Doubt = t.duty != nil && !res.definite
			switch d := t.o.entry.Deadline; {
			case !d.IsZero() && !d.After(r.turnTime):
				h.Status, h.Failure = TimedOut, t.totalTimeout()
			case res.permanent, t.options.atMostOnce:
				h.Status = Failed
			case bound != 0 && uint32(a.number) >= bound && p.OnExhausted != PauseRun:
				h.Status = Exhausted
			default:
				continue // another attempt follows
			}
		}
		r.ends = append(r.ends, ended{t, h})
	}
	ends := r.ends
	r.ends = nil
	for _, end := range ends {
		if err := end.write(); err != nil {
			return err
		}
	}
	return nil
}

// write writes the end of a step beside its entry, which is as the last transaction left it.
func (end ended) write() error {
	o, meta := end.t.o, Metadata{Attempts: end.t.meta.Attempts}
	r := o.s.run
	key := journal.HistoryKey(nil, o.loc)
	value, ok, err := r.turn.Get(key)
	if err != nil {
		return err
	}
	e := Entry{Kind: KindStep, Ordinal: o.entry.Ordinal, Created: o.entry.Created, Sensitive: o.entry.Sensitive}
	switch {
	case ok:
		if e, err = decodeEntry(key, slices.Clone(value)); err != nil || e.Status.Over() {
			return err
		}
	case meta.Attempts == 0:
		return nil // it began in the transaction that was undone
	}
	if e.ID == 0 {
		e.ID = r.st.newID()
		if _, err := r.st.put(r.turn, o.loc, &e); err != nil {
			return err
		}
	} else {
		key := journal.MetadataKey(nil, e.ID)
		value, ok, err := r.turn.Get(key)
		if err != nil {
			return err
		}
		if ok {
			if meta, err = decodeMetadata(key, slices.Clone(value)); err != nil {
				return err
			}
		}
	}
	meta.Held = end.held
	return r.st.putMetadata(r.turn, e.ID, &meta)
}
