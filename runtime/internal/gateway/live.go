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

// FollowChanges is the method that Authorize is asked about, as Operate, when the changes of actors are followed: of all whose type, and
// the beginning of whose key, are Type and Key.
const FollowChanges = "changes.follow"

// EventChanges is a changes.Record.
const EventChanges = "changes"

// liveChanges answers GET /-/changes with server-sent events: a record for each turn that changed something, as it becomes durable.
func (x *exchange) liveChanges() {
	asked := parameters(x.R.URL.Query()) // what of a malformed query can be read
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
	out := x.stream()
	out.Buf = append(out.Buf, '\n')
	x.followChanges(s, out, q)
}

func (x *exchange) followChanges(s *serve.Stay, out *serve.Writer, q changes.Query) {
	ctx, cancel := context.WithCancel(s.Context())
	records := make(chan *changes.Record)
	var follower sync.WaitGroup
	defer follower.Wait()
	defer cancel()
	var end error
	follower.Go(func() {
		defer close(records)
		end = x.g.live.FollowChanges(ctx, q, func(r *changes.Record) error {
			select {
			case records <- r:
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
		case r, ok := <-records:
			if !ok {
				x.parting(s, x.Front.AsError(end), out)
				return
			}
			text, fault := x.encode(r)
			if fault != nil {
				x.parting(s, fault, out)
				return
			}
			out.Buf = serve.AppendEvent(out.Buf, EventChanges, text)
			x.Front.Meter.Events.Inc()
		case <-beat.C:
			out.Buf = append(out.Buf, comment...)
		}
	}
}
