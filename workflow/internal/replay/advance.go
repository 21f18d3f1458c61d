package replay

import (
	"encoding/hex"
	"errors"
	"slices"
	"time"
)

// How a paused run tries again by itself.
const (
	firstRetry = time.Second
	lastRetry  = 5 * time.Minute
	// maxBoots bounds the cold starts without progress of a run with attempts to repeat.
	maxBoots = 10
)

// maxResolutions is the largest number of resolutions in one transaction.
const maxResolutions = 256

// Advance runs the function as far as it can go within a transaction, and returns what the run
// waits for. An error ends the transaction: the host undoes it and discards the run.
func (r *Run) Advance(t Turn) (out Outcome, err error) {
	if r.gone {
		return Outcome{}, ErrClosed
	}
	r.turn, r.turnTime = t, millisUTC(t.Now())
	r.wrote, r.durable, r.resolved, r.err = false, false, 0, nil
	r.began = r.seq
	if r.top == nil {
		r.began = 0
	}
	r.asked++
	r.turns++
	r.polled, r.glanced = false, false
	if r.st != nil {
		r.st.begin()
	}
	if r.image != nil {
		r.image.reader = t
	}
	through := false
	defer func() {
		r.turn = nil
		clear(r.settled)
		r.settled = r.settled[:0]
		if err != nil || !through { // a function of the user called runtime.Goexit on the host's goroutine
			r.Close()
		}
	}()
	if out, err = r.advance(); err == nil && r.entered && !out.Undo {
		err = r.leaveEntered(&out)
	}
	out.Children = len(r.children) > 0 && !out.Ended
	if out.Paused {
		out.Pause = r.pause
	}
	through = true
	return out, err
}

// advance is Advance within its transaction.
func (r *Run) advance() (Outcome, error) {
	var known *fields
	if r.changed || r.st == nil {
		var err error
		if known, err = r.readControl(); err != nil {
			return Outcome{}, err
		}
	}
	switch {
	case r.ended:
		return Outcome{Ended: true}, nil
	case r.fault != nil:
		return r.writePause()
	case r.pause != nil && !r.verify:
		if stay, out := r.stayPaused(); stay {
			return r.hearPaused(out)
		}
	}
	if r.top == nil {
		// Bodies that began before the function was stopped must end before they begin again.
		if err := r.salvage(); err != nil || len(r.inflight) > 0 {
			return Outcome{Paused: true, Wake: r.hurry()}, err
		}
		if out, done, err := r.boot(known); done || err != nil {
			return out, err
		}
	}
	return r.drive()
}

// readControl reads the fields of the run, including requests and pauses that others wrote.
func (r *Run) readControl() (*fields, error) {
	r.changed = false
	f, err := loadFields(r.turn)
	if err != nil {
		return nil, err
	}
	switch {
	case f.state == "":
		return nil, ErrNoRun
	case f.state.Over() && !r.verifyEnded:
		r.ended, r.state, r.record = true, f.state, f.run
		r.stopAttempts()
		r.kill()
		return f, nil
	}
	r.pause = f.pause
	if f.control != nil && (r.control == nil || r.control.Seq == 0) {
		c := *f.control
		r.control = &c
	}
	return f, nil
}

// stayPaused reports whether a run that is recorded as paused stays so, and with which outcome.
func (r *Run) stayPaused() (stay bool, out Outcome) {
	p, now := r.pause, r.hurried && r.pause.Reason != PausedCrashing
	r.hurried = false
	switch {
	case p.Reason == PausedOperator, p.Next.IsZero():
		return true, Outcome{Paused: true}
	case now:
	case p.Next.After(r.turnTime):
		return true, Outcome{Paused: true, Wake: p.Next}
	}
	return false, Outcome{}
}

// drain drops the results of attempts whose coroutines are gone.
func (r *Run) drain() {
	for a := r.nextReported(); a != nil; a = r.nextReported() {
		if a.take().returned {
			a.land()
		}
	}
}

