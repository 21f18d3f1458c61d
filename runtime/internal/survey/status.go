package survey

import (
	"context"
	"fmt"
	"runtime/debug"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// Lookup describes an actor. It reads the store and the directory of awake actors, and returns when
// that is durable. The error code is Unavailable if the disk failed and that is unknown.
func Lookup(s *kernel.Kernel, ctx context.Context, addr host.Address) (host.Status, error) {
	if _, err := s.StoredTypeOf(addr); err != nil {
		return host.Status{}, err
	}
	st, err := Status(s, addr)
	if perr := s.Seen(ctx, addr); perr != nil {
		return host.Status{}, perr
	}
	return st, err
}

// Status is Lookup without the wait: it may be ahead of the disk by the commits under way.
func Status(s *kernel.Kernel, addr host.Address) (host.Status, error) {
	st, err := StoredStatus(s.Parts, s.Store, s.Options.Namespace, addr)
	if err != nil {
		return host.Status{}, s.StoreError(err)
	}
	present(s, &st)
	return st, nil
}

// present adds the facts about an actor in memory to a status.
func present(s *kernel.Kernel, st *host.Status) {
	addr := host.Address{Type: st.Type, Key: st.Key}
	a := s.Find(addr)
	if a != nil {
		a.Mu.Lock()
		if a.Core != nil {
			st.State = host.Awake
		}
		a.Mu.Unlock()
		st.Mailbox = int(a.Mailbox.Count())
	}
	for p := range attach.As[Presenter](s.Parts) {
		presentOf(s, p, a, addr, st)
	}
	if p := s.Pauses.At(addr); p != nil {
		st.State, st.Pause = host.Paused, p
	}
	if f := s.Failures.Of(address.Append(nil, addr)); f != nil { // the worse of the two, as long as it lasts
		st.State, st.Failure = host.Failed, f
	}
}

// presentOf calls Present of one part. A panic is logged, and the status goes without that part.
func presentOf(s *kernel.Kernel, p Presenter, a *kernel.Actor, addr host.Address, st *host.Status) {
	var err error
	defer s.Contain(addr, "Present", p, &err)
	p.Present(s, a, st)
}

// reportOf calls Report of one part. A panic is an error.
func reportOf(p Reporter, rows *engine.Snapshot, st *host.Status) (err error) {
	defer func() {
		if x := recover(); x != nil {
			err = fmt.Errorf("a report panicked: %v\n%s", x, debug.Stack())
		}
	}()
	return p.Report(rows, st)
}

// StoredStatus describes an actor from a store, as if it slept.
func StoredStatus(parts []kernel.Part, store *engine.Store, namespace string, addr host.Address) (host.Status, error) {
	ident := engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key}
	id, ok, err := store.Lookup(ident)
	if err != nil {
		return host.Status{}, err
	}
	if !ok {
		return host.Status{}, fault.NotFound(addr)
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	head, err := snap.Head()
	if err != nil {
		return host.Status{}, err
	}
	st := EntryStatus(&engine.ActorEntry{ID: id, Identity: ident, Head: head})
	for p := range attach.As[Reporter](parts) {
		if err := reportOf(p, snap, &st); err != nil {
			return host.Status{}, err
		}
	}
	return st, nil
}

// EntryStatus describes an actor by its entry in the store.
func EntryStatus(e *engine.ActorEntry) host.Status {
	return host.Status{
		ID: e.ID.String(), Type: e.Identity.Type, Key: keyOf(e), State: host.Asleep,
		Version: uint64(e.Head.Version), Generation: uint64(e.Head.Generation), Keys: e.Head.Keys, Bytes: e.Head.Bytes,
		Created: clock.TimeMS(e.Head.Created).UTC(), Updated: clock.TimeMS(e.Head.Updated).UTC(),
	}
}

// keyOf returns an actor's key, which is not nil: in JSON it is no null.
func keyOf(e *engine.ActorEntry) []string {
	if e.Identity.Key == nil {
		return []string{}
	}
	return e.Identity.Key
}

// CountKeys counts the keys of a kind, up to the limit of one listing.
func CountKeys(l call.Lister, kind keyspace.Kind) (int, error) {
	start, end := kind.Range()
	page, err := l.List(engine.ListQuery{Start: start, End: end, KeysOnly: true})
	return len(page.Entries), err
}
