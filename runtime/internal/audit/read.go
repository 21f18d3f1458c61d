package audit

import (
	"context"
	"encoding/json"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// maxLook bounds how many records are looked at for a page.
const maxLook = 20_000

// told reports whether a call has an origin.
func told(ctx context.Context) bool { return audit.Of(ctx) != nil }

// Reasoned reports whether a call is made for a reason.
func Reasoned(ctx context.Context) bool {
	o := audit.Of(ctx)
	return o != nil && o.Reason != ""
}

// Read returns a page of the log of a store.
func Read(s *engine.Store, namespace string, q audit.Query) (page audit.Page, err error) {
	page.Records = []audit.Record{}
	limit := q.Limit
	if limit == 0 {
		limit = audit.DefaultPage
	}
	looked := 0
	err = s.Audit(stored(s, namespace, &q, true), func(r *engine.AuditRecord) bool {
		if shown, ok := selected(&q, namespace, r); ok {
			if len(page.Records) == limit {
				page.Cursor = page.Records[limit-1].ID
				return false
			}
			page.Records = append(page.Records, shown)
		}
		if looked++; looked == maxLook {
			page.Cursor = r.Seq
		}
		return looked < maxLook
	})
	return page, err
}

// stored returns a query in the store's form.
func stored(s *engine.Store, namespace string, q *audit.Query, newest bool) engine.AuditQuery {
	in := engine.AuditQuery{After: q.After, Before: q.Before, Newest: newest}
	if !q.Since.IsZero() {
		in.After = max(in.After, s.AuditPlace(q.Since)-1)
	}
	if !q.Until.IsZero() {
		if until := s.AuditPlace(q.Until); in.Before == 0 || until < in.Before {
			in.Before = until
		}
	}
	if q.Exact {
		in.Of = &engine.Identity{Namespace: namespace, Type: q.Type, Key: q.Prefix}
	}
	return in
}

// selected returns a record in its form for readers, if a query selects it. A damaged one may be of
// any verb. If its actor is not known, only a query of the whole log selects it.
func selected(q *audit.Query, namespace string, r *engine.AuditRecord) (audit.Record, bool) {
	key := r.Of.Key
	switch {
	case r.Damaged && r.Of.Namespace == "" && q.Type == "":
	case r.Of.Namespace != namespace, q.Type != "" &&
		q.Type != r.Of.Type, len(key) < len(q.Prefix), q.Exact && len(key) > len(q.Prefix),
		!slices.Equal(q.Prefix, key[:len(q.Prefix)]):
		return audit.Record{}, false
	}
	shown := show(r)
	return shown, q.Verb == "" || q.Verb == shown.Verb || shown.Damaged
}

// show returns a record in its form for readers.
func show(r *engine.AuditRecord) audit.Record {
	shown := audit.Record{ID: r.Seq, Time: time.UnixMicro(int64(r.Seq)).UTC(), Type: r.Of.Type,
		Key: append([]string{}, r.Of.Key...), Damaged: true}
	var v row
	if r.Damaged || record.Decode(slices.Clone(r.Record), &v) != nil {
		return shown
	}
	for _, text := range [][]byte{v.Input, v.Before, v.After} {
		if len(text) > 0 && !json.Valid(text) {
			return shown
		}
	}
	shown.Damaged, shown.Time, shown.ActorID, shown.Version, shown.Verb = false,
		time.UnixMicro(v.Time).UTC(), v.ActorID, v.Version, v.Verb
	shown.Channel, shown.Principal, shown.Remote, shown.Reason = v.Channel, v.Principal, v.Remote, v.Reason
	shown.Input, shown.Before, shown.After = v.Input, v.Before, v.After
	return shown
}

// Audit returns a page of the log of a node.
func Audit(k *kernel.Kernel, q audit.Query) (audit.Page, error) {
	page, err := Read(k.Store, k.Options.Namespace, q)
	if err != nil {
		return audit.Page{}, k.StoreError(err)
	}
	return page, nil
}

// followStep is how many records are read at a time for a reader that follows.
const followStep = 256

// Follow implements audit.Log.
func Follow(ctx context.Context, k *kernel.Kernel, q audit.Query, f func(*audit.Record) error) error {
	l := LogOf(k)
	if l == nil {
		return host.Errorf(host.FailedPrecondition, "the node has no audit log")
	}
	for field, given := range map[string]bool{"until": !q.Until.IsZero(), "cursor": q.Before != 0,
		"limit": q.Limit != 0} {
		if given {
			return host.Errorf(host.InvalidArgument,
				"what follows the audit log has no end, and takes no %s", field).With("field", field)
		}
	}
	if q.After == 0 && q.Since.IsZero() {
		q.Since = time.Now()
	}
	// once: the clock may be set back
	q.After, q.Since = stored(k.Store, k.Options.Namespace, &q, false).After, time.Time{}
	for {
		news := l.next()
		for more := true; more && ctx.Err() == nil; {
			var records []audit.Record
			n := 0
			err := k.Store.Audit(stored(k.Store, k.Options.Namespace, &q, false), func(r *engine.AuditRecord) bool {
				n++
				q.After = r.Seq
				if shown, ok := selected(&q, k.Options.Namespace, r); ok {
					records = append(records, shown)
				}
				return n < followStep
			})
			if err != nil {
				return k.StoreError(err)
			}
			for i := range records {
				if err := f(&records[i]); err != nil {
					return err
				}
			}
			more = n == followStep
		}
		select {
		case <-news:
		case <-ctx.Done():
			return fault.Ended(ctx)
		case <-k.NoWaits():
			return fault.Unavailable("the node is shutting down")
		}
	}
}