// writePause records a fault. If the transaction in which it was found has written something, that
// is undone first.
func (r *Run) writePause() (Outcome, error) {
	if err := r.salvage(); err != nil {
		return Outcome{}, err
	}
	if r.pause != nil && r.pause.Reason == PausedOperator && !r.verify {
		r.fault, r.final = nil, false // it is found again when the operator resumes the run
		return Outcome{Paused: true}, nil
	}
	p := r.fault
	since, attempts := r.turnTime, uint32(0)
	if r.pause != nil && r.pause.Reason == p.Reason {
		since, attempts = r.pause.Since, r.pause.Attempts+1
	}
	p.Since, p.Attempts = since, attempts
	if p.Reason != PausedExhausted && p.Reason != PausedOperator && !r.final {
		p.Next = r.turnTime.Add(min(firstRetry<<min(attempts, 10), lastRetry))
	}
	r.fault, r.pause = nil, p
	if r.verify {
		return Outcome{Paused: true}, nil
	}
	if p.Reason == PausedCrashing && !r.final {
		// It is tried again once, and seldom. Each try may end the process, with all other work in
		// it, and leaves no pause behind that would count it. The row of countBoot was undone.
		r.record.Boots = maxBoots - 1
		p.Next = r.turnTime.Add(lastRetry)
		if err := putRecord(r.turn, &r.record); err != nil {
			return Outcome{}, err
		}
	}
	r.final = false
	if err := putPause(r.turn, p); err != nil {
		return Outcome{}, err
	}
	return Outcome{Paused: true, Wake: p.Next}, nil
}

// applyCancel cancels the run, except detached scopes.
func (r *Run) applyCancel() {
	var cause error
	if r.control.Reason != "" {
		cause = errors.New(r.control.Reason)
	}
	r.cancelRoot.cancel(cause, false)
}

// drive is the scheduler.
func (r *Run) drive() (Outcome, error) {
	for {
		for r.runnable.len() > 0 && r.fault == nil && r.err == nil {
			c := r.runnable.pop()
			c.queued = false
			if r.step(c); r.moves.abandoned.Load() {
				return Outcome{}, ErrClosed
			}
		}
		switch {
		case r.err != nil:
			return r.stuck(r.err)
		case r.fault != nil:
			return r.faulted()
		case r.halt != nil:
			return r.halted()
		case r.rootOver:
			return r.finishRun()
		case len(r.replays) > 0:
			r.hand(r.replays.pop())
			continue
		case !r.live:
			if done, err := r.goLive(); err != nil || done {
				return Outcome{}, err
			}
			continue
		case r.resolved >= maxResolutions:
			return r.again()
		case r.due.len() == 0:
			more, err := r.poll()
			if err != nil {
				return r.stuck(err)
			}
			if !more && r.fault == nil && r.err == nil && r.due.len() == 0 {
				return r.park()
			}
			continue
		case !r.glanced:
			if err := r.glance(); err != nil {
				return r.stuck(err)
			}
			continue
		}
		o := r.due.first()
		if o.done {
			r.due.pop()
			continue
		}
		if o.clean && r.wrote {
			return r.again()
		}
		switch err := r.resolveLive(o); {
		case errors.Is(err, errUndo):
			r.st.undone()
			return Outcome{Undo: true}, nil
		case err != nil:
			return r.stuck(err)
		}
	}
}

// stuck ends an Advance by an error. An error of the codec or of a limit pauses the run instead of
// failing the transaction.
func (r *Run) stuck(err error) (Outcome, error) {
	if errors.Is(err, ErrTooLarge) {
		r.fail(PausedMisuse, err.Error())
		return r.faulted()
	}
	var corrupted *CorruptError
	if errors.As(err, &corrupted) {
		r.fail(PausedCorrupt, err.Error())
		return r.faulted()
	}
	return Outcome{}, err
}

