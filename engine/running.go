package engine

import (
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// runningName names the metadata row that exists while a node runs on the store.
const runningName = "running"

// MarkRunning records durably that a node runs on the store, and reports whether the previous node
// ended without MarkStopped: by a crash, a signal or a power cut. A store of a version without the
// mark counts as stopped in order. Tools that only read a store do not call it, so they do not
// change the result.
func (s *Store) MarkRunning() (unclean bool, err error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	row := keyspace.AppendMetaRow(nil, runningName)
	_, closer, err := databaseOf(s).Get(row)
	if err == nil {
		return true, damaged(closer.Close())
	}
	if !errors.Is(err, pebble.ErrNotFound) {
		return false, damaged(err)
	}
	return false, s.mark(func(o *pebble.WriteOptions) error { return databaseOf(s).Set(row, []byte{1}, o) })
}

// MarkStopped records durably that the node stops in order.
func (s *Store) MarkStopped() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	row := keyspace.AppendMetaRow(nil, runningName)
	return s.mark(func(o *pebble.WriteOptions) error { return databaseOf(s).Delete(row, o) })
}

// mark writes the mark as durably as the store's commits are.
func (s *Store) mark(write func(o *pebble.WriteOptions) error) error {
	if err := s.readOnly(); err != nil {
		return err
	}
	how := pebble.Sync
	if s.opts.Durability == NoSync {
		how = pebble.NoSync
	}
	return s.guarded(func() error { return write(how) })
}
