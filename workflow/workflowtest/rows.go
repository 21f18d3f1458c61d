package workflowtest

import (
	"bytes"
	"maps"
	"slices"
	"sort"

	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// rows are ordered, and what was done to them since the last commit can be undone.
type rows struct {
	values map[string][]byte
	sorted []string // nil if it is not known
	undo   []change
}

// A change is what the value of a key was before; nil if there was none.
type change struct {
	key   string
	value []byte
}

func newRows() *rows { return &rows{values: map[string][]byte{}} }

func (r *rows) Get(key []byte) ([]byte, bool, error) {
	v, ok := r.values[string(key)]
	return v, ok, nil
}

func (r *rows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	for _, k := range slices.Clone(r.between(start, end)) {
		if err := visit([]byte(k), r.values[k]); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) put(key string, value []byte) {
	old, had := r.values[key]
	if !had {
		r.sorted = nil
	}
	r.undo = append(r.undo, change{key, old})
	r.values[key] = append(make([]byte, 0, len(value)), value...)
}

func (r *rows) remove(key string) {
	if old, had := r.values[key]; had {
		r.undo = append(r.undo, change{key, old})
		delete(r.values, key)
		r.sorted = nil
	}
}

func (r *rows) removeRange(start, end []byte) {
	for _, k := range slices.Clone(r.between(start, end)) {
		r.remove(k)
	}
}

func (r *rows) commit() { r.undo = nil }

func (r *rows) rollback() {
	for _, c := range slices.Backward(r.undo) {
		if c.value == nil {
			delete(r.values, c.key)
		} else {
			r.values[c.key] = c.value
		}
	}
	r.undo, r.sorted = nil, nil
}

// between returns the keys start <= key < end.
func (r *rows) between(start, end []byte) []string {
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

// recorded reads the rows of a recording.
func recorded(rec *wfhost.Recording) *rows {
	r := newRows()
	for _, row := range rec.Rows {
		r.values[string(row.Key)] = bytes.Clone(row.Value)
	}
	return r
}
