package survey

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
)

// List pages through actors. It returns when everything that it read is durable, as [Lookup] does.
// It leaves out actors for which that is unknown.
func List(s *kernel.Kernel, ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return ListAfter(s, ctx, q, nil)
}

// ListAfter is like List. If q has a type, and conditions or an order, after gets the cursor after
// each actor, by its id.
func ListAfter(s *kernel.Kernel, ctx context.Context, q host.ListQuery,
	after map[string]string) (host.ListPage, error) {
	var page host.ListPage
	var err error
	searched := len(q.Where) > 0 || q.Sort != ""
	if searched {
		src := nodeSource(s)
		src.after = after
		page, err = find(src, q)
	} else {
		page, err = StoredList(nil, s.Store, s.Options.Namespace, q, nil)
	}
	if err != nil {
		return host.ListPage{}, s.StoreError(err)
	}
	if !q.Brief && !searched {
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
		page.Uncertain = slices.DeleteFunc(lost, func(a host.Address) bool {
			return !searched && !selected.Covers(page.Cursor, s.Identity(a)) || searched && !hasPrefix(a.Key, q.Prefix)
		})
	}
	return page, nil
}

// actorsQuery returns a query in the store's form.
func actorsQuery(namespace string, q host.ListQuery) engine.ActorsQuery {
	return engine.ActorsQuery{Namespace: namespace, Type: q.Type, Prefix: q.Prefix, Limit: q.Limit,
		Cursor: q.Cursor, Brief: q.Brief}
}

// presentListed adds the facts of the parts for lists to the status of a listed actor.
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

// reportOn adds a part's report on an actor, if the actor is in the store.
func reportOn(s *kernel.Kernel, p Reporter, st *host.Status) error {
	id, ok, err := s.Store.Lookup(s.Identity(host.Address{Type: st.Type, Key: st.Key}))
	if err != nil || !ok {
		return err
	}
	snap := s.Store.Snapshot(id)
	defer snap.Close()
	return reportOf(p, snap, st)
}

// checkList checks a query, and sets the default of its limit.
func checkList(q *host.ListQuery) error {
	switch {
	case q.Limit < 0 || q.Limit > 1000:
		return host.Errorf(host.InvalidArgument, "limit %d is not between 1 and 1000", q.Limit).With("field", "limit")
	case q.Type == "" && len(q.Prefix) > 0:
		return host.Errorf(host.InvalidArgument, "a key prefix needs a type").With("field", "prefix")
	case len(q.Where) > maxConditions:
		return host.OverLimit("conditions", maxConditions, int64(len(q.Where))).With("field", "where")
	case q.Limit == 0:
		q.Limit = 100
	}
	return nil
}

// find returns a page of a query with conditions or an order.
func find(src source, q host.ListQuery) (host.ListPage, error) {
	if err := checkList(&q); err != nil {
		return host.ListPage{}, err
	}
	src.looked, src.rest = new(int), q.Cursor != ""
	if name, reverse := strings.CutPrefix(q.Sort, "-"); name == "state" {
		return findByState(src, q, reverse)
	}
	return findPage(src, q)
}

// byState are the states in their order: trouble comes first.
var byState = []host.State{host.Failed, host.Paused, host.Awake, host.Asleep}

// findByState returns a page of a query in the order of the states: the actors of one state after
// those of the other, each in the order of their keys. The cursor names the state that the page
// ended in.
func findByState(src source, q host.ListQuery, reverse bool) (page host.ListPage, err error) {
	states, sort := slices.Clone(byState), "key"
	if reverse {
		slices.Reverse(states)
		sort = "-key"
	}
	inner, at := "", 0
	if q.Cursor != "" {
		dot := strings.LastIndexByte(q.Cursor, '.')
		if at = slices.Index(states, host.State(q.Cursor[dot+1:])); at < 0 || dot < 0 {
			return page, invalid("cursor", "the cursor is not of an earlier page in the order of the states")
		}
		inner = q.Cursor[:dot]
	}
	page.Actors = []host.Status{}
	for i, state := range states[at:] {
		part := q
		src.rest = src.rest || i > 0
		part.Where = append([]string{"state=" + string(state)}, q.Where...)
		part.Sort, part.Cursor, part.Limit = sort, inner, q.Limit-len(page.Actors)
		found, err := findPage(src, part)
		if err != nil {
			return page, err
		}
		// its state has changed since the page began
		found.Actors = slices.DeleteFunc(found.Actors, func(st host.Status) bool {
			return slices.ContainsFunc(page.Actors, func(other host.Status) bool { return other.ID == st.ID })
		})
		for _, st := range found.Actors {
			if src.after != nil {
				src.after[st.ID] += "." + string(state)
			}
		}
		page.Actors, inner = append(page.Actors, found.Actors...), ""
		switch full := len(page.Actors) == q.Limit || *src.looked >= maxLooked; {
		case found.Cursor != "":
			page.Cursor = found.Cursor + "." + string(state)
			return page, nil
		case full && at+i+1 < len(states):
			page.Cursor = "." + string(states[at+i+1])
			return page, nil
		}
	}
	return page, nil
}

