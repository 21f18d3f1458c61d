package supervisor

import (
	"context"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// StoredStatus describes an actor by what a store says of it, as if it slept.
func StoredStatus(store *engine.Store, namespace string, addr host.Address) (host.Status, error) {
	ident := engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key}
	id, ok, err := store.Lookup(ident)
	if err != nil {
		return host.Status{}, err
	}
	if !ok {
		return host.Status{}, notFound(addr)
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	head, err := snap.Head()
	if err != nil {
		return host.Status{}, err
	}
	st := entryStatus(engine.ActorEntry{ID: id, Identity: ident, Head: head})
	alarms, err := listAlarms(snap, "")
	if err != nil {
		return host.Status{}, err
	}
	st.Alarms = len(alarms)
	for i := range alarms {
		if st.NextAlarm == nil || alarms[i].Due.Before(*st.NextAlarm) {
			due := alarms[i].Due.UTC()
			st.NextAlarm = &due
		}
	}
	rec, err := readControl(snap)
	if err != nil {
		return host.Status{}, err
	}
	st.Pause = rec.pause()
	if set := rec.limits(); !set.Empty() {
		st.Limits = &set
	}
	if st.Pause != nil {
		st.State = host.Paused
	}
	if st.Run, err = runSummary(storedRun{snap}); err != nil {
		return host.Status{}, err
	}
	if err := scheduleStatus(snap, &st); err != nil {
		return host.Status{}, err
	}
	if st.PendingSends, err = countKeys(snap, keyspace.KindOutgoing); err != nil {
		return host.Status{}, err
	}
	st.FailedSends, err = countKeys(snap, keyspace.KindFailedSends)
	return st, err
}

// countKeys counts the keys of a kind, up to the limit of one listing.
func countKeys(l lister, kind keyspace.Kind) (int, error) {
	start, end := keyspace.KindRange(kind)
	page, err := l.List(engine.ListQuery{Start: start, End: end, KeysOnly: true})
	return len(page.Entries), err
}

// entryStatus describes an actor by its entry in the store.
func entryStatus(e engine.ActorEntry) host.Status {
	key := e.Identity.Key
	if key == nil {
		key = []string{}
	}
	return host.Status{
		ID: e.ID.String(), Type: e.Identity.Type, Key: key, State: host.Asleep,
		Version: uint64(e.Head.Version), Generation: uint64(e.Head.Generation), Keys: e.Head.Keys, Bytes: e.Head.Bytes,
		Created: timeMS(e.Head.Created).UTC(), Updated: timeMS(e.Head.Updated).UTC(),
	}
}

// List implements host.Node. It returns when what it read is durable, as [Supervisor.Lookup] does, without the actors of
// which that is unknown.
func (s *Supervisor) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	page, err := StoredList(s.store, s.options.Namespace, q)
	if err != nil {
		return host.ListPage{}, s.storeError(err)
	}
	for i := range page.Actors {
		s.present(&page.Actors[i])
		if err := s.presentRun(&page.Actors[i]); err != nil {
			return host.ListPage{}, s.storeError(err)
		}
	}
	lost, err := s.allSeen(ctx, func(t *actorType) bool { return q.Type == "" || t.Type == q.Type })
	if err != nil {
		return host.ListPage{}, err
	}
	if len(lost) > 0 {
		page.Actors = slices.DeleteFunc(page.Actors, func(st host.Status) bool {
			return contains(lost, host.Address{Type: st.Type, Key: st.Key})
		})
		selected := actorsQuery(s.options.Namespace, q)
		page.Uncertain = slices.DeleteFunc(lost, func(a host.Address) bool { return !selected.Covers(page.Cursor, s.identity(a)) })
	}
	return page, nil
}

// actorsQuery is a query as the store takes it.
func actorsQuery(namespace string, q host.ListQuery) engine.ActorsQuery {
	return engine.ActorsQuery{Namespace: namespace, Type: q.Type, Prefix: q.Prefix, Limit: q.Limit, Cursor: q.Cursor}
}

// presentRun adds to the status of an actor whose type has workflows what its run does.
func (s *Supervisor) presentRun(st *host.Status) error {
	t := s.types[st.Type]
	if t == nil || len(t.Workflows) == 0 {
		return nil
	}
	id, ok, err := s.store.Lookup(s.identity(host.Address{Type: st.Type, Key: st.Key}))
	if err != nil || !ok {
		return err
	}
	snap := s.store.Snapshot(id)
	defer snap.Close()
	st.Run, err = runSummary(storedRun{snap})
	return err
}

// StoredList pages through the actors of a store, as if they slept.
func StoredList(store *engine.Store, namespace string, q host.ListQuery) (host.ListPage, error) {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return host.ListPage{}, host.Errorf(host.InvalidArgument, "limit %d is not between 1 and 1000", q.Limit).With("field", "limit")
	case q.Type == "" && len(q.Prefix) > 0:
		return host.ListPage{}, host.Errorf(host.InvalidArgument, "a key prefix needs a type").With("field", "prefix")
	case q.Limit == 0:
		q.Limit = 100
	}
	page, err := store.Actors(actorsQuery(namespace, q))
	if err != nil {
		return host.ListPage{}, err
	}
	out := host.ListPage{Actors: make([]host.Status, len(page.Actors)), Cursor: page.Cursor}
	for i, e := range page.Actors {
		out.Actors[i] = entryStatus(e)
	}
	return out, nil
}

// Inspect implements host.Inspector. It returns when what it read is durable, as [Supervisor.Lookup] does.
func (s *Supervisor) Inspect(ctx context.Context, addr host.Address, q host.InspectQuery) (host.InspectPage, error) {
	page, err := Inspect(s.store, s.options.Namespace, addr, q)
	if perr := s.seen(ctx, addr); perr != nil {
		return host.InspectPage{}, perr
	}
	if err != nil {
		return host.InspectPage{}, s.storeError(err)
	}
	return page, nil
}

// Inspect reads an actor's raw keyspace from a store that no supervisor need be running on. Its errors are for operators.
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
		err = notFound(addr)
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
			Created: timeMS(e.Created).UTC(), Updated: timeMS(e.Updated).UTC(), Value: e.Value[:min(len(e.Value), q.ValueBytes)],
		}
	}
	return out, nil
}
