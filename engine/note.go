package engine

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// notePrefix begins the names of the metadata rows that are notes.
const notePrefix = "note: "

// Note returns the value of SetNote under a name, or nil if there is none.
func (s *Store) Note(name string) ([]byte, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	value, closer, err := databaseOf(s).Get(keyspace.AppendMetaRow(nil, notePrefix+name))
	if errors.Is(err, pebble.ErrNotFound) {
		return nil, nil
	}
	if err != nil {
		return nil, damaged(err)
	}
	value = bytes.Clone(value)
	return value, damaged(closer.Close())
}

// SetNote keeps a value of the store itself, not of an actor, as durably as a commit.
func (s *Store) SetNote(name string, value []byte) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	row := keyspace.AppendMetaRow(nil, notePrefix+name)
	return s.mark(func(o *pebble.WriteOptions) error { return databaseOf(s).Set(row, value, o) })
}
