package kvrows

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Bounds turns bounds of packed keys into bounds of rows; nil is the end of the store.
func Bounds(start, end []byte) (from, to []byte) {
	from, to = keyspace.UserKV.Range()
	if start != nil {
		from = keyspace.UserKV.Append(nil, start)
	}
	if end != nil {
		to = keyspace.UserKV.Append(nil, end)
	}
	return from, to
}

func encoding(e *engine.Entry) host.Encoding { return host.Encoding(e.Encoding) }

// Stat is Get without the value, which may be large.
func Stat(r engine.Reader, key []byte) (engine.Entry, bool, error) {
	page, err := r.List(engine.ListQuery{Start: key, End: append(key[:len(key):len(key)], 0), Limit: 1, KeysOnly: true})
	if err != nil || len(page.Entries) == 0 {
		return engine.Entry{}, false, err
	}
	return page.Entries[0], true, nil
}
