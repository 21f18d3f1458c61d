package survey

import (
	"context"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// List pages through actors. It returns when what it read is durable, as [Lookup] does, without the actors of which that is
// unknown.
func List(s *kernel.Kernel, ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	page, err := StoredList(s.Store, s.Options.Namespace, q)
	if err != nil {
		return host.ListPage{}, s.StoreError(err)
	}
	if !q.Brief {
		for i := range page.Actors {
			present(s, &page.Actors[i])
			if err := presentListed(s, &page.Actors[i]); err != nil {
				return host.ListPage{}, s.StoreError(err)
			}
		}
	}
	lost, err := AllSeen(s, ctx, func(t *kernel.Type) bool { return q.Type == "" || t.Type == q.Type })
	if err != nil {
		return host.ListPage{}, err
	}
	if len(lost) > 0 {
		page.Actors = slices.DeleteFunc(page.Actors, func(st host.Status) bool {
			return Contains(lost, host.Address{Type: st.Type, Key: st.Key})
		})
		selected := actorsQuery(s.Options.Namespace, q)
		page.Uncertain = slices.DeleteFunc(lost, func(a host.Address) bool { return !selected.Covers(page.Cursor, s.Identity(a)) })
	}
	return page, nil
}

// actorsQuery is a query as the store takes it.
func actorsQuery(namespace string, q host.ListQuery) engine.ActorsQuery {
	return engine.ActorsQuery{Namespace: namespace, Type: q.Type, Prefix: q.Prefix, Limit: q.Limit, Cursor: q.Cursor, Brief: q.Brief}
}

// presentListed adds to the status of an actor in a list what the parts say in lists.
func presentListed(s *kernel.Kernel, st *host.Status) error {
	t := s.Types[st.Type]
	if t == nil {
		return nil
	}
	for p := range attach.As[ListReporter](s.Parts) {
		if p.Lists(t) {
			if err := reportOn(s, p, st); err != nil {
				return err
			}
		}
	}
	return nil
}

// reportOn adds what a part says of an actor, if that is in the store.
func reportOn(s *kernel.Kernel, p Reporter, st *host.Status) error {
	id, ok, err := s.Store.Lookup(s.Identity(host.Address{Type: st.Type, Key: st.Key}))
	if err != nil || !ok {
		return err
	}
	snap := s.Store.Snapshot(id)
	defer snap.Close()
	return reportOf(p, snap, st)
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
	out := host.ListPage{Actors: make([]host.Status, 0, q.Limit)}
	var err error
	out.Cursor, err = store.EachActor(actorsQuery(namespace, q), func(e *engine.ActorEntry) {
		if q.Brief {
			out.Actors = append(out.Actors, host.Status{ID: e.ID.String(), Type: e.Identity.Type, Key: keyOf(e)})
		} else {
			out.Actors = append(out.Actors, EntryStatus(e))
		}
	})
	if err != nil {
		return host.ListPage{}, err
	}
	return out, nil
}
