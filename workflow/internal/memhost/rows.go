package memhost

import (
	"maps"
	"slices"
	"sort"
)

// rows is an ordered map with one transaction at a time.
type rows struct {
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

func newRows() *rows { return &rows{values: make(map[string][]byte)} }

func (r *rows) put(key, value []byte) {
	old, had := r.values[string(key)]
	k := string(key)
	r.undo = append(r.undo, change{k, old, had})
	r.values[k] = slices.Clone(value)
	if !had {
		r.sorted = nil
	}
}

func (r *rows) remove(key string) {
	if old, had := r.values[key]; had {
		r.undo = append(r.undo, change{key, old, true})
		delete(r.values, key)
		r.sorted = nil
	}
}

func (r *rows) commit() {
	clear(r.undo)
	r.undo = r.undo[:0]
}

func (r *rows) rollback() {
	for i := len(r.undo) - 1; i >= 0; i-- {
		if c := r.undo[i]; c.had {
			r.values[c.key] = c.value
		} else {
			delete(r.values, c.key)
		}
	}
	r.sorted = nil
	r.commit()
}

func (r *rows) keys() []string {
	if r.sorted == nil {
		r.sorted = slices.Sorted(maps.Keys(r.values))
	}
	return r.sorted
}

// between returns the keys start <= key < end.
func (r *rows) between(start, end []byte) []string {
	keys := r.keys()
	i := sort.SearchStrings(keys, string(start))
	j := sort.SearchStrings(keys, string(end))
	if j < i {
		return nil
	}
	return keys[i:j]
}
