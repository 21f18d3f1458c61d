package engine

import (
	"errors"

	"github.com/cairn-run/cairn/keyspace"
)

// reindex moves a key in the index of expiring keys from one time to another; 0 is none.
//
// The index may keep entries that are out of date: a DeleteRange of many keys does not read the
// keys, so it cannot remove their entries. An entry counts only if the key's metadata has the same
// time; Expired removes the others when it reads them.
func (w *WriteSet) reindex(key []byte, from, to int64) {
	if from == to {
		return
	}
	row := rowBuffer()
	defer row.free()
	if from != 0 {
		row.b = keyspace.Expiry.Append(row.b[:0], from, key)
		w.setIndex(row.b, false)
	}
	if to != 0 {
		row.b = keyspace.Expiry.Append(row.b[:0], to, key)
		w.setIndex(row.b, true)
	}
}

// setIndex writes or removes an entry of the index. It removes without reading, so the entry may be
// missing.
func (w *WriteSet) setIndex(key []byte, live bool) {
	if live && string(key) < w.expiring {
		w.expiring = string(key)
	}
	i := w.overlay.find(key)
	if i < 0 {
		i = w.newSlot(key, metadata{}, true)
	}
	sl := w.change(i)
	sl.index, sl.live = true, live
	sl.meta = metadata{}
	if live {
		sl.meta = metadata{version: w.version, created: w.at, updated: w.at}
	}
}

// Expired returns keys that expire at nowMS or before, without values, in the order of their times,
// this set's changes included. They are still in the store, and counted, until Delete or
// DeleteFound removes them.
//
// It reads up to limit entries of the index. more reports whether there may be others, even if no
// key is returned: the entries read may have been out of date.
func (w *WriteSet) Expired(nowMS int64, limit int) (due []Entry, more bool, err error) {
	s := w.space.store
	if err := s.enter(); err != nil {
		return nil, false, err
	}
	defer s.leave()
	m, err := expiries(w, keyspace.Expiry.Prefix(nil, nowMS+1))
	if err != nil {
		return nil, false, err
	}
	var stale [][]byte
	err = func() error {
		for len(due)+len(stale) < limit {
			ok, err := m.next()
			if !ok || err != nil {
				return err
			}
			if len(due)+len(stale) == 0 {
				w.expiring = string(m.key())
			}
			at, key, err := w.parseExpiry(m.key())
			if err != nil {
				return err
			}
			has, err := w.counts(key)
			if err != nil {
				return err
			}
			if has.expire == at {
				e := Entry{Key: key}
				e.describe(&has)
				due = append(due, e)
			} else {
				stale = append(stale, clone(m.key()))
			}
		}
		more = true
		return nil
	}()
	if err := errors.Join(err, m.close()); err != nil {
		return nil, false, err
	}
	if len(stale) > 0 {
		w.turn()
		for _, entry := range stale {
			w.setIndex(entry, false)
		}
	}
	return due, more, nil
}

// NextExpiry returns a time, in Unix ms, before which no key expires, or 0 if none does.
func (w *WriteSet) NextExpiry() (at int64, err error) {
	s := w.space.store
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	_, end := keyspace.Expiry.Range()
	m, err := expiries(w, end)
	if err != nil {
		return 0, err
	}
	ok, err := m.next()
	if ok && err == nil {
		w.expiring = string(m.key())
		at, _, err = w.parseExpiry(m.key())
	}
	return at, errors.Join(err, m.close())
}

// expiries reads the index up to an end. It begins where the index last began, because Pebble keeps
// entries removed before that for a while. REQUIRES: store.life.
func expiries(w *WriteSet, end []byte) (*merged, error) {
	start := []byte(w.expiring)
	if len(start) == 0 {
		start, _ = keyspace.Expiry.Range()
	}
	return viewOf(w).merge(start, end, false)
}

func (w *WriteSet) parseExpiry(row []byte) (at int64, key []byte, err error) {
	if at, key, err = keyspace.Expiry.Parse(row); err != nil {
		err = &CorruptError{Row: keyspace.AppendMetadataRow(nil, w.space.id, row), Reason: err.Error()}
	}
	return at, key, err
}

// counts returns the metadata of a key, which is empty if there is no such key.
// REQUIRES: store.life.
func (w *WriteSet) counts(key []byte) (metadata, error) {
	if i := w.overlay.find(key); i >= 0 {
		return w.overlay.slots[i].meta, nil
	}
	m, _, err := w.read(key)
	return m, err
}
