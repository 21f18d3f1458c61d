package engine

import (
	"bytes"
	"errors"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// An Aside is a batch of keys outside the turns of an actor: traces and usage only. They have no
// version of their own, no part in the actor's counts and quota, and DeleteRange of a write set
// leaves them alone. They are removed when the actor is destroyed. The batch is atomic and ordered
// among the commits of the space, but has no sync of its own: for asideDelay a power cut or the end
// of the process takes it back, unless a later commit was durable.
type Aside struct {
	space *Space
	batch any // *pebble.Batch
	kinds asides
	err   error
}

// asides marks the asideKinds that may have keys.
type asides [2]bool

// asideKinds are the kinds that an [Aside] writes, in their order.
var asideKinds = [len(asides{})]keyspace.Kind{keyspace.KindTraces, keyspace.Usage.Kind}

// add adds the kind of a key.
func (a *asides) add(key []byte) { a[slices.Index(asideKinds[:], keyspace.Kind(key[0]))] = true }

// join adds the kinds of b.
func (a *asides) join(b asides) {
	for i := range a {
		a[i] = a[i] || b[i]
	}
}

// ErrNotAside says that a key is not of the kind that an [Aside] holds, or that the actor has no
// commit yet.
var ErrNotAside = errors.New("engine: the key cannot be written aside")

// Aside applies the keys that write puts into a batch. It applies nothing if write fails or puts
// nothing. Unlike the other methods, any goroutine may call it, even during a turn, but write must
// not. The errors are those of write and of Commit, and ErrDestroyed.
func (sp *Space) Aside(write func(a *Aside) error) error {
	s := sp.store
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if err := sp.usable(); err != nil {
		return err
	}
	switch err := s.readOnly(); {
	case err != nil:
		return err
	case sp.head.Destroyed:
		return ErrDestroyed
	case sp.head.Version == 0:
		return ErrNotAside
	}
	if err := s.free.check(); err != nil {
		return err
	}
	batch := databaseOf(s).NewBatch()
	defer batch.Close()
	a := &Aside{space: sp, batch: batch}
	if err := write(a); err != nil {
		return err
	}
	if a.err != nil || batch.Empty() {
		return a.err
	}
	sp.asides.join(a.kinds)
	s.free.wrote(batch.Len())
	if err := applyUnsynced(s, batch); err != nil {
		return err
	}
	s.syncLater()
	return nil
}

// asideDelay is how long an aside batch waits for a sync, which all batches until then share.
// Without the sync, Pebble would keep the last batches in its own memory until the next commit, and
// a process that is killed would lose them.
const asideDelay = 5 * time.Second

// asideSync is the shared sync of aside batches.
type asideSync struct {
	due   atomic.Bool
	timer atomic.Pointer[time.Timer]
}

// syncLater syncs the log after asideDelay. REQUIRES: store.life.
func (s *Store) syncLater() {
	if s.opts.Durability == Sync && !s.aside.due.Swap(true) {
		s.aside.timer.Store(time.AfterFunc(asideDelay, s.syncAside))
	}
}

func (s *Store) syncAside() {
	if s.enter() != nil {
		return
	}
	defer s.leave()
	s.aside.due.Store(false)
	if s.readOnly() != nil {
		return
	}
	b := databaseOf(s).NewBatch()
	err := b.LogData(nil, nil)
	if err == nil {
		err = apply(s, b)
	}
	if err != nil {
		s.fail(err)
		return
	}
	s.gate.add(ticket{batch: b}) // waits without holding up Close
}

// stop ends the wait for a sync. A sync that has begun holds store.life.
func (a *asideSync) stop() {
	if timer := a.timer.Load(); timer != nil {
		timer.Stop()
	}
}

// AsideOf is [Space.Aside] for actors that are not open, in one batch for all. It calls write with
// the index of each actor, and returns the indexes of open actors, which it leaves alone. It skips
// actors without a commit, destroyed ones, and those whose head cannot be read. It also skips an
// actor if write returns such damage before it puts anything.
func (s *Store) AsideOf(ids []keyspace.ActorID, write func(i int, a *Aside) error) (open []int, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return nil, err
	}
	if err := s.free.check(); err != nil {
		return nil, err
	}
	// A space of its own keeps each actor from being opened: OpenSpace waits for its lock. It has
	// no commits.
	spaces := make([]Space, len(ids))
	s.spaces.mu.Lock()
	for i, id := range ids {
		if s.spaces.byID[id] != nil {
			open = append(open, i)
			continue
		}
		sp := &spaces[i]
		sp.store, sp.id = s, id
		sp.mu.Lock()
		s.spaces.byID[id] = sp
	}
	s.spaces.mu.Unlock()
	defer func() {
		for i := range spaces {
			if sp := &spaces[i]; sp.store != nil {
				sp.mu.Unlock()
				s.forget(sp)
			}
		}
	}()
	batch := databaseOf(s).NewBatch()
	defer batch.Close()
	for i := range spaces {
		sp := &spaces[i]
		if sp.store == nil {
			continue
		}
		root, ok, err := readRoot(databaseOf(s).DB, sp.id, false)
		if spoiled(err) {
			continue
		} else if err != nil {
			return open, err
		}
		if sp.head = root.head; !ok || sp.head.Destroyed || sp.head.Version == 0 {
			continue
		}
		a, before := Aside{space: sp, batch: batch}, batch.Count()
		if err := errors.Join(write(i, &a), a.err); err != nil && (!spoiled(err) || batch.Count() != before) {
			return open, err
		}
	}
	if err := s.readOnly(); err != nil { // a damaged table may have been read
		return open, err
	}
	if batch.Empty() {
		return open, nil
	}
	s.free.wrote(batch.Len())
	if err := applyUnsynced(s, batch); err != nil {
		return open, err
	}
	s.syncLater()
	return open, nil
}

