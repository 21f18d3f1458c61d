package replay

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A rewinding takes a history back to an entry.
//
//  1. An entry that ended before the target did stays. A later one goes, or becomes pending again
//     if it encloses entries that stay.
//  2. An entry that lasts, or that ended without a resolution, stays if it began before the target.
//  3. A loop that has moved on goes back to the iteration of the target. The row of an
//     ended iteration has the state at its begin. An iteration that began after the cut goes.
//  4. It is refused if the rest could not go on as if the removed part had never been: an undo
//     handler has run, the row of an iteration is missing, a race was decided, a saga has ended.
//  5. The obligations of entries that stay are owed as before. A completed run keeps them for this.
type rewinding struct {
	im        *image
	target    *record
	verb      string
	keep      bool      // the target stays, with everything inside it
	cut       uint64    // resolutions from this number on are removed
	reference time.Time // an entry of another branch that began at this time or later counts as begun after the target
	gone      []*record
	goneAt    map[string]bool // the locations of gone
	reopen    []reopening
	loops     map[string]uint32 // the iterations of loops in reopen
}

// A reopening is a container that becomes open again, or a loop that goes back to an earlier
// iteration.
type reopening struct {
	rec   *record
	entry Entry
	row   journal.Location // of the loop's earlier iteration, whose state is then in entry; nil for other containers
}

// rewind removes the entry of a record and everything after it; if keep is set, only everything
// after it.
func rewind(t Turn, im *image, target *record, verb string, keep bool) error {
	w := &rewinding{im: im, target: target, verb: verb, keep: keep, cut: math.MaxUint64,
		goneAt: map[string]bool{}, loops: map[string]uint32{}}
	e, err := target.header()
	if err != nil {
		return err
	}
	if w.reference = e.Created; !e.Ended.IsZero() {
		w.reference = e.Ended
	}
	switch loop, i := w.ofLoop(target); {
	case loop != nil && e.Status.Over():
		if w.cut, err = w.endOf(loop, i); err != nil {
			return err
		}
	case e.Status.Over() && e.Seq > 0:
		if w.cut = e.Seq; keep {
			w.cut++
		}
	case keep:
		return w.refuse("entry " + w.path(target) + " has not ended")
	}
	for i := range im.records {
		if err := w.sort(&im.records[i]); err != nil {
			return err
		}
	}
	for _, rec := range w.gone {
		w.goneAt[string(rec.loc)] = true
	}
	if err := w.undone(); err != nil {
		return err
	}
	return w.write(t)
}

func (w *rewinding) path(rec *record) string { return w.im.names.Path(rec.loc) }

func (w *rewinding) refuse(reason string) error { return &ControlError{w.verb, reason} }

// sort decides whether a record stays, goes or is reopened.
func (w *rewinding) sort(rec *record) error {
	e, err := rec.header()
	if err != nil {
		return err
	}
	inside := w.target.loc.Encloses(rec.loc)
	encloses := rec.loc.Encloses(w.target.loc) && rec != w.target
	switch {
	case inside:
		if !w.keep {
			w.gone = append(w.gone, rec)
		}
		return nil
	case w.isIteration(rec, e):
		if e.Seq >= w.cut {
			w.gone = append(w.gone, rec)
		}
		return nil
	case encloses:
		return w.enclosing(rec, e)
	}
	if e.Status.Over() && e.Seq > 0 && e.Seq < w.cut {
		return nil
	}
	// A branch has the time at which it was entered last: the entries that stay inside decide.
	after := w.after(rec, e) && !(container(e.Kind) && w.holds(rec))
	switch {
	case !e.Status.Over() && !after:
		if e.Kind == KindLoop && e.Seq >= w.cut {
			return w.again(rec, e)
		}
	case e.Status.Over() && e.Seq == 0 && !after:
	case after || !container(e.Kind):
		w.gone = append(w.gone, rec)
	default:
		return w.enclosing(rec, e)
	}
	return nil
}

