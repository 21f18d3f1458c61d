package engine

import (
	"bytes"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/keyspace"
)

// Create gives the actor its name; Lookup finds it from the commit on. It returns ErrExists if the
// actor has one. If the name is taken, Commit returns ErrExists: another space may take it until
// then.
func (w *WriteSet) Create(i Identity) error {
	s := w.space.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if w.destroyed != nil || w.space.head.Destroyed {
		return ErrDestroyed
	}
	if w.created != nil {
		return ErrExists
	}
	if w.space.head.Version > 0 {
		if _, _, ok, err := s.identity(w.space.id); err != nil {
			return err
		} else if ok {
			return ErrExists
		}
	}
	w.turn()
	i.Key = slices.Clone(i.Key)
	w.created = &i
	return nil
}

// destruction is a Destroy that waits for its commit.
type destruction struct {
	tombstone Tombstone
	kept      string // kinds that survive
	named     bool   // there is a directory row to remove
	again     bool   // the actor was destroyed before: only kept keys go
	asides    asides // kinds with keys to remove
}

// Destroy removes the actor: its name, its identity, and all keys except those of the kinds in
// keep. A tombstone remains. Many keys are removed as ranges, so the cost does not depend on their
// number, except that kept keys are counted. A few keys are removed one by one, because every
// iterator pays for the range tombstones of a memtable. Rows of the wake index stay; see ClearWake.
//
// Afterwards, keys of the kinds in keep can still be written and deleted: messages that the actor
// sent wait for their targets. Every other write returns ErrDestroyed. The head, which says
// Destroyed, goes with the last kept key. A second Destroy removes the kept keys too, except those
// of kinds that both calls keep.
//
// In a space from NewSpace it keeps nothing: it removes all rows of the actor without reading them.
func (w *WriteSet) Destroy(keep ...keyspace.Kind) error {
	s := w.space.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	d, before, err := w.destruction()
	if err != nil {
		return err
	}
	again := d.again || w.destroyed != nil
	unread := w.space.head.Version == 0 && w.created == nil // its keys are not known, and all go
	if unread {
		keep = nil
	}
	keep = slices.Clone(keep)
	slices.Sort(keep)
	var keys, bytes int64
	for _, kind := range slices.Compact(keep) {
		if again && strings.IndexByte(before, byte(kind)) < 0 {
			continue
		}
		d.kept += string([]byte{byte(kind)})
		start, end := kind.Range()
		n, size, err := w.measure(start, end)
		if err != nil {
			return err
		}
		keys, bytes = keys+n, bytes+size
	}

	var gaps []span // between the kinds that are kept
	from := []byte{}
	for i := range len(d.kept) {
		start, end := keyspace.Kind(d.kept[i]).Range()
		gaps = append(gaps, span{from, start})
		if from = end; from == nil {
			break
		}
	}
	if from != nil {
		gaps = append(gaps, span{from, nil})
	}
	few := w.space.head.Keys <= pointDeletes && !unread
	var stored []found
	if few {
		if stored, err = w.storedIn(gaps); err != nil {
			return err
		}
		stored = slices.DeleteFunc(stored, func(f found) bool {
			if aside(f.key) {
				d.asides.add(f.key)
				return true
			}
			return false
		})
	}

	w.turn()
	if !again {
		d.tombstone.Destroyed, d.tombstone.Version = w.at, w.version
	}
	for _, g := range gaps {
		if few {
			w.dropSlots(g.start, g.end)
		} else {
			w.hide(g.start, g.end)
		}
	}
	for _, f := range stored {
		sl := w.change(w.newSlot(f.key, f.meta, true))
		sl.index = keyspace.Kind(f.key[0]) == keyspace.Expiry.Kind
	}
	w.keys, w.bytes = keys, bytes
	w.created, w.destroyed = nil, &d
	return nil
}

// storedIn returns the keys of the store in some ranges that have no slot.
func (w *WriteSet) storedIn(ranges []span) ([]found, error) {
	v := viewOf(w)
	v.overlay = nil
	var all []found
	for _, r := range ranges {
		if r.end != nil && bytes.Compare(r.start, r.end) >= 0 {
			continue
		}
		err := v.each(r.start, r.end, func(key []byte, m *metadata) error {
			if w.overlay.find(key) < 0 {
				all = append(all, found{clone(key), *m})
			}
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return all, nil
}

// destruction returns what a Destroy must remove besides keys, and the kinds that an earlier
// Destroy kept. REQUIRES: store.life.
func (w *WriteSet) destruction() (d destruction, kept string, err error) {
	switch {
	case w.destroyed != nil: // in this set: it is done once
		d = *w.destroyed
		kept, d.kept = d.kept, ""
	case w.space.head.Destroyed:
		d.again, kept = true, w.space.head.kept
	case w.created != nil:
		d.tombstone.Identity = *w.created
	default:
		d.tombstone.Identity, _, d.named, err = w.space.store.identity(w.space.id)
	}
	return d, kept, err
}

// encode writes the rows of a destruction outside of the actor's keys.
func (d *destruction) encode(id keyspace.ActorID, set func(row, value []byte), clear func(row []byte)) {
	if d.again {
		return
	}
	i := d.tombstone.Identity
	if d.named {
		clear(keyspace.AppendDirectoryRow(nil, i.Namespace, i.Type, i.Key))
	}
	clear(keyspace.AppendIdentityRow(nil, id))
	set(keyspace.AppendTombstoneRow(nil, id), d.tombstone.append(nil))
}

// writable returns ErrDestroyed for a key that may no longer be written.
func (w *WriteSet) writable(key []byte) error {
	kept := w.space.head.kept
	if w.destroyed != nil {
		kept = w.destroyed.kept
	} else if !w.space.head.Destroyed {
		return nil
	}
	if strings.IndexByte(kept, key[0]) < 0 {
		return ErrDestroyed
	}
	return nil
}