// AppendValue is [WriteSet.AppendValue] as of before the batch.
func (a *Aside) AppendValue(dst, key []byte) ([]byte, bool, error) {
	return appendStored(dst, databaseOf(a.space.store).DB, a.space.id, key)
}

// Scan is [WriteSet.Scan] as of before the batch. f may put keys.
func (a *Aside) Scan(start, end []byte, f func(key, value []byte) bool) error {
	return view{store: databaseOf(a.space.store).DB, id: a.space.id}.scan(start, end, f)
}

// Size returns how many bytes the actor's keys and values take, and when it was created, in Unix
// milliseconds.
func (a *Aside) Size() (bytes, created int64) { return a.space.head.Bytes, a.space.head.Created }

// Put writes a key. A value of more than ChunkSize bytes must be the first of its key.
func (a *Aside) Put(key, value []byte) error {
	switch {
	case !aside(key):
		return ErrNotAside
	case len(key) > MaxKeyCap:
		return &LimitError{LimitKey, MaxKeyCap, int64(len(key))}
	case len(value) > MaxValueCap:
		return &LimitError{LimitValue, MaxValueCap, int64(len(value))}
	}
	a.kinds.add(key)
	id := a.space.id
	now := turnClock()
	meta := metadata{version: a.space.head.Version, created: now, updated: now, size: uint32(len(value))}
	row := meta.append(nil)
	if chunks := dataRows(key, len(value)); chunks == 0 {
		row = append(row, value...)
	} else {
		for chunk := range chunks {
			a.set(keyspace.AppendDataRow(nil, id, key, chunk), chunkOf(value, chunk))
		}
	}
	a.set(keyspace.AppendMetadataRow(nil, id, key), row)
	return a.err
}

func (a *Aside) set(row, value []byte) {
	if a.err == nil {
		a.err = a.batch.(*pebble.Batch).Set(row, value, nil)
	}
}

// DeleteRange removes the keys with start <= key < end.
func (a *Aside) DeleteRange(start, end []byte) error {
	if !aside(start) {
		return ErrNotAside
	}
	if _, limit := keyspace.Kind(start[0]).Range(); end == nil || bytes.Compare(end, limit) > 0 {
		return ErrNotAside
	}
	lower, upper := rowRange(a.space.id, start, end)
	if a.err == nil {
		a.err = a.batch.(*pebble.Batch).DeleteRange(lower, upper, nil)
	}
	return a.err
}

// aside reports whether a key is of a kind that is written aside.
func aside(key []byte) bool {
	return len(key) > 0 && slices.Contains(asideKinds[:], keyspace.Kind(key[0]))
}
