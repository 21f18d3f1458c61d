package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// StoredReply answers kv.get, kv.get_many, kv.list, kv.count, kv.branches and kv.render from a
// store; no node need run on it.
func StoredReply(store *engine.Store, namespace string, r *host.Request, now time.Time) (host.Reply, error) {
	id, there, err := store.Lookup(engine.Identity{Namespace: namespace, Type: r.Type, Key: r.Key})
	if err != nil {
		return host.Reply{}, err
	}
	from := &reader{rows: nothing{}, codec: r.Codec, now: now}
	if there {
		rows := store.Snapshot(id)
		defer rows.Close()
		head, err := rows.Head()
		if err != nil {
			return host.Reply{}, err
		}
		from.rows, from.version = rows, head.Version
	}
	var read func(*reader, any) (any, error)
	switch r.Method {
	case host.KVGet:
		read = untyped(get)
	case host.KVGetMany:
		read = untyped(getMany)
	case host.KVList:
		read = untyped(list)
	case host.KVCount:
		read = untyped(count)
	case host.KVBranches:
		read = untyped(branches)
	case host.KVRender:
		read = untyped(render)
	default:
		return host.Reply{}, fault.UnknownMethod(r.Type, r.Method)
	}
	row, _ := method.Find(r.Method)
	in := row.New()
	if err := wire.Decode(r.Method, r.Codec, r.Input, in); err != nil {
		return host.Reply{}, err
	}
	out, err := read(from, in)
	if err != nil {
		return host.Reply{}, err
	}
	var reply host.Reply
	reply.Output, err = wire.Encode(r.Codec, out)
	return reply, err
}
