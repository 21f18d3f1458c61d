package engine

import (
	"bytes"
	"crypto/rand"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/zeebo/xxh3"

	"github.com/cairn-run/cairn/keyspace"
)

// NewActorID makes an id for a new life of the actor: its slot from the hash of
// the identity, the time, and 74 random bits.
func (s *Store) NewActorID(i Identity) keyspace.ActorID {
	var random [10]byte
	rand.Read(random[:]) // never fails
	return keyspace.NewActorID(Slot(i), uint32(time.Now().Unix()), random)
}

// Slot returns the hash slot of an actor: xxh3-64 of its identity modulo
// keyspace.Slots.
func Slot(i Identity) uint16 {
	var buf [128]byte
	return uint16(xxh3.Hash(keyspace.AppendSlotInput(buf[:0], i.Namespace, i.Type, i.Key)) % keyspace.Slots)
}

// Lookup returns the id of the actor with this name, and false if there is none.
func (s *Store) Lookup(i Identity) (keyspace.ActorID, bool, error) {
	if err := s.enter(); err != nil {
		return keyspace.ActorID{}, false, err
	}
	defer s.leave()
	row := rowBuffer()
	defer row.free()
	row.b = keyspace.AppendDirectoryRow(row.b[:0], i.Namespace, i.Type, i.Key)
	return directoryEntry(databaseOf(s).DB, row.b)
}

func directoryEntry(r reader, row []byte) (id keyspace.ActorID, ok bool, err error) {
	ok, err = get(r, row, func(value []byte) (err error) {
		id, err = parseDirectory(value)
		return err
	})
	return id, ok, err
}

// Identity returns the name of an actor and when it was created, in Unix ms. It
// returns false for an actor that does not exist or was destroyed.
func (s *Store) Identity(id keyspace.ActorID) (i Identity, created int64, ok bool, err error) {
	if err := s.enter(); err != nil {
		return Identity{}, 0, false, err
	}
	defer s.leave()
	return s.identity(id)
}

func (s *Store) identity(id keyspace.ActorID) (i Identity, created int64, ok bool, err error) {
	return identityOf(databaseOf(s).DB, id)
}

func identityOf(r reader, id keyspace.ActorID) (i Identity, created int64, ok bool, err error) {
	row := rowBuffer()
	defer row.free()
	row.b = keyspace.AppendIdentityRow(row.b[:0], id)
	ok, err = get(r, row.b, func(value []byte) (err error) {
		i, created, err = parseIdentity(value)
		return err
	})
	return i, created, ok, err
}

// Tombstone returns the tombstone of a destroyed actor, and false if the actor was not destroyed.
func (s *Store) Tombstone(id keyspace.ActorID) (t Tombstone, ok bool, err error) {
	if err := s.enter(); err != nil {
		return Tombstone{}, false, err
	}
	defer s.leave()
	return s.tombstone(id)
}

func (s *Store) tombstone(id keyspace.ActorID) (t Tombstone, ok bool, err error) {
	row := rowBuffer()
	defer row.free()
	row.b = keyspace.AppendTombstoneRow(row.b[:0], id)
	ok, err = get(databaseOf(s).DB, row.b, func(value []byte) (err error) {
		t, err = parseTombstone(value)
		return err
	})
	return t, ok, err
}

// ActorsQuery selects actors of one namespace.
type ActorsQuery struct {
	Namespace string
	Type      string   // empty: all types
	Prefix    []string // first parts of the key; only with a Type
	Limit     int      // 0: DefaultActors
	Cursor    string   // of the page before
	Brief     bool     // leaves out the heads, which cost a read for each actor
}

// DefaultActors is how many actors a page has if the query sets no limit.
const DefaultActors = 256

// ActorEntry is an actor in the directory.
type ActorEntry struct {
	ID       keyspace.ActorID
	Identity Identity
	Head     Head
}

// ActorsPage is a part of the directory. Cursor is empty on the last page.
type ActorsPage struct {
	Actors []ActorEntry
	Cursor string
}

