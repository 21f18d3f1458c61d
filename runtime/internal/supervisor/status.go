package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// Lookup implements host.Node. It reads the store and the directory of awake actors, and returns when what it read is
// durable. The error code is Unavailable if the disk failed and that is unknown.
func (s *Supervisor) Lookup(ctx context.Context, addr host.Address) (host.Status, error) {
	if _, err := s.storedTypeOf(addr); err != nil {
		return host.Status{}, err
	}
	st, err := s.status(addr)
	if perr := s.seen(ctx, addr); perr != nil {
		return host.Status{}, perr
	}
	return st, err
}

// status is Lookup without the wait: what it shows may be ahead of the disk by the commits under way.
func (s *Supervisor) status(addr host.Address) (host.Status, error) {
	st, err := storedStatus(s.parts, s.store, s.options.Namespace, addr)
	if err != nil {
		return host.Status{}, s.storeError(err)
	}
	s.present(&st)
	return st, nil
}

// present adds to a status what the actor does in memory.
func (s *Supervisor) present(st *host.Status) {
	addr := host.Address{Type: st.Type, Key: st.Key}
	a := s.find(addr)
	if a != nil {
		a.mu.Lock()
		if a.core != nil {
			st.State = host.Awake
		}
		a.mu.Unlock()
		st.Mailbox = int(a.waiting.Load())
	}
	for p := range partsAs[presenter](s.parts) {
		p.present(s, a, st)
	}
	if p := s.pauses.at(addr); p != nil {
		st.State, st.Pause = host.Paused, p
	}
	if f := s.failures.of(addr); f != nil { // the worse of the two, as long as it lasts
		st.State, st.Failure = host.Failed, f
	}
}

// storedStatus describes an actor by what a store says of it, as if it slept.
func storedStatus(parts []part, store *engine.Store, namespace string, addr host.Address) (host.Status, error) {
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
	for p := range partsAs[reporter](parts) {
		if err := p.report(snap, &st); err != nil {
			return host.Status{}, err
		}
	}
	return st, nil
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

// countKeys counts the keys of a kind, up to the limit of one listing.
func countKeys(l lister, kind keyspace.Kind) (int, error) {
	start, end := keyspace.KindRange(kind)
	page, err := l.List(engine.ListQuery{Start: start, End: end, KeysOnly: true})
	return len(page.Entries), err
}

// storeError makes the public error for a failed read, and logs its cause.
func (s *Supervisor) storeError(err error) error {
	e, id := s.publicError(err)
	if id != "" {
		s.logger.Error("read the store", "error_id", id, "error", err)
	}
	return e
}
