package engine

import (
	"bytes"
	"errors"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// ErrListing says that the listing index is not built; see [Store.BuildListing].
var ErrListing = errors.New("engine: the index of actors is not built yet")

// A FindQuery is a walk over the actors of one type in one order.
type FindQuery struct {
	Namespace, Type string
	// Prefix has the first parts of the keys. It bounds a walk in the order of the keys, or with a
	// Value.
	Prefix []string
	// Field is the order: an element of a tuple, the number of a [keyspace.ListingField] or the
	// name of an attribute. Nil is the order of the keys, and needs no index.
	Field []byte
	// Value is the only value of the field, an element of a tuple. An actor without the attribute
	// has none.
	Value []byte
	// From and To bound the values of the field if Value is nil, as bytes: From <= value < To. Nil
	// has no bound.
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

// A Found is the current actor of a walk. It is valid during the visit.
type Found struct {
	ID    keyspace.ActorID
	Key   []string // stays valid
	Value []byte   // of the field
	Row   []byte
	read  any // reader
}

// Head reads the head of the actor; the zero Head if it has none.
func (f *Found) Head() (Head, error) { return readHead(f.read.(reader), f.ID) }

// Get reads a key of the actor, even if it has expired.
func (f *Found) Get(key []byte) ([]byte, bool, error) {
	return appendStored(nil, f.read.(reader), f.ID, key)
}

// Find visits the actors of a query in their order, until visit returns false. It reads one state
// of the store. visit must not call the store, which cannot be closed while it runs. The error is
// ErrListing if there is a Field and no index.
func (s *Store) Find(q FindQuery, visit func(*Found) (bool, error)) error {
	return s.FindMerged([]FindQuery{q}, q.After, func(_ int, f *Found) (bool, error) { return visit(f) })
}

// FindMerged is like Find, for queries of the same Field and Reverse. It visits the actors of all
// queries in the order of the values, and those of one value in the order of the queries. after is
// the Row of the entry before the first, from any of the queries, even if its bounds leave that row
// out; the queries' own After is not used. visit also gets the index of the query. FindMerged holds
// an iterator for each query.
func (s *Store) FindMerged(queries []FindQuery, after []byte, visit func(int, *Found) (bool, error)) (err error) {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	walks := make([]walk, len(queries))
	for i := range walks {
		w := &walks[i]
		w.q = &queries[i]
		w.start, w.end, w.known = w.q.bounds()
	}
	if len(queries) > 0 && queries[0].Field != nil {
		if _, built, err := s.listingProgress(); err != nil || !built {
			return errors.Join(err, ErrListing)
		}
	}
	if after != nil {
		if err := resume(walks, after); err != nil {
			return err
		}
	}
	snapshot := databaseOf(s).NewSnapshot()
	defer snapshot.Close()
	defer func() {
		for i := range walks {
			if it := &walks[i].it; it.Iterator != nil {
				err = errors.Join(err, it.Close())
			}
		}
	}()
	for i := range walks {
		w := &walks[i]
		w.read = snapshot
		if bytes.Compare(w.start, w.end) >= 0 {
			continue
		}
		if w.it, err = newIter(snapshot, &pebble.IterOptions{LowerBound: w.start, UpperBound: w.end}); err != nil {
			return err
		}
		first := w.it.First
		if w.q.Reverse {
			first = w.it.Last
		}
		if err := w.arrive(first()); err != nil {
			return err
		}
	}
	for {
		at := -1
		for i := range walks {
			if walks[i].there && (at < 0 || walks[i].before(&walks[at])) {
				at = i
			}
		}
		if at < 0 {
			return nil
		}
		w := &walks[at]
		if more, err := visit(at, &w.Found); err != nil || !more {
			return err
		}
		next := w.it.Next
		if w.q.Reverse {
			next = w.it.Prev
		}
		if err := w.arrive(next()); err != nil {
			return err
		}
	}
}

// A walk is one running query, at the actor that it visits next.
type walk struct {
	Found
	q          *FindQuery
	start, end []byte // of the rows
	known      int    // bytes that each row begins with
	it         iterator
	there      bool // the walk is at an actor
}

// resume continues walks after a row of one of them.
func resume(walks []walk, after []byte) error {
	at := slices.IndexFunc(walks, func(w walk) bool { return bytes.HasPrefix(after, w.start[:w.known]) })
	if at < 0 {
		return ErrCursor
	}
	var value []byte
	if w := &walks[at]; len(walks) > 1 && w.q.Field != nil {
		var err error
		if value, _, err = keyspace.ParseListing(after, w.known); err != nil {
			return ErrCursor
		}
	}
	for i := range walks {
		w := &walks[i]
		rows := append(clone(w.start[:w.known]), value...) // of the value
		switch {
		case i == at && w.q.Reverse:
			rows = after
		case i == at:
			rows = append(clone(after), 0)
		case i < at: // these come before the row, or after it in reverse
			rows = keyspace.TupleEnd(rows)
		}
		if w.q.Reverse {
			w.end = slices.MinFunc([][]byte{w.end, rows}, bytes.Compare)
		} else {
			w.start = slices.MaxFunc([][]byte{w.start, rows}, bytes.Compare)
		}
	}
	return nil
}

// arrive reads the row at the iterator, if there is one.
func (w *walk) arrive(ok bool) (err error) {
	if w.there = ok; !ok {
		return w.it.Error()
	}
	w.Row = w.it.Key()
	if w.q.Field == nil {
		w.Key, err = keyspace.ParseDirectoryKey(w.Row, w.known)
	} else {
		w.Value, w.Key, err = keyspace.ParseListing(w.Row, w.known)
	}
	if err != nil {
		return &CorruptError{Row: clone(w.Row), Reason: err.Error()}
	}
	value, err := w.it.ValueAndErr()
	if err != nil {
		return err
	}
	w.ID, err = parseDirectory(value)
	return at(w.Row, err)
}

// before reports whether the actor of w comes before that of a walk with a lower index.
func (w *walk) before(o *walk) bool {
	order := bytes.Compare(w.Value, o.Value)
	if w.q.Reverse {
		return order >= 0
	}
	return order < 0
}
