package run

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A VerifiedRun is a live run, with the result of a check whether its code still fits its history.
type VerifiedRun struct {
	host.Address
	Status wfhost.RunStatus
	// Report is of the replay; Err is why there was none.
	Report wfhost.Report
	Err    error
}

// VerifyRuns replays every live run of a store, of the actor types of behaviors, and writes
// nothing. visit is called with each; its error ends it.
func VerifyRuns(ctx context.Context, store *engine.Store, namespace string,
	behaviors []*host.Behavior, visit func(*VerifiedRun) error) error {
	for _, b := range behaviors {
		t := &kernel.Type{Behavior: b}
		q := engine.ActorsQuery{Namespace: namespace, Type: b.Type, Limit: 1000}
		for {
			page, err := store.Actors(q)
			if err != nil {
				return err
			}
			for i := range page.Actors {
				if err := ctx.Err(); err != nil {
					return err
				}
				addr := host.Address{Type: b.Type, Key: survey.EntryStatus(&page.Actors[i]).Key} // which is not nil
				v, err := verify(t, store, namespace, addr)
				if err != nil {
					return err
				}
				if v == nil {
					continue
				}
				if err := visit(v); err != nil {
					return err
				}
			}
			if page.Cursor == "" {
				break
			}
			q.Cursor = page.Cursor
		}
	}
	return nil
}

// verify replays the live run of an actor; nil if it has none.
func verify(t *kernel.Type, store *engine.Store, namespace string, addr host.Address) (*VerifiedRun, error) {
	id, ok, err := store.Lookup(engine.Identity{Namespace: namespace, Type: addr.Type, Key: addr.Key})
	if err != nil || !ok {
		return nil, err
	}
	snap := store.Snapshot(id)
	defer snap.Close()
	if _, _, live, err := readRun(snap); err != nil || !live {
		return nil, err
	}
	v := &VerifiedRun{Address: addr}
	if v.Status, v.Err = wfhost.ReadStatus(storedRun{snap}); v.Err == nil {
		v.Report, v.Err = wfhost.Verify(storedRun{snap}, func(a0 string) *wfhost.Program { return program(t, a0) })
	}
	return v, nil
}
