package engine

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// Entry is a logical key with its value.
type Entry struct {
	Key     []byte
	Value   []byte // nil in a list of keys only; not nil otherwise
	Version Version
	Created int64 // Unix ms; since the key was last absent or expired
	Updated int64 // Unix ms
	Expire  int64 // Unix ms; 0 is never
	Size    int   // bytes of the value
	// Encoding is PutOptions.Encoding of the Put.
	Encoding uint8
	Found    bool // false in a result of GetMany for a key that is absent
}

func (e *Entry) describe(m *metadata) {
	e.Version, e.Created, e.Updated, e.Expire = m.version, m.created, m.updated, m.expire
	e.Size, e.Encoding, e.Found = int(m.size), m.encoding, true
}

// visit calls f with the metadata of a key in the store, and with the value if it is in the same
// row. The value is valid in f only.
func visit(r reader, id keyspace.ActorID, key []byte, f func(m *metadata, inline []byte)) (ok bool, err error) {
	row := rowBuffer()
	defer row.free()
	row.b = keyspace.AppendMetadataRow(row.b[:0], id, key)
	_, err = get(r, row.b, func(b []byte) error {
		m, inline, exists, err := parseEntry(b)
		if ok = exists && err == nil; ok {
			f(&m, inline)
		}
		return err
	})
	return ok && err == nil, err
}

// readMetadata returns the metadata of a key in the store.
func readMetadata(r reader, id keyspace.ActorID, key []byte) (m metadata, ok bool, err error) {
	ok, err = visit(r, id, key, func(found *metadata, _ []byte) { m = *found })
	return m, ok, err
}

// readValue appends the value of a key in the store whose metadata is m to dst; the value is in
// data rows.
func readValue(dst []byte, r reader, id keyspace.ActorID, key []byte, m *metadata) ([]byte, error) {
	dst = slices.Grow(dst, int(m.size))[:len(dst)+int(m.size)]
	value := dst[len(dst)-int(m.size):]
	row := rowBuffer()
	defer row.free()
	if m.chunks <= 2 {
		for chunk := range int(m.chunks) {
			row.b = keyspace.AppendDataRow(row.b[:0], id, key, chunk)
			part := chunkOf(value, chunk)
			ok, err := get(r, row.b, func(data []byte) error { return fillChunk(part, data) })
			if err == nil && !ok {
				err = &CorruptError{Row: clone(row.b), Reason: "a chunk of the value is missing"}
			}
			if err != nil {
				return nil, err
			}
		}
		return dst, nil
	}
	row.b = keyspace.AppendDataRow(row.b[:0], id, key, 0)
	it, err := newIter(r, &pebble.IterOptions{LowerBound: row.b, UpperBound: keyspace.AppendMetadataRow(nil, id, key)})
	if err != nil {
		return nil, err
	}
	chunk := 0
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		row.b = keyspace.AppendDataRow(row.b[:0], id, key, chunk)
		var data []byte
		if data, err = it.ValueAndErr(); err == nil {
			if !bytes.Equal(it.Key(), row.b) || chunk >= int(m.chunks) {
				err = &CorruptError{Row: clone(it.Key()), Reason: "chunks of the value are out of order"}
			} else {
				err = at(row.b, fillChunk(chunkOf(value, chunk), data))
			}
		}
		chunk++
	}
	if err == nil {
		err = it.Error()
	}
	if err == nil && chunk != int(m.chunks) {
		err = &CorruptError{Row: clone(row.b), Reason: "a chunk of the value is missing"}
	}
	if err := errors.Join(err, it.Close()); err != nil {
		return nil, err
	}
	return dst, nil
}

// chunkOf returns the part of a value that one chunk holds.
func chunkOf(value []byte, chunk int) []byte {
	from := chunk * ChunkSize
	return value[from:min(from+ChunkSize, len(value))]
}

func fillChunk(part, data []byte) error {
	if len(data) != len(part) {
		return &CorruptError{Reason: "a chunk has not the size that the metadata tells"}
	}
	copy(part, data)
	return nil
}

// readEntry returns a key of the store, as of now.
func readEntry(r reader, id keyspace.ActorID, key []byte, now int64) (e Entry, ok bool, err error) {
	var m metadata
	ok, err = visit(r, id, key, func(found *metadata, inline []byte) {
		if m = *found; m.chunks == 0 && !m.expired(now) {
			e.Value = append([]byte{}, inline...)
		}
	})
	if !ok || err != nil || m.expired(now) {
		return Entry{}, false, err
	}
	if m.chunks > 0 {
		if e.Value, err = readValue(nil, r, id, key, &m); err != nil {
			return Entry{}, false, err
		}
	}
	e.Key = key
	e.describe(&m)
	return e, true, nil
}

// Peek returns the entry of a key as the last applied commit left it, without a snapshot. If its
// Version is not later than an earlier commit, the entry is also that of the earlier commit. Peek
// returns only small entries, and false for other ones and absent ones. The caller may keep Value;
// Key is the argument.
func (s *Store) Peek(id keyspace.ActorID, key []byte) (e Entry, known bool, err error) {
	if err := s.enter(); err != nil {
		return Entry{}, false, err
	}
	defer s.leave()
	now := turnClock()
	ok, err := visit(databaseOf(s).DB, id, key, func(m *metadata, inline []byte) {
		if known = m.chunks == 0 && !m.expired(now); known {
			e = Entry{Key: key, Value: append([]byte{}, inline...)}
			e.describe(m)
		}
	})
	return e, ok && known && err == nil, err
}

// clock returns the time that decides which keys have expired.
func (w *WriteSet) clock() int64 {
	if w.turned {
		return w.now()
	}
	return turnClock()
}

// Get returns the entry of a key, and false if it is absent or has expired by the clock of the
// turn. The caller may keep Value; Key is the argument.
func (w *WriteSet) Get(key []byte) (Entry, bool, error) {
	now := w.clock()
	if i := w.overlay.find(key); i >= 0 {
		sl := &w.overlay.slots[i]
		if !sl.live || sl.meta.expired(now) {
			return Entry{}, false, nil
		}
		e := Entry{Key: key, Value: append([]byte{}, sl.value...)}
		e.describe(&sl.meta)
		return e, true, nil
	}
	sp := w.space
	if sp.head.Keys == 0 || w.hidden(key) {
		return Entry{}, false, nil
	}
	m := sp.state.meta
	if isState(key) && (!sp.state.exists || m.expired(now)) {
		return Entry{}, false, nil
	}
	if err := sp.store.enter(); err != nil {
		return Entry{}, false, err
	}
	defer sp.store.leave()
	if isState(key) && m.chunks == 0 {
		e := Entry{Key: key, Value: append([]byte{}, sp.state.value...)}
		e.describe(&m)
		return e, true, nil
	}
	return readEntry(databaseOf(sp.store).DB, sp.id, key, now)
}

// GetMany returns the entries of the keys, in their order; Found says which exist.
func (w *WriteSet) GetMany(keys [][]byte) ([]Entry, error) {
	return getMany(keys, w.Get)
}

func getMany(keys [][]byte, get func([]byte) (Entry, bool, error)) ([]Entry, error) {
	entries := make([]Entry, len(keys))
	for i, key := range keys {
		e, ok, err := get(key)
		if err != nil {
			return nil, err
		}
		if !ok {
			e = Entry{Key: key}
		}
		entries[i] = e
	}
	return entries, nil
}
