package engine

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The listing index finds actors of a type by size, by last commit and by attribute. Its claims:
//
//  1. Once it is built, an actor that has a name has a row for the step of its size, one for the
//     minute of its last commit, and one for each sound key of [keyspace.Attribute]; nothing else
//     has rows.
//  2. The commit that changes the data of a row changes the row. It compares the store with the
//     rows it writes, so the index follows writes of turns, operators and restores alike.
//  3. A commit that changes none of that data reads and writes nothing for the index.
//
// A store of format 3 has no index. [Store.BuildListing] builds it. Until then some rows are
// missing, but none is wrong.

// MaxAttribute bounds the value of an attribute, as the element of a tuple. The index leaves out
// longer ones.
const MaxAttribute = 640

// listingRow is the row of the store with the progress of the index: listingBuilt, or listingPart
// and the last row of the directory that is done.
const (
	listingRow   = "listing"
	listingPart  = 0
	listingBuilt = 1
)

// listingName is an actor's name in the index, and what a space remembers for the index.
type listingName struct {
	typ []byte // the beginning of the rows of its type
	key []byte // the parts of its key
	// attributes are the attributes of the last commits, as the store has them.
	attributes []listedAttribute
}

// listedAttribute is an attribute in the store; an empty value means that the store does not have
// it. Its key is sound.
type listedAttribute struct{ key, value []byte }

// maxListed is how many attributes a space remembers.
const maxListed = 16

func newListingName(i *Identity) *listingName {
	return &listingName{typ: keyspace.AppendListing(nil, i.Namespace, i.Type),
		key: keyspace.AppendListingKey(nil, i.Key)}
}

// attribute returns the attribute of a key, if it is remembered; else nil.
func (n *listingName) attribute(key []byte) *listedAttribute {
	for i := range n.attributes {
		if a := &n.attributes[i]; bytes.Equal(a.key, key) {
			return a
		}
	}
	return nil
}

// row appends a row. field and value are elements of a tuple.
func (n *listingName) row(dst, field, value []byte) []byte {
	return append(append(append(append(dst, n.typ...), field...), value...), n.key...)
}

// number appends a row of a field that each actor has.
func (n *listingName) number(dst []byte, field keyspace.ListingField, value int64) []byte {
	dst = tuple.AppendUint(append(dst, n.typ...), uint64(field))
	return append(tuple.AppendInt(dst, value), n.key...)
}

// soundAttribute reports whether the index has a row for a key and a value.
func soundAttribute(key, value []byte) bool { return soundElement(value) && soundName(key) }

// soundName reports whether a key is a sound key of an attribute.
func soundName(key []byte) bool { return keyspace.Attribute.Kind.Check(key) == nil }

// soundElement reports whether a value is one element of a tuple, and not too long.
func soundElement(value []byte) bool {
	if len(value) > MaxAttribute {
		return false
	}
	d := tuple.NewDecoder(value)
	if d.Peek() == tuple.TypeInt { // most are; decodes without allocating
		if _, err := d.Int(); err == nil {
			return !d.More()
		}
	}
	_, err := d.Next()
	return err == nil && !d.More()
}

func isAttribute(key []byte) bool {
	return len(key) > 0 && keyspace.Kind(key[0]) == keyspace.Attribute.Kind
}

// ListingBuilt reports whether the listing index is whole.
func (s *Store) ListingBuilt() (bool, error) {
	if err := s.enter(); err != nil {
		return false, err
	}
	defer s.leave()
	_, built, err := s.listingProgress()
	return built, err
}

// listingProgress returns the last row of the directory that is in the index, or nil if there is
// none.
func (s *Store) listingProgress() (upTo []byte, built bool, err error) {
	_, err = get(databaseOf(s).DB, keyspace.AppendMetaRow(nil, listingRow), func(b []byte) error {
		d := decoder{b: b}
		if built = d.byte() == listingBuilt; !built {
			upTo = clone(d.rest())
			d.at = len(b)
		}
		return d.end()
	})
	return upTo, built, err
}

// listingSlice is how many actors BuildListing reads between two commits.
const listingSlice = 1024

