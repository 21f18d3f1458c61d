package kernel

import (
	"context"
	"errors"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A View is one applied commit of an actor, as queries read it.
//
// A query that only reads the state needs no database snapshot: the state's bytes are in memory. If it reads keys too,
// the snapshot is taken at its first read while the view is still the last commit, or by the commit that supersedes the
// view while queries hold it. Either way it shows exactly the view's version.
type View struct {
	Version engine.Version
	Commit  uint64 // the commit that must be durable before what the view shows may leave
	Stored  []byte
	ID      keyspace.ActorID
	Of      *attach.List // to the core that committed it; nil if none did

	// Guarded by Actor.viewMu.
	refs     int
	snapshot *engine.Snapshot

	// What all queries of the view share, if the type lets them.
	Once    sync.Once
	Decoded any
	Err     error
}

// AcquireView returns the current view and holds it, or nil if the actor is not awake.
func (a *Actor) AcquireView() *View {
	a.viewMu.Lock()
	defer a.viewMu.Unlock()
	v := a.view
	if v != nil {
		v.refs++
	}
	return v
}

// ReleaseView gives a view back.
func (a *Actor) ReleaseView(v *View) {
	a.viewMu.Lock()
	defer a.viewMu.Unlock()
	v.refs--
	if v.refs == 0 && v.snapshot != nil {
		v.snapshot.Close()
		v.snapshot = nil
	}
}

// SnapshotOf returns the database snapshot of a view that the caller holds.
func (a *Actor) SnapshotOf(v *View) (*engine.Snapshot, error) {
	a.viewMu.Lock()
	defer a.viewMu.Unlock()
	if v.snapshot != nil {
		return v.snapshot, nil
	}
	if a.view != v {
		return nil, fault.Unavailable("the actor was restarted during the query")
	}
	v.snapshot = a.Kernel.Store.Snapshot(v.ID)
	return v.snapshot, nil
}

// pinView gives the queries that hold the current view its snapshot, before there is another one.
//
// REQUIRES: a.viewMu
func (a *Actor) pinView() {
	if v := a.view; v != nil && v.refs > 0 && v.snapshot == nil {
		v.snapshot = a.Kernel.Store.Snapshot(v.ID)
	}
}

// ensureView gives queries a view of an awake actor that lost it when an earlier goroutine gave the actor up.
func (a *Actor) ensureView(c *Core) {
	a.viewMu.Lock()
	defer a.viewMu.Unlock()
	if a.view == nil {
		a.view = &View{Version: c.space.Head().Version, Commit: a.Applied.Load(), Stored: c.stored, ID: c.ID, Of: &c.Attached}
	}
}

// dropView leaves queries without a view; those that hold one keep it.
func (a *Actor) dropView() {
	a.viewMu.Lock()
	defer a.viewMu.Unlock()
	a.pinView()
	a.view = nil
}

// Durable returns a snapshot of an actor, awake or not, all of which is durable, and the id of its life. It is the one way
// to read rows outside a turn: a reader of anything else shows what a power cut could take back. The error is an *Error:
// NotFound if there is no such actor, which is durable then too.
func (s *Kernel) Durable(ctx context.Context, addr host.Address) (*engine.Snapshot, keyspace.ActorID, error) {
	id, ok, err := s.Store.Lookup(s.Identity(addr))
	if err != nil {
		return nil, id, s.StoreError(err)
	}
	var snap *engine.Snapshot
	if ok {
		snap = s.Store.Snapshot(id)
	} else {
		err = fault.NotFound(addr)
	}
	if perr := s.Seen(ctx, addr); perr != nil {
		err = perr
	}
	if err != nil && snap != nil {
		snap.Close()
	}
	return snap, id, err
}

// Seen waits until what the caller has just read of an actor in the store is durable. The Actor that committed what
// is not durable yet cannot have left memory since, also if it never will be.
func (s *Kernel) Seen(ctx context.Context, addr host.Address) error {
	a := s.Find(addr)
	if a == nil {
		return nil
	}
	return a.Seen(ctx)
}

// Seen is [Kernel.Seen] of one actor.
func (a *Actor) Seen(ctx context.Context) error {
	a.viewMu.Lock()
	last := a.Applied.Load() // a commit that is about to be, and may decline, does not count
	a.viewMu.Unlock()
	return a.Pass(ctx, last)
}

// Pass waits until a commit is durable: the reply gate of queries.
func (a *Actor) Pass(ctx context.Context, commit uint64) error {
	err := a.Gate.Pass(ctx, commit)
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return fault.Ended(ctx)
	}
	return err
}

// StandIn returns a view of what is durable of an actor that does not wake, and an Actor that stands for it in one query and is in
// no directory. The error is an *Error.
func (s *Kernel) StandIn(ctx context.Context, t *Type, addr host.Address) (*Actor, *View, error) {
	snap, id, err := s.Durable(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	head, err := snap.Head()
	if err != nil {
		snap.Close()
		return nil, nil, s.StoreError(err)
	}
	return newActor(s, t, addr, string(address.Append(nil, addr))), &View{Version: head.Version, ID: id, refs: 1, snapshot: snap}, nil
}
