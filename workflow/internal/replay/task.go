package replay

import (
	"fmt"
	"slices"
	"time"
)

// A task is a step that has not ended: its attempts, one after another.
//
//  1. meta.Attempts counts the executions that have begun. meta.Due is set while the next one waits
//     for its time, and zero while one is running. The first execution leaves no row before it
//     ends; all further ones are recorded before they begin. So a cold start knows which executions
//     a crash has cut off.
//  2. attempt is the running one. The next is launched only after it has returned, even if the step
//     has given it up.
type task struct {
	o       *op
	fn      body
	options *stepOptions
	meta    Metadata
	attempt *Attempt
	ready   bool   // it is launched as soon as attempt is nil
	since   uint64 // Run.turns when it was added to Run.starting
	retry   timer
	limit   timer             // TotalTimeout
	save    func()            // replaces record for an undo, which is never given up
	undoes  *pledge           // of an undo
	duty    *duty             // nil for a step that is never undone
	commits []func(*Tx) error // they run as the step ends
	refused *result           // the attempt's result if one of commits failed
	first   Attempt           // the memory of the first attempt
}

// start launches the next attempt, as soon as the one before has returned.
func (t *task) start() error {
	if bound := t.options.retry.maxAttempts(); bound != 0 && t.meta.Attempts >= bound && !t.meta.Due.IsZero() {
		if t.options.retry.OnExhausted == PauseRun {
			t.meta.Attempts = 0 // the run was resumed
		} else {
			t.settle(t.meta.Failure, Exhausted)
			return nil
		}
	}
	if t.attempt != nil {
		t.ready = true
		return nil
	}
	t.ready, t.since = false, t.o.s.run.turns
	t.o.s.run.starting = append(t.o.s.run.starting, t)
	return nil
}

// wasCutOff counts the execution that a crash has cut off, and reports whether no further one is
// allowed. It does not count an execution whose result was lost by a fault of the function.
func (t *task) wasCutOff() bool {
	if t.options.atMostOnce || t.o.queued {
		return t.o.queued
	}
	t.meta.Attempts = max(t.meta.Attempts, 1)
	if t.o.s.run.blamed() {
		t.meta.Attempts--
		return false
	}
	bound := t.options.retry.maxAttempts()
	if bound == 0 || t.meta.Attempts < bound {
		return false
	}
	if t.options.retry.OnExhausted == PauseRun {
		t.exhaust(unknownOutcome())
	} else {
		t.settle(unknownOutcome(), Exhausted)
	}
	return true
}

// launch makes the next attempt.
//
// REQUIRES: attempt is nil, and the transaction goes on.
func (t *task) launch() *Attempt {
	r := t.o.s.run
	t.meta.Attempts++
	due := !t.meta.Due.IsZero() // which is on record, and would hide that the attempt has begun
	t.meta.Due = time.Time{}
	t.oblige()
	a := &t.first
	if t.meta.Attempts > 1 || a.t != nil || due {
		a = new(Attempt)
		if !t.options.atMostOnce {
			t.meta.LastAttempt = r.clock()
			t.record()
		}
	}
	if t.options.atMostOnce {
		t.o.entry.Status = Running
		r.put(t.o)
	}
	a.t, a.r, a.number, a.index = t, r, int(t.meta.Attempts), len(r.inflight)
	a.name = t.o.s.pathOf(t.o.name)
	a.before, a.run, a.epoch = t.meta.Progress, r.record.ID, t.epoch()
	r.inflight = append(r.inflight, a)
	t.attempt = a
	return a
}

// record writes the metadata of a step that goes on.
func (t *task) record() {
	r := t.o.s.run
	if t.save != nil {
		t.save()
		return
	}
	if t.o.hidden || t.o.entry.ID == 0 {
		r.newID(t.o)
		r.put(t.o)
	}
	r.putMetadata(t.o, &t.meta)
}

