package sqlitevfs

import (
	"bytes"
	"maps"
	"slices"
)

// Scratch returns a writer that keeps changes in memory, on top of r, and never writes them
// anywhere. It is for trying out a session, such as migrations. The session needs its own
// [Database], because its connection remembers pages that others do not have. The writer holds up
// to limit bytes of keys and values; then Put fails with [ErrFull].
func Scratch(r Reader, limit int64) Writer {
	return &scratch{under: r, limit: limit, values: make(map[string][]byte)}
}

// scratch reads from values, then, for keys in none of the removed ranges, from the reader. A key
// that is put after its range was removed is in values, so removed needs no note of it.
type scratch struct {
	under   Reader
	values  map[string][]byte
	removed []keyRange
	bytes   int64
	limit   int64
}

type keyRange struct{ start, end []byte }

func (r keyRange) has(key []byte) bool {
	return bytes.Compare(r.start, key) <= 0 && bytes.Compare(key, r.end) < 0
}

func (s *scratch) gone(key []byte) bool {
	return slices.ContainsFunc(s.removed, func(r keyRange) bool { return r.has(key) })
}

func (s *scratch) Get(dst, key []byte) ([]byte, bool, error) {
	if value, ok := s.values[string(key)]; ok {
		return append(dst, value...), true, nil
	}
	if s.gone(key) {
		return dst, false, nil
	}
	return s.under.Get(dst, key)
}

func (s *scratch) Scan(start, end []byte, f func(key, value []byte) bool) error {
	var own []string
	for key := range s.values {
		if k := (keyRange{start, end}); k.has([]byte(key)) {
			own = append(own, key)
		}
	}
	slices.Sort(own)
	more := true
	emit := func(before []byte) { // nil: all that are left
		for more && len(own) > 0 && (before == nil || own[0] <= string(before)) {
			more = f([]byte(own[0]), s.values[own[0]])
			own = own[1:]
		}
	}
	err := s.under.Scan(start, end, func(key, value []byte) bool {
		emit(key)
		if _, mine := s.values[string(key)]; more && !mine && !s.gone(key) {
			more = f(key, value)
		}
		return more
	})
	if err != nil {
		return err
	}
	emit(nil)
	return nil
}

func (s *scratch) Put(key, value []byte, _ int) error {
	grows := int64(len(key) + len(value))
	if old, ok := s.values[string(key)]; ok {
		grows = int64(len(value) - len(old))
	}
	if n := s.bytes + grows; n > s.limit {
		return &LimitError{ErrFull, "write set", s.limit, n}
	}
	s.values[string(key)] = bytes.Clone(value)
	s.bytes += grows
	return nil
}

func (s *scratch) DeleteRange(start, end []byte) error {
	r := keyRange{bytes.Clone(start), bytes.Clone(end)}
	maps.DeleteFunc(s.values, func(key string, value []byte) bool {
		if !r.has([]byte(key)) {
			return false
		}
		s.bytes -= int64(len(key) + len(value))
		return true
	})
	// VACUUM truncates the file once each time: ranges inside another one are not kept.
	s.removed = slices.DeleteFunc(s.removed, func(old keyRange) bool {
		return bytes.Compare(r.start, old.start) <= 0 && bytes.Compare(old.end, r.end) <= 0
	})
	s.removed = append(s.removed, r)
	return nil
}

func (s *scratch) Room() int64 { return s.limit - s.bytes }
