package workflow

import (
	"bytes"
	"cmp"
	"errors"
	"math"
	"slices"
	"time"

	"github.com/cairn-run/cairn/keyspace"
)

// A rewinding takes back what happened in a history after an entry.
//
//  1. An entry that ended before the target did stays; one that ended later goes, or becomes pending again if it encloses what
//     stays.
//  2. An entry that lasts, or that ended without a resolution, stays if it began before the target.
//  3. It is refused if what stays could not go on as if the rest had never been: an undo handler has run, a loop has moved on,
//     a race was decided, a saga has ended.
type rewinding struct {
	im     *image
	target *record
	entry  *Entry
	verb   string
	keep   bool   // the target stays, and what is inside of it
	cut    uint64 // resolutions from here on are taken back
	gone   []*record
	reopen []*record
}

// rewind takes back the entry of a record and all that followed it; with keep only what followed.
func rewind(t Turn, im *image, target *record, verb string, keep bool) error {
	w := &rewinding{im: im, target: target, verb: verb, keep: keep, cut: math.MaxUint64}
	entry, err := target.header()
	if err != nil {
		return err
	}
	w.entry = entry
	if entry.Status.Over() && entry.Seq > 0 {
		if w.cut = entry.Seq; keep {
			w.cut++
		}
	} else if keep {
		return &ControlError{verb, "entry " + w.path(target) + " has not ended"}
	}
	for i := range im.records {
		if err := w.sort(&im.records[i]); err != nil {
			return err
		}
	}
	if err := w.undone(); err != nil {
		return err
	}
	return w.write(t)
}

func (w *rewinding) path(rec *record) string { return w.im.names.path(rec.loc) }

func (w *rewinding) refuse(reason string) error { return &ControlError{w.verb, reason} }

// sort decides what becomes of a record.
func (w *rewinding) sort(rec *record) error {
	e, err := rec.header()
	if err != nil {
		return err
	}
	inside := w.target.loc.encloses(rec.loc)
	encloses := rec.loc.encloses(w.target.loc) && rec != w.target
	switch {
	case inside:
		if !w.keep {
			w.gone = append(w.gone, rec)
		}
		return nil
	case encloses:
		return w.enclosing(rec, e)
	}
	if e.Status.Over() && e.Seq > 0 && e.Seq < w.cut {
		return nil
	}
	after := w.after(rec, e)
	switch {
	case !e.Status.Over() && !after:
		if e.Kind == KindLoop && e.Seq >= w.cut {
			return w.refuse("loop " + w.path(rec) + " has moved on since")
		}
	case e.Status.Over() && e.Seq == 0 && !after:
	case after || !container(e.Kind):
		w.gone = append(w.gone, rec)
	default:
		return w.enclosing(rec, e)
	}
	return nil
}

// enclosing decides about a record that began before the target and holds what stays.
func (w *rewinding) enclosing(rec *record, e *Entry) error {
	if e.Kind == KindLoop {
		if i, ok := iterationOf(w.element(rec)); ok && (e.Status.Over() || e.Iteration != i) {
			return w.refuse("loop " + w.path(rec) + " has moved on since; rewind to the loop itself")
		}
	}
	if !e.Status.Over() {
		return nil
	}
	switch e.Kind {
	case KindScope, KindJoin, KindMap:
		if rec != w.target && w.hollow(rec) {
			return w.refuse("what was inside of " + w.path(rec) + ", which has ended since, is not on record any more")
		}
		w.reopen = append(w.reopen, rec)
		return nil
	}
	return w.refuse(e.Kind.String() + " " + w.path(rec) + " has ended since; rewind to it, or to what is before it")
}

// hollow reports whether nothing is on record inside of a container but the ends of branches: what was there was dropped
// when it ended, because the history was large.
func (w *rewinding) hollow(rec *record) bool {
	for _, inner := range w.im.under(rec.loc) {
		if len(inner.loc) > len(rec.loc) && inner.kind() != KindScope {
			return false
		}
	}
	return true
}

// element returns the element of the target's location that follows a record's: the iteration, for a loop that encloses it.
func (w *rewinding) element(rec *record) location {
	if !rec.loc.encloses(w.target.loc) {
		return nil
	}
	rest := w.target.loc[len(rec.loc):]
	return rest[:elementEnd(rest)]
}

func container(k Kind) bool {
	switch k {
	case KindLoop, KindJoin, KindRace, KindMap, KindSaga, KindScope, KindSpawn:
		return true
	}
	return false
}

