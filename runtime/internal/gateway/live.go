package gateway

import (
	"context"
	"strings"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
)

// FollowChanges is the method, as Operate, in the AuthRequest to follow the changes of all actors
// of Type whose key begins with Key.
const FollowChanges = "changes.follow"

// EventChanges is a changes.Record.
const EventChanges = "changes"

// liveChanges answers GET /-/changes with server-sent events: a record for each turn that changed
// something, as it becomes durable.
func (x *exchange) liveChanges() {
	asked := parameters(x.R.URL.Query()) // the readable part of a malformed query
	q := changes.Query{Prefix: asked["prefix"]}
	q.Type, _ = asked.one("type")
	x.Count(q.Type, serve.LabelFollow)
	fault := x.Authorize(x.R.Context(), serve.Operate, host.Address{Type: q.Type, Key: q.Prefix}, FollowChanges)
	var p parameters
	if fault == nil {
		p, fault = x.params("type", "prefix", "kinds")
	}
	if kinds, ok := p.one("kinds"); ok {
		q.Kinds = strings.Split(kinds, ",")
	}
	if fault == nil {
		fault = q.Check()
	}
	var s *serve.Stay
	if fault == nil {
		s, fault = x.Front.Admit(x.R.Context(), serve.EventStream)
	}
	if fault != nil {
		x.Fail(fault)
		return
	}
	defer s.Done()
	tell, err := x.g.live.BeginChanges(q)
	if err != nil {
		x.Fail(x.Front.AsError(err))
		return
	}
	follow(x, s, tell, func(b []byte, r *changes.Record) ([]byte, *host.Error) {
		text, fault := x.encode(r)
		if fault != nil {
			return b, fault
		}
		return serve.AppendEvent(b, EventChanges, text), nil
	})
}

// A liveFeed is a node that reports changes.
type liveFeed interface {
	// BeginChanges begins to follow changes. The caller must call tell once: it calls f for the
	// changes since BeginChanges, as changes.Feed does.
	BeginChanges(q changes.Query) (tell func(ctx context.Context, f func(*changes.Record) error) error, err error)
}

// follow answers with server-sent events until one side ends. It calls tell once, which calls its
// function for each event.
func follow[T any](x *exchange, s *serve.Stay, tell func(context.Context, func(T) error) error,
	appendEvent func([]byte, T) ([]byte, *host.Error)) {
	out := x.stream()
	out.Buf = append(out.Buf, '\n')
	ctx, cancel := context.WithCancel(s.Context())
	events := make(chan T)
	var teller sync.WaitGroup
	defer teller.Wait()
	defer cancel()
	var end error
	teller.Go(func() {
		defer close(events)
		end = tell(ctx, func(e T) error {
			select {
			case events <- e:
				return nil
			case <-ctx.Done():
				return ctx.Err()
			}
		})
	})
	beat := time.NewTicker(x.Front.Limits.Heartbeat)
	defer beat.Stop()
	for {
		if out.Flush() != nil {
			return
		}
		select {
		case e, ok := <-events:
			if !ok {
				x.parting(s, x.Front.AsError(end), out)
				return
			}
			var fault *host.Error
			if out.Buf, fault = appendEvent(out.Buf, e); fault != nil {
				x.parting(s, fault, out)
				return
			}
			x.Front.Meter.Events.Inc()
		case <-beat.C:
			out.Buf = append(out.Buf, comment...)
		}
	}
}
