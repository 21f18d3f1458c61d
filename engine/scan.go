package engine

import (
	"errors"

	"github.com/cairn-run/cairn/keyspace"
)

// appendStored appends the value of a key in the store to dst.
func appendStored(dst []byte, r reader, id keyspace.ActorID, key []byte) ([]byte, bool, error) {
	var m metadata
	ok, err := visit(r, id, key, func(found *metadata, inline []byte) { m, dst = *found, append(dst, inline...) })
	if !ok || m.chunks == 0 {
		return dst, ok, err
	}
	value, err := readValue(dst, r, id, key, &m)
	if err != nil {
		return dst, false, err
	}
	return value, true, nil
}

// AppendValue appends the value of a key to dst and returns the result, or dst and false if the key
// is absent: Get without an Entry.
//
// It ignores the time: a key that has expired is found until it is deleted.
func (w *WriteSet) AppendValue(dst, key []byte) ([]byte, bool, error) {
	if i := w.overlay.find(key); i >= 0 {
		sl := &w.overlay.slots[i]
		if !sl.live {
			return dst, false, nil
		}
		return append(dst, sl.value...), true, nil
	}
	sp := w.space
	if sp.head.Keys == 0 || w.hidden(key) {
		return dst, false, nil
	}
	if err := sp.store.enter(); err != nil {
		return dst, false, err
	}
	defer sp.store.leave()
	return appendStored(dst, databaseOf(sp.store).DB, sp.id, key)
}

// AppendValue is [WriteSet.AppendValue] as of the snapshot. It also ignores the time.
func (sn *Snapshot) AppendValue(dst, key []byte) ([]byte, bool, error) {
	if err := sn.enter(); err != nil {
		return dst, false, err
	}
	defer sn.store.leave()
	return appendStored(dst, snapOf(sn.opened), sn.id, key)
}

// Scan calls f for the keys in start <= key < end in their order, this set's changes included,
// until f returns false; a nil end has no bound. It is for long reads: it has no limit, allocates
// nothing for an entry, and copies only values of more than ChunkSize.
//
// Like AppendValue, it ignores expiry: f gets expired keys too. Scan may have called f for some
// keys when it returns an error.
//
// Key and value are valid during the call of f, and must not be changed. The store cannot be closed
// while f runs, so f must not block, and must not call the store. A caller that needs to do so
// scans a part into memory, and then continues after its last key.
func (w *WriteSet) Scan(start, end []byte, f func(key, value []byte) bool) error {
	s := w.space.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	return viewOf(w).scan(start, end, f)
}

// Scan is [WriteSet.Scan] as of the snapshot. It also ignores the time.
func (sn *Snapshot) Scan(start, end []byte, f func(key, value []byte) bool) error {
	if err := sn.enter(); err != nil {
		return err
	}
	defer sn.store.leave()
	return view{store: snapOf(sn.opened), id: sn.id}.scan(start, end, f)
}

// scan visits the keys of a range with their values.
func (v view) scan(start, end []byte, f func(key, value []byte) bool) (err error) {
	m, err := v.merge(start, end, false)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, m.close()) }() // even if f panics
	for {
		ok, err := m.next()
		if !ok || err != nil {
			return err
		}
		_, value, err := m.load(true)
		if err != nil {
			return err
		}
		if !f(m.key(), value) {
			return nil
		}
	}
}
