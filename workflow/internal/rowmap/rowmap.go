// Package rowmap keeps the rows of a workflow run in memory, for tests.
package rowmap

import (
	"fmt"
	"maps"
	"slices"
	"sort"
)

// A Map is an ordered map of rows. It implements replay.Journal.
type Map struct {
	values map[string][]byte
	sorted []string // nil if it is not known
	undo   []change
}

// A change is the row of a key before a change.
type change struct {
	key   string
	value []byte
	had   bool
}

// New returns a map without rows.
func New() *Map { return &Map{values: make(map[string][]byte)} }

// Of returns a map with the given rows.
func Of(all map[string]string) *Map {
	r := New()
	for k, v := range all {
		r.values[k] = []byte(v)
	}
	return r
}

// Get implements replay.Reader.
func (r *Map) Get(key []byte) ([]byte, bool, error) {
	v, ok := r.values[string(key)]
	return v, ok, nil
}

// Scan implements replay.Reader. visit may change rows. It gets slices that are overwritten
// afterwards, as a journal may do.
func (r *Map) Scan(start, end []byte, visit func(key, value []byte) error) error {
	var key, value []byte
	for _, k := range slices.Clone(r.between(start, end)) {
		key, value = append(key[:0], k...), append(value[:0], r.values[k]...)
		if err := visit(key, value); err != nil {
			return err
		}
	}
	return nil
}

// Put implements replay.Journal.
func (r *Map) Put(key, value []byte) error {
	k := string(key)
	old, had := r.values[k]
	r.undo = append(r.undo, change{k, old, had})
	r.values[k] = slices.Clone(value)
	if !had {
		r.sorted = nil
	}
	return nil
}

// PutNew implements replay.NewPutter, and checks that the key has no row.
func (r *Map) PutNew(key, value []byte) error {
	if _, ok := r.values[string(key)]; ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return r.Put(key, value)
}

// Delete implements replay.Journal.
func (r *Map) Delete(key []byte) error {
	if old, had := r.values[string(key)]; had {
		r.undo = append(r.undo, change{string(key), old, true})
		delete(r.values, string(key))
		r.sorted = nil
	}
	return nil
}

// DeleteRange implements replay.Journal.
func (r *Map) DeleteRange(start, end []byte) error {
	for _, k := range slices.Clone(r.between(start, end)) {
		_ = r.Delete([]byte(k)) // never fails
	}
	return nil
}

// Written returns the keys that the transaction has put or deleted, in that order.
func (r *Map) Written() [][]byte {
	keys := make([][]byte, len(r.undo))
	for i, c := range r.undo {
		keys[i] = []byte(c.key)
	}
	return keys
}

// Changed reports whether the transaction has put or deleted rows.
func (r *Map) Changed() bool { return len(r.undo) > 0 }

// Commit ends the transaction and keeps its changes.
func (r *Map) Commit() {
	clear(r.undo)
	r.undo = r.undo[:0]
}

// Rollback ends the transaction and undoes its changes.
func (r *Map) Rollback() {
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
func (r *Map) All() map[string]string {
	all := make(map[string]string, len(r.values))
	for k, v := range r.values {
		all[k] = string(v)
	}
	return all
}

// between returns the keys start <= key < end. An end of nil is no bound.
func (r *Map) between(start, end []byte) []string {
	if r.sorted == nil {
		r.sorted = slices.Sorted(maps.Keys(r.values))
	}
	i := sort.SearchStrings(r.sorted, string(start))
	j := len(r.sorted)
	if end != nil {
		j = sort.SearchStrings(r.sorted, string(end))
	}
	if j < i {
		return nil
	}
	return r.sorted[i:j]
}