// after reports whether a record that is not inside the target began after it. Within a scope the order of operations says so;
// between branches, which run at once, only time does.
func (w *rewinding) after(rec *record, e *Entry) bool {
	common := 0
	for common < len(rec.loc) && common < len(w.target.loc) {
		a, b := elementEnd(rec.loc[common:]), elementEnd(w.target.loc[common:])
		if !bytes.Equal(rec.loc[common:common+a], w.target.loc[common:common+b]) {
			break
		}
		common += a
	}
	mine, theirs := rec.loc[:common+elementEnd(rec.loc[common:])], w.target.loc[:common+elementEnd(w.target.loc[common:])]
	i, isIteration := iterationOf(mine[common:])
	j, both := iterationOf(theirs[common:])
	concurrent := false
	if parent := w.im.find(rec.loc[:common]); parent != nil {
		p, err := parent.header()
		concurrent = err == nil && (p.Kind == KindJoin || p.Kind == KindRace || p.Kind == KindMap)
	}
	if !concurrent && isIteration && both {
		return i > j
	}
	a, b := w.im.find(mine), w.im.find(theirs)
	if !concurrent && a != nil && b != nil {
		return a.ordinal > b.ordinal
	}
	reference := w.entry.Created
	if !w.entry.Ended.IsZero() {
		reference = w.entry.Ended
	}
	return !e.Created.Before(reference)
}

// undone refuses if an undo handler has run for something whose saga did not end before the target.
func (w *rewinding) undone() error {
	for i := range w.im.records {
		rec := &w.im.records[i]
		e := rec.decoded
		if e.Kind == KindSaga && e.Status.Over() && e.Status != Completed && e.Seq >= w.cut && len(w.im.children(rec.loc)) == 0 {
			return w.refuse("saga " + w.path(rec) + " has failed since, and what it had done may be undone")
		}
		m := w.im.metadata(e.ID)
		if e.ID == 0 || m == nil || m.Undone.IsZero() {
			continue
		}
		if !w.settled(rec.loc) {
			return w.refuse("the effect of " + w.path(rec) + " was undone since")
		}
	}
	return nil
}

// settled reports whether what was undone at a location was undone before the target ended: a saga that has failed undoes what
// is inside of it before it ends, the outermost one leaves nothing to be undone, and a race undoes what the losers did.
func (w *rewinding) settled(undone location) bool {
	outermost := false // the outermost saga so far has ended before the target
	for loc := parentOf(undone); len(loc) > 0; loc = parentOf(loc) {
		rec := w.im.find(loc)
		if rec == nil {
			continue
		}
		e := rec.decoded
		before := e.Status.Over() && e.Seq > 0 && e.Seq < w.cut
		switch e.Kind {
		case KindRace:
			branch, err := undone[len(loc):].segments()
			if before && e.Winner != "" && err == nil && w.im.names.name(branch[0].Name) != e.Winner {
				return true
			}
		case KindSaga:
			if before && e.Status != Completed {
				return true
			}
			outermost = before
		case KindSpawn: // sagas inside of it leave nothing to those around it
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
	for _, rec := range w.gone {
		if err := st.drop(t, rec.loc, true); err != nil {
			return err
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
	for _, rec := range w.reopen {
		e := *rec.decoded
		e.Status, e.Seq, e.Ended, e.Output, e.Failure, e.large = Pending, 0, time.Time{}, nil, nil, nil
		if _, err := st.put(t, rec.loc, &e); err != nil {
			return err
		}
	}
	for _, o := range w.im.obligations {
		if o.n >= w.cut {
			if err := t.Delete(obligationKey(nil, o.n)); err != nil {
				return err
			}
		}
	}
	if c := w.im.control; c != nil && c.Seq >= w.cut {
		if err := deleteField(t, keyspace.FieldControl); err != nil {
			return err
		}
	}
	run := w.im.run
	run.Seed = run.randomSeed() // what stays was drawn with it
	run.Epoch, run.Rewinds, run.Ended, run.Boots, run.Entered, run.EnteredIn = run.Epoch+1, run.Rewinds+1, time.Time{}, 0, 0, 0
	return errors.Join(putState(t, StateRunning), putRecord(t, &run), deletePause(t), deleteField(t, keyspace.FieldOutput), deleteField(t, keyspace.FieldError))
}
