package engine

import (
	"errors"

	"github.com/cairn-run/cairn/keyspace"
)

// reindex moves a key in the index of expiring keys from one time to another; 0
// is none.
//
// The index may keep entries that are out of date: a DeleteRange of many keys
// does not read them, and so cannot remove theirs one by one. An entry counts
// only if the key's metadata has the same time; Expired removes the others when
// they come up.
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

// setIndex writes or removes an entry of the index. Removing is done blindly:
// it is the same for an entry that is not there.
func (w *WriteSet) setIndex(key []byte, live bool) {
	i := w.overlay.find(key)
	if i < 0 {
		i = w.newSlot(key, metadata{}, true)
	}
	sl := w.change(i)
	sl.index, sl.live = true, live
	sl.meta = metadata{}
	if live {
		sl.meta = metadata{version: w.version, created: w.now, updated: w.now}
	}
}

// Expired returns up to limit keys that expire at nowMS or before, in the order
// of their times, this set's changes included. They are still in the store, and
// counted, until Delete removes them.
func (w *WriteSet) Expired(nowMS int64, limit int) ([][]byte, error) {
	s := w.space.store
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	start, _ := keyspace.Expiry.Range()
	m, err := w.view().merge(start, keyspace.Expiry.Prefix(nil, nowMS+1), false)
	if err != nil {
		return nil, err
	}
	var due, stale [][]byte
	err = func() error {
		for len(due) < limit {
			ok, err := m.next()
			if !ok || err != nil {
				return err
			}
			at, key, err := keyspace.Expiry.Parse(m.key)
			if err != nil {
				return &CorruptError{Row: keyspace.AppendMetadataRow(nil, w.space.id, m.key), Reason: err.Error()}
			}
			has, err := w.expiryOf(key)
			if err != nil {
				return err
			}
			if has == at {
				due = append(due, key)
			} else {
				stale = append(stale, clone(m.key))
			}
		}
		return nil
	}()
	if err := errors.Join(err, m.close()); err != nil {
		return nil, err
	}
	if len(stale) > 0 {
		w.turn()
		for _, entry := range stale {
			w.setIndex(entry, false)
		}
	}
	return due, nil
}

// expiryOf returns when a key expires; 0 if never, or if there is no such key.
// REQUIRES: store.life.
func (w *WriteSet) expiryOf(key []byte) (int64, error) {
	if i := w.overlay.find(key); i >= 0 {
		return w.overlay.slots[i].meta.expire, nil
	}
	m, _, err := w.read(key)
	return m.expire, err
}
