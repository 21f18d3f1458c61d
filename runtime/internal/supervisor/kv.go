package supervisor

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// kvPart is the part of actors that is the key-value store.
type kvPart struct{}

func (*kvPart) name() string { return "kv" }

// kvTurn is what handlers may do with the key-value store.
type kvTurn struct {
	t *turn
	// changes counts the changes of keys, if somebody wants to know of them.
	changes int
}

// kvReads is what handlers of turns and queries alike may read of the key-value store.
type kvReads struct{ of scope }

func kvEntry(e engine.Entry) host.KVEntry {
	k := host.KVEntry{
		Value: e.Value, Version: uint64(e.Version), Created: timeMS(e.Created), Updated: timeMS(e.Updated), Expire: timeMS(e.Expire),
	}
	if len(e.Key) > 0 {
		k.Key = e.Key[1:]
	}
	return k
}

// kvBounds turns bounds of user keys into bounds of logical keys.
func kvBounds(start, end []byte) (from, to []byte) {
	first, last := keyspace.KindRange(keyspace.KindUserKV)
	from, to = first, last
	if start != nil {
		from = keyspace.AppendUserKV(nil, start)
	}
	if end != nil {
		to = keyspace.AppendUserKV(nil, end)
	}
	return from, to
}

func kvList(l lister, q host.KVQuery) (host.KVPage, error) {
	from, to := kvBounds(q.Start, q.End)
	page, err := l.List(engine.ListQuery{
		Start: from, End: to, Reverse: q.Reverse, Limit: q.Limit, MaxBytes: q.MaxBytes, KeysOnly: q.KeysOnly, After: q.After,
	})
	if err != nil {
		return host.KVPage{}, err
	}
	out := host.KVPage{Entries: make([]host.KVEntry, len(page.Entries)), Next: page.Next}
	for i := range page.Entries {
		out.Entries[i] = kvEntry(page.Entries[i])
	}
	return out, nil
}

// keyJSON renders a packed key as a JSON value for change events: an array of its elements, or its bytes.
func keyJSON(key []byte) any {
	t, err := tuple.Unpack(key)
	if err != nil {
		return key
	}
	out := make([]any, len(t))
	for i, e := range t {
		switch e := e.(type) {
		case tuple.UUID:
			out[i] = keyspace.ActorID(e).String()
		default:
			out[i] = e
		}
	}
	return out
}

// KVPut implements host.Turn.
func (h *kvTurn) KVPut(key, value []byte, expire time.Time) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	var o engine.PutOptions
	if !expire.IsZero() {
		o.ExpireAt = unixMS(expire)
		if o.ExpireAt <= unixMS(t.start) {
			return host.Errorf(host.InvalidArgument, "the entry would expire at %s, which is not in the future", expire.Format(time.RFC3339))
		}
	}
	if err := t.c.ws.Put(keyspace.AppendUserKV(nil, key), value, o); err != nil {
		return limitFault(err)
	}
	if o.ExpireAt != 0 {
		t.expireAt(o.ExpireAt)
	}
	h.change("put", key, value)
	return nil
}

// KVDelete implements host.Turn.
func (h *kvTurn) KVDelete(key []byte) (bool, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return false, err
	}
	defer t.leave()
	ok, err := t.c.ws.Delete(keyspace.AppendUserKV(nil, key))
	if ok && err == nil {
		h.change("delete", key, nil)
	}
	return ok, limitFault(err)
}

// KVDeleteRange implements host.Turn.
func (h *kvTurn) KVDeleteRange(start, end []byte) (int64, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	from, to := kvBounds(start, end)
	n, err := t.c.ws.DeleteRange(from, to)
	if n > 0 && err == nil {
		t.rangeChange(start, end, n)
	}
	return n, limitFault(err)
}

// KVGet implements host.Reader.
func (h kvReads) KVGet(key []byte) (e host.KVEntry, ok bool, err error) {
	r := h.of
	e, err = reading(r, func(rows engine.Reader) (host.KVEntry, error) {
		var stored engine.Entry
		stored, ok, err = rows.Get(keyspace.AppendUserKV(nil, key))
		return kvEntry(stored), err
	})
	return e, ok, err
}

// KVList implements host.Reader.
func (h kvReads) KVList(q host.KVQuery) (host.KVPage, error) {
	r := h.of
	return reading(r, func(rows engine.Reader) (host.KVPage, error) { return kvList(rows, q) })
}

const (
	// maxKVChanges bounds how many changes of keys one turn publishes; the rest are counted in one more.
	maxKVChanges = 256
	// maxChangeValue bounds the value that such a change carries, in bytes.
	maxChangeValue = 8 << 10
)

// change notes a change of a key to publish.
//
// REQUIRES: t.mu
func (h *kvTurn) change(op string, key, value []byte) {
	t := h.t
	if t.a.sup.options.Changes == nil {
		return
	}
	if h.changes++; h.changes > maxKVChanges {
		if h.changes == maxKVChanges+1 {
			t.enlist(h)
		}
		return
	}
	t.change(engine.ChangeKV, "", func() any {
		m := map[string]any{"op": op, "key": keyJSON(key)}
		if op == "put" {
			m["size"] = len(value)
			if len(value) <= maxChangeValue {
				m["value"] = value
			}
		}
		return m
	})
}

// seal implements participant, for a turn that changed more keys than it publishes.
func (h *kvTurn) seal(t *turn) error {
	t.change(engine.ChangeKV, "", func() any { return map[string]any{"op": "more", "count": h.changes - maxKVChanges} })
	return nil
}

func (t *turn) rangeChange(start, end []byte, n int64) {
	t.change(engine.ChangeKV, "", func() any {
		return map[string]any{"op": "delete_range", "start": start, "end": end, "count": n}
	})
}
