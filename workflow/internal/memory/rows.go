package memory

import (
	"bytes"
	"fmt"
	"maps"
	"slices"
	"sort"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// Rows is an ordered map of rows. It implements wfhost.Journal.
type Rows struct {
	values map[string][]byte
	sorted []string // nil if it is not known
	undo   []change
}

// A change is what a key was before.
type change struct {
	key   string
	value []byte
	had   bool
}

// NewRows returns rows without any.
func NewRows() *Rows { return &Rows{values: make(map[string][]byte)} }

// Get implements wfhost.Reader.
func (r *Rows) Get(key []byte) ([]byte, bool, error) {
	v, ok := r.values[string(key)]
	return v, ok, nil
}

// Scan implements wfhost.Reader. visit may change rows.
func (r *Rows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	for _, k := range slices.Clone(r.between(start, end)) {
		if err := visit([]byte(k), r.values[k]); err != nil {
			return err
		}
	}
	return nil
}

// Put implements wfhost.Journal.
func (r *Rows) Put(key, value []byte) error {
	k := string(key)
	old, had := r.values[k]
	r.undo = append(r.undo, change{k, old, had})
	r.values[k] = slices.Clone(value)
	if !had {
		r.sorted = nil
	}
	return nil
}

// PutNew implements wfhost.NewPutter, and checks that the key has no row.
func (r *Rows) PutNew(key, value []byte) error {
	if _, ok := r.values[string(key)]; ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return r.Put(key, value)
}

// Delete implements wfhost.Journal.
func (r *Rows) Delete(key []byte) error {
	if old, had := r.values[string(key)]; had {
		r.undo = append(r.undo, change{string(key), old, true})
		delete(r.values, string(key))
		r.sorted = nil
	}
	return nil
}

// DeleteRange implements wfhost.Journal.
func (r *Rows) DeleteRange(start, end []byte) error {
	for _, k := range slices.Clone(r.between(start, end)) {
		_ = r.Delete([]byte(k)) // never fails
	}
	return nil
}

// Written returns the keys that the transaction has put or deleted, in that order.
func (r *Rows) Written() [][]byte {
	keys := make([][]byte, len(r.undo))
	for i, c := range r.undo {
		keys[i] = []byte(c.key)
	}
	return keys
}

// Changed reports whether the transaction has put or deleted rows.
func (r *Rows) Changed() bool { return len(r.undo) > 0 }

// Commit ends the transaction and keeps its changes.
func (r *Rows) Commit() {
	clear(r.undo)
	r.undo = r.undo[:0]
}

// Rollback ends the transaction and undoes its changes.
func (r *Rows) Rollback() {
	for _, c := range slices.Backward(r.undo) {
		if c.had {
			r.values[c.key] = c.value
		} else {
			delete(r.values, c.key)
		}
	}
	r.sorted = nil
	r.Commit()
}

// All returns a copy of all rows.
func (r *Rows) All() map[string]string {
	all := make(map[string]string, len(r.values))
	for k, v := range r.values {
		all[k] = string(v)
	}
	return all
}

// between returns the keys start <= key < end.
func (r *Rows) between(start, end []byte) []string {
	if r.sorted == nil {
		r.sorted = slices.Sorted(maps.Keys(r.values))
	}
	i := sort.SearchStrings(r.sorted, string(start))
	j := sort.SearchStrings(r.sorted, string(end))
	if j < i {
		return nil
	}
	return r.sorted[i:j]
}

// Recorded returns the rows of a recording.
func Recorded(rec *wfhost.Recording) *Rows {
	r := NewRows()
	for _, row := range rec.Rows {
		r.values[string(row.Key)] = bytes.Clone(row.Value)
	}
	return r
}

// Queues are messages by queue, the next one first.
type Queues struct {
	lists  map[string][]wfhost.Delivery
	before map[string][]wfhost.Delivery // of the transaction; nil while nothing was changed
}

// NewQueues returns queues without messages.
func NewQueues() *Queues { return &Queues{lists: make(map[string][]wfhost.Delivery)} }

// Add puts a message at the end of its queue. It is no part of a transaction.
func (q *Queues) Add(m wfhost.Delivery) { q.lists[m.Queue] = append(q.lists[m.Queue], m) }

// Lists returns the messages of all queues. The caller must not change them.
func (q *Queues) Lists() map[string][]wfhost.Delivery { return q.lists }

// Receive implements wfhost.Turn.
func (q *Queues) Receive(queues []string, limit int) ([]wfhost.Delivery, error) {
	var got []wfhost.Delivery
	for _, name := range queues {
		list := q.lists[name]
		n := min(limit-len(got), len(list))
		if n <= 0 {
			continue
		}
		q.own()
		got = append(got, list[:n]...)
		q.lists[name] = slices.Clone(list[n:])
	}
	return got, nil
}

// Return implements wfhost.Turn.
func (q *Queues) Return(messages []wfhost.Delivery) error {
	q.own()
	for _, m := range slices.Backward(messages) {
		q.lists[m.Queue] = append([]wfhost.Delivery{m}, q.lists[m.Queue]...)
	}
	return nil
}

// Moved reports whether the transaction has received or returned messages.
func (q *Queues) Moved() bool { return q.before != nil }

// Keep ends the transaction and keeps its changes.
func (q *Queues) Keep() { q.before = nil }

// Restore ends the transaction and undoes its changes.
func (q *Queues) Restore() {
	if q.before != nil {
		q.lists, q.before = q.before, nil
	}
}

// own keeps the queues as they were, because they are about to change.
func (q *Queues) own() {
	if q.before == nil {
		q.before = maps.Clone(q.lists)
	}
}
