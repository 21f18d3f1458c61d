package kvrows

import (
	"bytes"
	"encoding/binary"
	"errors"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Count has the totals of a scope or a group. Changes keep it up to date.
type Count struct {
	Keys, Bytes int64 // entries, and the bytes of their keys and values
	Groups      int64 // of a scope
	Grouped     int64 // of a scope: how many of the entries are in groups
	// Floor is the version of a scope before which it does not have its old entries. It counts only
	// if the scope keeps versions.
	Floor int64
	// FloorTime is when that was committed, in Unix milliseconds.
	FloorTime int64
	// Expiry is a time, in Unix milliseconds, before which no entry of a scope expires; never, or 0
	// if none is known.
	Expiry int64
}

// never is the Expiry of a scope in which nothing expires. It is always due for a release that does
// not know it.
const never = 1

// countForm is the first byte of a row of counts. The numbers follow as uvarints.
const countForm = 1

func (c *Count) encode() []byte {
	b := make([]byte, 0, 1+7*binary.MaxVarintLen64)
	b = append(b, countForm)
	for _, n := range []int64{c.Keys, c.Bytes, c.Groups, c.Grouped, c.Floor, c.FloorTime, c.Expiry} {
		b = binary.AppendUvarint(b, uint64(n))
	}
	return b
}

func parseCount(e *engine.Entry) (c Count, err error) {
	b := e.Value
	damaged := &engine.CorruptError{Row: e.Key, Reason: "counts of another form"}
	if len(b) == 0 || b[0] != countForm {
		return Count{}, damaged
	}
	b = b[1:]
	for _, n := range []*int64{&c.Keys, &c.Bytes, &c.Groups, &c.Grouped, &c.Floor, &c.FloorTime, &c.Expiry} {
		if (n == &c.FloorTime || n == &c.Expiry) && len(b) == 0 {
			break // a row from before there was this number
		}
		v, size := binary.Uvarint(b)
		if size <= 0 || int64(v) < 0 {
			return Count{}, damaged
		}
		*n, b = int64(v), b[size:]
	}
	return c, nil
}

// readCount reads the counts under a key; those of no row are 0.
func readCount(rows engine.Reader, key []byte) (Count, error) {
	e, there, err := rows.Get(key)
	if err != nil || !there {
		return Count{}, err
	}
	return parseCount(&e)
}

// A ledger has the new counts of scopes and groups during a change. write stores them.
type ledger struct {
	rows    engine.Reader
	tallies []tally
	index   map[string]int       // of the tallies; nil while they are few
	within  func(sc *Scope) bool // scopes in which nothing is counted; nil is none
}

// A tally is a row of counts.
type tally struct {
	key   []byte
	group bool
	was   Count // stored
	fresh bool  // is written even if unchanged
	count Count
}

// fewTallies are found by comparing.
const fewTallies = 8

// at returns the tally of a row, which is valid until the next call.
func (l *ledger) at(key []byte, group bool) (*tally, error) {
	if l.index == nil {
		for i := range l.tallies {
			if bytes.Equal(l.tallies[i].key, key) {
				return &l.tallies[i], nil
			}
		}
	} else if i, ok := l.index[string(key)]; ok {
		return &l.tallies[i], nil
	}
	c, err := readCount(l.rows, key)
	if err != nil {
		return nil, err
	}
	l.tallies = append(l.tallies, tally{key: key, group: group, was: c, count: c})
	n := len(l.tallies)
	switch {
	case l.index != nil:
		l.index[string(key)] = n - 1
	case n > fewTallies:
		l.index = make(map[string]int)
		for i := range l.tallies {
			l.index[string(l.tallies[i].key)] = i
		}
	}
	return &l.tallies[n-1], nil
}

// add adds a change of a packed key to the counts of its scopes, from sc outward. It refuses growth
// that a policy forbids; then the ledger is of no use.
func (l *ledger) add(sc *Scope, key []byte, keys, size int64) error {
	for ; sc != nil; sc = sc.outer {
		if l.within != nil && l.within(sc) {
			continue
		}
		prefix := keyspace.UserKV.Append(nil, sc.Prefix)
		groups, grouped := int64(0), int64(0)
		if part := sc.group(key); part != nil {
			t, err := l.at(keyspace.KVGroup.Append(nil, prefix, part), true)
			if err != nil {
				return err
			}
			before := t.count.Keys
			t.count.Keys += keys
			t.count.Bytes += size
			grouped = keys
			switch {
			case before == 0 && keys > 0:
				groups = 1
			case before > 0 && t.count.Keys == 0:
				groups = -1
			}
		}
		t, err := l.at(keyspace.KVCount.Append(nil, prefix), false)
		if err != nil {
			return err
		}
		c := &t.count
		c.Keys += keys
		c.Bytes += size
		c.Groups += groups
		c.Grouped += grouped
		for _, bound := range []struct {
			what             string
			grew, now, bound int64
		}{{"keys", keys, c.Keys, sc.MaxKeys}, {"bytes", size, c.Bytes, sc.MaxBytes}, {"groups",
			groups, c.Groups, sc.MaxGroups}} {
			if bound.bound > 0 && bound.grew > 0 && bound.now > bound.bound {
				return &QuotaError{Scope: sc, What: bound.what, Limit: bound.bound, Need: bound.now}
			}
		}
	}
	return nil
}

// expires records that an entry expires in the scopes from sc outward; 0 is never.
func (l *ledger) expires(sc *Scope, at int64) error {
	for ; sc != nil && at != 0; sc = sc.outer {
		t, err := l.at(keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix)), false)
		if err != nil {
			return err
		}
		if known := &t.count.Expiry; *known == never || *known > at {
			*known = at
		}
	}
	return nil
}

