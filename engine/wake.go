package engine

import (
	"errors"
	"math"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// Wake is a row of the wake index: the node must wake the actor at Due.
type Wake struct {
	Due      int64 // Unix ms
	ID       keyspace.ActorID
	Kind     keyspace.WakeKind
	Name     string
	Instance string
	Row      []byte // cursor for Wakes
}

// Wakes returns up to limit rows of the wake index that are due at dueMS or
// before, by due time and then by actor. It begins after the row after, or at
// the start if after is nil. WriteSet.ClearWake removes a row in a commit of its
// actor, so a row stays until the actor has done its work.
func (s *Store) Wakes(after []byte, dueMS int64, limit int) ([]Wake, error) {
	var wakes []Wake
	err := s.scanWakes(after, dueMS, func(w keyspace.WakeRow, row []byte) bool {
		if len(wakes) >= limit {
			return false
		}
		wakes = append(wakes, Wake{w.Due, w.ID, w.Kind, w.Name, w.Instance, clone(row)})
		return true
	})
	return wakes, err
}

func (s *Store) scanWakes(after []byte, dueMS int64, visit func(keyspace.WakeRow, []byte) bool) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	start := keyspace.AppendWakeTime(nil, math.MinInt64)
	end := keyspace.AppendWakeTime(nil, dueMS+1)
	if after != nil {
		start = append(clone(after), 0)
	}
	it, err := newIter(databaseOf(s).DB, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	for ok := it.First(); ok; ok = it.Next() {
		w, err := keyspace.ParseWakeRow(it.Key())
		if err != nil {
			return errors.Join(&CorruptError{Row: clone(it.Key()), Reason: err.Error()}, it.Close())
		}
		if !visit(w, it.Key()) {
			break
		}
	}
	return errors.Join(it.Error(), it.Close())
}

// SetWake puts a row into the node's wake index: the node must wake the actor at dueMS. The rows
// index the actor's own keys, and the caller keeps both in step: the engine adds no rows by itself,
// and Destroy removes none.
func (w *WriteSet) SetWake(dueMS int64, kind keyspace.WakeKind, name, instance string) {
	w.wake(dueMS, kind, name, instance, true)
}

// ClearWake removes the row that SetWake put with the same arguments.
func (w *WriteSet) ClearWake(dueMS int64, kind keyspace.WakeKind, name, instance string) {
	w.wake(dueMS, kind, name, instance, false)
}

func (w *WriteSet) wake(dueMS int64, kind keyspace.WakeKind, name, instance string, set bool) {
	w.turn()
	row := rowBuffer()
	row.b = keyspace.AppendWakeRow(row.b[:0], dueMS, w.space.id, kind, name, instance)
	o := w.own()
	o.wakes = append(o.wakes, wakeOp{row: o.arena.copy(row.b), due: dueMS, kind: kind, set: set})
	row.free()
}

// NextWake returns the earliest time after 0, in Unix ms, that the set puts into the wake index, or
// 0 if there is none. Once the set is committed, the node must read the index at that time.
func (w *WriteSet) NextWake() (dueMS int64) {
	if w.overlay == nil {
		return 0
	}
	for _, op := range w.overlay.wakes {
		if op.set && op.due > 0 && (dueMS == 0 || op.due < dueMS) {
			dueMS = op.due
		}
	}
	return dueMS
}

// DropWakes removes rows of destroyed actors, by their Row. The removal is not synced: a power cut
// may bring rows back, and the caller finds and drops them again.
func (s *Store) DropWakes(rows [][]byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return err
	}
	batch := databaseOf(s).NewBatch()
	defer batch.Close()
	for _, row := range rows {
		if _, err := keyspace.ParseWakeRow(row); err != nil {
			return err
		}
		if err := batch.Delete(row, nil); err != nil {
			return err
		}
	}
	return applyUnsynced(s, batch)
}
