// Package kv is the part for the key-value store.
package kv

import (
	"bytes"
	"cmp"
	"errors"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/part/kv/value"
)

// Part is the part for the key-value store.
type Part struct {
	// Remembered is how many bytes of entries awake actors have in memory, so that queries need not
	// read them.
	Remembered atomic.Int64

	send     Send
	database Database
	log      Log
	hub      hub
}

// A Send is how a commit sends messages to a queue of the actor.
type Send func(t *kernel.Turn, codec host.Codec, in *host.QueueSendInput) (host.QueueSendOutput, error)

// A Log is the stream of an actor with the changes of its entries, under the name kvrows.LogName.
type Log interface {
	kvrows.Log
	// Purge handles a row of the stream in the wake index.
	Purge(rows engine.Writer, now int64, keep *host.Stream, due int64) error
	// Read returns up to limit items of up to maxBytes after a sequence.
	Read(rows engine.Reader, after uint64, limit, maxBytes int) (host.StreamPage, error)
	// Info describes the stream.
	Info(rows engine.Reader) (host.StreamInfo, error)
}

// New makes the part.
func New(send Send, database Database, log Log) *Part {
	return &Part{send: send, database: database, log: log, hub: hub{watchBounds: watchBoundsBy(1)}}
}

// Divide makes the bounds of watchers smaller, so that a test need not write much to reach them. It
// is called before there are watchers.
func (p *Part) Divide(by int) { p.hub.watchBounds = watchBoundsBy(by) }

// Name implements kernel.Part.
func (*Part) Name() string { return "kv" }

// Turn is the view of handlers on the key-value store.
type Turn struct {
	Reads[*kernel.Turn]
	touched *touched // nil if nothing was changed
}

// TurnOf returns the view of a turn's handler on the key-value store.
func TurnOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asKV() *Turn }).asKV() }

func (h *Turn) asKV() *Turn { return h }

// Query is what handlers of queries may read of the key-value store.
type Query = Reads[*call.Query]

// Reads is the view of handlers of turns and queries on the key-value store.
type Reads[S call.Scope] struct{ K S }

func infoOf(e *engine.Entry) (i host.KVInfo) {
	describe(&i, e)
	return i
}

func describe(i *host.KVInfo, e *engine.Entry) {
	i.Version, i.CreatedMS, i.UpdatedMS, i.ExpireMS = uint64(e.Version), e.Created, e.Updated, e.Expire
	i.Size, i.Encoding = e.Size, host.Encoding(e.Encoding)
}

// fill reads a page.
func fill(rows engine.Reader, q *host.KVQuery, page *host.KVPage) error {
	page.Clear()
	list := engine.ListQuery{Reverse: q.Reverse, KeysOnly: q.KeysOnly}
	list.Start, list.End = kvrows.Bounds(q.Start, q.End)
	if q.After != nil {
		list.After = keyspace.UserKV.Append(nil, q.After)
	}
	limit, room := cmp.Or(q.Limit, engine.DefaultListEntries), cmp.Or(q.MaxBytes, engine.DefaultListBytes)
	return rows.Each(list, func(e *engine.Entry) bool {
		key := e.Key[1:]
		describe(&page.Add(key, e.Value, room).KVInfo, e)
		limit--
		if room -= len(key) + len(e.Value); limit > 0 && room > 0 {
			return true
		}
		page.Next = bytes.Clone(key)
		return false
	})
}

// KVPut implements host.Turn.
func (h *Turn) KVPut(key, value []byte, encoding host.Encoding, expire time.Time) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	o := engine.PutOptions{Encoding: uint8(encoding)}
	if !expire.IsZero() {
		o.ExpireAt = expire.UnixMilli()
		if o.ExpireAt <= t.Start.UnixMilli() {
			return host.Errorf(host.InvalidArgument,
				"the entry would expire at %s, which is not in the future", expire.Format(time.RFC3339))
		}
	}
	return h.put(key, value, o)
}

// put stores a value under a packed key.
//
// REQUIRES: h.K.Mu
func (h *Turn) put(key, data []byte, o engine.PutOptions) error {
	store, k := storeOf(h.K.Core), keyspace.UserKV.Append(nil, key)
	if o.ExpireAt == 0 {
		var err error
		if o.ExpireAt, err = store.DefaultExpiry(k); err != nil {
			return err
		}
	}
	if err := store.Put(k, data, o); err != nil {
		return refused(err)
	}
	h.expired(store)
	h.logged(store)
	h.change("put", key, value.Value{Encoding: host.Encoding(o.Encoding), Data: data}, o.ExpireAt)
	return nil
}

// Keep stores a value of another part for the actor under a packed key. Its encoding is not known
// here.
//
// REQUIRES: t.Mu
func Keep(t *kernel.Turn, key, value []byte) error {
	return TurnOf(t).put(key, value, engine.PutOptions{})
}

// refused turns an error of the store into one for the handler.
func refused(err error) error {
	if full, ok := errors.AsType[*kvrows.QuotaError](err); ok {
		e := host.Errorf(host.QuotaExceeded, "%s", full).With("reason", "scope_full").With("what", full.What)
		if full.Hidden {
			return e
		}
		return e.With("scope", full.Scope.Name()).With("limit", strconv.FormatInt(full.Limit, 10))
	}
	return fault.Limit(err)
}

