package replay

import (
	"cmp"
	"slices"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// Obligations are the steps that a run must undo if it fails.
//
//  1. The transaction that ends a step writes its obligation, under the seq of that end. It is
//     removed in the transaction in which the undo handler, or the step's saga, succeeds. A step
//     that has not ended is owed by its own entry (see duty).
//  2. An obligation belongs to the innermost open saga that encloses its location. So a saga that
//     fails undoes the obligations inside its own location, in descending order of numbers. After a
//     restart it goes on with the rest.
//  3. The handler is a registered one, by name, or a function of the code, which only running again
//     can provide. For the latter, sites counts the obligations inside of each location: those
//     containers are entered again, and not trimmed.
type obligations struct {
	list  []*pledge // ascending by number
	sites map[string]int
}

// An obligation is the duty to undo a step if its saga fails.
type obligation struct {
	Number  uint64           // the seq at which the step ended
	Entry   journal.Location // of that step
	Handler string           // name of an undo handler; "" for a function of the code
	Args    []byte           // of a handler by name
	// the step did not succeed, but may have had an effect: it is undone even if its saga succeeds
	Unknown bool
	Owed    uint32 // Entry.Owed of the step; 0 in rows of versions that did not write it
	// The attempts to undo it so far.
	Attempts         uint32
	LastAttempt, Due time.Time
	Failure          *Failure
}

// An undoRow is the value of the row of an obligation. Times are Unix ms.
type undoRow struct {
	Entry       []byte   `cbor:"1,keyasint"`
	Handler     string   `cbor:"2,keyasint,omitempty"`
	Args        []byte   `cbor:"3,keyasint,omitempty"`
	Attempts    uint32   `cbor:"4,keyasint,omitempty"`
	LastAttempt int64    `cbor:"5,keyasint,omitempty"`
	Due         int64    `cbor:"6,keyasint,omitempty"`
	Failure     *Failure `cbor:"7,keyasint,omitempty"`
	Unknown     bool     `cbor:"8,keyasint,omitempty"`
	Owed        uint32   `cbor:"9,keyasint,omitempty"`
}

func putObligation(j Journal, o *obligation) error {
	value, err := appendRow(nil,
		&undoRow{o.Entry, o.Handler, o.Args, o.Attempts, journal.Millis(o.LastAttempt),
			journal.Millis(o.Due), o.Failure, o.Unknown, o.Owed})
	if err != nil {
		return err
	}
	return j.Put(obligationKey(nil, o.Number), value)
}

func deleteObligation(j Journal, number uint64) error { return j.Delete(obligationKey(nil, number)) }

func decodeObligation(row numbered) (*obligation, error) {
	var u undoRow
	if err := decodeRow(obligationKey(nil, row.n), row.value, &u); err != nil {
		return nil, err
	}
	return &obligation{
		Number: row.n, Entry: u.Entry, Handler: u.Handler, Args: u.Args,
		Attempts: u.Attempts, LastAttempt: journal.FromMillis(u.LastAttempt), Due: journal.FromMillis(u.Due), Failure: u.Failure,
		Unknown: u.Unknown, Owed: u.Owed,
	}, nil
}

// A pledge is an obligation while the run is in memory.
type pledge struct {
	*obligation
	// undo is the function of the code; nil until the code has run again, and for obligations by
	// name.
	undo func(sc *StepCtx) error
}

func (p *pledge) compare(number uint64) int { return cmp.Compare(p.Number, number) }

// load adds the recorded obligations.
func (b *obligations) load(recorded []numbered) error {
	for _, row := range recorded {
		o, err := decodeObligation(row)
		if err != nil {
			return err
		}
		b.add(&pledge{obligation: o})
	}
	return nil
}

func (b *obligations) add(p *pledge) {
	b.list = append(b.list, p)
	b.count(p, 1)
}

func (b *obligations) count(p *pledge, by int) {
	if p.Handler != "" {
		return
	}
	if b.sites == nil {
		b.sites = map[string]int{}
	}
	for loc := p.Entry; ; loc = journal.ParentOf(loc) {
		key := string(loc)
		if b.sites[key] += by; b.sites[key] == 0 {
			delete(b.sites, key)
		}
		if len(loc) == 0 {
			return
		}
	}
}

// find returns the obligation of a number, nil if it is settled.
func (b *obligations) find(number uint64) *pledge {
	if i, ok := slices.BinarySearchFunc(b.list, number, (*pledge).compare); ok {
		return b.list[i]
	}
	return nil
}

func (b *obligations) remove(p *pledge) {
	if i, ok := slices.BinarySearchFunc(b.list, p.Number, (*pledge).compare); ok {
		b.list = slices.Delete(b.list, i, i+1)
		b.count(p, -1)
	}
}

// under returns the obligations inside of any of the locations, the last first.
func (b *obligations) under(locs ...journal.Location) (list []*pledge) {
	return b.within(true, locs...)
}

// within is under; if all is false, it returns only obligations whose step has not succeeded.
func (b *obligations) within(all bool, locs ...journal.Location) (list []*pledge) {
	for _, p := range slices.Backward(b.list) {
		if !all && !p.Unknown {
			continue
		}
		if slices.ContainsFunc(locs, func(loc journal.Location) bool { return loc.Encloses(p.Entry) }) {
			list = append(list, p)
		}
	}
	return list
}

// oblige writes the obligation to undo a step whose end has just been recorded. It runs in the
// transaction of that record.
func (o *op) oblige(d *duty, unknown bool) error {
	r := o.s.run
	p := &pledge{obligation: &obligation{Number: o.entry.Seq, Entry: o.loc, Handler: d.handler,
		Args: d.args, Unknown: unknown, Owed: d.owed}}
	p.bind(o, d.undo)
	r.touched()
	if err := putObligation(r.turn, p.obligation); err != nil {
		return err
	}
	r.obligations.add(p)
	return nil
}

// reoblige sets the undo function of a recorded obligation of o.
func (o *op) reoblige(undo undoing) {
	if p := o.s.run.obligations.find(o.entry.Seq); p != nil {
		p.bind(o, undo)
	}
}

// bind sets the function of the code that undoes a step.
func (p *pledge) bind(o *op, undo undoing) {
	if undo != nil {
		p.undo = func(sc *StepCtx) error { return undo(sc, o.entry.Output) }
	}
}

// discharge removes all obligations inside of a location: their steps are no longer undone.
func (r *Run) discharge(loc journal.Location) error {
	done := r.obligations.under(loc)
	if len(done) > 0 {
		r.touched()
	}
	for _, p := range done {
		if err := deleteObligation(r.turn, p.Number); err != nil {
			return err
		}
	}
	r.obligations.list = slices.DeleteFunc(r.obligations.list, func(p *pledge) bool { return loc.Encloses(p.Entry) })
	for _, p := range done {
		r.obligations.count(p, -1)
	}
	return nil
}

// obliged reports whether obligations inside of loc have functions of the code as handlers.
func (r *Run) obliged(loc journal.Location) bool { return r.obligations.sites[string(loc)] > 0 }

// obligedIterations returns the iterations of the loop at loc for which obliged holds, ascending.
func (r *Run) obligedIterations(loc journal.Location) (list []uint32) {
	if !r.obliged(loc) {
		return nil
	}
	for _, p := range r.obligations.list {
		if p.Handler != "" || !loc.Encloses(p.Entry) {
			continue
		}
		n := journal.ElementEnd(p.Entry[len(loc):])
		segments, err := p.Entry[len(loc) : len(loc)+n].Segments()
		if err == nil && len(segments) == 1 && segments[0].Loop {
			list = append(list, segments[0].Iteration)
		}
	}
	slices.Sort(list)
	return slices.Compact(list)
}

// pinnedState returns the state in the row of an ended iteration.
func (r *Run) pinnedState(loc journal.Location) ([]byte, bool) {
	if r.image == nil {
		return nil, false
	}
	rec := r.image.find(loc)
	if rec == nil {
		return nil, false
	}
	e, err := rec.decode()
	if err != nil {
		r.must(err)
		return nil, false
	}
	return e.State, true
}

// keepAnswers records at a container inside of a race which messages the entries answered that are
// about to be dropped: those from one location up to another, or inside of from if to is nil. It
// skips messages that were received inside of the container: nothing needs their answers.
func (r *Run) keepAnswers(o *op, from, to journal.Location) error {
	if !o.s.racing {
		return nil
	}
	end := journal.HistoryEnd(nil, from)
	if to != nil {
		end = journal.HistoryKey(nil, to)
	}
	answered := map[messageName]Delivery{}
	err := r.turn.Scan(journal.HistoryKey(nil, from), end, func(key, value []byte) error {
		e, err := decodeEntry(key, value)
		if err == nil && e.Kind != KindReceive {
			for _, m := range e.Messages {
				answered[nameOf(&m)] = m
			}
		}
		return err
	})
	if err != nil || len(answered) == 0 {
		return err
	}
	for _, m := range o.entry.Messages {
		delete(answered, nameOf(&m))
	}
	return r.turn.Scan([]byte(journal.HistoryPrefix), journal.HistoryEnd(nil, nil), func(key, value []byte) error {
		at := journal.Location(key[len(journal.HistoryPrefix):])
		if len(answered) == 0 || o.loc.Encloses(at) {
			return nil
		}
		e, err := decodeEntry(key, value)
		if err != nil || e.Kind != KindReceive {
			return err
		}
		for _, m := range e.Messages {
			if m, ok := answered[nameOf(&m)]; ok {
				o.entry.Messages = append(o.entry.Messages, m)
			}
		}
		return nil
	})
}

// A messageName names a message.
type messageName struct {
	queue string
	id    uint64
}

func nameOf(m *Delivery) messageName { return messageName{m.Queue, m.ID} }

// messagesIn returns the messages that operations inside of loc received and did not answer. It
// skips messages of ended iterations, because these count as handled.
func (r *Run) messagesIn(loc journal.Location) (list []received, err error) {
	start, end := journal.HistoryKey(nil, loc), journal.HistoryEnd(nil, loc)
	var loops []loopAt
	answered := map[messageName]bool{}
	err = r.turn.Scan(start, end, func(key, value []byte) error {
		at := journal.Location(key[len(journal.HistoryPrefix):])
		for len(loops) > 0 && !loops[len(loops)-1].loc.Encloses(at) {
			loops = loops[:len(loops)-1]
		}
		e, err := decodeEntry(key, value)
		if err != nil {
			return err
		}
		switch e.Kind {
		case KindLoop:
			loops = append(loops, loopAt{append(journal.Location(nil), at...), e.Iteration, e.Status.Over()})
		case KindReceive:
			if len(loops) > 0 && loops[len(loops)-1].past(at) {
				return nil
			}
			if err := journal.FetchPayloads(r.turn, &e); err != nil {
				return err
			}
			for _, m := range e.Messages {
				m.Body = append([]byte(nil), m.Body...)
				list = append(list, received{e.Seq, m})
			}
			return nil
		}
		for i := range e.Messages {
			answered[nameOf(&e.Messages[i])] = true
		}
		return nil
	})
	unanswered := func() {
		list = slices.DeleteFunc(list, func(m received) bool { return answered[nameOf(&m.message)] })
	}
	if unanswered(); err != nil || len(list) == 0 {
		return list, err
	}
	err = r.turn.Scan([]byte(journal.HistoryPrefix), journal.HistoryEnd(nil, nil), func(key, value []byte) error {
		e, err := decodeEntry(key, value)
		if err != nil || e.Kind == KindReceive {
			return err
		}
		for i := range e.Messages {
			answered[nameOf(&e.Messages[i])] = true // by a part of the run outside of loc
		}
		return nil
	})
	unanswered()
	return list, err
}

// A loopAt is a loop that encloses the position of a scan.
type loopAt struct {
	loc       journal.Location
	iteration uint32
	over      bool
}

// past reports whether a location lies in an iteration that has ended.
func (l *loopAt) past(at journal.Location) bool {
	inside := at[len(l.loc):]
	segments, err := inside[:journal.ElementEnd(inside)].Segments()
	return err == nil && len(segments) == 1 && segments[0].Loop && (l.over || segments[0].Iteration < l.iteration)
}
