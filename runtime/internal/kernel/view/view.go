// Package view has what queries read of an actor: the last commit that was applied.
package view

import (
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A View is one applied commit of an actor, as queries read it.
//
// A query that only reads the state needs no database snapshot: the state's bytes are in memory. If
// it reads keys too, the snapshot is taken at its first read while the view is still the last
// commit, or by the commit that supersedes the view while queries hold it. Either way it shows
// exactly the view's version.
type View struct {
	Version engine.Version
	Commit  uint64 // the commit that must be durable before answers from the view may leave
	Stored  []byte // the state
	ID      keyspace.ActorID
	Of      *attach.List // to the core that committed it; nil if none did
	Store   *engine.Store

	snapshot *engine.Snapshot // guarded by Box.mu
	refs     int32            // guarded by Box.mu

	// All queries of the view share these, if the type allows it.
	Once    sync.Once
	Decoded any
	Err     error
}

// Held returns a view that has a snapshot and one holder, and is in no box before that releases it.
func Held(id keyspace.ActorID, version engine.Version, snapshot *engine.Snapshot) *View {
	return &View{Version: version, ID: id, refs: 1, snapshot: snapshot}
}

// A Box has the current view of an actor, if it is awake. The zero Box has none. Safe for
// concurrent use.
type Box struct {
	// Applied counts the commits that were applied. It includes a commit that goes on and may fail:
	// see Last.
	Applied atomic.Uint64
	mu      sync.Mutex
	current *View
}

// AcquireView returns the current view and holds it, or nil if the actor is not awake.
func (b *Box) AcquireView() *View {
	b.mu.Lock()
	defer b.mu.Unlock()
	v := b.current
	if v != nil {
		v.refs++
	}
	return v
}

// ReleaseView gives a view back.
func (b *Box) ReleaseView(v *View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	v.refs--
	if v.refs == 0 && v.snapshot != nil {
		v.snapshot.Close()
		v.snapshot = nil
	}
}

// SnapshotOf returns the database snapshot of a view that the caller holds. The error is an
// *host.Error with code Unavailable if the actor was given up before the view had one.
func (b *Box) SnapshotOf(v *View) (*engine.Snapshot, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if v.snapshot != nil {
		return v.snapshot, nil
	}
	if b.current != v {
		return nil, fault.Unavailable("the actor was restarted during the query")
	}
	v.snapshot = v.Store.Snapshot(v.ID)
	return v.snapshot, nil
}

// pin gives the queries that hold the current view its snapshot, before there is another one.
//
// REQUIRES: b.mu
func (b *Box) pin() {
	if v := b.current; v != nil && v.refs > 0 && v.snapshot == nil {
		v.snapshot = v.Store.Snapshot(v.ID)
	}
}

// Apply runs a commit. A commit that changes something gets a number, and next takes the place of
// the current view. With ok false it was not made, and everything stays as it was.
func (b *Box) Apply(changes bool, commit func(number uint64) (next *View, ok bool)) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pin()
	if !changes {
		commit(0)
		return
	}
	if next, ok := commit(b.Applied.Add(1)); ok {
		b.current = next
	} else {
		b.Applied.Add(^uint64(0)) // nobody has seen it
	}
}

// Last returns the number of the last commit that was made.
func (b *Box) Last() uint64 {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.Applied.Load()
}

// EnsureView sets the view of an actor that is awake and has none.
func (b *Box) EnsureView(v *View) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.current == nil {
		v.Commit = b.Applied.Load()
		b.current = v
	}
}

// DropView leaves queries without a view. Queries that hold one keep it.
func (b *Box) DropView() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.pin()
	b.current = nil
}
