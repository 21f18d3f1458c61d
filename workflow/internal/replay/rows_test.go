package replay

import (
	"bytes"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// rows is a journal in memory: a sorted list of rows. It hands out slices that it overwrites afterwards, as a journal may.
type rows struct {
	m       map[string][]byte
	keys    []string // sorted; nil if it must be made anew
	scanned int      // rows that scans have visited
	scratch [2][]byte
}

func newRows() *rows { return &rows{m: map[string][]byte{}} }

func (r *rows) sorted() []string {
	if r.keys == nil {
		r.keys = slices.Sorted(maps.Keys(r.m))
	}
	return r.keys
}

func (r *rows) Get(key []byte) ([]byte, bool, error) {
	v, ok := r.m[string(key)]
	return v, ok, nil
}

func (r *rows) Scan(start, end []byte, visit func(key, value []byte) error) error {
	keys := r.sorted()
	from, _ := slices.BinarySearch(keys, string(start))
	for _, k := range keys[from:] {
		if end != nil && k >= string(end) {
			return nil
		}
		r.scanned++
		r.scratch[0] = append(r.scratch[0][:0], k...)
		r.scratch[1] = append(r.scratch[1][:0], r.m[k]...)
		if err := visit(r.scratch[0], r.scratch[1]); err != nil {
			return err
		}
	}
	return nil
}

func (r *rows) Put(key, value []byte) error {
	if _, ok := r.m[string(key)]; !ok {
		r.keys = nil
	}
	r.m[string(key)] = bytes.Clone(value)
	return nil
}

// PutNew implements NewPutter, and checks what it is told.
func (r *rows) PutNew(key, value []byte) error {
	if _, ok := r.m[string(key)]; ok {
		return fmt.Errorf("PutNew of %x, which has a row", key)
	}
	return r.Put(key, value)
}

func (r *rows) Delete(key []byte) error {
	delete(r.m, string(key))
	r.keys = nil
	return nil
}

func (r *rows) DeleteRange(start, end []byte) error {
	for k := range r.m {
		if k >= string(start) && (end == nil || k < string(end)) {
			delete(r.m, k)
		}
	}
	r.keys = nil
	return nil
}

func (r *rows) clone() *rows { return &rows{m: maps.Clone(r.m)} }

func (r *rows) equal(o *rows) bool { return maps.EqualFunc(r.m, o.m, bytes.Equal) }

// count returns how many rows a family has.
func (r *rows) count(family byte) (n int) {
	for k := range r.m {
		if strings.HasPrefix(k, string([]byte{7, 0x15, family})) {
			n++
		}
	}
	return n
}

// unhex reads hexadecimal digits; blanks and bars in between are for people.
func unhex(t testing.TB, s string) []byte {
	t.Helper()
	b, err := hex.DecodeString(strings.NewReplacer(" ", "", "|", "", "\n", "", "\t", "").Replace(s))
	must(t, err)
	return b
}

// at returns a time of a fixed day.
func at(ms int64) time.Time { return time.UnixMilli(1_771_891_200_000 + ms).UTC() }

// loc makes a location of names (int) and of name and iteration pairs.
func loc(elements ...any) journal.Location {
	var l journal.Location
	for _, e := range elements {
		switch e := e.(type) {
		case int:
			l = journal.ChildName(nil, l, uint32(e))
		case [2]int:
			l = journal.ChildIteration(nil, l, uint32(e[0]), uint32(e[1]))
		}
	}
	return l
}
