package replay

import "fmt"

// Version selects the code that this run, or iteration, must follow, so that code can change under
// existing runs.
func Version(ctx Context, name string, latest int) int {
	s := ctx.scope()
	s.own()
	if latest < 1 || int64(latest) > int64(^uint32(0)) {
		s.misuse(s.owner, fmt.Sprintf("version %q: latest is %d, and counts from 1", s.pathOf(name), latest))
	}
	if v, ok := s.versions[name]; ok {
		return v
	}
	v := s.version(name, latest)
	if s.versions == nil {
		s.versions = make(map[string]int)
	}
	s.versions[name] = v
	return v
}

func (s *scope) version(name string, latest int) int {
	r := s.run
	i := s.nameIndex(name)
	rec := s.recorded(i)
	if rec == nil && (!s.atFrontier() || s.sealed || s.cancel.err() != nil) {
		return 1
	}
	if rec != nil && !s.byName && rec != s.records[s.cursor] {
		// It stands further on: operations in between diverge, or the gate was moved.
		s.diverge(KindVersion, name, s.records[s.cursor])
	}
	// A gate is recorded even where nothing else may begin, so that the result is the same when the
	// function runs again.
	detached := s.with(newCancellation(nil, true), s.saga)
	o := new(op)
	if err := detached.beginOp(o, KindVersion, name); err != nil {
		return 1
	}
	if o.recorded {
		return max(int(o.entry.Resolved), 1)
	}
	o.entry.Status, o.entry.Resolved, o.entry.Latest = Completed, uint32(latest), uint32(latest)
	o.entry.Ended = o.entry.Created
	o.done = true
	r.put(o)
	return latest
}

// Patched is Version for a single change: it reports whether the run should follow the changed
// code.
func Patched(ctx Context, name string) bool { return Version(ctx, name, 2) >= 2 }

// Removed declares, in its place, that an operation was removed from the code. Runs whose history
// has it skip it, with all that is recorded inside it. A new operation of the scope does not get
// its name.
func Removed(ctx Context, name string, kind Kind) {
	s := ctx.scope()
	s.own()
	r := s.run
	if r.image == nil {
		return
	}
	i, known := r.names.Lookup(name)
	if !known {
		return
	}
	rec := s.recorded(i)
	if rec == nil {
		if !s.byName && s.cursor < len(s.records) {
			s.slack++ // it was perhaps running, and left no row
		}
		return
	}
	e, err := rec.header()
	if err != nil {
		s.corrupt(err)
	}
	if e.Kind != kind && e.Kind != KindRemoved && !(kind == KindReceive && e.Kind == KindMessage) {
		return
	}
	if !s.byName {
		if rec != s.records[s.cursor] {
			return // it comes later, and this call was perhaps moved; the operation before it diverges
		}
		s.cursor++
	}
	s.consume(rec)
	s.take(i)
	o := &op{s: s, name: name, loc: rec.loc, recorded: true, entry: *e}
	waited, err := s.waitedFor(e)
	switch {
	case err != nil:
		s.corrupt(err)
	case e.Status.Over() && waited:
		o.arrange()
	case e.Status.Over() || r.verify && !waited:
		return
	default:
		// Otherwise it would be shown as waiting for ever.
		o.entry = Entry{Kind: KindRemoved, Status: Completed, Ordinal: rec.ordinal, Created: e.Created}
		o.resolve = func() error {
			if err := r.keepAnswers(o, rec.loc, nil); err != nil {
				return err
			}
			return r.drop(rec.loc, false)
		}
		if !waited {
			o.entry.Ended = r.clock()
			r.must(o.resolve())
			r.put(o)
			return
		}
		o.happened()
	}
	o.wait(s.owner)
}

// waitedFor reports whether the code waited for the end of an operation, whose record was just
// consumed, before it went on in the scope. If so, the rest must not come earlier now.
func (s *scope) waitedFor(e *Entry) (bool, error) {
	if s.byName {
		return false, nil
	}
	if s.cursor == len(s.records) {
		return true, nil
	}
	next, err := s.records[s.cursor].header()
	return err == nil && e.Status.Over() && !next.Created.Before(e.Ended), err
}

// Renamed declares that an operation has a new name: in histories that have it as from, to finds
// it. A new operation of the scope does not get the old name.
func Renamed(ctx Context, from, to string) {
	s := ctx.scope()
	s.own()
	if s.renames == nil {
		s.renames = make(map[string]string)
	}
	s.renames[to] = from
}
