package supervisor

import (
	"context"
	"slices"
	"sync/atomic"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
)

// connPart is the part of actors that is connections.
type connPart struct{ slow, resumed atomic.Int64 }

func (*connPart) name() string { return "conn" }

// collectors implements meter.
func (p *connPart) collectors(s *Supervisor) []prometheus.Collector {
	return []prometheus.Collector{
		prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: "cairn_connections", Help: "Clients that are connected to actors."},
			func() float64 { return float64(hubOf(s).total()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cairn_connections_slow_total", Help: "Connections cut off because the client read too slowly.",
		}, func() float64 { return float64(p.slow.Load()) }),
		prometheus.NewCounterFunc(prometheus.CounterOpts{
			Name: "cairn_connections_resumed_total", Help: "Connections that a client came back to.",
		}, func() float64 { return float64(p.resumed.Load()) }),
	}
}

// present implements presenter.
func (*connPart) present(s *Supervisor, _ *activation, st *host.Status) {
	st.Connections = hubOf(s).count(host.Address{Type: st.Type, Key: st.Key})
}

// connType holds moving averages, like actorType.pace: of the turns that open, resume and change connections, and of those
// that end them.
type connType struct{ join, leave atomic.Int64 }

func connTypeOf(t *actorType) *connType {
	return attach(&t.attached, func() *connType { return new(connType) })
}

// connTurn is what handlers may do with connections.
type connTurn struct{ t *turn }

// connReads is what handlers of turns and queries alike may read of connections.
type connReads struct{ of scope }

// connQuery is what handlers of queries may read of connections.
type connQuery struct{ r *reader }

// maxCloseReason bounds the reason with which an operator closes a connection, in bytes.
const maxCloseReason = 1024

// Caller implements host.Reader.
func (h connTurn) Caller() string { return h.t.work.connection }

// Caller implements host.Reader.
func (h connQuery) Caller() string { return h.r.caller }

// EmitTo implements host.Turn.
func (h connTurn) EmitTo(index int, data []byte, to string, except []string) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	if to != "" {
		if err := t.a.typ.hasEvent(index); err != nil {
			return err
		}
		if len(except) > 0 {
			return host.Errorf(host.InvalidArgument, "an event for one connection cannot except others")
		}
		if _, ok, err := readConnection(t.c.ws, to); err != nil {
			return err
		} else if !ok {
			return noConnection(to)
		}
	}
	return eventsOf(t).emit(index, data, to, except)
}

// SetConnectionState implements host.Turn.
func (h connTurn) SetConnectionState(id string, state []byte) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	rec, ok, err := readConnection(t.c.ws, id)
	if err != nil {
		return err
	}
	if !ok {
		return noConnection(id)
	}
	rec.State = slices.Clone(state)
	if err := t.c.putConnection(id, &rec); err != nil {
		return err
	}
	return nil
}

// CloseConnection implements host.Turn. If the disconnect hook fails, so does this, and the turn is to fail with it: what
// the hook did in memory cannot be told from what the turn did. The hook gets the reason as the cause.
func (h connTurn) CloseConnection(id string, reason *host.Error) (bool, error) {
	t := h.t
	if reason == nil {
		reason = connectionClosed("the actor closed the connection")
	}
	return t.closeConnection(id, reason)
}

// Subscribe implements host.LiveConnection.
func (l *liveConnection) Subscribe(ctx context.Context, events ...string) error {
	names, err := checkEvents(l.t, events)
	if err != nil {
		return err
	}
	var added []string
	return l.update(ctx, "subscribe", names, func(c *core, w *work) error {
		_, err := c.turn(w, "subscribe", c.a.typ.guarded(names), func(h *turn) (_ []byte, err error) {
			added, err = h.subscribe(l, names)
			return nil, err
		})
		return err
	}, func(err error) {
		if err != nil {
			l.forget(added)
		}
	})
}

// Unsubscribe implements host.LiveConnection. Events that were on their way to the client before may still come.
func (l *liveConnection) Unsubscribe(ctx context.Context, events ...string) error {
	names, err := checkEvents(l.t, events)
	if err != nil {
		return err
	}
	return l.update(ctx, "unsubscribe", names, func(c *core, w *work) error {
		_, err := c.internal(w, "unsubscribe", func(h *turn) error { return h.unsubscribe(l, names) })
		return err
	}, func(err error) {
		if err == nil {
			l.forget(names)
		}
	})
}

// update runs a turn that changes the subscriptions, and finish with its result, before that is told. The result reaches
// finish even if the caller has gone.
func (l *liveConnection) update(
	ctx context.Context, name string, names []string, run func(*core, *work) error, finish func(error),
) error {
	if len(names) == 0 {
		return nil
	}
	if err := l.ended(); err != nil {
		return err
	}
	if err := l.s.outside(ctx); err != nil {
		return err
	}
	b := &builtin{name: name, pace: &connTypeOf(l.t).join, run: func(c *core, w *work) ([]byte, error) { return nil, run(c, w) }}
	done := make(chan error, 1)
	w := &work{
		call: call{method: -1, builtin: b, connection: l.id}, ctx: ctx, existing: true,
		finish: func(w *work) {
			finish(w.err)
			done <- w.err
		},
	}
	w.calls()
	if _, err := l.s.post(l.t, l.addr, w); err != nil {
		return err
	}
	select {
	case err := <-done:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	}
}

// forget stops the delivery of events.
func (l *liveConnection) forget(names []string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range names {
		delete(l.subscriptions, n)
	}
}

// subscribe adds to the events that a connection gets those after this turn, if their hooks allow it.
func (t *turn) subscribe(l *liveConnection, names []string) (added []string, err error) {
	if err := t.enter(); err != nil {
		return nil, err
	}
	rec, ok, err := readConnection(t.c.ws, l.id)
	t.leave()
	if err != nil {
		return nil, err
	}
	if !ok {
		return nil, noConnection(l.id)
	}
	added = slices.DeleteFunc(slices.Clone(names), rec.subscribed)
	if n := len(rec.Events) + len(added); n > host.MaxSubscriptions {
		return nil, host.OverLimit("subscriptions of a connection", host.MaxSubscriptions, int64(n))
	}
	if len(added) == 0 {
		return nil, nil
	}
	st := rec.state(l.id)
	if err := t.askSubscribe(&st, added); err != nil {
		return nil, err
	}
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	if rec, ok, err = readConnection(t.c.ws, l.id); err != nil {
		return nil, err
	}
	if !ok {
		return nil, noConnection(l.id) // a hook closed it
	}
	last, err := t.c.lastSequence()
	if err != nil {
		return nil, err
	}
	for _, n := range added {
		rec.Events = append(rec.Events, subscriptionRecord{Name: n, After: last})
	}
	if err := t.c.putConnection(l.id, &rec); err != nil {
		return nil, err
	}
	// From here on, and not only from when the turn is durable: the next events may share its commit.
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, n := range added {
		l.subscriptions[n] = last
	}
	return added, nil
}

// unsubscribe takes events away from those that a connection gets.
func (t *turn) unsubscribe(l *liveConnection, names []string) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	rec, ok, err := readConnection(t.c.ws, l.id)
	if err != nil {
		return err
	}
	if !ok {
		return noConnection(l.id)
	}
	n := len(rec.Events)
	rec.Events = slices.DeleteFunc(rec.Events, func(s subscriptionRecord) bool { return slices.Contains(names, s.Name) })
	if len(rec.Events) == n {
		return nil
	}
	return t.c.markConnection(l.id, &rec)
}
