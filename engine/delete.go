package engine

import (
	"bytes"
	"sort"

	"github.com/cairn-run/cairn/keyspace"
)

// DeleteRange removes all keys in start <= key < end; a nil end has no bound. It returns how many
// were there, without keys that have expired. It does not touch the index of expiring keys or the
// keys that Aside wrote.
//
// Many keys are removed as a range: the cost is reading their metadata once, to count them.
func (w *WriteSet) DeleteRange(start, end []byte) (int64, error) {
	if err := w.deletable(start, end); err != nil {
		return 0, err
	}
	traces, afterTraces := keyspace.KindTraces.Range()
	expiry, afterExpiry := keyspace.Expiry.Range()
	usage, afterUsage := keyspace.Usage.Range()
	parts := make([]span, 0, 4)
	for _, r := range []span{{start, traces}, {afterTraces, expiry}, {afterExpiry, usage}, {afterUsage, end}} {
		if r.end == nil || (end != nil && bytes.Compare(end, r.end) < 0) {
			r.end = end
		}
		if bytes.Compare(r.start, start) < 0 {
			r.start = start
		}
		if r.end == nil || bytes.Compare(r.start, r.end) < 0 {
			parts = append(parts, r)
		}
	}
	plans := make([]deletion, len(parts))
	room := 0
	for i, r := range parts {
		var err error
		if plans[i], err = w.planDelete(r.start, r.end); err != nil {
			return 0, err
		}
		room += plans[i].room()
	}
	if err := w.checkRoom(room); err != nil {
		return 0, err
	}
	var n int64
	for i := range plans {
		n += w.runDelete(&plans[i])
	}
	return n, nil
}

// deletable returns ErrDestroyed if a range is not within a kind that may be
// written.
func (w *WriteSet) deletable(start, end []byte) error {
	if w.destroyed == nil && !w.space.head.Destroyed {
		return nil
	}
	if len(start) == 0 {
		return ErrDestroyed
	}
	if err := w.writable(start); err != nil {
		return err
	}
	if _, limit := keyspace.Kind(start[0]).Range(); limit != nil && (end == nil || bytes.Compare(end, limit) > 0) {
		return ErrDestroyed
	}
	return nil
}

// deletion is what DeleteRange reads about a range before it changes anything.
type deletion struct {
	span
	found []found // keys of the store, unless there are many
	many  bool
	keys  int64 // of the store
	bytes int64
	seen  int64 // of these, not expired
}

// found is a key of the store with its metadata.
type found struct {
	key  []byte
	meta metadata
}

func (d *deletion) room() int {
	n := len(d.start) + len(d.end)
	for _, f := range d.found {
		n += len(f.key)
	}
	return n
}

// planDelete reads the keys of the store in a range, except slots and hidden ranges.
func (w *WriteSet) planDelete(start, end []byte) (deletion, error) {
	d := deletion{span: span{start, end}}
	if w.space.head.Keys == 0 {
		return d, nil
	}
	now := w.now()
	if !w.turned {
		now = turnClock()
	}
	err := w.eachStored(start, end, func(key []byte, m *metadata) error {
		if w.overlay.find(key) >= 0 {
			return nil
		}
		d.keys++
		d.bytes += int64(len(key)) + int64(m.size)
		if !m.expired(now) {
			d.seen++
		}
		switch {
		case d.many:
		case len(d.found) < pointDeletes:
			d.found = append(d.found, found{clone(key), *m})
		default:
			d.found, d.many = nil, true
		}
		return nil
	})
	return d, err
}

// runDelete runs the plan and returns how many keys were there.
func (w *WriteSet) runDelete(d *deletion) int64 {
	n := int64(0)
	if w.overlay != nil {
		for _, i := range w.overlay.within(d.start, d.end) {
			if sl := &w.overlay.slots[i]; sl.live && !sl.index {
				w.turn()
				if !sl.meta.expired(w.now()) {
					n++
				}
				w.kill(int(i), sl.meta)
			}
		}
	}
	if d.keys == 0 {
		return n
	}
	w.turn()
	if d.many {
		w.ranges = addSpan(w.ranges, d.start, d.end)
		w.keys -= d.keys
		w.bytes -= d.bytes
		return n + d.seen
	}
	for _, f := range d.found {
		w.kill(w.newSlot(f.key, f.meta, true), f.meta)
	}
	return n + d.seen
}

// hide removes a range without reading it: it drops the slots in it and hides the keys of the
// store. It changes no counts.
func (w *WriteSet) hide(start, end []byte) {
	if end != nil && bytes.Compare(start, end) >= 0 {
		return
	}
	w.dropSlots(start, end)
	w.ranges = addSpan(w.ranges, start, end)
}

// dropSlots deletes the keys of the slots in a range. It changes no counts.
func (w *WriteSet) dropSlots(start, end []byte) {
	if w.overlay == nil {
		return
	}
	for _, i := range w.overlay.within(start, end) {
		sl := w.change(int(i))
		sl.live, sl.value, sl.meta = false, nil, metadata{}
	}
}

// within returns the slots with keys in [start, end), in order. The result is
// not changed by slots that are added.
func (o *overlay) within(start, end []byte) []int32 {
	order := o.sorted()
	from := sort.Search(len(order), func(i int) bool { return bytes.Compare(o.slots[order[i]].key, start) >= 0 })
	to := len(order)
	if end != nil {
		to = sort.Search(len(order), func(i int) bool { return bytes.Compare(o.slots[order[i]].key, end) >= 0 })
	}
	if from >= to {
		return nil
	}
	return append([]int32(nil), order[from:to]...)
}

// hidden reports whether a range of the set hides the key in the store.
func (w *WriteSet) hidden(key []byte) bool {
	return spanOf(w.ranges, key) >= 0
}

// spanOf returns the index of the span that key is in, or -1.
func spanOf(ranges []span, key []byte) int {
	i := sort.Search(len(ranges), func(i int) bool {
		return ranges[i].end == nil || bytes.Compare(key, ranges[i].end) < 0
	})
	if i < len(ranges) && bytes.Compare(ranges[i].start, key) <= 0 {
		return i
	}
	return -1
}

// addSpan returns ranges with [start, end) added and joined with its neighbours.
func addSpan(ranges []span, start, end []byte) []span {
	joined := make([]span, 0, len(ranges)+1)
	added := span{clone(start), clone(end)}
	if end == nil {
		added.end = nil
	}
	i := 0
	for ; i < len(ranges) && ranges[i].end != nil && bytes.Compare(ranges[i].end, start) < 0; i++ {
		joined = append(joined, ranges[i])
	}
	for ; i < len(ranges) && (added.end == nil || bytes.Compare(ranges[i].start, added.end) <= 0); i++ {
		r := ranges[i]
		if bytes.Compare(r.start, added.start) < 0 {
			added.start = r.start
		}
		if added.end != nil && (r.end == nil || bytes.Compare(r.end, added.end) > 0) {
			added.end = r.end
		}
	}
	joined = append(joined, added)
	return append(joined, ranges[i:]...)
}
