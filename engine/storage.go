package engine

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// TypeStorage is the storage used by the actors of one type.
type TypeStorage struct {
	Type   string
	Actors int64
	Bytes  int64 // of their keys and values, without traces; the size of each actor rounded down by [keyspace.SizeStep]
	// Kinds has the bytes of the rows of each kind of key, before compression, estimated from a
	// sample of actors that prefers large ones.
	Kinds map[keyspace.Kind]int64
}

// The sample of [Store.Storage]: how many actors of a type it reads, and how much of the rows of
// one kind of each. The rest is counted by its size in the files, compressed and without the newest
// commits.
const (
	storageSample = 32
	storageRows   = 512
	storageBytes  = 256 << 10
)

// Storage returns the storage used by the types of a namespace. It reads a row of the listing index
// for each actor: a million take some tenths of a second. The error is ErrListing if there is no
// index, and ErrDamaged if tables are missing and that was accepted.
func (s *Store) Storage(namespace string) (all []TypeStorage, err error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	if s.tableless { // reading everything would fail at a missing table
		return nil, fmt.Errorf("%w: tables are missing", ErrDamaged)
	}
	if _, built, err := s.listingProgress(); err != nil || !built {
		return nil, errors.Join(err, ErrListing)
	}
	snapshot := databaseOf(s).NewSnapshot()
	defer snapshot.Close()
	start := keyspace.AppendListingNamespace(nil, namespace)
	it, err := newIter(snapshot, &pebble.IterOptions{LowerBound: start, UpperBound: keyspace.TupleEnd(start)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; {
		d := tuple.NewDecoder(it.Key()[len(start):])
		typ, err := d.String()
		if err != nil {
			return nil, at(it.Key(), err)
		}
		prefix := keyspace.AppendListing(nil, namespace, typ)
		t := TypeStorage{Type: typ, Kinds: make(map[keyspace.Kind]int64)}
		sizes := tuple.AppendUint(clone(prefix), uint64(keyspace.ListingSize))
		var sample sample
		for ok = it.SeekGE(sizes); ok && bytes.HasPrefix(it.Key(), sizes); ok = it.Next() {
			d := tuple.NewDecoder(it.Key()[len(sizes):])
			size, err := d.Int()
			if err != nil {
				return nil, at(it.Key(), err)
			}
			t.Actors++
			t.Bytes += size
			if sample.next(size) {
				value, err := it.ValueAndErr()
				if err != nil {
					return nil, err
				}
				id, err := parseDirectory(value)
				if err != nil {
					return nil, at(it.Key(), err)
				}
				sample.take(id)
			}
		}
		if err := addKinds(s, snapshot, &sample, t.Kinds); err != nil {
			return nil, err
		}
		all = append(all, t)
		ok = it.SeekGE(keyspace.TupleEnd(prefix))
	}
	return all, it.Error()
}

// A sample has places for actors. Each place has each actor with a probability proportional to its
// weight.
type sample struct {
	sum    float64 // of the weights so far
	weight float64 // of the last actor
	first  float64 // the smallest of at
	places [storageSample]struct {
		id     keyspace.ActorID
		weight float64
		at     float64 // at this sum the place goes to another actor
	}
}

// next counts an actor, and reports whether it gets a place.
func (s *sample) next(size int64) bool {
	s.weight = float64(size) + 256 // the traces of an actor are not in its size
	s.sum += s.weight
	return s.sum > s.first
}

// take gives the actor its places. A place keeps its actor until the sum is x with probability
// sum/x.
func (s *sample) take(id keyspace.ActorID) {
	for i := range s.places {
		p := &s.places[i]
		if s.sum > p.at {
			p.id, p.weight, p.at = id, s.weight, s.sum/(1-rand.Float64())
		}
		if i == 0 || p.at < s.first {
			s.first = p.at
		}
	}
}

// addKinds adds the storage used by the kinds of all actors.
func addKinds(s *Store, r reader, sample *sample, kinds map[keyspace.Kind]int64) error {
	if sample.sum == 0 {
		return nil
	}
	sums := make(map[keyspace.Kind]float64)
	read := make(map[keyspace.ActorID]map[keyspace.Kind]int64) // an actor may have several places
	for i := range sample.places {
		p := &sample.places[i]
		own := read[p.id]
		if own == nil {
			var err error
			if own, err = actorKinds(s, r, p.id); err != nil {
				return err
			}
			read[p.id] = own
		}
		for kind, n := range own {
			sums[kind] += float64(n) / p.weight
		}
	}
	for kind, sum := range sums {
		kinds[kind] = int64(sum * sample.sum / storageSample)
	}
	return nil
}

// actorKinds returns the storage used by the kinds of an actor.
func actorKinds(s *Store, r reader, id keyspace.ActorID) (kinds map[keyspace.Kind]int64, err error) {
	start := keyspace.AppendScanPrefix(nil, id, nil)
	it, err := newIter(r, &pebble.IterOptions{LowerBound: start, UpperBound: keyspace.Successor(start)})
	if err != nil {
		return nil, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	kinds = make(map[keyspace.Kind]int64)
	rows := 0
	for ok := it.SeekGE(append(clone(start), 0)); ok; {
		kind := keyspace.Kind(it.Key()[len(start)])
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, err
		}
		kinds[kind] += int64(len(it.Key()) + len(value))
		rows++
		if rows < storageRows && kinds[kind] < storageBytes {
			if ok = it.Next(); ok && it.Key()[len(start)] != byte(kind) {
				rows = 0
			}
			continue
		}
		from := keyspace.AppendScanPrefix(nil, id, []byte{byte(kind)})
		to := keyspace.Successor(from)
		files, err := databaseOf(s).EstimateDiskUsage(from, to)
		if err != nil {
			return nil, damaged(err)
		}
		kinds[kind], rows = max(kinds[kind], int64(files)), 0
		ok = it.SeekGE(to)
	}
	return kinds, it.Error()
}
