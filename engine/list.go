package engine

import (
	"bytes"
	"errors"

	"github.com/cairn-run/cairn/keyspace"
)

// ListQuery selects logical keys. The zero query is all keys, from the first.
type ListQuery struct {
	Prefix   []byte // keys that begin with it; instead of Start and End
	Start    []byte // first key of the range
	End      []byte // first key after the range; nil has no bound
	Reverse  bool   // from the last key of the range to the first
	Limit    int    // entries; 0 is Limits.ListEntries
	MaxBytes int    // bytes of keys and values; 0 is Limits.ListBytes. A first entry is returned even if it is larger
	KeysOnly bool   // leave values out; they do not count against MaxBytes
	After    []byte // Next of the page before, with an otherwise equal query
	Expired  bool   // also keys that have expired but are not deleted
}

// Page is a part of a list. Next is nil if there are no more entries.
type Page struct {
	Entries []Entry
	Next    []byte
}

// bounds returns the rest of the query's range.
func (q *ListQuery) bounds() (start, end []byte) {
	start, end = q.Start, q.End
	if q.Prefix != nil {
		start, end = q.Prefix, keyspace.Successor(q.Prefix)
	}
	if q.After == nil {
		return start, end
	}
	if q.Reverse {
		if end == nil || bytes.Compare(q.After, end) < 0 {
			end = q.After
		}
		return start, end
	}
	if bytes.Compare(q.After, start) >= 0 {
		start = append(clone(q.After), 0)
	}
	return start, end
}

// view is the data of a list: the store, and for a write set its changes on top.
type view struct {
	store   reader
	id      keyspace.ActorID
	empty   bool     // the store has no rows of the actor
	overlay *overlay // may be nil
	ranges  []span
	place   *place // may be nil
}

func viewOf(w *WriteSet) view {
	sp := w.space
	return view{store: databaseOf(sp.store).DB, id: sp.id, empty: sp.head.Keys == 0 &&
		sp.head.Version == 0, overlay: w.overlay, ranges: w.ranges}
}

// merged walks over the keys of a view in order.
type merged struct {
	view
	reverse bool
	c       *cursor // nil if the store has nothing
	slots   []int32 // of the range, in key order
	pending bool    // the cursor is on key, which is not consumed

	slot *slot // that has the current key; nil if the store does
}

// key returns the current key; it is valid until next.
func (m *merged) key() []byte {
	if m.slot != nil {
		return m.slot.key
	}
	return m.c.key
}

func (v view) merge(start, end []byte, reverse bool) (*merged, error) {
	m := &merged{view: v, reverse: reverse}
	if end != nil && bytes.Compare(start, end) >= 0 {
		return m, nil
	}
	if v.overlay != nil {
		m.slots = v.overlay.within(start, end)
	}
	if !v.empty {
		var err error
		if v.place != nil && !reverse {
			if m.c, err = takePlace(v.place, start, end); m.c != nil || err != nil {
				return m, err
			}
		}
		if m.c, err = newCursor(v.store, v.id, start, end, reverse); err != nil {
			return nil, err
		}
	}
	return m, nil
}

func (m *merged) close() error {
	if m.c == nil {
		return nil
	}
	return m.c.close()
}

// next moves to the next key that is not deleted.
func (m *merged) next() (bool, error) {
	if m.pending {
		m.pending = false
		if err := m.c.skip(); err != nil {
			return false, err
		}
	}
	for {
		var sl *slot
		if len(m.slots) > 0 {
			i := m.slots[0]
			if m.reverse {
				i = m.slots[len(m.slots)-1]
			}
			sl = &m.overlay.slots[i]
		}
		stored := m.c != nil && m.c.valid
		if sl == nil && !stored {
			return false, nil
		}
		order := -1 // the slot comes first
		switch {
		case sl == nil:
			order = 1
		case stored:
			order = bytes.Compare(sl.key, m.c.key)
			if m.reverse {
				order = -order
			}
		}
		if order > 0 {
			if i := spanOf(m.ranges, m.c.key); i >= 0 {
				if err := m.c.jump(m.id, m.ranges[i]); err != nil {
					return false, err
				}
				continue
			}
			m.slot, m.pending = nil, true
			return true, nil
		}
		if order == 0 {
			if err := m.c.skip(); err != nil {
				return false, err
			}
		}
		if m.reverse {
			m.slots = m.slots[:len(m.slots)-1]
		} else {
			m.slots = m.slots[1:]
		}
		if sl.live {
			m.slot = sl
			return true, nil
		}
	}
}

// load returns the metadata of the current key, and its value if values is set. Both and the key
// are valid until next.
func (m *merged) load(values bool) (*metadata, []byte, error) {
	if m.slot != nil {
		return &m.slot.meta, m.slot.value, nil
	}
	return m.c.load(values)
}

