// Package conn is the part for connections: clients whose state outlives their network connection.
package conn

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for connections.
type Part struct{ slow, resumed atomic.Int64 }

// Name implements kernel.Part.
func (*Part) Name() string { return "conn" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(s *kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cairn_connections",
			Help: "Clients that are connected to actors."},
			func() float64 { return float64(event.HubOf(s).Total()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cairn_connections_slow_total", Help: "Connections cut off because the client read too slowly.",
		}, func() float64 { return float64(p.slow.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cairn_connections_resumed_total", Help: "Connections that a client came back to.",
		}, func() float64 { return float64(p.resumed.Load()) }),
	}
}

var _ interface {
	survey.Explainer
	kernel.Meter
	survey.Presenter
	kernel.Recoverer
	call.Server
	kernel.Waker
} = (*Part)(nil)

// Present implements survey.Presenter.
func (*Part) Present(s *kernel.Kernel, _ *kernel.Actor, st *host.Status) {
	st.Connections = event.HubOf(s).Count(host.Address{Type: st.Type, Key: st.Key})
}

// connType has the times of turns: join is for opening, resuming and changing connections, and
// leave for ending them.
type connType struct{ join, leave pace.Average }

func connTypeOf(t *kernel.Type) *connType {
	return attach.Make(&t.Attached, func() *connType { return new(connType) })
}

// Turn is the view of handlers on connections.
type Turn struct{ Reads[*kernel.Turn] }

// Reads is the view of handlers of turns and queries on connections.
type Reads[S call.Scope] struct{ K S }

// Query is what handlers of queries may read of connections.
type Query struct{ Reads[*call.Query] }

// maxCloseReason bounds the reason with which an operator closes a connection, in bytes.
const maxCloseReason = 1024

// Caller implements host.Reader.
func (h Turn) Caller() string { return h.K.Work.Connection }

// Caller implements host.Reader.
func (h Query) Caller() string { return h.K.Request.Connection }

// EmitTo implements host.Turn.
func (h Turn) EmitTo(index int, data []byte, to string, except []string) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	if to != "" {
		if err := event.HasEvent(t.Actor.Type, index); err != nil {
			return err
		}
		if len(except) > 0 {
			return host.Errorf(host.InvalidArgument, "an event for one connection cannot except others")
		}
		if _, ok, err := readConnection(t.Core.Rows, to); err != nil {
			return err
		} else if !ok {
			return noConnection(to)
		}
	}
	return event.TurnOf(t).Collect(index, data, to, except)
}

// SetConnectionState implements host.Turn.
func (h Turn) SetConnectionState(id string, state []byte) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	rec, ok, err := readConnection(t.Core.Rows, id)
	if err != nil {
		return err
	}
	if !ok {
		return noConnection(id)
	}
	rec.State = slices.Clone(state)
	if err := putConnection(t.Core, id, &rec); err != nil {
		return err
	}
	return nil
}

// CloseConnection implements host.Turn. If the disconnect hook fails, it fails too, and the turn
// must fail: changes of the hook in memory cannot be separated from those of the turn. The hook
// gets the reason as the cause.
func (h Turn) CloseConnection(id string, reason *host.Error) (bool, error) {
	t := h.K
	if reason == nil {
		reason = connectionClosed("the actor closed the connection")
	}
	return closeConnection(t, id, reason)
}

// Subscribe implements host.LiveConnection.
func (l *LiveConnection) Subscribe(ctx context.Context, events ...string) error {
	names, err := checkEvents(l.t, events)
	if err != nil {
		return err
	}
	var added []string
	return l.update(ctx, "subscribe", names, func(c *kernel.Core, w *kernel.Work) error {
		_, err := c.RunTurn(w, "subscribe", guarded(c.Actor.Type, names), func(h *kernel.Turn) (_ []byte, err error) {
			added, err = subscribe(h, l, names)
			return nil, err
		})
		return err
	}, func(err error) {
		if err != nil {
			l.forget(added)
		}
	})
}