// holds reports whether an entry inside of a record ended before the cut.
func (w *rewinding) holds(rec *record) bool {
	all := w.im.under(rec.loc)
	for i := range all {
		if len(all[i].loc) == len(rec.loc) {
			continue
		}
		if e, err := all[i].header(); err == nil && e.Status.Over() && e.Seq > 0 && e.Seq < w.cut {
			return true
		}
	}
	return false
}

// enclosing handles a record that began before the target and has records inside that stay.
func (w *rewinding) enclosing(rec *record, e *Entry) error {
	if e.Kind == KindLoop {
		return w.again(rec, e)
	}
	if !e.Status.Over() {
		return nil
	}
	switch e.Kind {
	case KindScope, KindJoin, KindForEach:
		if rec != w.target && w.hollow(rec) {
			return w.refuse("what was inside of " + w.path(rec) + ", which has ended since, is not on record any more")
		}
		open := *e
		open.Status, open.Seq, open.Ended, open.Output, open.Failure, open.Large = Pending, 0,
			time.Time{}, nil, nil, nil
		w.reopen = append(w.reopen, reopening{rec: rec, entry: open})
		return nil
	}
	return w.refuse(e.Kind.String() + " " + w.path(rec) + " has ended since; rewind to it, or to what is before it")
}

// again moves a loop back to the iteration that encloses the target, or else to the one that was
// current at the cut. Every later iteration must have its row: messages that a deleted one received
// could not be returned.
func (w *rewinding) again(loop *record, e *Entry) error {
	to, inside := iterationOf(w.element(loop))
	ended := int64(e.Iteration) // the last ended iteration
	if !e.Status.Over() {
		if inside && to == e.Iteration || !inside && e.Seq < w.cut {
			return nil
		}
		ended--
	}
	if inside && w.cut == math.MaxUint64 {
		return w.refuse("entry " + w.path(w.target) +
			" was given up when its iteration ended; rewind to another one of the iteration")
	}
	for i := ended; i >= 0; i-- {
		row, err := w.iteration(loop, uint32(i))
		if err != nil {
			return err
		}
		if row == nil {
			break
		}
		if inside && uint32(i) != to || !inside && i > 0 && row.decoded.Seq >= w.cut {
			continue
		}
		open, began := *e, row.decoded
		open.Status, open.Output, open.Failure = Pending, nil, nil
		open.Iteration, open.State, open.Large, open.Seq, open.Ended = uint32(i), began.State,
			began.Large, began.Seq, began.Created
		if i == 0 {
			open.Seq, open.Ended = 0, time.Time{} // it began with the loop
		}
		w.reopen = append(w.reopen, reopening{loop, open, row.loc})
		w.loops[string(loop.loc)] = uint32(i)
		return nil
	}
	return w.refuse("loop " + w.path(loop) +
		" has moved on since, and what the iteration began with is not on record (see Keep); rewind to the loop, or to what is before it")
}

// iteration returns the row of an ended iteration of a loop, nil if there is none. In earlier
// versions the row is pending, and lacks the time at which the iteration began; it is not returned.
func (w *rewinding) iteration(loop *record, i uint32) (*record, error) {
	s, err := loop.loc.Segments()
	if err != nil || len(s) == 0 {
		return nil, err
	}
	rec := w.im.find(journal.ChildIteration(nil, loop.loc, s[len(s)-1].Name, i))
	if rec == nil {
		return nil, nil
	}
	if e, err := rec.header(); err != nil || !e.Status.Over() {
		return nil, err
	}
	return rec, nil
}

// ofLoop returns the loop and the number of the iteration whose row a record is; nil if it is
// another entry.
func (w *rewinding) ofLoop(rec *record) (loop *record, i uint32) {
	up := journal.ParentOf(rec.loc)
	i, ok := iterationOf(rec.loc[len(up):])
	if !ok {
		return nil, 0
	}
	if loop = w.im.find(up); loop == nil || loop.kind() != KindLoop {
		return nil, 0
	}
	return loop, i
}

