package replay

import (
	"errors"
	"fmt"
	"slices"
)

// boot loads the rows of the run and spawns the root. known are the fields, if they were loaded in
// this transaction.
func (r *Run) boot(known *fields) (out Outcome, done bool, err error) {
	im, err := loadImageWith(r.turn, known)
	if err != nil {
		var corrupted *CorruptError
		if errors.As(err, &corrupted) {
			r.fail(PausedCorrupt, err.Error())
			out, err := r.writePause()
			return out, true, err
		}
		return Outcome{}, false, err
	}
	r.state, r.record, r.published, r.publish = im.state, im.run, im.published, nil
	r.names = im.names
	r.bytes, r.entries = im.bytes, im.entries
	var p *Program
	if r.options.Programs != nil {
		p = r.options.Programs(im.program)
	}
	if r.st, err = newStore(im, r.options.MaxPayload); err == nil && (p == nil || p.err != nil) {
		text := fmt.Sprintf("no workflow %q is registered here", im.program)
		if p != nil {
			text = p.err.Error()
		}
		r.fail(PausedUnknown, text)
		out, err := r.writePause()
		return out, true, err
	}
	if err != nil {
		r.fail(PausedCorrupt, err.Error())
		out, err := r.writePause()
		return out, true, err
	}
	if err := r.obligations.load(im.obligations); err != nil {
		r.fail(PausedCorrupt, err.Error())
		out, err := r.writePause()
		return out, true, err
	}
	r.program = p
	r.image, r.lifted = im, nil
	r.fresh = im.state == StatePending
	r.live, r.rootOver, r.output, r.failed = false, false, nil, nil
	r.seq, r.now = 0, im.run.Started
	r.seed = fnv(fnvOffset, r.record.ID[:])
	r.control = nil
	r.cancelRoot = newCancellation(nil, true)
	if c := im.control; c != nil {
		cc := *c
		r.control = &cc
		if c.Seq != 0 {
			r.replays.push(replayItem{seq: c.Seq, at: c.Time, do: r.applyCancel})
		}
	}
	r.top = &scope{place: r.newPlace(nil, nil), cancel: r.cancelRoot}
	input := im.input
	root := r.top
	root.owner = r.spawn(func(*coroutine) {
		out, err := r.rootSaga(root, r.program.invoke, input)
		root.end()
		r.output, r.failed, r.rootOver = out, err, true
	})
	return Outcome{}, false, nil
}

// goLive ends the replay: later operations run for the first time.
func (r *Run) goLive() (done bool, err error) {
	for _, p := range r.places {
		if rec := p.leftover(); rec != nil {
			r.divergedLeftover(&scope{place: p}, rec)
			return false, nil
		}
	}
	r.live = true
	if r.verify {
		return true, nil
	}
	for _, p := range r.places {
		p.records, p.cursor = nil, 0
	}
	r.image, r.places = nil, nil
	r.lifted, r.progress = r.pause, r.seq
	if r.pause != nil {
		r.pause = nil
		r.wrote = true
		if err := deletePause(r.turn); err != nil {
			return false, err
		}
	}
	if r.state == StatePending || r.state == StateRollingBack && r.undoing == 0 {
		r.setState(StateRunning)
	}
	if err := r.askChildren(); err != nil {
		return false, err
	}
	return false, r.countBoot()
}

// countBoot counts a cold start if a crash cut off executions: steps had begun when the last
// activation ended without Rest.
func (r *Run) countBoot() error {
	if r.record.Boots == 0 {
		return nil // it rested, or nothing was launched yet
	}
	r.starting = slices.DeleteFunc(r.starting, (*task).wasCutOff)
	if len(r.starting) == 0 || r.blamed() {
		return nil
	}
	boots := uint32(1)
	if r.record.SeqAtBoot == r.seq {
		boots = r.record.Boots + 1
	}
	if boots > maxBoots {
		r.fail(PausedCrashing,
			fmt.Sprintf("the process has ended %d times while the run executed: %s", boots-1, r.launching()))
		return nil
	}
	r.record.Boots, r.record.SeqAtBoot = boots, r.seq
	r.wrote = true
	return putRecord(r.turn, &r.record)
}

// launching names the steps that are about to be launched.
func (r *Run) launching() (list string) {
	for i, t := range r.starting {
		if i == 3 {
			return list + ", …"
		}
		if i > 0 {
			list += ", "
		}
		list += fmt.Sprintf("step %q", t.o.s.pathOf(t.o.name))
	}
	return list
}