// Unsubscribe implements host.LiveConnection. Events that were on their way to the client before
// may still come.
func (l *LiveConnection) Unsubscribe(ctx context.Context, events ...string) error {
	names, err := checkEvents(l.t, events)
	if err != nil {
		return err
	}
	return l.update(ctx, "unsubscribe", names, func(c *kernel.Core, w *kernel.Work) error {
		err := c.System(w, "unsubscribe", func(h *kernel.Turn) error { return unsubscribe(h, l, names) })
		return err
	}, func(err error) {
		if err == nil {
			l.forget(names)
		}
	})
}

// update runs a turn that changes the subscriptions. It calls finish with the result before the
// caller gets it, and even if the caller is gone.
func (l *LiveConnection) update(
	ctx context.Context, name string, names []string, run func(*kernel.Core, *kernel.Work) error, finish func(error),
) error {
	if len(names) == 0 {
		return nil
	}
	if err := l.Ended(); err != nil {
		return err
	}
	if err := outside(l.S, ctx); err != nil {
		return err
	}
	b := kernel.NewProcedure(name, run)
	b.Pace = &connTypeOf(l.t).join
	done := make(chan error, 1)
	w := &kernel.Work{
		Call: kernel.Call{Method: -1, Builtin: b, Connection: l.ID}, Ctx: ctx, Existing: true,
		Finish: func(w *kernel.Work) {
			finish(w.Err)
			done <- w.Err
		},
	}
	w.Job = &w.Call
	if _, err := l.S.Post(l.t, l.addr, w, nil); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return fault.Ended(ctx)
	}
}

// forget stops the delivery of events.
func (l *LiveConnection) forget(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		delete(l.Subscriptions, n)
	}
}

// subscribe subscribes a connection to events after this turn, if their hooks allow it.
func subscribe(t *kernel.Turn, l *LiveConnection, names []string) (added []string, err error) {
	if err := t.Enter(); err != nil {
		return nil, err
	}
	rec, ok, err := readConnection(t.Core.Rows, l.ID)
	t.Leave()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noConnection(l.ID)
	}
	added = slices.DeleteFunc(slices.Clone(names), rec.subscribed)
	if n := len(rec.Events) + len(added); n > host.MaxSubscriptions {
		return nil, host.OverLimit("subscriptions of a connection", host.MaxSubscriptions, int64(n))
	}
	if len(added) == 0 {
		return l.follow(&rec, names), nil
	}
	st := rec.state(l.ID)
	if err := askSubscribe(t, &st, added); err != nil {
		return nil, err
	}
	if err := t.Enter(); err != nil {
		return nil, err
	}
	defer t.Leave()
	if rec, ok, err = readConnection(t.Core.Rows, l.ID); err != nil {
		return nil, err
	}
	if !ok {
		return nil, noConnection(l.ID) // a hook closed it
	}
	last, err := event.LastSequence(t.Core)
	if err != nil {
		return nil, err
	}
	for _, n := range added {
		rec.Events = append(rec.Events, subscriptionRecord{Name: n, After: last})
	}
	if err := putConnection(t.Core, l.ID, &rec); err != nil {
		return nil, err
	}
	return l.follow(&rec, names), nil
}

// follow adds the events of the record to the client's subscriptions, and returns the names of new
// ones. An earlier end of the connection may have subscribed to them. It does so before the turn is
// durable, because the next events may share its commit.
func (l *LiveConnection) follow(rec *connectionRecord, names []string) (added []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, s := range rec.Events {
		if _, ok := l.Subscriptions[s.Name]; !ok && slices.Contains(names, s.Name) {
			l.Subscriptions[s.Name] = s.After
			added = append(added, s.Name)
		}
	}
	return added
}

// unsubscribe removes events from the subscriptions of a connection.
func unsubscribe(t *kernel.Turn, l *LiveConnection, names []string) error {
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	rec, ok, err := readConnection(t.Core.Rows, l.ID)
	if err != nil {
		return err
	}
	if !ok {
		return noConnection(l.ID)
	}
	n := len(rec.Events)
	rec.Events = slices.DeleteFunc(rec.Events,
		func(s subscriptionRecord) bool { return slices.Contains(names, s.Name) })
	if len(rec.Events) == n {
		return nil
	}
	return markConnection(t.Core, l.ID, &rec)
}