// Actors lists actors in the order of type and key, from one consistent state of
// the store. An actor created or destroyed between two pages may be missed or
// seen.
func (s *Store) Actors(q ActorsQuery) (page ActorsPage, err error) {
	page.Cursor, err = s.EachActor(q, func(e *ActorEntry) {
		if page.Actors == nil {
			page.Actors = make([]ActorEntry, 0, min(q.limit(), 1024))
		}
		page.Actors = append(page.Actors, *e)
	})
	if err != nil {
		return ActorsPage{}, err
	}
	return page, nil
}

// EachActor calls visit for each entry of the page that Actors returns, and returns the page's
// cursor. The entry is valid during the call, its strings and key also afterwards. After an error
// the entries are not a page. visit must not call the store, which cannot be closed while it runs.
func (s *Store) EachActor(q ActorsQuery, visit func(*ActorEntry)) (cursor string, err error) {
	if err := s.enter(); err != nil {
		return "", err
	}
	defer s.leave()
	if q.Type == "" {
		q.Prefix = nil
	}
	start := keyspace.AppendDirectoryPrefix(nil, q.Namespace, q.Type, q.Prefix)
	end := keyspace.TupleEnd(start)
	if q.Cursor != "" {
		after, err := base64.RawURLEncoding.DecodeString(q.Cursor)
		if err != nil || len(after) <= len(start) || string(after[:len(start)]) != string(start) {
			if err != nil || string(after) != string(start) {
				return "", fmt.Errorf("%w: %q", ErrCursor, q.Cursor)
			}
		}
		start = append(after, 0)
	}
	r := reader(databaseOf(s))
	if !q.Brief { // else the iterator is all that is read
		snapshot := databaseOf(s).NewSnapshot()
		defer snapshot.Close()
		r = snapshot
	}
	it, err := newIter(r, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return "", err
	}
	known := 0
	if q.Type != "" {
		known = len(keyspace.AppendDirectoryPrefix(nil, q.Namespace, q.Type, nil))
	}
	err = func() error {
		var last []byte
		var e ActorEntry
		left := q.limit()
		for ok := it.First(); ok; ok = it.Next() {
			if left == 0 {
				cursor = base64.RawURLEncoding.EncodeToString(last)
				return nil
			}
			err := fillEntry(&q, &e, &it, known)
			if err == nil && !q.Brief {
				e.Head, err = readHead(r, e.ID)
			}
			if err != nil {
				return err
			}
			visit(&e)
			if left--; left == 0 {
				last = clone(it.Key())
			}
		}
		return it.Error()
	}()
	if err := errors.Join(err, it.Close()); err != nil {
		return "", err
	}
	return cursor, nil
}

func (q *ActorsQuery) limit() int {
	if q.Limit <= 0 {
		return DefaultActors
	}
	return q.Limit
}

// ActorsCursor returns the cursor of a page that ends with an actor.
func ActorsCursor(i Identity) string {
	return base64.RawURLEncoding.EncodeToString(keyspace.AppendDirectoryRow(nil, i.Namespace, i.Type, i.Key))
}

// Covers reports whether an actor, if it exists, is on the page of the query that ends with the
// cursor next.
func (q ActorsQuery) Covers(next string, actor Identity) bool {
	if q.Type == "" {
		q.Prefix = nil
	}
	start := keyspace.AppendDirectoryPrefix(nil, q.Namespace, q.Type, q.Prefix)
	row := keyspace.AppendDirectoryRow(nil, actor.Namespace, actor.Type, actor.Key)
	after, err := base64.RawURLEncoding.DecodeString(q.Cursor)
	last, lerr := base64.RawURLEncoding.DecodeString(next)
	return err == nil && lerr == nil && bytes.Compare(row, start) >= 0 &&
		bytes.Compare(row, keyspace.TupleEnd(start)) < 0 &&
		(q.Cursor == "" || bytes.Compare(row, after) > 0) && (next == "" || bytes.Compare(row, last) <= 0)
}