// BuildListing builds the missing part of the listing index: of a store from an earlier release, or
// after accepted damage. If ctx ends or the disk is full, the next call continues. No space may be
// open meanwhile. If tables are missing and that was accepted, the error is ErrDamaged. It returns
// how many actors it read, and how many of them are not in the index because their head cannot be
// read.
func (s *Store) BuildListing(ctx context.Context) (read, unread int, err error) {
	if err := s.enter(); err != nil {
		return 0, 0, err
	}
	defer s.leave()
	upTo, built, err := s.listingProgress()
	if built || err != nil {
		return 0, 0, err
	}
	if err := s.readOnly(); err != nil {
		return 0, 0, err
	}
	if s.tableless { // reading everything would fail at a missing table
		return 0, 0, fmt.Errorf("%w: tables are missing", ErrDamaged)
	}
	b := builder{s: s}
	if upTo == nil {
		if err := b.clear(); err != nil {
			return 0, 0, err
		}
	}
	start, end := keyspace.Directory()
	if len(upTo) > 0 {
		start = append(upTo, 0)
	}
	for done := false; !done; {
		if err := cmp.Or(ctx.Err(), s.free.check()); err != nil {
			return b.read, b.unread, err
		}
		if start, done, err = b.slice(start, end); err != nil {
			return b.read, b.unread, err
		}
	}
	return b.read, b.unread, nil
}

// builder builds the index.
type builder struct {
	s            *Store
	read, unread int
}

// clear removes rows that may be wrong.
func (b *builder) clear() error {
	batch := databaseOf(b.s).NewBatch()
	defer batch.Close()
	from, to := keyspace.Listing()
	if err := batch.DeleteRange(from, to, nil); err != nil {
		return err
	}
	return b.commit(batch, []byte{listingPart}, false)
}

// slice builds the rows of the next actors, and returns the start of the next slice.
func (b *builder) slice(start, end []byte) (next []byte, done bool, err error) {
	it, err := newIter(databaseOf(b.s).DB, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return nil, false, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	batch := databaseOf(b.s).NewBatch()
	defer batch.Close()
	n := 0
	for ok := it.First(); ok && n < listingSlice; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return nil, false, err
		}
		rows, id, err := listingRows(databaseOf(b.s).DB, it.Key(), value)
		b.read++
		switch {
		case spoiled(err):
			b.unread++
		case err != nil:
			return nil, false, err
		}
		for _, row := range rows {
			if err := batch.Set(row, appendDirectory(nil, id), nil); err != nil {
				return nil, false, err
			}
		}
		next = append(next[:0], it.Key()...)
		n++
	}
	if err := it.Error(); err != nil {
		return nil, false, err
	}
	if n < listingSlice {
		return nil, true, b.commit(batch, []byte{listingBuilt}, true)
	}
	return append(next, 0), false, b.commit(batch, append([]byte{listingPart}, next...), false)
}

// commit commits a batch with the progress. As with commits, the first one also writes the format.
func (b *builder) commit(batch *pebble.Batch, progress []byte, last bool) error {
	var err error
	set := func(row, value []byte) { err = errors.Join(err, batch.Set(row, value, nil)) }
	b.s.setFormat(set)
	if set(keyspace.AppendMetaRow(nil, listingRow), progress); err != nil {
		return err
	}
	if err := b.s.readOnly(); err != nil { // a damaged table may have been read
		return err
	}
	if err := b.s.free.check(); err != nil {
		return err
	}
	sync := pebble.NoSync
	if last && b.s.opts.Durability == Sync {
		sync = pebble.Sync
	}
	if err := b.s.guarded(func() error { return databaseOf(b.s).Apply(batch, sync) }); err != nil {
		b.s.fail(err)
		return err
	}
	b.s.formatted()
	b.s.free.wrote(batch.Len())
	return nil
}

