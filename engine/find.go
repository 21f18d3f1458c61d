package engine

import (
	"bytes"
	"errors"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// ErrListing says that the listing index is not built; see [Store.BuildListing].
var ErrListing = errors.New("engine: the index of actors is not built yet")

// A FindQuery is a walk over the actors of one type in one order.
type FindQuery struct {
	Namespace, Type string
	// Prefix has the first parts of the keys. It bounds a walk in the order of the keys, or with a Value.
	Prefix []string
	// Field is the order: an element of a tuple, the number of a [keyspace.ListingField] or the name of an attribute. Nil is the
	// order of the keys, which needs no index.
	Field []byte
	// Value is the only value of the field, an element of a tuple. An actor without the attribute has none.
	Value []byte
	// From and To bound the values of the field otherwise, as bytes: From <= value < To. Nil has no bound.
	From, To []byte
	Reverse  bool
	After    []byte // Row of the entry before the first
}

// bounds returns the rows of the query, and how many bytes of them are known.
func (q *FindQuery) bounds() (start, end []byte, known int) {
	if q.Field == nil {
		start = keyspace.AppendDirectoryPrefix(nil, q.Namespace, q.Type, q.Prefix)
		return start, keyspace.TupleEnd(start), len(keyspace.AppendDirectoryPrefix(nil, q.Namespace, q.Type, nil))
	}
	field := append(keyspace.AppendListing(nil, q.Namespace, q.Type), q.Field...)
	known = len(field)
	if q.Value != nil {
		start = keyspace.AppendListingKey(append(clone(field), q.Value...), q.Prefix)
		return start, keyspace.TupleEnd(start), known
	}
	start, end = append(clone(field), q.From...), keyspace.TupleEnd(field)
	if q.To != nil {
		end = append(clone(field), q.To...)
	}
	return start, end, known
}

// A Found is an actor that a walk has come to. It is valid during the visit.
type Found struct {
	ID    keyspace.ActorID
	Key   []string // stays valid
	Value []byte   // of the field
	Row   []byte
	read  reader
}

// Head reads the head of the actor; the zero Head if it has none.
func (f *Found) Head() (Head, error) { return readHead(f.read, f.ID) }

// Get reads a key of the actor, whatever its expiry.
func (f *Found) Get(key []byte) ([]byte, bool, error) { return appendStored(nil, f.read, f.ID, key) }

// Find visits the actors of a query in their order, until visit returns false. All that it reads is of one state of the store. visit
// must not call the store, which cannot be closed while it runs. The error is ErrListing if there is a Field and no index.
func (s *Store) Find(q FindQuery, visit func(*Found) (bool, error)) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	start, end, known := q.bounds()
	if q.Field != nil {
		if _, built, err := s.listingProgress(); err != nil || !built {
			return errors.Join(err, ErrListing)
		}
	}
	switch {
	case q.After == nil:
	case bytes.Compare(q.After, start) < 0 || bytes.Compare(q.After, end) >= 0:
		return ErrCursor
	case q.Reverse:
		end = q.After
	default:
		start = append(clone(q.After), 0)
	}
	if bytes.Compare(start, end) >= 0 {
		return nil
	}
	snapshot := s.db.NewSnapshot()
	defer snapshot.Close()
	it, err := newIter(snapshot, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	first, next := it.First, it.Next
	if q.Reverse {
		first, next = it.Last, it.Prev
	}
	f := Found{read: snapshot}
	for ok := first(); ok; ok = next() {
		f.Row = it.Key()
		if q.Field == nil {
			f.Key, err = keyspace.ParseDirectoryKey(f.Row, known)
		} else {
			f.Value, f.Key, err = keyspace.ParseListing(f.Row, known)
		}
		if err != nil {
			return &CorruptError{Row: clone(f.Row), Reason: err.Error()}
		}
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if f.ID, err = parseDirectory(value); err != nil {
			return at(f.Row, err)
		}
		if more, err := visit(&f); err != nil || !more {
			return err
		}
	}
	return it.Error()
}
