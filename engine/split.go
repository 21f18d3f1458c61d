package engine

import "slices"

// CommitBefore commits the writes before a savepoint, as Commit does, and keeps the later ones: the
// turn in progress stays open, on top of the new commit. A turn that is about to block uses it so
// that earlier turns need not wait.
//
// It returns the savepoint of the new beginning of the open turn. Savepoints that the open turn
// holds (see Hold) are moved too, and other savepoints are invalid. split is false if the set
// cannot be divided: the open turn creates or destroys the actor, an earlier one destroys it, or
// both parts hide ranges. Then it does nothing and kept is the given savepoint. If it returns an
// error, nothing was written, the set is as before, and the given savepoint is still valid.
func (sp *Space) CommitBefore(at Savepoint, onDurable func(error)) (kept Savepoint, split bool, err error) {
	w := &sp.set
	if w.destroyed != nil || w.created != at.state.created || !w.divisible(at) {
		return at, false, nil
	}
	var held []*Savepoint
	if o := w.overlay; o != nil {
		held = slices.DeleteFunc(slices.Clone(o.held), func(s *Savepoint) bool { return s.state.epoch <= at.state.epoch })
	}
	parts := make([]lifted, len(held)) // each has the writes between its savepoint and the next
	for i := len(held) - 1; i >= 0; i-- {
		parts[i] = w.lift(*held[i])
		w.Rollback(*held[i])
	}
	open := w.lift(at)
	w.Rollback(at)
	kept = at
	if _, err = sp.Commit(onDurable); err == nil {
		kept, split = w.Savepoint(), true
	}
	w.floor = uint32(w.Bytes())
	w.replay(open, split)
	for i, s := range held {
		w.hold(s)
		w.replay(parts[i], split)
	}
	return kept, split, err
}

// Hold returns a savepoint that CommitBefore does not invalidate, until Release.
func (w *WriteSet) Hold() *Savepoint {
	s := new(Savepoint)
	w.hold(s)
	return s
}

func (w *WriteSet) hold(s *Savepoint) {
	o := w.own()
	*s = w.Savepoint()
	o.held = append(o.held, s)
}

// Release ends a Hold. ok is false if a commit, or a rollback to an earlier
// savepoint, ended it: then the savepoint is invalid.
func (w *WriteSet) Release(s *Savepoint) (ok bool) {
	o := w.overlay
	if o == nil {
		return false
	}
	n := len(o.held)
	o.held = slices.DeleteFunc(o.held, func(h *Savepoint) bool { return h == s })
	return len(o.held) < n
}

// divisible reports whether the hidden ranges all belong to one part: ranges are joined when added,
// so the set no longer has those of each part.
func (w *WriteSet) divisible(at Savepoint) bool {
	return len(at.state.ranges) == 0 || w.sameRanges(&at)
}

// lifted is the writes of an open turn, or of a part of it, taken off their set.
type lifted struct {
	state   outline // counts, version, clock and hidden ranges as of the turn
	hid     bool    // the turn hid ranges
	marks   uint16  // how often the turn called Mark
	slots   []liftedSlot
	wakes   []wakeOp
	records []outboxRecord
}

// liftedSlot is a slot as the open turn left it. below: an earlier turn of the set also has it, so
// the slot does not describe the key in the store after the commit.
type liftedSlot struct {
	slot
	below bool
}

// lift copies the writes since a savepoint.
func (w *WriteSet) lift(at Savepoint) lifted {
	l := lifted{state: w.outline, marks: w.marks - at.state.marks, hid: !w.sameRanges(&at)}
	o := w.overlay
	if o == nil {
		return l
	}
	take := func(i int) {
		c := o.slots[i]
		c.key, c.value = clone(c.key), clone(c.value)
		l.slots = append(l.slots, liftedSlot{c, i < int(at.slots)})
	}
	var below []int
	for _, u := range o.undo[at.undo:] {
		if u.slot < at.slots {
			below = append(below, int(u.slot))
		}
	}
	slices.Sort(below)
	for _, i := range slices.Compact(below) {
		take(i)
	}
	for i := int(at.slots); i < len(o.slots); i++ {
		take(i)
	}
	for _, op := range o.wakes[at.wakes:] {
		l.wakes = append(l.wakes, wakeOp{row: clone(op.row), due: op.due, kind: op.kind, set: op.set})
	}
	for _, r := range o.records[at.record:] {
		l.records = append(l.records, outboxRecord{clone(r.data), r.seq, r.audit})
	}
	return l
}

// replay writes a lifted turn again, on the set as it is now: committed, or rolled back to the
// turn's beginning.
func (w *WriteSet) replay(l lifted, committed bool) {
	for k := range l.slots {
		from := &l.slots[k]
		i := w.overlay.find(from.key)
		if i < 0 {
			base, stored := from.base, from.stored
			if committed && from.below && !from.index {
				base, stored = w.stored(from.key)
			}
			i = w.newSlot(from.key, base, stored)
		}
		sl := w.change(i)
		sl.value = w.overlay.arena.copy(from.value)
		sl.live, sl.meta, sl.index = from.live, from.meta, from.index
	}
	for _, op := range l.wakes {
		o := w.own()
		o.wakes = append(o.wakes, wakeOp{row: o.arena.copy(op.row), due: op.due, kind: op.kind, set: op.set})
	}
	for _, r := range l.records {
		o := w.own()
		o.records = append(o.records, outboxRecord{o.arena.copy(r.data), r.seq, r.audit})
	}
	if l.hid {
		w.ranges = l.state.ranges
	}
	w.marks += l.marks
	w.version, w.at, w.late, w.turned = l.state.version, l.state.at, l.state.late, l.state.turned
	w.keys, w.bytes = l.state.keys, l.state.bytes
}

// stored returns the key's metadata in the store after the commit under an open turn; both wrote
// the key. If it cannot be read, stored returns the most rows that a key can have. The next commit
// then deletes rows that may not exist.
func (w *WriteSet) stored(key []byte) (metadata, bool) {
	m, ok, err := w.lookup(key)
	if err != nil {
		return metadata{chunks: uint32(chunksOf(MaxValueCap))}, true
	}
	return m, ok
}