// listingRows returns the rows of the index for the actor of a directory row; none for an actor
// without a head.
func listingRows(r reader, directory, value []byte) (rows [][]byte, id keyspace.ActorID, err error) {
	namespace, typ, key, err := keyspace.ParseDirectoryRow(directory)
	if err != nil {
		return nil, id, &CorruptError{Row: clone(directory), Reason: err.Error()}
	}
	if id, err = parseDirectory(value); err != nil {
		return nil, id, at(directory, err)
	}
	a, ok, err := readRoot(r, id, false)
	if err != nil || !ok || a.Destroyed {
		return nil, id, err
	}
	name := newListingName(&Identity{namespace, typ, key})
	rows = [][]byte{
		name.number(nil, keyspace.ListingSize, keyspace.SizeStep(a.Bytes)),
		name.number(nil, keyspace.ListingUpdated, keyspace.MinuteStep(a.Updated)),
	}
	start, end := keyspace.Attribute.Kind.Range()
	err = view{store: r, id: id}.scan(start, end, func(key, value []byte) bool {
		if soundAttribute(key, value) {
			rows = append(rows, name.row(nil, key[1:], value))
		}
		return true
	})
	return rows, id, err
}

// ResetListing marks the listing index as not built. The next BuildListing builds it anew.
func (s *Store) ResetListing() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.readOnly(); err != nil {
		return err
	}
	return s.resetListing()
}

func (s *Store) resetListing() error {
	return s.guarded(func() error { return databaseOf(s).Delete(keyspace.AppendMetaRow(nil, listingRow), pebble.Sync) })
}

// CheckListing compares the listing index with the rows of all actors, and calls fault for each row
// that is missing or that should not be there, as [keyspace.FormatRow] prints it. It reads one
// state of the store. It returns how many rows the index has. It leaves out actors that cannot be
// read, and then returns the error of the first. It does not check an index that is not built.
func (s *Store) CheckListing(ctx context.Context, fault func(row string, missing bool)) (rows int, err error) {
	if err := s.enter(); err != nil {
		return 0, err
	}
	defer s.leave()
	if _, built, err := s.listingProgress(); err != nil || !built {
		return 0, err
	}
	snapshot := databaseOf(s).NewSnapshot()
	defer snapshot.Close()
	start, end := keyspace.Directory()
	it, err := newIter(snapshot, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return 0, err
	}
	want := 0
	var unread error
	for ok := it.First(); ok && err == nil; ok = it.Next() {
		var value []byte
		if value, err = it.ValueAndErr(); err != nil {
			break
		}
		var due [][]byte
		var id keyspace.ActorID
		if due, id, err = listingRows(snapshot, it.Key(), value); spoiled(err) {
			if unread == nil {
				unread = err
			}
			err = ctx.Err()
			continue
		} else if err != nil {
			break
		}
		for _, row := range due {
			want++
			found, gerr := get(snapshot, row, func(b []byte) error {
				if !bytes.Equal(b, appendDirectory(nil, id)) {
					return &CorruptError{Row: clone(row), Reason: "the row of the listing index is of another actor"}
				}
				return nil
			})
			if err = gerr; err == nil && !found {
				fault(keyspace.FormatRow(row), true)
				want--
			}
		}
		err = errors.Join(err, ctx.Err())
	}
	if err = errors.Join(err, it.Error(), it.Close()); err != nil {
		return 0, err
	}
	rows, err = checkSurplus(s, snapshot, want, fault)
	return rows, errors.Join(err, unread)
}

// checkSurplus finds rows of the index without an actor, if there are more rows than wanted.
func checkSurplus(s *Store, r reader, want int, fault func(row string, missing bool)) (rows int, err error) {
	start, end := keyspace.Listing()
	it, err := newIter(r, &pebble.IterOptions{LowerBound: start, UpperBound: end})
	if err != nil {
		return 0, err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		rows++
	}
	if err := it.Error(); err != nil || rows == want {
		return rows, err
	}
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return rows, err
		}
		id, err := parseDirectory(value)
		if err != nil {
			return rows, at(it.Key(), err)
		}
		i, _, ok, err := identityOf(r, id)
		var due [][]byte
		if err == nil && ok {
			due, _, err = listingRows(r, keyspace.AppendDirectoryRow(nil, i.Namespace, i.Type, i.Key), value)
		}
		switch {
		case spoiled(err):
			continue // already reported
		case err != nil:
			return rows, err
		}
		if !slices.ContainsFunc(due, func(row []byte) bool { return bytes.Equal(row, it.Key()) }) {
			fault(keyspace.FormatRow(it.Key()), false)
		}
	}
	return rows, it.Error()
}