// isIteration reports whether an entry is the row of an iteration, which has the time of its begin.
func (w *rewinding) isIteration(rec *record, e *Entry) bool {
	if e.Kind != KindScope || !e.Status.Over() {
		return false
	}
	loop, _ := w.ofLoop(rec)
	return loop != nil
}

// endOf returns the number of the resolution with which an ended iteration of a loop ended.
func (w *rewinding) endOf(loop *record, i uint32) (uint64, error) {
	e, err := loop.header()
	switch {
	case err != nil:
		return 0, err
	case e.Status.Over() && e.Iteration == i, !e.Status.Over() && e.Iteration == i+1:
		return e.Seq, nil
	}
	next, err := w.iteration(loop, i+1)
	if err == nil && next == nil {
		err = w.refuse("the iteration after " + w.path(w.target) + " is not on record any more")
	}
	if err != nil {
		return 0, err
	}
	return next.decoded.Seq, nil
}

// hollow reports whether a container has nothing on record except the ends of branches. The rest
// was dropped when it ended, because the history was large.
func (w *rewinding) hollow(rec *record) bool {
	for _, inner := range w.im.under(rec.loc) {
		if len(inner.loc) > len(rec.loc) && inner.kind() != KindScope {
			return false
		}
	}
	return true
}

// element returns the element of the target's location that follows a record's: the iteration, for
// an enclosing loop.
func (w *rewinding) element(rec *record) journal.Location {
	if !rec.loc.Encloses(w.target.loc) {
		return nil
	}
	rest := w.target.loc[len(rec.loc):]
	return rest[:journal.ElementEnd(rest)]
}

func container(k Kind) bool {
	switch k {
	case KindLoop, KindJoin, KindRace, KindForEach, KindSaga, KindScope, KindSpawn:
		return true
	}
	return false
}

// after reports whether a record that is not inside the target began after it. Within a scope the
// order of operations decides; between concurrent branches, only time does.
func (w *rewinding) after(rec *record, e *Entry) bool {
	common := 0
	for common < len(rec.loc) && common < len(w.target.loc) {
		a, b := journal.ElementEnd(rec.loc[common:]), journal.ElementEnd(w.target.loc[common:])
		if !bytes.Equal(rec.loc[common:common+a], w.target.loc[common:common+b]) {
			break
		}
		common += a
	}
	for at := common; at < len(rec.loc); at += journal.ElementEnd(rec.loc[at:]) {
		if n, ok := w.loops[string(rec.loc[:at])]; ok {
			if i, _ := iterationOf(rec.loc[at:][:journal.ElementEnd(rec.loc[at:])]); i != n {
				return i > n
			}
		}
	}
	mine, theirs := rec.loc[:common+journal.ElementEnd(rec.loc[common:])],
		w.target.loc[:common+journal.ElementEnd(w.target.loc[common:])]
	i, isIteration := iterationOf(mine[common:])
	j, both := iterationOf(theirs[common:])
	concurrent := false
	if parent := w.im.find(rec.loc[:common]); parent != nil {
		p, err := parent.header()
		concurrent = err == nil && (p.Kind == KindJoin || p.Kind == KindRace || p.Kind == KindForEach)
	}
	if !concurrent && isIteration && both {
		return i > j
	}
	a, b := w.im.find(mine), w.im.find(theirs)
	concurrent = concurrent || a != nil && a.kind() == KindSpawn && len(rec.loc) > len(mine) ||
		b != nil && b.kind() == KindSpawn && len(w.target.loc) > len(theirs) // a child, and operations beside it
	if !concurrent && a != nil && b != nil {
		return a.ordinal > b.ordinal
	}
	return !e.Created.Before(w.reference)
}

// undone refuses if an undo handler has run for an entry that stays, unless its saga ended before
// the target.
func (w *rewinding) undone() error {
	for i := range w.im.records {
		rec := &w.im.records[i]
		e := rec.decoded
		m := w.im.metadata(e.ID)
		if e.ID == 0 || m == nil || m.Undone.IsZero() {
			continue
		}
		if !w.goes(rec.loc) && !w.settled(rec.loc) {
			return w.refuse("the effect of " + w.path(rec) + " was undone since")
		}
	}
	return nil
}

