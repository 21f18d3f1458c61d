package survey

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// Inspect reads an actor's raw keyspace. It returns when what it read is durable, as [Lookup] does.
func Inspect(s *kernel.Kernel, ctx context.Context, addr host.Address, q host.InspectQuery) (host.InspectPage, error) {
	page, err := StoredKeys(s.Store, s.Options.Namespace, addr, q)
	if perr := s.Seen(ctx, addr); perr != nil {
		return host.InspectPage{}, perr
	}
	if err != nil {
		return host.InspectPage{}, s.StoreError(err)
	}
	return page, nil
}

// StoredKeys is Inspect for a store without a node. Its errors are for operators.
func StoredKeys(store *engine.Store, namespace string, addr host.Address,
	q host.InspectQuery) (host.InspectPage, error) {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return host.InspectPage{},
			host.Errorf(host.InvalidArgument, "limit %d is not between 1 and 1000", q.Limit).With("field", "limit")
	case q.ValueBytes < 0:
		return host.InspectPage{}, host.Errorf(host.InvalidArgument, "value bytes %d is negative", q.ValueBytes)
	case q.Limit == 0:
		q.Limit = 100
	}
	id, ok, err := store.Lookup(engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key})
	if err == nil && !ok {
		err = fault.NotFound(addr)
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
			Created: clock.TimeMS(e.Created).UTC(), Updated: clock.TimeMS(e.Updated).
					UTC(), Value: e.Value[:min(len(e.Value), q.ValueBytes)],
		}
	}
	return out, nil
}
