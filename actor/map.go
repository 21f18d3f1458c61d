package actor

import (
	"fmt"
	"iter"
	"reflect"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/internal/codec"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A Map is a typed part of the key-value store of a type's actors, for data that is too large for
// the state. Each entry is read and written alone. Maps of different names never overlap.
//
// A key is a string, an integer, a float, a bool, []byte or [16]byte, or a type made from one of
// them; keys of several parts are a [tuple.Tuple]. Entries are ordered by key: numbers by value,
// strings and bytes bytewise, tuples by their elements. Values are CBOR.
//
// In the raw store ([Context.KV]) a key is the tuple of the map's name and the key; a tuple's
// elements follow the name.
type Map[K, V any] struct {
	_ [0]func(K, V) // keeps types of other values from being converted into it
	table
}

// A table is a Map of any types. Its methods take pointers to keys and values.
type table struct {
	decl   *declared
	form   keyForm
	values *codec.Value
	prefix []byte
}

// A MapConfig bounds a map. Zero fields bound nothing; negative ones are faults. A map with a field
// that is not zero updates its count with each change, so [Map.Len] is one read.
type MapConfig struct {
	// MaxKeys bounds the entries of the map, and MaxBytes the bytes of their keys and values. A put
	// beyond them has the error code QuotaExceeded. So has a change that enlarges a map beyond
	// them. Expired entries do not count.
	MaxKeys  int64
	MaxBytes int64
	// DefaultTTL is how long entries live that are put without [TTL] or [ExpireAt].
	DefaultTTL time.Duration
	// Counted keeps the count of a map without bounds.
	Counted bool
	// Log keeps the changes of entries for [kv.Store.Feed], in one log of the actor. LogEvents
	// bounds their number, 0 is 100,000; LogBytes their size, 0 is 64 MiB; LogFor their age, 0 is
	// without end. If several maps and scopes have a log, the most generous bounds hold.
	Log                 bool
	LogEvents, LogBytes int64
	LogFor              time.Duration
}

// maxTTL is the longest time to live.
const maxTTL = 100 * 365 * 24 * time.Hour

// NewMap declares a map of t. The name has the form that [NewType] describes and is unique among
// the type's maps. If a map with entries gets a config that is not zero, the first turn of an actor
// that writes to its store counts them, which takes about a second per million.
func NewMap[K, V, S any](t *Type[S], name string, cfg MapConfig) *Map[K, V] {
	c := coreOf(t)
	return &Map[K, V]{table: c.table(name, reflect.TypeFor[K](), codec.Of[V](c.codec, codec.CBOR), &cfg)}
}

func (c *core) table(name string, key reflect.Type, values *codec.Value, cfg *MapConfig) table {
	form, fault := keyFormOf(key)
	faults := prefixed("value ", values.Faults())
	if fault != "" {
		faults = append(faults, fault)
	}
	d := declared{kind: kindMap, name: name}
	if *cfg != (MapConfig{}) {
		d.scope = &host.Map{
			Name: name, Keys: cfg.MaxKeys, Bytes: cfg.MaxBytes, TTL: cfg.DefaultTTL,
			Log: cfg.Log, LogEvents: cfg.LogEvents, LogBytes: cfg.LogBytes, LogFor: cfg.LogFor,
		}
	}
	d.faults = append(faults, negative("MapConfig", []setting{
		{"MaxKeys", cfg.MaxKeys}, {"MaxBytes", cfg.MaxBytes}, {"DefaultTTL", int64(cfg.DefaultTTL)},
		{"LogEvents", cfg.LogEvents}, {"LogBytes", cfg.LogBytes}, {"LogFor", int64(cfg.LogFor)},
	})...)
	if !cfg.Log && (cfg.LogEvents > 0 || cfg.LogBytes > 0 || cfg.LogFor > 0) {
		d.faults = append(d.faults, "MapConfig.LogEvents, LogBytes and LogFor are of a map with Log")
	}
	if ttl := cfg.DefaultTTL; ttl > 0 && ttl < time.Millisecond || ttl > maxTTL {
		d.faults = append(d.faults, fmt.Sprintf("MapConfig.DefaultTTL is %s; it is 1ms to 100 years", ttl))
	}
	return table{c.declare(d), form, values, tuple.AppendString(nil, name)}
}

// A MapEntry is one entry of a map.
type MapEntry[K, V any] struct {
	Key K
	// Value is zero in listings with [KeysOnly].
	Value V
	// Version is the version of the turn that wrote the entry last.
	Version          uint64
	Created, Updated time.Time
	// Expire is when the entry expires; zero for never.
	Expire time.Time
}

// Get returns the value under a key; false means that there is none. It works in a turn and in a
// query.
func (m *Map[K, V]) Get(ctx Reader, key K) (value V, ok bool, err error) {
	ok, err = m.entry(ctx, &key, &value, nil)
	return value, ok, err
}

// Entry returns the entry under a key; false means that there is none. It works in a turn and in a
// query.
func (m *Map[K, V]) Entry(ctx Reader, key K) (e MapEntry[K, V], ok bool, err error) {
	var stored host.KVInfo
	if ok, err = m.entry(ctx, &key, &e.Value, &stored); ok {
		e.Key = key
		e.describe(&stored)
	}
	return e, ok, err
}

// describe fills in all fields except the key and the value.
func (e *MapEntry[K, V]) describe(stored *host.KVInfo) {
	e.Version, e.Created, e.Updated, e.Expire = versionAndTimes(stored)
}

func versionAndTimes(e *host.KVInfo) (version uint64, created, updated, expire time.Time) {
	return e.Version, e.Created(), e.Updated(), e.Expire()
}

// entry reads an entry, and its info unless info is nil. It reports whether there is one.
func (m *table) entry(ctx Reader, key, value any, info *host.KVInfo) (bool, error) {
	k, err := m.key(ctx, key)
	if err != nil {
		return false, err
	}
	stored, ok, err := ctx.reader().KVGet(k)
	if err != nil || !ok {
		return false, err
	}
	if err := m.values.Decode(host.CBOR, stored.Value, value); err != nil {
		reflect.ValueOf(value).Elem().SetZero()
		return false, valueError(m.decl, err)
	}
	if info != nil {
		*info = stored.KVInfo
	}
	return true, nil
}

// Put stores a value under a key. The error code is TooLarge or QuotaExceeded if a limit is
// exceeded; the entry is then as before, and the handler may go on.
func (m *Map[K, V]) Put(ctx *Context, key K, value V, opts ...PutOption) error {
	return m.put(ctx, &key, &value, opts)
}

func (m *table) put(ctx *Context, key, value any, opts []PutOption) error {
	k, err := m.key(ctx, key)
	if err != nil {
		return err
	}
	data, err := m.values.Append(host.CBOR, nil, value)
	if err != nil {
		return valueError(m.decl, err)
	}
	return put(ctx.turn, k, data, host.EncodedCBOR, opts)
}

// Delete removes the entry under a key and reports whether there was one.
func (m *Map[K, V]) Delete(ctx *Context, key K) (bool, error) { return m.remove(ctx, &key) }

func (m *table) remove(ctx *Context, key any) (bool, error) {
	k, err := m.key(ctx, key)
	if err != nil {
		return false, err
	}
	return ctx.turn.KVDelete(k)
}

// DeleteRange removes the entries with from <= key < to and counts them.
func (m *Map[K, V]) DeleteRange(ctx *Context, from, to K) (int64, error) {
	span, err := m.between(ctx, &from, &to)
	if err != nil {
		return 0, err
	}
	return deleteRange(ctx.turn, span)
}

// Clear removes all entries of the map and counts them.
func (m *table) Clear(ctx *Context) (int64, error) {
	if err := ctx.own(m.decl); err != nil {
		return 0, err
	}
	return deleteRange(ctx.turn, elementRange(m.prefix))
}

// Len counts the entries of the map. It works in a turn and in a query. It reads one row if the map
// has a [MapConfig], and all keys otherwise.
func (m *table) Len(ctx Reader) (int64, error) {
	if err := ctx.own(m.decl); err != nil {
		return 0, err
	}
	return ctx.reader().KVCount(m.prefix)
}

// All ranges over the map in the order of its keys. It works in a turn and in a query, and reads
// page by page: in a turn, entries that the loop itself writes may or may not appear. An error ends
// it.
func (m *Map[K, V]) All(ctx Reader, opts ...ListOption) iter.Seq2[MapEntry[K, V], error] {
	return m.list(ctx, elementRange(m.prefix), ctx.own(m.decl), opts)
}

// Prefix ranges over the entries whose keys begin with prefix: its bytes, if keys are strings or
// bytes, or its elements, if keys are tuples. Other keys have no prefixes; the error code is then
// InvalidArgument. Otherwise it is like All.
func (m *Map[K, V]) Prefix(ctx Reader, prefix K, opts ...ListOption) iter.Seq2[MapEntry[K, V], error] {
	span, err := m.starting(ctx, &prefix)
	return m.list(ctx, span, err, opts)
}

// Range ranges over the entries with from <= key < to. Otherwise it is like All.
func (m *Map[K, V]) Range(ctx Reader, from, to K, opts ...ListOption) iter.Seq2[MapEntry[K, V], error] {
	span, err := m.between(ctx, &from, &to)
	return m.list(ctx, span, err, opts)
}

// From ranges over the entries with from <= key. Otherwise it is like All.
func (m *Map[K, V]) From(ctx Reader, from K, opts ...ListOption) iter.Seq2[MapEntry[K, V], error] {
	span := elementRange(m.prefix)
	start, err := m.key(ctx, &from)
	span.start = start
	return m.list(ctx, span, err, opts)
}

// key returns the packed key of an entry, in a new slice.
func (m *table) key(ctx Reader, k any) ([]byte, error) {
	if err := ctx.own(m.decl); err != nil {
		return nil, err
	}
	dst := make([]byte, len(m.prefix), len(m.prefix)+32)
	copy(dst, m.prefix)
	return appendKey(dst, m.form, k)
}

func (m *table) between(ctx Reader, from, to any) (keyRange, error) {
	start, err := m.key(ctx, from)
	if err != nil {
		return keyRange{}, err
	}
	end, err := m.key(ctx, to)
	return keyRange{start, end}, err
}

func (m *table) starting(ctx Reader, prefix any) (keyRange, error) {
	if !m.form.prefixes() {
		return keyRange{},
			Errorf(InvalidArgument, "%s: only keys that are strings, bytes or tuples have prefixes", m.decl)
	}
	key, err := m.key(ctx, prefix)
	if err != nil {
		return keyRange{}, err
	}
	if m.form == keyTuple {
		return elementRange(key), nil
	}
	return byteRange(key[:len(key)-1]), nil // without the terminator
}

// Inlining would compile it into each of its callers.
//
//go:noinline
func (m *Map[K, V]) list(ctx Reader, span keyRange, err error, opts []ListOption) iter.Seq2[MapEntry[K, V], error] {
	return func(yield func(MapEntry[K, V], error) bool) {
		if err != nil {
			yield(MapEntry[K, V]{}, err)
			return
		}
		e := new(MapEntry[K, V]) // one for all, which saves much
		err := m.walk(ctx, span, opts, func(fresh bool, stored *host.KVInfo) (key, value any) {
			if fresh {
				e = new(MapEntry[K, V])
			}
			*e = MapEntry[K, V]{}
			e.describe(stored)
			return &e.Key, &e.Value
		}, func() bool { return yield(*e, nil) })
		if err != nil {
			yield(MapEntry[K, V]{}, err)
		}
	}
}

// walk decodes each entry of a range into the memory that place returns, and then calls there. If
// fresh is set, place returns new memory.
func (m *table) walk(ctx Reader, span keyRange, opts []ListOption,
	place func(fresh bool, stored *host.KVInfo) (key, value any), there func() bool) error {
	p := newPager(ctx.reader(), span, newListing(opts))
	fresh := m.values.DecodesItself()
	p.page.Reuse = !fresh
	for p.next() {
		for i := range p.page.Entries {
			stored := &p.page.Entries[i]
			key, value := place(fresh, &stored.KVInfo)
			if err := m.read(stored.Key, stored.Value, p.q.KeysOnly, key, value); err != nil {
				return err
			}
			if !there() {
				return nil
			}
		}
	}
	return p.err
}

// read decodes the key of an entry and, unless without is set, the value.
func (m *table) read(packed, data []byte, without bool, key, value any) error {
	err := decodeKey(packed[len(m.prefix):], m.form, key)
	if err == nil && !without {
		err = m.values.Decode(host.CBOR, data, value)
	}
	if err != nil {
		return valueError(m.decl, err)
	}
	return nil
}