// purged records when the next entry expires, where everything expired by now was removed; 0 is
// never.
func (l *ledger) purged(now, next int64) {
	for i := range l.tallies {
		if c := &l.tallies[i].count; !l.tallies[i].group && c.Expiry > never && c.Expiry <= now {
			c.Expiry = max(next, never)
		}
	}
}

// write stores the new counts.
func (l *ledger) write(w *engine.WriteSet) error {
	for i := range l.tallies {
		t := &l.tallies[i]
		var err error
		switch {
		case t.count == t.was && !t.fresh:
		case t.group && t.count.Keys == 0:
			_, err = w.Delete(t.key)
		default:
			// The actor may be full, and the change may make it emptier.
			err = w.Put(t.key, t.count.encode(), engine.PutOptions{Exempt: true})
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// recount counts the entries of a scope anew.
func (s *Store) recount(sc *Scope) error {
	if err := s.ungroup(sc); err != nil {
		return err
	}
	l := ledger{rows: s.WriteSet}
	// without the scopes around it, and without bounds
	alone := &Scope{Prefix: sc.Prefix, Policy: Policy{CountGroups: sc.CountGroups || sc.MaxGroups > 0}}
	start := keyspace.UserKV.Append(nil, sc.Prefix)
	t, err := l.at(keyspace.KVCount.Append(nil, start), false)
	if err != nil {
		return err
	}
	t.count = Count{Floor: t.count.Floor, FloorTime: t.count.FloorTime, Expiry: never}
	q := engine.ListQuery{Start: start, End: keyspace.TupleEnd(start), KeysOnly: true, Expired: true}
	for {
		page, err := s.WriteSet.List(q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			if err := errors.Join(l.add(alone, e.Key[1:], 1, sizeOf(e)), l.expires(alone, e.Expire)); err != nil {
				return err
			}
		}
		if page.Next == nil {
			break
		}
		q.After = page.Next
	}
	if t, err = l.at(keyspace.KVCount.Append(nil, start), false); err != nil {
		return err
	}
	t.fresh = true // there is a row for each scope
	return l.write(s.WriteSet)
}

// ungroup removes the counts of the groups of a scope.
func (s *Store) ungroup(sc *Scope) error {
	start := keyspace.KVGroup.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix), nil)
	_, err := s.WriteSet.DeleteRange(start, keyspace.TupleEnd(start))
	return err
}

// empty sets the counts of a scope to those of no entries.
func (s *Store) empty(sc *Scope) error {
	if err := s.ungroup(sc); err != nil {
		return err
	}
	key := keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix))
	c, err := readCount(s.WriteSet, key)
	if err != nil {
		return err
	}
	c = Count{Floor: c.Floor, FloorTime: c.FloorTime, Expiry: never}
	return s.WriteSet.Put(key, c.encode(), engine.PutOptions{Exempt: true})
}

// sizeOf returns the size of an entry in bytes: its key for callers, and its value.
func sizeOf(e *engine.Entry) int64 { return int64(len(e.Key)-1) + int64(e.Size) }

// Counted returns the counts of a scope by its packed prefix, without entries that have expired by
// now. There is no such scope if ok is false.
func Counted(rows engine.Reader, prefix []byte, nowMS int64) (c Count, ok bool, err error) {
	sc, ok, err := Find(rows, prefix)
	if err != nil || !ok {
		return Count{}, false, err
	}
	all, err := CountAll(rows, []*Scope{sc}, nowMS)
	if err != nil {
		return Count{}, false, err
	}
	return all[0], true, nil
}