// list returns a page of a view as of now.
func (v view) list(q ListQuery, now int64, limits *Limits) (page Page, err error) {
	var mem arena
	limit, maxBytes := q.Limit, q.MaxBytes
	if limit <= 0 {
		limit = limits.ListEntries
	}
	if maxBytes <= 0 {
		maxBytes = limits.ListBytes
	}
	values, full, size := !q.KeysOnly, false, 0
	err = v.entries(&q, now, func(e *Entry) bool {
		n, more := len(page.Entries), len(e.Key)+len(e.Value)
		if full || n > 0 && size+more > maxBytes {
			page.Next = clone(page.Entries[n-1].Key)
			return false
		}
		size += more
		own, kept := *e, mem.alloc(more)
		at := copy(kept, e.Key)
		if own.Key = kept[:at:at]; values {
			copy(kept[at:], e.Value)
			own.Value = kept[at:]
		}
		page.Entries = append(page.Entries, own)
		if full = n+1 >= limit || size >= maxBytes; full {
			q.KeysOnly = true // only whether there is one more entry is left to find out
		}
		return true
	})
	if err != nil {
		return Page{}, err
	}
	return page, nil
}

// List returns entries in the order of their keys, this set's changes included. The caller may keep
// the memory of the entries.
func (w *WriteSet) List(q ListQuery) (Page, error) {
	s := w.space.store
	if err := s.enter(); err != nil {
		return Page{}, err
	}
	defer s.leave()
	return viewOf(w).list(q, w.clock(), w.space.limits)
}

// Each calls visit for the entries of a query in the order of their keys, this set's changes
// included, until visit returns false. It ignores Limit and MaxBytes.
//
// The entry, its key and its value are valid during the call of visit, and must not be changed. As
// with Scan, visit must not block, and must not call the store.
func (w *WriteSet) Each(q ListQuery, visit func(*Entry) bool) error {
	s := w.space.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return viewOf(w).entries(&q, w.clock(), visit)
}

// entries visits the entries of a query in a view as of now.
func (v view) entries(q *ListQuery, now int64, visit func(*Entry) bool) (err error) {
	start, end := q.bounds()
	m, err := v.merge(start, end, q.Reverse)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }() // even if visit panics
	var e Entry
	for {
		if alone, err := m.alone(); err != nil {
			return err
		} else if alone {
			done, err := m.c.plain(&e, q, now, visit)
			if done && v.place != nil && q.After != nil {
				keepPlace(v.place, m.c, end)
				m.c = nil
			}
			if done || err != nil {
				return err
			}
		}
		ok, err := m.next()
		if !ok || err != nil {
			return err
		}
		meta, value, err := m.load(!q.KeysOnly)
		if err != nil {
			return err
		}
		if meta.expired(now) && !q.Expired {
			continue
		}
		switch {
		case q.KeysOnly:
			value = nil
		case value == nil:
			value = []byte{}
		}
		e.Key, e.Value = m.key(), value
		if e.describe(meta); !visit(&e) {
			return nil
		}
	}
}

// alone reports whether nothing overlays the rest of the store's range and the cursor goes forward.
// The cursor is then on the next key.
func (m *merged) alone() (bool, error) {
	if m.c == nil || m.reverse || len(m.slots) > 0 || len(m.ranges) > 0 {
		return false, nil
	}
	if m.pending {
		m.pending = false
		return true, m.c.skip()
	}
	return true, nil
}

// plain visits entries while each is one row, as most are; the general way takes a third longer. It
// returns true if visit returned false.
func (c *cursor) plain(e *Entry, q *ListQuery, now int64, visit func(*Entry) bool) (done bool, err error) {
	for c.valid && c.whole {
		data, err := c.it.ValueAndErr()
		if err != nil {
			return false, err
		}
		value, ok := c.meta.inline(data)
		if !ok {
			return false, nil
		}
		if !c.meta.expired(now) || q.Expired {
			e.Key, e.Value = c.key, value
			if q.KeysOnly {
				e.Value = nil
			}
			if e.describe(&c.meta); !visit(e) {
				return true, nil
			}
		}
		if err := c.stand(c.it.Next()); err != nil {
			return false, err
		}
	}
	return false, nil
}

// eachStored visits the keys of the store in a range that no hidden range of the set hides, even if
// they have slots.
func (w *WriteSet) eachStored(start, end []byte, visit func(key []byte, m *metadata) error) error {
	s := w.space.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	v := viewOf(w)
	v.overlay = nil
	return v.each(start, end, visit)
}

// each visits all keys of a range, expired ones too.
func (v view) each(start, end []byte, visit func(key []byte, m *metadata) error) error {
	m, err := v.merge(start, end, false)
	if err != nil {
		return err
	}
	for {
		ok, err := m.next()
		if !ok || err != nil {
			return errors.Join(err, m.close())
		}
		meta, _, err := m.load(false)
		if err == nil {
			err = visit(m.key(), meta)
		}
		if err != nil {
			return errors.Join(err, m.close())
		}
	}
}

// measure counts the keys of a range that count for the actor.
func (w *WriteSet) measure(start, end []byte) (keys, bytes int64, err error) {
	err = viewOf(w).each(start, end, func(key []byte, m *metadata) error {
		if keyspace.Kind(key[0]) != keyspace.Expiry.Kind {
			keys++
			bytes += int64(len(key)) + int64(m.size)
		}
		return nil
	})
	return keys, bytes, err
}
