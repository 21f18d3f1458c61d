package engine

import (
	"encoding/binary"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// A database is Pebble's database, which applies batches and waits for the log. Only it knows how;
// the three modes keep the same contract:
//
//   - pipelined: ApplyNoSyncWait returns when the batch can be read, SyncWait when it is durable.
//     Pebble calls this experimental, so it stays in here.
//   - plain: Apply without sync, then, once for all batches that wait, a log record with sync. The
//     log is synced in order and whole, and a log that is rotated meanwhile is synced when it is
//     closed, so the batches before are durable too. Uses nothing experimental; a little slower for
//     a lone commit.
//   - none: Apply without sync. Nothing to wait for.
type database struct {
	*pebble.DB
	how commitMode
}

// databaseOf returns the database of a store. Each package that uses a type compiles again the
// generic code that the fields and methods of the type mention. Pebble has so much of it that each
// of 40 packages took 0.7 s longer. So exported types do not mention Pebble.
func databaseOf(s *Store) *database { return s.db.(*database) }

type commitMode uint8

const (
	commitPipelined commitMode = iota
	commitPlain
	commitUnsynced
)

// commit makes the batch visible to readers.
func (d *database) commit(b *pebble.Batch) error {
	if d.how == commitPipelined {
		return d.ApplyNoSyncWait(b, pebble.Sync)
	}
	return d.Apply(b, pebble.NoSync)
}

// settle is called by the gate before it waits for batches, all of which were
// committed before.
func (d *database) settle() error {
	if d.how == commitPlain {
		return d.LogData(nil, pebble.Sync)
	}
	return nil
}

// wait returns when the batch is durable.
func (d *database) wait(b *pebble.Batch) error {
	if d.how == commitPipelined {
		return b.SyncWait()
	}
	return nil
}

// Commit applies the write set as one atomic batch and empties it. It returns the actor's version
// as soon as readers see the batch; onDurable is called when a power cut can no longer take it
// back, or with the error if that is unknown.
//
// onDurable may be nil. It is called exactly once, from the gate's goroutine, in the order of the
// space's commits, and must not block or call Commit. If many commits wait to become durable,
// Commit blocks until some are.
//
// A write set without changes and without Advance writes nothing: Commit returns the current
// version, and onDurable is called when all earlier commits of the space are durable.
//
// If Commit returns an error, nothing was written, onDurable is not called, and the write set is as
// it was, so the caller may Rollback or try again: ErrFenced, ErrClosed, ErrExists, ErrDiskFull,
// ErrReadOnly. The exception: if the error is also ErrUncertain, Pebble failed in the middle, and
// it is unknown whether the batch is in the log.
func (sp *Space) Commit(onDurable func(error)) (Version, error) {
	s := sp.store
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	sp.mu.Lock()
	defer sp.mu.Unlock()
	if err := sp.usable(); err != nil {
		return 0, err
	}
	if err := s.readOnly(); err != nil {
		return 0, err
	}
	w := &sp.set
	if !w.turned {
		s.gate.add(ticket{space: sp, notify: onDurable, upTo: sp.head.Version})
		return sp.head.Version, nil
	}
	if err := s.free.checkCommit(w.shrinks()); err != nil {
		return 0, err
	}
	release, err := s.takeName(w)
	if err != nil {
		return 0, err
	}
	defer release()

	next := w.nextHead()
	listing := relistings.Get().(*relisting)
	defer listing.free()
	if err := w.relist(listing, &next); err != nil {
		sp.listing = nil // it includes the rows of this set
		return 0, err
	}
	batch := newBatch(s, w)
	rows, log := s.outbox.begin(w), s.audit.begin(w.records(true))
	size, err := encode(w, batch, &next, rows, log, listing)
	if err == nil {
		err = apply(s, batch)
	}
	if err != nil {
		s.fail(err)
		return 0, fmt.Errorf("%w: %w", ErrUncertain, s.readOnly())
	}
	s.formatted()
	s.metrics.commits.Add(1)
	s.metrics.commitBytes.Add(uint64(size))
	s.free.wrote(size)
	sp.head, sp.oldHead = next, false
	sp.written.commit(w, &s.written)
	w.committed()
	s.gate.add(ticket{batch: batch, space: sp, notify: onDurable, upTo: next.Version, outbox: rows, audit: log})
	return next.Version, nil
}

// apply applies a batch of a commit.
func apply(s *Store, b *pebble.Batch) error {
	return s.guarded(func() error { return databaseOf(s).commit(b) })
}

// applyUnsynced applies a batch of the node's own rows that a power cut may take
// back.
func applyUnsynced(s *Store, b *pebble.Batch) error {
	err := s.guarded(func() error { return databaseOf(s).Apply(b, pebble.NoSync) })
	if err != nil {
		s.fail(err)
	}
	return err
}

// guarded calls a write of Pebble, and recovers if Pebble panics because it is broken. The store is
// then read-only, and its database is never written or closed again: its locks may be held.
func (s *Store) guarded(write func() error) (err error) {
	defer func() {
		if r := recover(); r != nil {
			s.broken.Store(true)
			err = fmt.Errorf("engine: pebble panicked: %v", r)
		}
	}()
	return write()
}

// shrinks reports whether the actor has less after the commit than before.
func (w *WriteSet) shrinks() bool {
	return w.destroyed != nil || w.bytes < w.space.head.Bytes
}

// nextHead returns the head as it will be after the commit of the write set.
func (w *WriteSet) nextHead() head {
	h := w.space.head
	h.Generation = w.space.generation
	h.Version = w.version
	// Keys and bytes fall below zero only if a caller set PutOptions.New or Known
	// wrongly. The head must be readable even then.
	h.Keys, h.Bytes = max(0, w.keys), max(0, w.bytes)
	h.Updated = w.at
	if h.Created == 0 {
		h.Created = w.at
	}
	if w.destroyed != nil {
		h.Destroyed, h.kept = true, w.destroyed.kept
	}
	return h
}

// newBatch returns a batch for the rows of a write set. A large batch gets its
// memory at once: a batch that grows doubles, and copies its content each time.
func newBatch(s *Store, w *WriteSet) *pebble.Batch {
	const large = 256 << 10
	if w.Bytes() < large {
		return databaseOf(s).NewBatch()
	}
	const rows = 128 // of a slot, beyond key and value
	size := 4 << 10
	for i := range w.overlay.slots {
		sl := &w.overlay.slots[i]
		size += len(sl.value) + 3*len(sl.key) + rows
	}
	for i := range w.overlay.records {
		size += len(w.overlay.records[i].data) + rows/2
	}
	return databaseOf(s).NewBatchWithSize(size)
}

// encode writes the rows of the write set into a batch: first the ranges, then
// everything that may lie in one.
func encode(w *WriteSet, b *pebble.Batch, next *head, outbox, log numbers, listing *relisting) (int, error) {
	id := w.space.id
	row := rowBuffer()
	defer row.free()
	var err error
	set := func(key, value []byte) {
		if err == nil {
			err = b.Set(key, value, nil)
		}
	}
	clear := func(key []byte) {
		if err == nil {
			err = b.Delete(key, nil)
		}
	}
	clearRange := func(start, end []byte) {
		if err == nil {
			err = b.DeleteRange(start, end, nil)
		}
	}
	var mark [maxCommitMark]byte
	if synced := w.space.store.guard.mark.appendMark(mark[:0]); len(synced) > 0 {
		err = b.LogData(synced, nil) // first, where it is found after a damage
	}
	w.space.store.setFormat(set)
	for _, r := range w.ranges {
		start, end := rowRange(id, r.start, r.end)
		clearRange(start, end)
	}
	if w.destroyed != nil {
		w.destroyed.asides.join(w.space.asides)
		for i, has := range w.destroyed.asides {
			if has {
				start, end := asideKinds[i].Range()
				clearRange(rowRange(id, start, end))
			}
		}
		w.destroyed.encode(id, set, clear)
	}
	if w.created != nil {
		row.b = keyspace.AppendDirectoryRow(row.b[:0], w.created.Namespace, w.created.Type, w.created.Key)
		set(row.b, appendDirectory(nil, id))
		row.b = keyspace.AppendIdentityRow(row.b[:0], id)
		set(row.b, appendIdentity(nil, *w.created, w.at))
	}
	for _, op := range listing.ops {
		if op.set {
			row.value = appendDirectory(row.value[:0], id)
			set(op.row, row.value)
		} else {
			clear(op.row)
		}
	}
	// The rows of the actor, its root included, come one after the other: a memtable takes
	// neighbours faster.
	var value [maxMetadata]byte
	if o := w.overlay; o != nil {
		for i := range o.slots {
			sl := &o.slots[i]
			kept := 0
			if sl.live {
				kept = int(sl.meta.chunks)
				for chunk := range kept {
					from := chunk * ChunkSize
					row.b = keyspace.AppendDataRow(row.b[:0], id, sl.key, chunk)
					set(row.b, sl.value[from:min(from+ChunkSize, len(sl.value))])
				}
			}
			if old := int(sl.base.chunks); sl.stored && old > kept {
				if old-kept > pointDeletes {
					from := keyspace.AppendDataRow(nil, id, sl.key, kept)
					clearRange(from, keyspace.AppendMetadataRow(nil, id, sl.key))
				} else {
					for chunk := kept; chunk < old; chunk++ {
						row.b = keyspace.AppendDataRow(row.b[:0], id, sl.key, chunk)
						clear(row.b)
					}
				}
			}
			if isState(sl.key) {
				continue // it is in the root
			}
			if sl.live {
				row.b = keyspace.AppendMetadataRow(row.b[:0], id, sl.key)
				meta := sl.meta.append(value[:0])
				if kept > 0 {
					set(row.b, meta)
					continue
				}
				d := b.SetDeferred(len(row.b), len(meta)+len(sl.value))
				copy(d.Key, row.b)
				copy(d.Value[copy(d.Value, meta):], sl.value)
				if err == nil {
					err = d.Finish()
				}
			} else if sl.stored {
				row.b = keyspace.AppendMetadataRow(row.b[:0], id, sl.key)
				clear(row.b)
			}
		}
		for _, op := range o.wakes {
			if op.set {
				set(op.row, nil)
			} else {
				clear(op.row)
			}
		}
		for _, record := range o.records {
			if record.audit {
				w.space.store.audit.encode(log.first, record.data, set)
				log.first++
				continue
			}
			row.b = keyspace.AppendOutboxRow(row.b[:0], outbox.first)
			set(row.b, record.data)
			outbox.first++
		}
	}
	if w.space.oldHead {
		row.b = keyspace.AppendHeadRow(row.b[:0], id)
		clear(row.b)
	}
	row.b = keyspace.AppendMetadataRow(row.b[:0], id, stateKey())
	if next.Destroyed && next.Keys == 0 {
		clear(row.b)
	} else {
		state := w.nextState()
		row.value = next.appendRoot(row.value[:0], &state)
		set(row.b, row.value)
	}
	return b.Len(), err
}

// setFormat writes the format rows in the first commits to a store of an older format. So the store
// never has rows of this format without them, even after a crash.
func (s *Store) setFormat(set func(row, value []byte)) {
	older := s.older.Load()
	if older == 0 {
		return
	}
	if older < 2 { // later formats have the row if they were made with it
		set(keyspace.AppendMetaRow(nil, firstFormatRow), binary.AppendUvarint(nil, older))
	}
	set(keyspace.AppendMetaRow(nil, formatRow), binary.AppendUvarint(nil, StoreFormat))
}

// formatted notes that the rows of setFormat are written.
func (s *Store) formatted() {
	if older := s.older.Load(); older != 0 && s.older.CompareAndSwap(older, 0) {
		s.opts.Logger.Info("the store has the format of this version from now on", "format",
			StoreFormat, "before", older)
	}
}

// pointDeletes is the most rows or keys that are deleted one by one. A range tombstone is cheap to
// write but costly to read past, so it must replace many deletions.
const pointDeletes = 64

// turnClock is the clock of a write set whose time was never set.
func turnClock() int64 { return time.Now().UnixMilli() }
