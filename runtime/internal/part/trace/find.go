package trace

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// The bounds of what a page of a trace reads: a page ends after the first actors that reach one.
const (
	findTime   = time.Second
	findSpans  = 10_000
	findActors = 100 // that are listed at once
)

// Find implements trace.Finder. The store has no index of traces: each actor is asked, which costs one look if it has no spans.
func Find(ctx context.Context, s *kernel.Kernel, q *trace.FindQuery) (trace.FindPage, error) {
	if q.TraceID == "" {
		return trace.FindPage{}, host.Errorf(host.InvalidArgument, "the request names no trace").With("field", "trace")
	}
	began := time.Now()
	page := trace.FindPage{Spans: []trace.Found{}, Cursor: q.Cursor}
	for {
		list, err := survey.List(s, ctx, host.ListQuery{Type: q.Type, Limit: findActors, Cursor: page.Cursor, Brief: true})
		if err != nil {
			return trace.FindPage{}, err
		}
		for i := range list.Actors {
			if ctx.Err() != nil {
				return trace.FindPage{}, fault.Ended(ctx)
			}
			a := host.Address{Type: list.Actors[i].Type, Key: list.Actors[i].Key}
			if err := addFound(ctx, s, q, a, &page); err != nil && host.CodeOf(err) != host.NotFound { // else it was destroyed meanwhile
				return trace.FindPage{}, err
			}
			page.Actors++
		}
		page.Cursor = list.Cursor
		if page.Cursor == "" || len(page.Spans) >= findSpans || time.Since(began) > findTime {
			return page, nil
		}
	}
}

// addFound adds the spans of an actor.
func addFound(ctx context.Context, s *kernel.Kernel, q *trace.FindQuery, a host.Address, page *trace.FindPage) error {
	in := &trace.ReadInput{TraceID: q.TraceID, Start: q.Start, End: q.End, Limit: findSpans}
	for {
		r, err := result(ctx, s, a, in)
		if err != nil {
			return err
		}
		for i := range r.Spans {
			page.Spans = append(page.Spans, trace.Found{Type: a.Type, Key: a.Key, Span: shown(&r.Spans[i])})
		}
		if in.Cursor = r.Cursor; in.Cursor == "" || len(page.Spans) >= findSpans {
			return nil
		}
	}
}