// resolveLive resolves a live op, the first that is due.
func (r *Run) resolveLive(o *op) error {
	seq, ended := o.entry.Seq, o.entry.Ended
	now := r.clock()
	o.entry.Seq, o.entry.Ended = r.seq+1, now
	wrote := r.wrote
	err := o.settleLive()
	if err == nil {
		err = r.err
	}
	if err != nil {
		o.entry.Seq, o.entry.Ended = seq, ended
		if errors.Is(err, errNotYet) {
			r.due.pop()
			o.queued = false
			return nil
		}
		if errors.Is(err, errUndo) {
			r.wrote = wrote
		}
		return err
	}
	r.due.pop()
	o.queued = false
	r.seq++
	r.now = now
	r.resolved++
	if _, ok := o.live.(*task); ok {
		r.settled = append(r.settled, o)
	}
	if !o.quiet {
		durable := r.durable
		r.put(o)
		r.durable = durable || !o.deferred
	}
	if o.after != nil && r.err == nil {
		if err := o.after(); err != nil {
			return err
		}
	}
	o.finish()
	return r.err
}

// faulted ends an Advance in which the run turned out to be unable to go on.
func (r *Run) faulted() (Outcome, error) {
	if r.pause == nil && r.lifted != nil && r.began <= r.progress {
		r.pause = r.lifted // nothing was achieved since: it goes on
	}
	r.gather()
	r.kill()
	if r.wrote && !r.verify {
		r.st.undone()
		return Outcome{Undo: true}, nil
	}
	return r.writePause()
}

// halted ends an Advance in which a step paused the run. Written rows stay, and so do the
// coroutines, because other attempts go on.
func (r *Run) halted() (Outcome, error) {
	r.pause = r.halt
	r.pause.Since = r.turnTime
	if err := putPause(r.turn, r.pause); err != nil {
		return Outcome{}, err
	}
	return r.hearPaused(Outcome{Paused: true})
}

// stopAttempts ends the contexts of the running attempts. Their results are dropped.
func (r *Run) stopAttempts() {
	r.drain()
	for _, a := range r.inflight {
		a.stop(ErrClosed)
	}
}

// again ends an Advance after which the host calls Advance again at once.
func (r *Run) again() (Outcome, error) {
	// Steps of earlier transactions waited for the run to park. It may never park, so they start
	// now.
	old := 0
	for old < len(r.starting) && r.starting[old].since != r.turns {
		old++
	}
	list, err := r.launch(old)
	if err != nil {
		return r.stuck(err)
	}
	if err := r.flush(); err != nil {
		return Outcome{}, err
	}
	return Outcome{Again: true, Launch: list}, nil
}

// launch makes attempts of the first n steps of r.starting.
func (r *Run) launch(n int) ([]*Attempt, error) {
	if n == 0 || r.leaving {
		return nil, nil
	}
	if r.record.Boots == 0 {
		r.record.Boots, r.record.SeqAtBoot = 1, r.seq
		r.wrote, r.durable = true, true
		if err := putRecord(r.turn, &r.record); err != nil {
			return nil, err
		}
	}
	list := make([]*Attempt, 0, n)
	for _, t := range r.starting[:n] {
		list = append(list, t.launch())
	}
	r.starting = slices.Delete(r.starting, 0, n)
	return list, r.err
}

// poll handles one event, and reports whether there was one.
func (r *Run) poll() (bool, error) {
	if a := r.nextReported(); a != nil {
		return true, a.t.heard(a)
	}
	if !r.polled {
		r.polled = true
		if err := r.pollChildren(); err != nil || r.due.len() > 0 {
			return true, err
		}
	}
	if t := r.timers.due(r.turnTime); t != nil {
		return true, t.fire()
	}
	if c := r.control; c != nil && c.Seq == 0 {
		return true, r.noticeControl()
	}
	if more, err := r.pollReceives(); more || err != nil {
		r.glanced = true // else what pauses the run could come before the message is recorded
		return more, err
	}
	return r.pollAwaits()
}