// goes reports whether a location is removed: its operation runs again, under another idempotency
// key.
func (w *rewinding) goes(loc journal.Location) bool {
	for ; len(loc) > 0; loc = journal.ParentOf(loc) {
		if w.goneAt[string(loc)] {
			return true
		}
	}
	return false
}

// settled reports whether an effect at a location was undone before the target ended. A saga that
// has failed undoes its steps before it ends, the outermost saga leaves no obligations, and a race
// undoes the steps of its losers.
func (w *rewinding) settled(undone journal.Location) bool {
	outermost := false // the outermost saga so far has ended before the target
	for loc := journal.ParentOf(undone); len(loc) > 0; loc = journal.ParentOf(loc) {
		rec := w.im.find(loc)
		if rec == nil {
			continue
		}
		e := rec.decoded
		before := e.Status.Over() && e.Seq > 0 && e.Seq < w.cut
		switch e.Kind {
		case KindRace:
			branch, err := undone[len(loc):].Segments()
			if before && e.Winner != "" && err == nil && w.im.names.Name(branch[0].Name) != e.Winner {
				return true
			}
		case KindSaga:
			if before && e.Status != Completed {
				return true
			}
			outermost = before
		case KindSpawn: // sagas inside of it leave nothing to the outer ones
			if before || outermost {
				return true
			}
		}
	}
	return outermost
}

// write changes the rows.
func (w *rewinding) write(t Turn) error {
	st, err := newStore(w.im, 0)
	if err != nil {
		return err
	}
	var received []*Entry
	for _, rec := range w.gone {
		e, err := rec.decode()
		if err != nil {
			return err
		}
		if w.keep {
			continue // a fork: messages were not received from its queues, and children are not its own
		}
		if e.Kind == KindReceive || e.Kind == KindMessage {
			received = append(received, e)
		}
		if e.Kind == KindSpawn && !e.Status.Over() && e.Child.Type != "" {
			if err := closeChild(t, &w.im.run, rec.loc, e, verbTerminateChild); err != nil {
				return err
			}
		}
	}
	for i := range w.reopen { // before their large states are removed with the old rows
		o := &w.reopen[i]
		if _, err := st.put(t, o.rec.loc, &o.entry); err != nil {
			return err
		}
	}
	for _, rec := range w.gone {
		if err := st.drop(t, rec.loc, true); err != nil {
			return err
		}
	}
	for _, o := range w.reopen {
		if o.row != nil {
			if err := st.remove(t, o.row); err != nil {
				return err
			}
		}
	}
	slices.SortStableFunc(received, func(a, b *Entry) int { return cmp.Compare(a.Seq, b.Seq) })
	var messages []Delivery
	for _, e := range received {
		messages = append(messages, e.Messages...)
	}
	if len(messages) > 0 {
		if err := t.Return(messages); err != nil {
			return err
		}
	}
	for _, row := range w.im.obligations {
		o, err := decodeObligation(row)
		if err != nil {
			return err
		}
		// Entries inside of a removed entry ended before it did.
		if row.n >= w.cut || w.goes(o.Entry) {
			if err := deleteObligation(t, row.n); err != nil {
				return err
			}
		}
	}
	// a run that is over never handled the request
	if c := w.im.control; c != nil && (c.Seq >= w.cut || c.Seq == 0 && w.im.state.Over()) {
		if err := deleteField(t, keyspace.FieldControl); err != nil {
			return err
		}
	}
	run := w.im.run
	run.Seed = run.randomSeed() // the history that stays was drawn with it
	run.Epoch, run.Rewinds, run.Ended, run.Kept = run.Epoch+1, run.Rewinds+1, time.Time{}, false
	run.Boots, run.Entered, run.EnteredIn = 0, 0, 0
	return errors.Join(putState(t, StateRunning), putRecord(t, &run), deletePause(t),
		deleteField(t, keyspace.FieldOutput), deleteField(t, keyspace.FieldError))
}