// KVDelete implements host.Turn.
func (h *Turn) KVDelete(key []byte) (bool, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return false, err
	}
	defer t.Leave()
	store := storeOf(t.Core)
	ok, err := store.Delete(keyspace.UserKV.Append(nil, key))
	h.expired(store)
	h.logged(store)
	switch {
	case err != nil:
	case ok:
		h.change("delete", key, value.Value{}, 0)
	default:
		h.index(key) // the removed entry had expired
	}
	return ok, refused(err)
}

// KVDeleteRange implements host.Turn.
func (h *Turn) KVDeleteRange(start, end []byte) (int64, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Leave()
	from, to := kvrows.Bounds(start, end)
	n, err := storeOf(t.Core).DeleteRange(from, to)
	switch {
	case err != nil:
	case n == 0:
		h.indexRange(start, end) // expired entries of it may be gone
	default:
		h.rangeChange(start, end, n)
	}
	h.logged(storeOf(t.Core))
	return n, refused(err)
}

// KVGet implements host.Reader.
func (h Reads[S]) KVGet(key []byte) (e host.KVEntry, ok bool, err error) {
	r := h.K
	e, err = call.Reading(r, func(rows engine.Reader) (host.KVEntry, error) {
		var stored engine.Entry
		key := keyspace.UserKV.Append(nil, key)
		if q, is := any(r).(*call.Query); is {
			stored, ok, err = remember(q, rows).own(key)
		} else {
			stored, ok, err = rows.Get(key)
		}
		return host.KVEntry{Key: key[1:], Value: stored.Value, KVInfo: infoOf(&stored)}, err
	})
	return e, ok, err
}

// KVList implements host.Reader.
func (h Reads[S]) KVList(q host.KVQuery, page *host.KVPage) error {
	_, err := call.Reading(h.K, func(rows engine.Reader) (struct{}, error) { return struct{}{}, fill(rows, &q, page) })
	return err
}

// KVCount implements host.Reader.
func (h Reads[S]) KVCount(prefix []byte) (int64, error) {
	r := h.K
	return call.Reading(r, func(rows engine.Reader) (int64, error) {
		c, scoped, err := kvrows.Counted(rows, prefix, r.Now().UnixMilli())
		if scoped || err != nil {
			return c.Keys, err
		}
		var end []byte
		if len(prefix) > 0 {
			end = keyspace.TupleEnd(prefix)
		}
		return kvrows.CountKeys(rows, prefix, end)
	})
}

const (
	// MaxKVChanges bounds how many changes of keys one turn publishes; the rest are counted in one
	// more.
	MaxKVChanges = 256
	// maxChangeValue bounds the value that such a change carries, in bytes.
	maxChangeValue = 8 << 10
)

// expired records the entries that the store has removed because they had expired, and returns
// their number.
//
// REQUIRES: h.K.Mu
func (h *Turn) expired(store *kvrows.Store) int {
	keys := store.TakePurged()
	for _, key := range keys {
		h.change("expire", key[1:], value.Value{}, 0)
	}
	return len(keys)
}

// change records a change of a key, with the value of a put: for watchers, and to publish it.
//
// REQUIRES: h.K.Mu
func (h *Turn) change(op string, key []byte, v value.Value, expires int64) {
	t := h.K
	h.touch(key)
	h.index(key)
	if !t.Actor.Kernel.Changes.Wanted() {
		return
	}
	what := h.touched
	if what.changes++; what.changes > MaxKVChanges {
		if what.changes == MaxKVChanges+1 {
			t.Enlist(what)
		}
		return
	}
	t.Change(engine.ChangeKV, "", func() any {
		m := map[string]any{"op": op, "key": boundOf(key)}
		switch op {
		case "expire":
			m["op"], m["cause"] = "delete", "expired"
		case "put":
			m["size"] = len(v.Data)
			if len(v.Data) <= maxChangeValue {
				text, encoding := showAny(host.JSON, v)
				if m["value"] = text; encoding != "" {
					m["encoding"] = encoding
				}
			}
			if expires != 0 {
				m["expires"] = clock.TimeMS(expires).UTC()
			}
		}
		return m
	})
}

// Seal implements kernel.Participant, for a turn that changed more keys than it publishes.
func (what *touched) Seal(t *kernel.Turn) error {
	t.Change(engine.ChangeKV, "",
		func() any { return map[string]any{"op": "more", "count": what.changes - MaxKVChanges} })
	return nil
}

// rangeChange records that the entries of a range were removed.
//
// REQUIRES: h.K.Mu
func (h *Turn) rangeChange(start, end []byte, n int64) {
	h.touchRange(start, end)
	h.indexRange(start, end)
	h.K.Change(engine.ChangeKV, "", func() any {
		selected := &kv.Selection{Start: boundOf(start), End: boundOf(end)}
		if prefix, is := bytes.CutSuffix(end, []byte{0xFF}); is && bytes.Equal(prefix, start) {
			selected = &kv.Selection{Prefix: boundOf(prefix)}
		}
		return map[string]any{"op": "delete_range", "range": selected, "count": n}
	})
}
