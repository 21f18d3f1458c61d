// Package survey describes actors without waking them: status, list, raw keys, and what an actor
// waits for. It reads the stored facts about an actor alike on a node and without one.
package survey

import (
	"cmp"
	"context"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
)

// A Reporter adds facts from an actor's rows to its status, on a node and without one.
type Reporter interface {
	Report(rows *engine.Snapshot, st *host.Status) error
}

// A ListReporter is a reporter that also reports in lists, on actors of the types for which Lists
// is true.
type ListReporter interface {
	Reporter
	Lists(t *kernel.Type) bool
}

// A Presenter adds facts that only an actor's node has to its status. a is nil if the actor is not
// in memory.
type Presenter interface {
	Present(s *kernel.Kernel, a *kernel.Actor, st *host.Status)
}

// An Explainer explains what an actor may wait for, and when it will have something to do. rows are
// its stored rows.
type Explainer interface {
	Explain(q *Inquiry, rows *engine.Snapshot) error
}

// AllSeen waits until what the caller has just read of the actors of some types is durable: even
// for actors that it did not find, because a commit under way may have destroyed them. It returns
// the actors whose last commit never will be durable, because the disk failed: what was read of
// them must not be shown. The error is that of ctx, or says that the node ends.
func AllSeen(s *kernel.Kernel, ctx context.Context, of func(*kernel.Type) bool) (lost []host.Address, err error) {
	var unsynced []*kernel.Actor
	s.Each(func(a *kernel.Actor) {
		if of(a.Type) && a.Gate.Durable.Load() < a.Applied.Load() {
			unsynced = append(unsynced, a)
		}
	})
	for _, a := range unsynced {
		err := a.Seen(ctx)
		switch {
		case err == nil:
		case ctx.Err() != nil:
			return nil, fault.Ended(ctx)
		case s.Killed.Load():
			return nil, err
		default:
			lost = append(lost, host.Address{Type: a.Address.Type, Key: append([]string{}, a.Address.Key...)})
		}
	}
	slices.SortFunc(lost, compareAddresses)
	return slices.CompactFunc(lost, func(a, b host.Address) bool { return compareAddresses(a, b) == 0 }), nil
}

func compareAddresses(a, b host.Address) int {
	return cmp.Or(cmp.Compare(a.Type, b.Type), slices.Compare(a.Key, b.Key))
}

// Contains reports whether a sorted list has an address.
func Contains(list []host.Address, a host.Address) bool {
	_, ok := slices.BinarySearchFunc(list, a, compareAddresses)
	return ok
}
