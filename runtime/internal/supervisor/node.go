package supervisor

import (
	"context"
	"errors"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// maxDepth bounds how deep calls may nest, so that queries which call each other end in an error and not in memory.
const maxDepth = 64

// maxIdempotencyKey bounds an idempotency key, in bytes.
const maxIdempotencyKey = 255

// Call implements host.Node.
func (s *Supervisor) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	return s.call(ctx, r, callerOf(ctx))
}

// call routes a request that comes from outside (from is nil) or from a turn or query.
func (s *Supervisor) call(ctx context.Context, r *host.Request, from *caller) (host.Reply, error) {
	t, err := s.storedTypeOf(r.Address)
	if err != nil {
		return host.Reply{}, err
	}
	if b := s.builtins[r.Method]; t.retired && (b == nil || !b.bare && b.serve == nil) {
		return host.Reply{}, unknownType(t.Type)
	}
	method := -1
	kind := host.Creation
	if r.Method != "" || !r.Create {
		i, ok := t.methods[r.Method]
		if !ok {
			if b := s.builtins[r.Method]; b != nil {
				return s.callBuiltin(ctx, t, b, r, from)
			}
			return host.Reply{}, unknownMethod(t.Type, r.Method)
		}
		method, kind = i, t.Methods[i].Kind
	}
	create := r.Create || kind == host.Creation
	if from == nil {
		if s.draining.Load() {
			return host.Reply{}, unavailable("the node is shutting down")
		}
		if err := s.admit(t, r); err != nil {
			return host.Reply{}, err
		}
	} else if from.depth >= maxDepth {
		return host.Reply{}, host.Errorf(host.Cycle, "calls are nested more than %d deep", maxDepth)
	}
	if kind == host.Query {
		if r.Create {
			return host.Reply{}, host.Errorf(host.InvalidArgument, "%q is a query and cannot create an actor", r.Method).With("create", r.Method)
		}
		return s.query(ctx, t, method, r, from)
	}
	if err := s.pauses.refuse(r.Address); err != nil {
		return host.Reply{}, err
	}
	return s.callTurn(ctx, t, r, from, func(w *work) {
		w.method, w.create, w.existing = method, create, r.Existing && !create
	})
}

// callTurn has an actor run a request as a turn; what says which.
func (s *Supervisor) callTurn(ctx context.Context, t *actorType, r *host.Request, from *caller, what func(*work)) (host.Reply, error) {
	if len(r.IdempotencyKey) > maxIdempotencyKey {
		return host.Reply{}, host.OverLimit("idempotency key bytes", maxIdempotencyKey, int64(len(r.IdempotencyKey)))
	}
	w := s.pool.get()
	w.calls()
	w.ctx, w.codec, w.input = ctx, r.Codec, r.Input
	w.idempotencyKey, w.traceparent, w.connection = r.IdempotencyKey, r.Traceparent, r.Connection
	what(w)
	if err := from.extend(ctx, w); err != nil {
		return host.Reply{}, err
	}
	if _, err := s.submit(ctx, t, r.Address, w, from); err != nil {
		return host.Reply{}, err
	}
	reply := host.Reply{Output: w.out, Version: uint64(w.version), Replayed: w.replayed}
	s.pool.put(w)
	return reply, nil
}

// extend gives w its place in the chain of calls, and lets the turn that makes the call commit what came before it.
func (from *caller) extend(ctx context.Context, w *work) error {
	if from == nil {
		return nil
	}
	w.chain = from.depth + 1
	if w.traceparent == "" {
		w.traceparent = from.traceparent
	}
	if from.task != nil {
		return nil
	}
	t := from.turn
	if t == nil {
		return errQueryWrites()
	}
	if ctx.Done() == nil { // asked before the turn is locked: it may be the turn's own
		w.ctx = t // a call without a deadline of its own has the turn's
	}
	return t.flush()
}

// Destroy implements host.Node.
func (s *Supervisor) Destroy(ctx context.Context, a host.Address) error {
	return s.destroy(ctx, a, callerOf(ctx))
}

func (s *Supervisor) destroy(ctx context.Context, addr host.Address, from *caller) error {
	t, err := s.storedTypeOf(addr)
	if err != nil {
		return err
	}
	if from == nil && s.draining.Load() {
		return unavailable("the node is shutting down")
	}
	w := s.pool.get()
	w.job, w.ctx, w.existing = destroying{}, ctx, true
	if err := from.extend(ctx, w); err != nil {
		return err
	}
	if _, err := s.submit(ctx, t, addr, w, from); err != nil {
		return err
	}
	s.pool.put(w)
	return nil
}

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
	st, err := StoredStatus(s.store, s.options.Namespace, addr)
	if err != nil {
		return host.Status{}, s.storeError(err)
	}
	s.present(&st)
	return st, nil
}

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

// present adds to a status what the actor does in memory.
func (s *Supervisor) present(st *host.Status) {
	addr := host.Address{Type: st.Type, Key: st.Key}
	if a := s.find(addr); a != nil {
		a.mu.Lock()
		if a.core != nil {
			st.State = host.Awake
		}
		st.Tasks = a.crew().size()
		a.mu.Unlock()
		st.Mailbox = int(a.waiting.Load())
	}
	st.Connections = s.hub.count(addr)
	if p := s.pauses.at(addr); p != nil {
		st.State, st.Pause = host.Paused, p
	}
	if f := s.failures.of(addr); f != nil { // the worse of the two, as long as it lasts
		st.State, st.Failure = host.Failed, f
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

// storeError makes the public error for a failed read, and logs its cause.
func (s *Supervisor) storeError(err error) error {
	e, id := publicError(err)
	if id != "" {
		s.logger.Error("read the store", "error_id", id, "error", err)
	}
	return e
}

// submit posts w and waits for its result; for calls that somebody waits for.
func (s *Supervisor) submit(ctx context.Context, t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	a, err := s.submitted(t, addr, w, from)
	if err != nil {
		return nil, err
	}
	if done := ctx.Done(); done != nil {
		select {
		case <-w.done:
		case <-done:
			w.leave()
			if w.claim() {
				return nil, contextError(ctx) // the turn may still run; its result has no taker
			}
			<-w.done
		}
	} else {
		<-w.done
	}
	return a, w.err
}

// submitted posts w with its wait edge.
func (s *Supervisor) submitted(t *actorType, addr host.Address, w *work, from *caller) (*activation, error) {
	for {
		a := s.activation(t, addr)
		if a == nil {
			return nil, unavailable("the node is shutting down")
		}
		if from != nil && from.waiter != nil {
			w.waits = &s.waits
			if err := s.waits.enter(from.waiter.a, a, w); err != nil {
				return nil, err
			}
		}
		err := a.enqueue(w)
		if err == nil {
			return a, nil
		}
		w.leave()
		if !errors.Is(err, errGone) {
			return nil, err
		}
	}
}