// heard handles the news of an attempt: it has returned, its time is over, or it has progress to
// save.
func (t *task) heard(a *Attempt) error {
	o := t.o
	news := a.take()
	if news.progress != nil && !o.done && !o.queued && a == t.attempt {
		t.meta.Progress = news.progress
		t.record()
	}
	if news.returned {
		a.land()
		if t.attempt == a {
			t.attempt = nil
			t.returned()
		}
	}
	switch {
	case o.done || o.queued || a.settled:
	case t.duty != nil && !news.returned:
		if news.expired {
			t.linger()
		}
	case news.expired && !news.late:
		a.settled = true
		t.ended(result{
			failure: &Failure{Reason: reasonTimeout,
				Message: fmt.Sprintf("attempt %d: %v (%v)", a.number, ErrTimeout, t.options.timeout)},
			permanent: t.options.failOnTimeout,
		})
	case news.returned && news.interrupted && !t.options.atMostOnce && o.s.cancel.err() == nil && !t.overdue():
		// The host ended it. It counts as not run.
		a.settled = true
		t.meta.Attempts--
		return t.start()
	case news.returned:
		a.settled = true
		if news.interrupted && t.options.atMostOnce {
			news.result = result{failure: unknownOutcome()}
		}
		t.ended(news.result)
	}
	if t.attempt == nil && !o.done && !o.queued {
		switch {
		case news.returned && o.s.cancel.err() != nil:
			t.unschedule()
			t.settle(nil, Canceled)
		case t.ready:
			return t.start()
		}
	}
	return o.s.run.err
}

func unknownOutcome() *Failure {
	return &Failure{Reason: reasonUnknown, Message: ErrOutcomeUnknown.Error()}
}

// ended handles the result of an attempt.
func (t *task) ended(res result) {
	if t.decide(res) {
		t.o.happened()
	}
}

// decide handles the result of an attempt: it ends the step, with its outcome in the entry, or
// schedules another attempt. It reports whether the step is over.
func (t *task) decide(res result) (over bool) {
	o, p := t.o, &t.options.retry
	r := o.s.run
	o.clean = false
	t.doubts(&res)
	if res.failure == nil {
		t.commits = res.commits
		o.clean = len(res.commits) > 0
		o.entry.Status, o.entry.Output, o.entry.Failure = Completed, res.output, nil
		return true
	}
	if o.s.cancel.err() != nil {
		t.set(nil, Canceled)
		return true
	}
	if t.overdue() {
		t.set(t.totalTimeout(), TimedOut)
		return true
	}
	if res.misuse != "" {
		t.misused(&res)
		return false
	}
	if res.permanent && t.save != nil {
		t.exhaust(res.failure)
		return false
	}
	if t.options.atMostOnce || res.permanent {
		t.set(res.failure, Failed)
		return true
	}
	wait := p.wait(t.meta.Attempts, r.random(o.loc, t.meta.Attempts))
	if res.hasAfter {
		wait = res.after
	}
	due := after(r.clock(), wait)
	bound := p.maxAttempts()
	if bound != 0 && t.meta.Attempts >= bound || p.MaxElapsed > 0 && due.After(o.entry.Created.Add(p.MaxElapsed)) {
		if p.OnExhausted == PauseRun {
			t.exhaust(res.failure)
			return false
		}
		t.set(res.failure, Exhausted)
		return true
	}
	t.meta.Failure, t.meta.Due = res.failure, due
	if t.meta.LastAttempt.IsZero() {
		t.meta.LastAttempt = o.entry.Created
	}
	o.entry.Status = Pending
	t.record()
	t.schedule(due)
	return false
}

// exhaust pauses the run, because the attempts are used up.
func (t *task) exhaust(f *Failure) {
	r := t.o.s.run
	t.meta.Failure, t.meta.Due = f, r.clock()
	t.o.entry.Status = Pending
	t.record()
	t.schedule(t.meta.Due) // when the run is resumed
	r.halt = &Pause{
		Reason: PausedExhausted,
		Text: fmt.Sprintf("step %q has used up its attempts, after %d: %s",
			t.o.s.pathOf(t.o.name), t.meta.Attempts, f.Message),
	}
}