// Types lists the types that have actors in a namespace, in their order. It reads one row of each.
// The error is ErrDamaged for a table that cannot be read.
func (s *Store) Types(namespace string) ([]string, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	start := keyspace.AppendDirectoryPrefix(nil, namespace, "", nil)
	it, err := newIter(databaseOf(s).DB, &pebble.IterOptions{LowerBound: start, UpperBound: keyspace.TupleEnd(start)})
	if err != nil {
		return nil, err
	}
	var types []string
	for ok := it.First(); ok; {
		_, typ, _, err := keyspace.ParseDirectoryRow(it.Key())
		if err != nil {
			return nil, errors.Join(&CorruptError{Row: clone(it.Key()), Reason: err.Error()}, it.Close())
		}
		types = append(types, typ)
		ok = it.SeekGE(keyspace.TupleEnd(keyspace.AppendDirectoryPrefix(nil, namespace, typ, nil)))
	}
	return types, errors.Join(it.Error(), it.Close())
}

// fillEntry reads a directory row into e, without the head. All rows begin with the same known
// bytes if the query has a type.
func fillEntry(q *ActorsQuery, e *ActorEntry, it *iterator, known int) (err error) {
	i := &e.Identity
	if known > 0 {
		i.Namespace, i.Type = q.Namespace, q.Type
		i.Key, err = keyspace.ParseDirectoryKey(it.Key(), known)
	} else {
		i.Namespace, i.Type, i.Key, err = keyspace.ParseDirectoryRow(it.Key())
	}
	if err != nil {
		return &CorruptError{Row: clone(it.Key()), Reason: err.Error()}
	}
	value, err := it.ValueAndErr()
	if err != nil {
		return err
	}
	e.ID, err = parseDirectory(value)
	return at(it.Key(), err)
}

// readHead returns the head of an actor; the zero Head if it has none.
func readHead(r reader, id keyspace.ActorID) (Head, error) {
	a, _, err := readRoot(r, id, false)
	return a.Head, err
}

// readRoot returns the head of an actor and the metadata of its state; ok is false if the store has
// no head of the actor. value: it also returns a state in the root.
func readRoot(r reader, id keyspace.ActorID, value bool) (a root, ok bool, err error) {
	row := rowBuffer()
	defer row.free()
	row.b = keyspace.AppendMetadataRow(row.b[:0], id, stateKey())
	_, err = get(r, row.b, func(b []byte) (err error) {
		if ok = len(b) > 0 && b[0] == rootFormat; ok {
			a, err = parseRoot(b)
			inline := a.state.value // valid in here only
			if a.state.value = nil; value {
				a.state.value = append([]byte{}, inline...)
			}
			return err
		}
		a.state.exists = true
		a.state.meta, _, err = parseMetadata(b)
		return err
	})
	if ok || err != nil {
		return a, ok && err == nil, err
	}
	row.b = keyspace.AppendHeadRow(row.b[:0], id)
	a.old, err = get(r, row.b, func(b []byte) (err error) {
		a.head, err = parseHead(b)
		return err
	})
	return a, a.old, err
}

// takeName makes sure that the name a write set creates is free, and keeps it
// from other commits until release is called: of two spaces that create the same
// name, the second to commit gets ErrExists.
func (s *Store) takeName(w *WriteSet) (release func(), err error) {
	if w.created == nil {
		return func() {}, nil
	}
	row := keyspace.AppendDirectoryRow(nil, w.created.Namespace, w.created.Type, w.created.Key)
	name := string(row)
	s.names.mu.Lock()
	_, taken := s.names.taken[name]
	if !taken {
		s.names.taken[name] = struct{}{}
	}
	s.names.mu.Unlock()
	if taken {
		return nil, ErrExists
	}
	release = func() {
		s.names.mu.Lock()
		delete(s.names.taken, name)
		s.names.mu.Unlock()
	}
	_, taken, err = directoryEntry(databaseOf(s).DB, row)
	if err == nil && taken {
		err = ErrExists
	}
	if err != nil {
		release()
		return nil, err
	}
	return release, nil
}
