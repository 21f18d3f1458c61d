package replay

import (
	"fmt"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// begin begins an operation: it finds it in the history, or makes a new one. It returns the error
// of a canceled scope, in which nothing begins and nothing is recorded. It does not return if the
// operation is not allowed here, or differs from the history.
func (s *scope) begin(kind Kind, name string) (*op, error) {
	o := new(op)
	return o, s.beginOp(o, kind, name)
}

// beginOp is begin for an op that is part of a larger struct.
func (s *scope) beginOp(o *op, kind Kind, name string) error {
	s.own()
	if err := s.cancel.err(); err != nil {
		return err
	}
	r := s.run
	i := s.nameIndex(name)
	if !s.used.add(i) {
		s.misuse(s.owner,
			fmt.Sprintf("%s %q is asked for twice in %s: names are used once in a scope, and repetition belongs into Loop or ForEach", kind, name, s.describe()))
	}
	o.s, o.name, o.index = s, name, i
	rec, i := s.match(kind, name, i)
	if rec == nil {
		if s.sealed {
			s.divergeSealed(kind, name)
		}
		o.entry.Kind, o.entry.Ordinal, o.entry.Created = kind, s.next, r.clock()
		o.loc = journal.ChildName(nil, s.loc, i)
		if s.taken[i] {
			s.misuse(s.owner, fmt.Sprintf("%s %q in %s has the old name of an operation that was renamed or removed", kind, name, s.describe()))
		}
		o.hidden = true
		s.next++
		return nil
	}
	o.recorded, o.loc = true, rec.loc
	if i != o.index {
		s.take(i)
	}
	o.index = i
	if err := rec.into(&o.entry); err != nil {
		s.corrupt(err)
	}
	if id := o.entry.ID; id != 0 {
		if m := r.image.metadata(id); m != nil {
			o.tries = m.Attempts
		}
	}
	o.arrange()
	return nil
}

// arrange queues a recorded op that has ended, to be resolved in its turn.
func (o *op) arrange() {
	if !o.entry.Status.Over() {
		return
	}
	if o.entry.Seq == 0 {
		o.done = true // it ended at once
		return
	}
	o.replay = o.entry.Seq
	o.s.run.replays.push(replayItem{seq: o.replay, at: o.entry.Ended, o: o})
}

// again prepares an op that was resolved and has not ended for another resolution.
func (o *op) again() {
	o.done, o.queued, o.replay = false, false, 0
}

// branch makes the op of a branch of o at loc. If its end is recorded, the caller must queue it.
func (r *Run) branch(o *op, loc journal.Location, name string) (*op, error) {
	b := &op{s: o.s, name: name, loc: loc}
	if r.image != nil {
		if rec := r.image.find(loc); rec != nil {
			e, err := rec.decode()
			if err != nil {
				return nil, err
			}
			rec.visited = true
			b.recorded, b.entry = true, *e
			return b, nil
		}
	}
	b.entry.Kind, b.entry.Created = KindScope, r.clock()
	b.hidden = true
	return b, nil
}

// nameIndex returns the index of a name. It does not return if the name is invalid.
//
// REQUIRES: called on the owner's coroutine.
func (s *scope) nameIndex(name string) uint32 {
	i, _, err := s.run.names.Index(name)
	if err != nil {
		s.misuse(s.run.current.Load(), err.Error())
	}
	return i
}

// corrupt pauses the run because a recorded value cannot be read. It does not return.
func (s *scope) corrupt(err error) {
	s.run.fail(PausedCorrupt, err.Error()+callSite())
	s.run.hang(s.run.current.Load())
}

// clock returns the time of an event that happens now, to the millisecond. It is never before the
// event that happened last.
func (r *Run) clock() time.Time {
	if r.turnTime.After(r.now) {
		return r.turnTime
	}
	return r.now
}

// match returns the record of the operation that the code begins next, nil if it is new, and the
// index of its name. It does not return if the history has a different operation there.
func (s *scope) match(kind Kind, name string, i uint32) (*record, uint32) {
	if s.run.image == nil || len(s.records) == 0 {
		return nil, i
	}
	if old, ok := s.renames[name]; ok {
		if index, ok := s.run.names.Lookup(old); ok {
			if rec := s.recorded(index); rec != nil {
				i = index
			}
		}
	}
	if s.byName {
		rec := s.recorded(i)
		if rec == nil {
			return nil, i
		}
		if !s.same(rec, kind, i) {
			s.diverge(kind, name, rec)
		}
		s.consume(rec)
		return rec, i
	}
	if s.cursor == len(s.records) {
		return nil, i
	}
	rec := s.records[s.cursor]
	switch {
	case rec.ordinal <= s.next+s.slack && s.same(rec, kind, i):
		s.cursor++
		s.slack -= min(s.slack, rec.ordinal-s.next)
		s.consume(rec)
		return rec, i
	case rec.ordinal > s.next && (kind == KindStep || kind == KindSpawn || kind == KindSleep) && s.recorded(i) == nil:
		// A step, and a timer that is over when it begins, leave no row before they end. This one
		// had begun when a later one ended, and was cut off.
		return nil, i
	}
	s.diverge(kind, name, rec)
	return nil, i
}

// take marks a name whose place in the history belongs to a renamed or removed operation.
func (p *place) take(i uint32) {
	if p.taken == nil {
		p.taken = make(map[uint32]bool)
	}
	p.taken[i] = true
}

// consume marks a record as used by the code.
func (s *scope) consume(rec *record) {
	rec.visited = true
	if rec.form != journal.Form1 {
		s.next = max(s.next, rec.ordinal+1)
	}
}

// same reports whether a record belongs to an operation.
func (s *scope) same(rec *record, kind Kind, i uint32) bool {
	if rec.visited {
		return false
	}
	if k := rec.kind(); k != kind && !(kind == KindReceive && k == KindMessage) {
		return false
	}
	r := s.run
	r.scratch = journal.ChildName(r.scratch[:0], s.loc, i)
	return string(r.scratch) == string(rec.loc)
}

// recorded returns the record of a name in the place that was not consumed; nil if there is none.
func (p *place) recorded(i uint32) *record {
	p.run.scratch = journal.ChildName(p.run.scratch[:0], p.loc, i)
	loc := p.run.scratch
	for _, rec := range p.records[p.cursor:] {
		if !rec.visited && string(rec.loc) == string(loc) {
			return rec
		}
	}
	return nil
}

// atFrontier reports whether the code has used all records of the place.
func (p *place) atFrontier() bool { return p.leftover() == nil }

// nameOf returns the name of a record within the place.
func (p *place) nameOf(rec *record) string {
	segments, err := rec.loc.Segments()
	if err != nil || len(segments) == 0 {
		return fmt.Sprintf("?%x", []byte(rec.loc))
	}
	last := segments[len(segments)-1]
	if last.Loop {
		return "~" + strconv.FormatUint(uint64(last.Iteration), 10)
	}
	return p.run.names.Name(last.Name)
}