// misused pauses the run until an operator resumes it, because the body breaks a rule. The body is
// then executed again, unless it must run at most once.
func (t *task) misused(res *result) {
	r := t.o.s.run
	if t.options.atMostOnce {
		t.retry.fire = func() error { t.settle(unknownOutcome(), Failed); return nil }
		r.timers.set(&t.retry, r.clock())
	} else {
		t.meta.Failure, t.meta.Due = res.failure, r.clock()
		t.o.entry.Status = Pending
		t.record()
		t.schedule(t.meta.Due)
	}
	r.halt = &Pause{Reason: PausedMisuse, Text: bounded(fmt.Sprintf("step %q: %s", t.o.s.pathOf(t.o.name), res.misuse))}
}

// set gives the step an outcome without a result.
func (t *task) set(f *Failure, status EntryStatus) {
	o := t.o
	o.entry.Status, o.entry.Failure, o.entry.Output = status, f, nil
	if status == Canceled {
		o.setCanceled()
	}
	t.commits, o.clean = nil, false
}

// settle ends the step without a result.
func (t *task) settle(f *Failure, status EntryStatus) {
	t.set(f, status)
	t.o.happened()
}

// resolve ends the step, and runs the OnCommit functions of the body in the transaction.
func (t *task) resolve() error {
	o := t.o
	r := o.s.run
	if res := t.refused; res != nil {
		t.refused = nil
		seq, ended := o.entry.Seq, o.entry.Ended
		o.entry.Seq, o.entry.Ended = 0, time.Time{} // if the step goes on, its row must have no end
		if !t.decide(*res) {
			return errNotYet
		}
		o.entry.Seq, o.entry.Ended = seq, ended
	}
	for _, fn := range t.commits {
		if err := r.transact(o, fn); err != nil {
			// The changes of fn are undone, and the attempt has failed. The next transaction writes
			// the result of that.
			res := r.program.resultOf(err, &t.options.retry)
			t.refused, t.commits, o.clean = &res, nil, false
			return errUndo
		}
	}
	o.deferred = t.options.deferred && len(t.commits) == 0
	o.tries = t.meta.Attempts
	t.unschedule()
	r.timers.stop(&t.limit)
	t.quit()
	if t.save == nil && o.entry.ID != 0 {
		t.meta.Due, t.meta.Held = time.Time{}, nil
		r.putMetadata(o, &t.meta)
	}
	return r.err
}

// canceled runs when the step's scope was canceled.
func (t *task) canceled(abandon bool) {
	if t.o.queued && (!abandon || t.duty != nil) {
		return // it has ended, and its result counts
	}
	if t.attempt != nil {
		switch {
		case t.duty == nil:
			t.attempt.stop(t.o.s.cancel.err())
		case t.options.cancelable:
			t.attempt.stop(t.o.s.cancel.err())
			t.linger()
		}
		if !abandon || t.duty != nil {
			t.unschedule() // its time may be over, with the next one due
			return         // it ends when the body has returned
		}
		t.attempt.settled = true
	}
	t.unschedule()
	t.settle(nil, Canceled)
}

// expire runs when TotalTimeout has passed.
func (t *task) expire() error {
	if t.o.queued || t.o.done {
		return nil
	}
	t.unschedule()
	if t.attempt != nil {
		t.attempt.stop(ErrTimeout)
		if t.duty != nil {
			t.duty.overdue = true
			t.linger()
			return nil
		}
		t.attempt.settled = true
	}
	t.settle(t.totalTimeout(), TimedOut)
	return nil
}

func (t *task) totalTimeout() *Failure {
	return &Failure{Reason: reasonTimeout, Message: fmt.Sprintf("%v (%v in total)", ErrTimeout, t.options.total)}
}

// schedule starts the next attempt at a time.
func (t *task) schedule(at time.Time) {
	t.retry.fire = t.start
	t.o.s.run.timers.set(&t.retry, at)
}

// unschedule undoes start and schedule.
func (t *task) unschedule() {
	r := t.o.s.run
	if i := slices.Index(r.starting, t); i >= 0 {
		r.starting = slices.Delete(r.starting, i, i+1)
	}
	r.timers.stop(&t.retry)
	t.ready = false
}
