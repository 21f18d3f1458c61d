package kernel

import (
	"context"
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/gate"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

// Durable returns a snapshot of an actor, awake or not, once all of it is durable, and the id of
// its life. Rows must not be read outside a turn in any other way: a power cut could take back what
// the reader showed. The error is an *Error: NotFound if there is no such actor, which is durable
// then too.
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

// Seen waits until what the caller has just read of an actor in the store is durable, and its
// consequences are out. The Actor that committed it is in memory until then, even if it never
// becomes durable.
func (s *Kernel) Seen(ctx context.Context, addr host.Address) error {
	a := s.Find(addr)
	if a == nil {
		return nil
	}
	return a.Seen(ctx)
}

// Seen is [Kernel.Seen] of one actor.
func (a *Actor) Seen(ctx context.Context) error {
	return passed(ctx, &a.Told, a.Last())
}

// Pass waits until a commit is durable: the reply gate of queries.
func (a *Actor) Pass(ctx context.Context, commit uint64) error {
	return passed(ctx, &a.Gate, commit)
}

func passed(ctx context.Context, g *gate.Gate, commit uint64) error {
	err := g.Pass(ctx, commit)
	if ended := ctx.Err(); ended != nil && errors.Is(err, ended) {
		return fault.Ended(ctx)
	}
	return err
}

// fail ends the waits of readers: what they have read will never be durable.
func (a *Actor) fail(err error) {
	a.Gate.Fail(err)
	a.Told.Fail(err)
}

// StandIn returns a view of the durable state of an actor that does not wake. The Actor stands for
// it in one query and is in no directory. The error is an *Error.
func (s *Kernel) StandIn(ctx context.Context, t *Type, addr host.Address) (*Actor, *view.View, error) {
	snap, id, err := s.Durable(ctx, addr)
	if err != nil {
		return nil, nil, err
	}
	head, err := snap.Head()
	if err != nil {
		snap.Close()
		return nil, nil, s.StoreError(err)
	}
	return newActor(s, t, addr, string(address.Append(nil, addr))), view.Held(id, head.Version, snap), nil
}
