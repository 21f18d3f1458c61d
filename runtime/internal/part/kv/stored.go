package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
)

// StoredReply answers kv.get, kv.get_many, kv.list, kv.count, kv.branches and kv.render from a store that no node need be running on.
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
	switch r.Method {
	case host.KVGet:
		return storedReply(from, r, get)
	case host.KVGetMany:
		return storedReply(from, r, getMany)
	case host.KVList:
		return storedReply(from, r, list)
	case host.KVCount:
		return storedReply(from, r, count)
	case host.KVBranches:
		return storedReply(from, r, branches)
	case host.KVRender:
		return storedReply(from, r, render)
	}
	return host.Reply{}, fault.UnknownMethod(r.Type, r.Method)
}

func storedReply[In, Out any](from *reader, r *host.Request, read func(*reader, *In) (Out, error)) (reply host.Reply, err error) {
	var in In
	if err := wire.Decode(r.Method, r.Codec, r.Input, &in); err != nil {
		return reply, err
	}
	out, err := read(from, &in)
	if err != nil {
		return reply, err
	}
	reply.Output, err = wire.Encode(r.Codec, &out)
	return reply, err
}