// CountAll returns the counts of scopes.
func CountAll(rows engine.Reader, list []*Scope, nowMS int64) ([]Count, error) {
	counts := make([]Count, len(list))
	gone := make([]map[string]int64, len(list))
	expired := false
	for i, sc := range list {
		var err error
		if counts[i], err = readCount(rows,
			keyspace.KVCount.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix))); err != nil {
			return nil, err
		}
		gone[i] = map[string]int64{}
		expired = expired || counts[i].Expiry != never && counts[i].Expiry <= nowMS
	}
	if !expired {
		return counts, nil
	}
	err := overdue(rows, nowMS, func(e *engine.Entry) {
		for i, sc := range list {
			if !sc.has(e.Key[1:]) {
				continue
			}
			c := &counts[i]
			c.Keys--
			c.Bytes -= sizeOf(e)
			if part := sc.group(e.Key[1:]); part != nil {
				c.Grouped--
				gone[i][string(part)]++
			}
		}
	})
	for i, sc := range list {
		for part, keys := range gone[i] {
			if err != nil {
				return nil, err
			}
			var all Count
			all, err = readCount(rows,
				keyspace.KVGroup.Append(nil, keyspace.UserKV.Append(nil, sc.Prefix), []byte(part)))
			if all.Keys == keys {
				counts[i].Groups--
			}
		}
	}
	return counts, err
}

// A Group is a group of a scope: the entries with the same next part.
type Group struct {
	Part []byte // packed
	Count
}

// Groups lists groups of a scope in the order of their parts, after one or from the first, without
// entries that have expired by now.
func Groups(rows engine.Reader, prefix, after []byte, limit int, nowMS int64) (groups []Group, more bool, err error) {
	sc, ok, err := Find(rows, prefix)
	if err != nil || !ok {
		return nil, false, err
	}
	gone := map[string]Count{}
	if err := overdue(rows, nowMS, func(e *engine.Entry) {
		if sc.has(e.Key[1:]) {
			part := sc.group(e.Key[1:])
			g := gone[string(part)]
			g.Keys++
			g.Bytes += sizeOf(e)
			gone[string(part)] = g
		}
	}); err != nil {
		return nil, false, err
	}
	start := keyspace.KVGroup.Append(nil, keyspace.UserKV.Append(nil, prefix), nil)
	q := engine.ListQuery{Start: start, End: keyspace.TupleEnd(start), Limit: limit + 1}
	if after != nil {
		q.After = append(start[:len(start):len(start)], after...)
	}
	for {
		page, err := rows.List(q)
		if err != nil {
			return nil, false, err
		}
		for i := range page.Entries {
			e := &page.Entries[i]
			g := Group{Part: e.Key[len(start):]}
			if g.Count, err = parseCount(e); err != nil {
				return nil, false, err
			}
			out := gone[string(g.Part)]
			g.Keys -= out.Keys
			g.Bytes -= out.Bytes
			if g.Keys == 0 {
				continue
			}
			if len(groups) == limit {
				return groups, true, nil
			}
			groups = append(groups, g)
		}
		if page.Next == nil {
			return groups, false, nil
		}
		q.After = page.Next
	}
}

// maxOverdue bounds the entries that have expired and are not purged yet, for a count without them.
// Those of actors with scopes are purged within seconds.
const maxOverdue = 10_000

// overdue visits entries of the store that have expired by now and are not purged yet.
func overdue(rows engine.Reader, nowMS int64, visit func(e *engine.Entry)) error {
	q := engine.ListQuery{KeysOnly: true, End: keyspace.Expiry.Prefix(nil, nowMS+1), Limit: 1000}
	q.Start, _ = keyspace.Expiry.Range()
	for seen := 0; seen < maxOverdue; {
		page, err := rows.List(q)
		if err != nil {
			return err
		}
		for i := range page.Entries {
			at, key, err := keyspace.Expiry.Parse(page.Entries[i].Key)
			if err != nil {
				return err
			}
			if seen++; keyspace.Kind(key[0]) != keyspace.UserKV.Kind {
				continue
			}
			// The index may have entries of a deleted key, or of one with another time by now.
			found, err := rows.List(engine.ListQuery{Start: key,
				End: append(key[:len(key):len(key)], 0), KeysOnly: true, Expired: true, Limit: 1})
			if err != nil {
				return err
			}
			if len(found.Entries) == 1 && found.Entries[0].Expire == at {
				visit(&found.Entries[0])
			}
		}
		if page.Next == nil {
			return nil
		}
		q.After = page.Next
	}
	return nil
}

// CountKeys counts the entries between packed bounds by reading their keys; a nil end is the end of
// the store.
func CountKeys(rows engine.Reader, start, end []byte) (n int64, err error) {
	q := engine.ListQuery{KeysOnly: true}
	q.Start, q.End = Bounds(start, end)
	err = rows.Each(q, func(*engine.Entry) bool {
		n++
		return true
	})
	return n, err
}
