package trace

import (
	"context"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/trace"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	"github.com/cairn-run/cairn/traces"
)

// The bounds of a page of a trace: it ends with the span or after the actor that reaches one.
const (
	findTime   = time.Second
	findSpans  = 10_000
	findBytes  = traces.DefaultMaxReply // as OTLP
	findActors = 100                    // that are listed at once
)

// A finding is a page of a trace that is being put together.
//
// The cursor of a page is that of a list of actors. If the page ends amid the spans of an actor,
// which comes after that cursor, two more follow: the cursor of a list that ends with the actor,
// and that of its spans.
type finding struct {
	s     *kernel.Kernel
	q     *trace.FindQuery
	page  trace.FindPage
	room  int    // bytes
	amid  string // the actor with some spans on the page before
	spans string // the cursor of its spans
}

// Find implements trace.Finder. The store has no index of traces: it looks into each actor, which
// is one read if the actor has no spans.
func Find(ctx context.Context, s *kernel.Kernel, q *trace.FindQuery) (trace.FindPage, error) {
	if q.TraceID == "" {
		return trace.FindPage{}, host.Errorf(host.InvalidArgument, "the request names no trace").With("field", "trace")
	}
	began := time.Now()
	f := finding{s: s, q: q, page: trace.FindPage{Spans: []trace.Found{}}, room: findBytes}
	parts := append(strings.Split(q.Cursor, "."), "", "")
	var listed string
	listed, f.amid, f.spans = parts[0], parts[1], parts[2]
	for {
		list, err := survey.List(s, ctx, host.ListQuery{Type: q.Type, Limit: findActors, Cursor: listed, Brief: true})
		if err != nil {
			return trace.FindPage{}, err
		}
		for i := range list.Actors {
			if ctx.Err() != nil {
				return trace.FindPage{}, fault.Ended(ctx)
			}
			a := host.Address{Type: list.Actors[i].Type, Key: list.Actors[i].Key}
			more, err := f.add(ctx, a)
			if err != nil && host.CodeOf(err) != host.NotFound { // else it was destroyed meanwhile
				return trace.FindPage{}, err
			}
			if more != "" {
				f.page.Cursor = strings.Join([]string{listed, engine.ActorsCursor(s.Identity(a)), more}, ".")
				return f.page, nil
			}
			f.page.Actors++
			if i < len(list.Actors)-1 {
				listed = engine.ActorsCursor(s.Identity(a))
			} else {
				listed = list.Cursor
			}
			if listed != "" && (f.full() || time.Since(began) > findTime) {
				f.page.Cursor = listed
				return f.page, nil
			}
		}
		if listed = list.Cursor; listed == "" {
			return f.page, nil
		}
	}
}

func (f *finding) full() bool { return f.room <= 0 || len(f.page.Spans) >= findSpans }

// add adds the spans of an actor, and returns the cursor of those for which there is no room.
func (f *finding) add(ctx context.Context, a host.Address) (more string, err error) {
	in := &trace.ReadInput{TraceID: f.q.TraceID, Start: f.q.Start, End: f.q.End}
	if f.amid != "" && f.amid == engine.ActorsCursor(f.s.Identity(a)) {
		in.Cursor = f.spans
	}
	f.amid = ""
	for {
		in.Limit, in.MaxBytes = findSpans-len(f.page.Spans), f.room
		r, err := result(ctx, f.s, a, in)
		if err != nil {
			return "", err
		}
		for i := range r.Spans {
			f.room -= r.Spans[i].Size()
			f.page.Spans = append(f.page.Spans, trace.Found{Type: a.Type, Key: a.Key, Span: shown(&r.Spans[i])})
		}
		if in.Cursor = r.Cursor; in.Cursor == "" || f.full() {
			return in.Cursor, nil
		}
	}
}
