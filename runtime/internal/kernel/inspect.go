package kernel

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Inspect implements host.Inspector. It returns when what it read is durable, as [Kernel.Lookup] does.
func (s *Kernel) Inspect(ctx context.Context, addr host.Address, q host.InspectQuery) (host.InspectPage, error) {
	page, err := Inspect(s.Store, s.Options.Namespace, addr, q)
	if perr := s.seen(ctx, addr); perr != nil {
		return host.InspectPage{}, perr
	}
	if err != nil {
		return host.InspectPage{}, s.StoreError(err)
	}
	return page, nil
}

// Inspect reads an actor's raw keyspace from a store that no node need be running on. Its errors are for operators.
func Inspect(store *engine.Store, namespace string, addr host.Address, q host.InspectQuery) (host.InspectPage, error) {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return host.InspectPage{}, host.Errorf(host.InvalidArgument, "limit %d is not between 1 and 1000", q.Limit).With("field", "limit")
	case q.ValueBytes < 0:
		return host.InspectPage{}, host.Errorf(host.InvalidArgument, "value bytes %d is negative", q.ValueBytes)
	case q.Limit == 0:
		q.Limit = 100
	}
	id, ok, err := store.Lookup(engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key})
	if err == nil && !ok {
		err = NotFound(addr)
	}
	if err != nil {
		return host.InspectPage{}, err
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	page, err := snap.List(engine.ListQuery{Limit: q.Limit, KeysOnly: q.ValueBytes == 0, After: q.After})
	if err != nil {
		return host.InspectPage{}, err
	}
	out := host.InspectPage{Keys: make([]host.StoredKey, len(page.Entries)), Next: page.Next}
	for i, e := range page.Entries {
		out.Keys[i] = host.StoredKey{
			Key: e.Key, Text: keyspace.Format(e.Key), Size: e.Size, Version: uint64(e.Version),
			Created: TimeMS(e.Created).UTC(), Updated: TimeMS(e.Updated).UTC(), Value: e.Value[:min(len(e.Value), q.ValueBytes)],
		}
	}
	return out, nil
}
