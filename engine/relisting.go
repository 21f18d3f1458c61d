package engine

import (
	"bytes"
	"errors"
	"slices"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/cairn-run/cairn/keyspace"
)

// listingOp is a change of the listing index.
type listingOp struct {
	row []byte
	set bool
}

// relisting has the changes of a commit in the index.
type relisting struct {
	ops  []listingOp
	rows []byte // the memory of the ops' rows
}

var relistings = sync.Pool{New: func() any { return new(relisting) }}

// add adds a change of the row that was appended to rows at from.
func (r *relisting) add(from int, rows []byte, set bool) {
	r.rows = rows
	r.ops = append(r.ops, listingOp{rows[from:], set})
}

// number adds a change of the row of a field that each actor has.
func (r *relisting) number(n *listingName, field keyspace.ListingField, value int64, set bool) {
	r.add(len(r.rows), n.number(r.rows, field, value), set)
}

// attribute adds a change of the row of an attribute, whose key is sound.
func (r *relisting) attribute(n *listingName, key, value []byte, set bool) {
	if soundElement(value) {
		r.add(len(r.rows), n.row(r.rows, key[1:], value), set)
	}
}

// free gives the memory back.
func (r *relisting) free() {
	clear(r.ops)
	if r.ops, r.rows = r.ops[:0], r.rows[:0]; cap(r.rows) <= keptBlock {
		relistings.Put(r)
	}
}

// relist adds the changes of the write set's commit in the listing index to r.
func (w *WriteSet) relist(r *relisting, next *head) error {
	sp, was := w.space, &w.space.head
	switch {
	case was.Destroyed:
		return nil
	case w.destroyed != nil:
		return w.unlist(r)
	}
	moved := w.created != nil ||
		keyspace.SizeStep(was.Bytes) != keyspace.SizeStep(next.Bytes) ||
		keyspace.MinuteStep(was.Updated) != keyspace.MinuteStep(next.Updated)
	attributes := w.touchesAttributes()
	if !moved && !attributes {
		return nil
	}
	name, err := w.listingName(attributes)
	if err != nil || name == nil {
		return err
	}
	before := w.created == nil // it has rows
	number := func(field keyspace.ListingField, old, now int64) {
		if before && old != now {
			r.number(name, field, old, false)
		}
		if !before || old != now {
			r.number(name, field, now, true)
		}
	}
	number(keyspace.ListingSize, keyspace.SizeStep(was.Bytes), keyspace.SizeStep(next.Bytes))
	number(keyspace.ListingUpdated, keyspace.MinuteStep(was.Updated), keyspace.MinuteStep(next.Updated))
	if !before && was.Version > 0 || before && w.hidesAttributes() {
		name.attributes = nil
		err := sp.eachAttribute(func(key, value []byte) {
			if w.overlay.find(key) < 0 && before == w.hidden(key) && soundName(key) { // slots are handled below, the others stay
				r.attribute(name, key, value, !before)
			}
		})
		if err != nil {
			return err
		}
	}
	if !attributes || w.overlay == nil {
		return nil
	}
	for i := range w.overlay.slots {
		if sl := &w.overlay.slots[i]; isAttribute(sl.key) {
			if err := w.relistAttribute(r, name, sl, before); err != nil {
				return err
			}
		}
	}
	return nil
}

// relistAttribute adds the changes of a slot of an attribute. before: the actor has rows.
func (w *WriteSet) relistAttribute(r *relisting, name *listingName, sl *slot, before bool) error {
	a := name.attribute(sl.key)
	var old []byte
	switch {
	case a != nil:
		old = a.value
	case !soundName(sl.key):
		return nil
	case before:
		var err error
		if old, _, err = appendStored(nil, databaseOf(w.space.store).DB, w.space.id, sl.key); err != nil {
			return err
		}
	}
	if sl.live && bytes.Equal(old, sl.value) {
		return nil
	}
	if len(old) > 0 {
		r.attribute(name, sl.key, old, false)
	}
	if sl.live {
		r.attribute(name, sl.key, sl.value, true)
	}
	if before && a == nil && len(name.attributes) < maxListed {
		name.attributes = append(name.attributes, listedAttribute{key: clone(sl.key)})
		a = &name.attributes[len(name.attributes)-1]
	}
	switch {
	case a != nil && len(sl.value) > MaxAttribute:
		name.attributes = nil // not worth the memory
	case a != nil:
		a.value = append(a.value[:0], sl.value...) // nothing if it was deleted
	}
	return nil
}

// listingName returns the actor's name in the index, or nil if it has no name. keep: it is
// remembered for the next commits.
func (w *WriteSet) listingName(keep bool) (name *listingName, err error) {
	sp := w.space
	switch {
	case w.created != nil:
		return newListingName(w.created), nil
	case sp.listing != nil:
		return sp.listing, nil
	}
	i, _, ok, err := sp.store.identity(sp.id)
	if err != nil || !ok {
		return nil, err
	}
	if name = newListingName(&i); keep {
		sp.listing = name
	}
	return name, nil
}

// unlist adds the changes of a commit that destroys the actor. If the head was not read, it
// searches all rows of the type: the attributes may be damaged.
func (w *WriteSet) unlist(r *relisting) (err error) {
	sp, was := w.space, &w.space.head
	if !w.destroyed.named {
		return nil
	}
	name := newListingName(&w.destroyed.tombstone.Identity)
	if was.Version > 0 {
		r.number(name, keyspace.ListingSize, keyspace.SizeStep(was.Bytes), false)
		r.number(name, keyspace.ListingUpdated, keyspace.MinuteStep(was.Updated), false)
		return sp.eachAttribute(func(key, value []byte) {
			if soundName(key) {
				r.attribute(name, key, value, false)
			}
		})
	}
	it, err := newIter(databaseOf(sp.store).DB,
		&pebble.IterOptions{LowerBound: name.typ, UpperBound: keyspace.TupleEnd(name.typ)})
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, it.Close()) }()
	for ok := it.First(); ok; ok = it.Next() {
		value, err := it.ValueAndErr()
		if err != nil {
			return err
		}
		if bytes.Equal(value, appendDirectory(nil, sp.id)) {
			r.add(len(r.rows), append(r.rows, it.Key()...), false)
		}
	}
	return it.Error()
}

// eachAttribute visits the actor's attributes in the store.
func (sp *Space) eachAttribute(visit func(key, value []byte)) error {
	start, end := keyspace.Attribute.Kind.Range()
	return view{store: databaseOf(sp.store).DB, id: sp.id}.scan(start, end, func(key, value []byte) bool {
		visit(key, value)
		return true
	})
}

// touchesAttributes reports whether the set writes or hides attributes.
func (w *WriteSet) touchesAttributes() bool {
	if o := w.overlay; o != nil {
		for i := range o.slots {
			if isAttribute(o.slots[i].key) {
				return true
			}
		}
	}
	return w.hidesAttributes()
}

func (w *WriteSet) hidesAttributes() bool {
	if len(w.ranges) == 0 {
		return false
	}
	start, end := keyspace.Attribute.Kind.Range()
	return slices.ContainsFunc(w.ranges, func(r span) bool {
		return bytes.Compare(r.start, end) < 0 && (r.end == nil || bytes.Compare(r.end, start) > 0)
	})
}
