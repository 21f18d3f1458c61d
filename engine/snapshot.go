package engine

import (
	"errors"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// Snapshot is the state of an actor as of its last applied commit. The commit may not be durable
// yet: values that were read may leave the node only when the version in its Head is durable (see
// Space.Durable, or commit an empty write set).
//
// Its methods may be called by several goroutines, but not during or after Close. An open snapshot
// keeps Pebble from dropping old rows, so it should not stay open for long.
type Snapshot struct {
	*opened
	now int64
}

// An opened is the shared part of the snapshots of one state.
type opened struct {
	store *Store
	id    keyspace.ActorID
	snap  any   // *pebble.Snapshot: see databaseOf
	err   error // reason why there is no snapshot
	done  atomic.Bool
	place place

	prev, next *opened // in the store's list
}

func snapOf(o *opened) *pebble.Snapshot { return o.snap.(*pebble.Snapshot) }

// Snapshot returns the state of the actor as of its last applied commit. Keys that have expired by
// now read as absent. It may be called by any goroutine.
func (sp *Space) Snapshot() *Snapshot { return sp.SnapshotAt(turnClock()) }

// SnapshotAt is Snapshot with the clock, in Unix ms, that decides which keys have expired.
func (sp *Space) SnapshotAt(nowMS int64) *Snapshot {
	s := sp.store
	sn := &Snapshot{&opened{store: s, id: sp.id}, nowMS}
	if sn.err = s.enter(); sn.err != nil {
		return sn
	}
	defer s.leave()
	sn.snap = databaseOf(s).NewSnapshot()
	s.snapshots.mu.Lock()
	if sn.next = s.snapshots.open; sn.next != nil {
		sn.next.prev = sn.opened
	}
	s.snapshots.open = sn.opened
	s.snapshots.mu.Unlock()
	return sn
}

// At returns the same state with another clock, in Unix ms. Closing one of them closes both.
func (sn *Snapshot) At(nowMS int64) *Snapshot { return &Snapshot{sn.opened, nowMS} }

// enter begins a read.
func (sn *Snapshot) enter() error {
	if sn.err != nil {
		return sn.err
	}
	if sn.done.Load() {
		return ErrClosed
	}
	return sn.store.enter()
}

// Head returns the head of the actor; the zero Head if it has none.
func (sn *Snapshot) Head() (Head, error) {
	if err := sn.enter(); err != nil {
		return Head{}, err
	}
	defer sn.store.leave()
	return readHead(snapOf(sn.opened), sn.id)
}

// Get returns the entry of a key, and false if it is absent or has expired. The caller may keep
// Value; Key is the argument.
func (sn *Snapshot) Get(key []byte) (Entry, bool, error) {
	if err := sn.enter(); err != nil {
		return Entry{}, false, err
	}
	defer sn.store.leave()
	return readEntry(snapOf(sn.opened), sn.id, key, sn.now)
}

// GetMany returns the entries of the keys, in their order; Found says which exist.
func (sn *Snapshot) GetMany(keys [][]byte) ([]Entry, error) {
	return getMany(keys, sn.Get)
}

// List returns entries in the order of their keys.
func (sn *Snapshot) List(q ListQuery) (Page, error) {
	if err := sn.enter(); err != nil {
		return Page{}, err
	}
	defer sn.store.leave()
	return view{store: snapOf(sn.opened), id: sn.id}.list(q, sn.now, &sn.store.opts.Limits)
}

// Each is [WriteSet.Each] as of the snapshot. If visit stops a visit with After, a next one is
// expected: an iterator stays open until DropPlace or Close, and keeps memory and files that the
// store has replaced.
func (sn *Snapshot) Each(q ListQuery, visit func(*Entry) bool) error {
	if err := sn.enter(); err != nil {
		return err
	}
	defer sn.store.leave()
	return view{store: snapOf(sn.opened), id: sn.id, place: &sn.place}.entries(&q, sn.now, visit)
}

// DropPlace closes the iterator of a stopped visit that will not continue.
func (sn *Snapshot) DropPlace() {
	if sn.enter() == nil {
		sn.place.drop()
		sn.store.leave()
	}
}

// Close releases the snapshot. A second Close does nothing.
func (sn *Snapshot) Close() error {
	if sn.err != nil {
		return nil
	}
	s := sn.store
	if s.enter() != nil {
		return nil // the store has closed it, or is about to
	}
	defer s.leave()
	if sn.done.Swap(true) {
		return nil
	}
	s.snapshots.mu.Lock()
	if sn.prev != nil {
		sn.prev.next = sn.next
	} else {
		s.snapshots.open = sn.next
	}
	if sn.next != nil {
		sn.next.prev = sn.prev
	}
	s.snapshots.mu.Unlock()
	return sn.close()
}

func (o *opened) close() error {
	o.place.close()
	return snapOf(o).Close()
}

// closeSnapshots closes all snapshots. REQUIRES: the store is closed.
func (s *Store) closeSnapshots() error {
	var errs []error
	for sn := s.snapshots.open; sn != nil; sn = sn.next {
		if !sn.done.Swap(true) {
			errs = append(errs, sn.close())
		}
	}
	return errors.Join(errs...)
}

// Snapshot returns the state of an actor as of its last applied commit, without opening its space.
// It is for actors that are asleep or run in another goroutine. Expired keys read as absent.
func (s *Store) Snapshot(id keyspace.ActorID) *Snapshot {
	return (&Space{store: s, id: id}).Snapshot()
}
