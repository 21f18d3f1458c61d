package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// lister is what a turn's write set and a query's snapshot have in common.
type lister interface {
	List(engine.ListQuery) (engine.Page, error)
}

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