// glance handles events once in an Advance although something is due already. If one branch never
// waits, something is always due, and other branches and a request to cancel must get their turn.
func (r *Run) glance() error {
	r.glanced = true
	for a := r.nextReported(); a != nil; a = r.nextReported() {
		if err := a.t.heard(a); err != nil {
			return err
		}
	}
	if !r.polled {
		r.polled = true
		if err := r.pollChildren(); err != nil {
			return err
		}
	}
	for t := r.timers.due(r.turnTime); t != nil; t = r.timers.due(r.turnTime) {
		if err := t.fire(); err != nil {
			return err
		}
	}
	if err := r.noticeControl(); err != nil || r.err != nil || r.fault != nil || r.halt != nil {
		return err
	}
	// A message taken out of a queue, or a condition that holds now, must be resolved before the
	// transaction can end.
	due := r.due.len()
	more, err := r.pollReceives()
	if !more && err == nil {
		_, err = r.pollAwaits()
	}
	if r.due.len() > due {
		r.due.hurry()
	}
	return err
}

// noticeControl gives a new request to cancel its place in the order.
func (r *Run) noticeControl() error {
	c := r.control
	if c == nil || c.Seq != 0 {
		return nil
	}
	r.seq++
	r.now = r.clock()
	c.Seq, c.Time = r.seq, r.now
	r.wrote, r.durable = true, true
	r.applyCancel()
	return putControl(r.turn, c)
}

// park ends an Advance after which the run waits.
func (r *Run) park() (Outcome, error) {
	var out Outcome
	var err error
	if out.Launch, err = r.launch(len(r.starting)); err != nil {
		return r.stuck(err)
	}
	out.Queues = r.waitingQueues()
	r.recordAwaits()
	if r.err != nil {
		return r.stuck(r.err)
	}
	if err := r.flush(); err != nil {
		return Outcome{}, err
	}
	out.Unlaunched = len(r.starting) > 0
	out.Watching = len(r.awaits) > 0
	out.Deferred = !r.durable && len(out.Launch) > 0
	out.Wake = r.timers.next()
	return out, nil
}

// flush writes the rows that are written once per transaction.
func (r *Run) flush() error {
	if r.publish != nil && string(r.publish) != string(r.published) {
		r.published = r.publish
		if err := putPublished(r.turn, r.published); err != nil {
			return err
		}
	}
	return r.names.Write(r.turn)
}

// finishRun ends a run whose function has returned.
func (r *Run) finishRun() (Outcome, error) {
	if r.verify {
		return Outcome{Ended: true}, nil
	}
	var again *restartError
	if errors.As(r.failed, &again) && r.cancelRoot.cause == nil {
		return r.restart(again)
	}
	var outErr *outputError
	if errors.As(r.failed, &outErr) {
		r.fail(PausedMisuse, r.failed.Error())
		return r.faulted()
	}
	if err := r.fits("the output of the function", r.output); err != nil {
		return r.stuck(err)
	}
	state, f := StateCompleted, (*Failure)(nil)
	if r.failed != nil {
		state, f = StateFailed, r.failure(r.failed)
	}
	if r.cancelRoot.cause != nil {
		state = StateCancelled
	}
	if r.pause != nil {
		if err := deletePause(r.turn); err != nil {
			return Outcome{}, err
		}
	}
	if err := r.flush(); err != nil {
		return Outcome{}, err
	}
	var err error
	if f != nil {
		err = putFailure(r.turn, f)
	} else {
		err = putOutput(r.turn, r.output)
	}
	if err != nil {
		return Outcome{}, err
	}
	r.record.Ended = r.clock()
	// The obligations are kept for a rewind of the run. A run with a parent is not rewound, so it
	// keeps none.
	r.record.Kept = state == StateCompleted && r.record.Parent == nil
	if err := putRecord(r.turn, &r.record); err != nil {
		return Outcome{}, err
	}
	r.setState(state)
	if r.err == nil {
		r.err = r.atEnd(state, r.output, f)
	}
	if r.err != nil {
		return Outcome{}, r.err
	}
	r.ended = true
	r.kill()
	out := Outcome{Ended: true}
	if state == StateCompleted {
		out.Result = &RunStatus{ID: hex.EncodeToString(r.record.ID[:]), Workflow: r.program.name,
			State: state, Output: r.output}
	}
	return out, nil
}
