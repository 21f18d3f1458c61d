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
