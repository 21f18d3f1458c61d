package keyspace

import (
	"encoding/binary"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// Each type of this file appends the keys of layouts with the same fields, with its own code: each
// read or write of a row makes a key, and that must not allocate. Append functions trust their
// arguments. Parse functions trust nothing; their error is a [*SyntaxError].

// Single is a key that an actor has only once: the kind alone.
type Single struct{ layout }

// Append appends the key.
func (l *Single) Append(dst []byte) []byte { return append(dst, byte(l.Kind)) }

// Text is a key of a text, raw.
type Text struct{ layout }

// Append appends the key.
func (l *Text) Append(dst []byte, text string) []byte {
	return append(append(dst, byte(l.Kind)), text...)
}

// Parse returns the text.
func (l *Text) Parse(key []byte) (string, error) {
	var v values
	err := l.parse(key, &v)
	return v.s[0], err
}

// Packed is a key of any tuple.
type Packed struct{ layout }

// Append appends the key of a tuple in its packed form. With the packed form of the first elements
// it is the start of the range of all keys that begin with them, which ends at [TupleEnd].
func (l *Packed) Append(dst, packed []byte) []byte {
	return append(append(dst, byte(l.Kind)), packed...)
}

// Number is a key of a number of eight bytes.
type Number struct{ layout }

// Append appends the key.
func (l *Number) Append(dst []byte, n uint64) []byte {
	return binary.BigEndian.AppendUint64(append(dst, byte(l.Kind)), n)
}

// Parse returns the number.
func (l *Number) Parse(key []byte) (uint64, error) {
	var v values
	err := l.parse(key, &v)
	return v.n[0], err
}

// Actor is a key of an actor id, raw, so no byte needs escaping.
type Actor struct{ layout }

// Append appends the key.
func (l *Actor) Append(dst []byte, id ActorID) []byte {
	return append(append(dst, byte(l.Kind)), id[:]...)
}

// Element is a key of the tuple (family, number).
type Element[N ~uint8 | ~uint32 | ~uint64] struct{ layout }

// Append appends the key.
func (l *Element[N]) Append(dst []byte, n N) []byte {
	return tuple.AppendUint(append(dst, byte(l.Kind), l.family[0], l.family[1]), uint64(n))
}

// Parse returns the number.
func (l *Element[N]) Parse(key []byte) (N, error) {
	var v values
	err := l.parse(key, &v)
	return N(v.n[0]), err
}

// Name is a key of the tuple (name).
type Name struct{ layout }

// Append appends the key.
func (l *Name) Append(dst []byte, name string) []byte { return tuple.AppendString(l.lead(dst), name) }

// Parse returns the name.
func (l *Name) Parse(key []byte) (string, error) {
	var v values
	err := l.parse(key, &v)
	return v.s[0], err
}

// Pair is a key of the tuple (name, instance).
type Pair struct{ layout }

// Append appends the key.
func (l *Pair) Append(dst []byte, name, instance string) []byte {
	return tuple.AppendString(l.Prefix(dst, name), instance)
}

// Prefix appends the common prefix of the keys of a name. The range ends at [TupleEnd].
func (l *Pair) Prefix(dst []byte, name string) []byte {
	return tuple.AppendString(append(dst, byte(l.Kind)), name)
}

// Parse returns name and instance.
func (l *Pair) Parse(key []byte) (name, instance string, err error) {
	var v values
	err = l.parse(key, &v)
	return v.s[0], v.s[1], err
}

// Item is a key of the tuple (name, number).
type Item struct{ layout }

// Append appends the key.
func (l *Item) Append(dst []byte, name string, n uint64) []byte {
	return tuple.AppendUint(l.Prefix(dst, name), n)
}

// Prefix appends the common prefix of the keys of a name. The range ends at [TupleEnd].
func (l *Item) Prefix(dst []byte, name string) []byte {
	return tuple.AppendString(append(dst, byte(l.Kind)), name)
}

// Parse returns the name and the number.
func (l *Item) Parse(key []byte) (name string, n uint64, err error) {
	var v values
	err = l.parse(key, &v)
	return v.s[0], v.n[1], err
}

// PairItem is a key of the tuple (name, instance, number).
type PairItem struct{ layout }

// Append appends the key.
func (l *PairItem) Append(dst []byte, name, instance string, n uint64) []byte {
	return tuple.AppendUint(l.Prefix(dst, name, instance), n)
}

// Prefix appends the common prefix of the keys of a pair. The range ends at [TupleEnd].
func (l *PairItem) Prefix(dst []byte, name, instance string) []byte {
	return tuple.AppendString(tuple.AppendString(append(dst, byte(l.Kind)), name), instance)
}

// Parse returns name, instance and number.
func (l *PairItem) Parse(key []byte) (name, instance string, n uint64, err error) {
	var v values
	err = l.parse(key, &v)
	return v.s[0], v.s[1], v.n[2], err
}

// Index is a key of the tuple (name, rank or time, id). Its user appends the last two to a prefix.
type Index struct{ layout }

// Prefix appends the common prefix of the keys of a name. The range ends at [TupleEnd].
func (l *Index) Prefix(dst []byte, name string) []byte {
	return tuple.AppendString(append(dst, byte(l.Kind)), name)
}

// Timed is a key of the tuple (Unix milliseconds, logical key).
type Timed struct{ layout }

// Append appends the key for a logical key that can expire: not empty and not itself such a key.
func (l *Timed) Append(dst []byte, atMS int64, key []byte) []byte {
	return tuple.AppendBytes(l.Prefix(dst, atMS), key)
}

// Prefix appends the common prefix of the keys of one millisecond. As the end of a range it
// excludes that millisecond and all later ones.
func (l *Timed) Prefix(dst []byte, atMS int64) []byte {
	return tuple.AppendInt(append(dst, byte(l.Kind)), atMS)
}

// Parse returns the time and the logical key, in new memory.
func (l *Timed) Parse(key []byte) (atMS int64, inner []byte, err error) {
	var v values
	err = l.parse(key, &v)
	return int64(v.n[0]), v.b, err
}

// Moment is a key of the tuple (family, time).
type Moment struct{ layout }

// Append appends the key.
func (l *Moment) Append(dst []byte, at int64) []byte {
	return tuple.AppendInt(append(dst, byte(l.Kind), l.family[0], l.family[1]), at)
}

// Parse returns the time.
func (l *Moment) Parse(key []byte) (int64, error) {
	var v values
	err := l.parse(key, &v)
	return int64(v.n[0]), err
}

// MomentItem is a key of the tuple (family, time, number).
type MomentItem struct{ layout }

// Append appends the key.
func (l *MomentItem) Append(dst []byte, at int64, n uint64) []byte {
	return tuple.AppendUint(l.Prefix(dst, at), n)
}

// Prefix appends the common prefix of the keys of a time. The range ends at [TupleEnd].
func (l *MomentItem) Prefix(dst []byte, at int64) []byte {
	return tuple.AppendInt(append(dst, byte(l.Kind), l.family[0], l.family[1]), at)
}

// Parse returns the time and the number.
func (l *MomentItem) Parse(key []byte) (at int64, n uint64, err error) {
	var v values
	err = l.parse(key, &v)
	return int64(v.n[0]), v.n[1], err
}

// Inner is a key of a tuple of a logical key.
type Inner struct{ layout }

// Append appends the key for a logical key that can expire.
func (l *Inner) Append(dst, key []byte) []byte {
	return tuple.AppendBytes(append(dst, byte(l.Kind)), key)
}

// Parse returns the logical key, in new memory.
func (l *Inner) Parse(key []byte) ([]byte, error) {
	var v values
	err := l.parse(key, &v)
	return v.b, err
}

// InnerPart is a key of a tuple of a logical key and one element of any type.
type InnerPart struct{ layout }

// Append appends the key for a logical key that can expire and a packed element. Without the
// element it is the start of the range of all elements, which ends at [TupleEnd].
func (l *InnerPart) Append(dst, key, part []byte) []byte {
	return append(tuple.AppendBytes(append(dst, byte(l.Kind)), key), part...)
}

// Numbered is a key of a tuple of a number and any elements.
type Numbered struct{ layout }

// Append appends the key of a number and a tuple in its packed form. Without the tuple it is the
// start of the range of all keys of the number, which ends at [TupleEnd].
func (l *Numbered) Append(dst []byte, n uint64, packed []byte) []byte {
	return append(tuple.AppendUint(append(dst, byte(l.Kind)), n), packed...)
}

// Parse returns the number and the packed tuple, which is a part of the key and is not checked.
func (l *Numbered) Parse(key []byte) (n uint64, packed []byte, err error) {
	if !l.Has(key) {
		return 0, nil, l.stranger(key)
	}
	d := tuple.NewDecoder(key[1:])
	if n, err = d.Uint(); err != nil {
		return 0, nil, inside(l.name()+" key", 1, err)
	}
	return n, key[1+d.Offset():], nil
}

// InnerItem is a key of the tuple (logical key, number).
type InnerItem struct{ layout }

// Append appends the key for a logical key that can expire.
func (l *InnerItem) Append(dst, key []byte, n int64) []byte {
	return tuple.AppendInt(l.Prefix(dst, key), n)
}

// Prefix appends the common prefix of the keys of a logical key. The range ends at [TupleEnd].
func (l *InnerItem) Prefix(dst, key []byte) []byte {
	return tuple.AppendBytes(append(dst, byte(l.Kind)), key)
}

// Parse returns the logical key, in new memory, and the number.
func (l *InnerItem) Parse(key []byte) ([]byte, int64, error) {
	var v values
	err := l.parse(key, &v)
	return v.b, int64(v.n[1]), err
}