// findPage returns a page of a query in another order than that of the states. It refuses a query
// that names an attribute that no actor has, except behind a page that was not refused: then the
// attribute has gone with the last actor that had it, and the rest is empty.
func findPage(src source, q host.ListQuery) (page host.ListPage, err error) {
	page.Actors = []host.Status{}
	if q.Type != "" {
		return pageOf(newSearch(src, q))
	}
	types, err := src.store.Types(src.namespace)
	if err != nil {
		return page, err
	}
	if _, typ, _ := strings.Cut(q.Cursor, "."); typ != "" {
		if i, found := slices.BinarySearch(types, typ); !found {
			types = slices.Insert(types, i, typ) // its last actor was destroyed after the page
		}
	}
	switch q.Sort {
	case "-key":
		slices.Reverse(types)
		return findInEach(src, q, types)
	case "", "key":
		return findInEach(src, q, types)
	}
	if len(types) == 0 {
		types = []string{""} // an order is checked even so
	}
	return pageOf(newMerged(src, q, types))
}

// pageOf returns the page of a search.
func pageOf(s *search, err error) (host.ListPage, error) {
	if err == nil && !(s.rest && isGone(s.refused)) {
		err = s.refused
	}
	if err != nil {
		return host.ListPage{}, err
	}
	return s.run()
}

// findInEach returns a page of a query over all types, one after the other. Types without an
// attribute of the conditions have no such actors. The cursor names the type that the page ended
// in.
func findInEach(src source, q host.ListQuery, types []string) (page host.ListPage, err error) {
	inner, begin, _ := strings.Cut(q.Cursor, ".")
	if q.Cursor != "" && begin == "" {
		return page, invalid("cursor", "the cursor is not of an earlier page over all types")
	}
	page.Actors = []host.Status{}
	var refused error
	searched := false
	for i, t := range types {
		if q.Cursor != "" && (t < begin && q.Sort != "-key" || t > begin && q.Sort == "-key") {
			continue
		}
		part := q
		part.Type, part.Cursor, part.Limit = t, "", q.Limit-len(page.Actors)
		if t == begin {
			part.Cursor = inner
		}
		s, err := newSearch(src, part)
		if err != nil {
			return page, err
		}
		if s.refused != nil {
			refused = cmp.Or(refused, s.refused)
			continue
		}
		searched = true
		found, err := s.run()
		if err != nil {
			return page, err
		}
		if page.Actors = append(page.Actors, found.Actors...); found.Cursor != "" {
			page.Cursor = found.Cursor + "." + t
			return page, nil
		}
		if len(page.Actors) == q.Limit || *src.looked >= maxLooked {
			if i+1 < len(types) {
				page.Cursor = "." + types[i+1]
			}
			return page, nil
		}
	}
	if !searched && !(src.rest && isGone(refused)) {
		return page, refused
	}
	return page, nil
}

// short returns the name of an attribute in its form for errors.
func short(name string) string { return fmt.Sprintf("%.100s", strings.ToValidUTF8(name, "\uFFFD")) }

// isGone reports whether a query was refused because no actor has an attribute.
func isGone(refused error) bool {
	var e *host.Error
	return errors.As(refused, &e) && e.Metadata["attribute"] != ""
}

// nodeSource is the source of a node.
func nodeSource(s *kernel.Kernel) source {
	return source{
		store: s.Store, namespace: s.Options.Namespace,
		known: func(typ string) []host.Attribute {
			if t := s.Types[typ]; t != nil {
				return t.Attributes
			}
			return nil
		},
		state: func(typ string, state host.State, visit func(key []string)) error {
			named := func(key string) {
				if a := address.Parse(key); a.Type == typ {
					visit(a.Key)
				}
			}
			switch state {
			case host.Failed:
				s.Failures.Each(named)
			case host.Paused:
				s.Pauses.Each(named)
			default:
				s.Each(func(a *kernel.Actor) {
					if a.Type.Type == typ && !a.Left() {
						visit(a.Address.Key)
					}
				})
			}
			return nil
		},
		present: func(st *host.Status) error { present(s, st); return nil },
		report:  func(st *host.Status) error { return presentListed(s, st) },
	}
}

// storedSource is the source of a store without a node.
func storedSource(parts []kernel.Part, store *engine.Store, namespace string) source {
	return source{
		store: store, namespace: namespace,
		known: func(string) []host.Attribute { return nil },
		state: func(typ string, state host.State, visit func(key []string)) error {
			if state != host.Paused {
				return nil // no node runs
			}
			return pausedActors(store, namespace, typ, visit)
		},
		present: func(st *host.Status) error {
			found, err := StoredStatus(parts, store, namespace, host.Address{Type: st.Type, Key: st.Key})
			if host.CodeOf(err) == host.NotFound {
				return nil
			}
			*st = found
			return err
		},
		report: func(*host.Status) error { return nil },
	}
}

// pausedActors visits the keys of the actors of a type that may be paused, by the wake index.
func pausedActors(store *engine.Store, namespace, typ string, visit func(key []string)) error {
	for after := []byte(nil); ; {
		rows, err := store.Wakes(after, 0, 1024)
		if err != nil {
			return err
		}
		for _, row := range rows {
			after = row.Row
			if row.Kind != keyspace.WakePaused {
				continue
			}
			i, _, ok, err := store.Identity(row.ID)
			if err != nil {
				return err
			}
			if ok && i.Namespace == namespace && i.Type == typ {
				visit(i.Key)
			}
		}
		if len(rows) < 1024 {
			return nil
		}
	}
}

// StoredList pages through the actors of a store, as if they slept. If the query needs it, the
// parts find out which are paused and have runs. after is as in [ListAfter].
func StoredList(parts []kernel.Part, store *engine.Store, namespace string, q host.ListQuery,
	after map[string]string) (host.ListPage, error) {
	if len(q.Where) > 0 || q.Sort != "" {
		src := storedSource(parts, store, namespace)
		src.after = after
		return find(src, q)
	}
	if err := checkList(&q); err != nil {
		return host.ListPage{}, err
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
