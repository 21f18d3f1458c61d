package conn

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// Connect implements host.Connector: one turn of the actor, which may refuse.
//
// Besides the errors of the connect hook, the error code is Overloaded, retryable, if the actor has
// as many connections as its type allows; InvalidArgument or TooLarge for invalid parameters or
// events.
func Connect(s *kernel.Kernel, ctx context.Context, addr host.Address,
	r host.ConnectRequest) (host.LiveConnection, error) {
	t, err := s.TypeOf(addr)
	if err != nil {
		return nil, err
	}
	if err := checkConnect(t, &r); err != nil {
		return nil, err
	}
	if err := outside(s, ctx); err != nil {
		return nil, err
	}
	l := &LiveConnection{
		S: s, Hub: event.HubOf(s), t: t, addr: addr, Key: string(address.Append(nil,
			addr)), Limit: t.Base.ConnectionBytes,
		settled: make(chan error, 1), Signal: make(chan struct{}, 1),
	}
	l.addr.Key = slices.Clone(addr.Key)
	b := kernel.NewProcedure("connect", func(c *kernel.Core, w *kernel.Work) error { return connect(c, w, l, &r) })
	b.Pace = &connTypeOf(t).join
	w := &kernel.Work{
		Call: kernel.Call{Method: -1, Builtin: b}, Ctx: ctx, Existing: r.Existing, Span: host.ParseSpan(r.Traceparent),
		Finish: func(w *kernel.Work) { l.settle(w.Err) },
	}
	w.Job = &w.Call
	if _, err := s.Post(t, addr, w, nil); err != nil {
		return nil, err
	}
	select {
	case err = <-l.settled:
	case <-ctx.Done():
		if l.fate.CompareAndSwap(0, fateGivenUp) {
			return nil, fault.Ended(ctx)
		}
		err = <-l.settled
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// outside refuses requests of a connection from inside a turn or query, or while the node stops.
func outside(s *kernel.Kernel, ctx context.Context) error {
	if kernel.CallerOf(ctx) != nil {
		return host.Errorf(host.FailedPrecondition, "connections are for clients, not for turns and queries")
	}
	if s.Draining.Load() {
		return fault.Unavailable("the node is shutting down")
	}
	return nil
}

// checkConnect checks a request, and removes repeated events from it.
func checkConnect(t *kernel.Type, r *host.ConnectRequest) error {
	if len(r.Params) > host.MaxConnectionParams {
		return host.OverLimit("connection parameter bytes", host.MaxConnectionParams,
			int64(len(r.Params))).With("field", "params")
	}
	if len(r.Params) > 0 {
		if !json.Valid(r.Params) {
			return host.Errorf(host.InvalidArgument, "the parameters of the connection are not JSON")
		}
		if err := host.CheckJSON(r.Params, nil); err != nil {
			return host.WithMember(host.Errorf(host.InvalidArgument, "params: %s", err), "params", err)
		}
	}
	switch r.Transport {
	case "":
		r.Transport = "go"
	case "websocket", "sse", "go":
	default:
		return host.Errorf(host.InvalidArgument, "there is no transport %q", r.Transport)
	}
	if err := host.CheckLife(r.Life); err != nil {
		return err
	}
	var err error
	r.Events, err = checkEvents(t, r.Events)
	return err
}

// checkEvents returns the names without repetition.
func checkEvents(t *kernel.Type, names []string) ([]string, error) {
	var out []string
	for _, n := range names {
		if _, err := event.Event(t, n); err != nil {
			return nil, err
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if len(out) > host.MaxSubscriptions {
		return nil, host.OverLimit("subscriptions of a connection", host.MaxSubscriptions,
			int64(len(out))).With("field", "events")
	}
	return out, nil
}

// guarded reports whether one of the events has a subscribe hook.
func guarded(t *kernel.Type, names []string) bool {
	return slices.ContainsFunc(t.Events,
		func(e host.Event) bool { return e.Subscribe != "" && slices.Contains(names, e.Name) })
}

// settle handles the result of the turn that opens or resumes a connection. It is called once, and
// does not block.
func (l *LiveConnection) settle(err error) {
	s := l.S
	if err != nil {
		if l.leave() {
			tend(s, l.t, l.addr, &tending{id: l.ID}, nil) // the client has not come back, after all
		}
		l.discard()
		l.settled <- err
		return
	}
	if l.welcome.Resumed {
		kernel.PartOf[*Part](s).resumed.Add(1)
	}
	if !l.Hub.Promote(l.Key, l) {
		l.Finish(fault.Unavailable("the node is shutting down"))
		tend(s, l.t, l.addr, &tending{id: l.ID}, nil) // it is lost already, unless the actor has ended it
	}
	if !l.fate.CompareAndSwap(0, fateJoined) {
		if l.leave() {
			// The client no longer waits. If it has an older token it may use that again; a new
			// client never got one.
			d := &tending{id: l.ID}
			if !l.welcome.Resumed {
				d.end, d.cause = true, host.Errorf(host.Canceled, "the client gave up")
			}
			tend(s, l.t, l.addr, d, nil)
		}
		l.discard()
	}
	l.settled <- nil
}

// connect opens a connection, or resumes the one of the request's token.
func connect(c *kernel.Core, w *kernel.Work, l *LiveConnection, r *host.ConnectRequest) error {
	if id, ok := tokenID(r.Token); ok {
		rec, ok, err := readConnection(c.Rows, id)
		if err != nil {
			return err
		}
		if ok && rec.matches(r.Token) {
			w.Connection = id
			err := c.System(w, "resume", func(h *kernel.Turn) error { return resume(h, l, r, id, &rec) })
			return err
		}
	}
	id := NewConnectionID()
	w.Connection = id
	open := func(h *kernel.Turn) ([]byte, error) { return nil, open(h, l, r, id) }
	hook := c.Actor.Type.Behavior.Connections.Connect
	_, err := c.RunTurn(w, cmp.Or(hook, "connect"), hook != "" || guarded(c.Actor.Type, r.Events), open)
	return err
}

// resume makes l the connection's live end.
func resume(t *kernel.Turn, l *LiveConnection, r *host.ConnectRequest, id string, rec *connectionRecord) error {
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	last, err := event.LastSequence(t.Core)
	if err != nil {
		return err
	}
	if rec.Due != 0 {
		t.Core.Rows.ClearWake(rec.Due, keyspace.WakeConnections, id, "")
	}
	rec.Lost, rec.Due, rec.Transport = 0, 0, r.Transport
	if err := markConnection(t.Core, id, rec); err != nil {
		return err
	}
	connectionChange(t, "resumed", id, nil)
	after := l.from(t, r, last)
	l.welcome = host.Welcome{
		Connection: id, Token: r.Token, Cursor: after, Life: t.Core.ID.String(), Resumed: true, Events: rec.names(),
	}
	return join(t, l, id, rec, after, last)
}

// open makes a new connection, if the hooks allow it.
func open(t *kernel.Turn, l *LiveConnection, r *host.ConnectRequest, id string) error {
	token := newResumeToken(id)
	hash := sha256.Sum256([]byte(token))
	rec := &connectionRecord{
		Token: hash[:], Params: withoutCredentials(r.Params), Transport: r.Transport, Connected: t.Start.UnixMilli(),
	}
	last, err := admit(t, id, rec, r)
	if err != nil {
		return err
	}
	if err := askConnect(t, id, rec, r); err != nil {
		return err
	}
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	if err := putConnection(t.Core, id, rec); err != nil {
		return err
	}
	connectionChange(t, "opened", id, func(m map[string]any) { m["transport"] = rec.Transport })
	after := l.from(t, r, last)
	l.welcome = host.Welcome{Connection: id, Token: token, Cursor: after, Life: t.Core.ID.String(), Events: rec.names()}
	return join(t, l, id, rec, after, last)
}

// from returns the position from which the client gets events, if last is the last event. A
// position of another life, or beyond a restored backup, does not count: then all kept events are
// new to the client.
func (l *LiveConnection) from(t *kernel.Turn, r *host.ConnectRequest, last uint64) uint64 {
	switch {
	case !r.HasAfter:
		return last
	case r.After > last || r.Life != "" && r.Life != t.Core.ID.String():
		l.reset = true
		return 0
	}
	return r.After
}

// admit writes the record of a new connection before its hooks run, so that they find it, and
// returns the sequence of the last event before it.
func admit(t *kernel.Turn, id string, rec *connectionRecord, r *host.ConnectRequest) (uint64, error) {
	if err := t.Enter(); err != nil {
		return 0, err
	}
	defer t.Leave()
	limit := t.Core.Limits.Connections
	n, err := countConnections(t.Core)
	if err != nil {
		return 0, err
	}
	if n >= limit {
		return 0, host.Errorf(host.Overloaded, "%s has %d connections, which is the limit", t.Actor, n).
			With("limit", strconv.Itoa(limit)).Retry()
	}
	last, err := event.LastSequence(t.Core)
	if err != nil {
		return 0, err
	}
	since := last
	if r.HasAfter {
		since = 0 // the client also gets the events that it missed
	}
	for _, name := range r.Events {
		rec.Events = append(rec.Events, subscriptionRecord{Name: name, After: since})
	}
	return last, addConnection(t.Core, id, rec)
}

// askConnect runs the connect hook and the subscribe hooks of a new connection, and applies their
// decisions.
func askConnect(t *kernel.Turn, id string, rec *connectionRecord, r *host.ConnectRequest) error {
	typ, inst := t.Actor.Type, t.Core.Instance
	st := rec.state(id)
	if typ.Behavior.Connections.Connect != "" {
		if err := inst.Connect(t.Host, &st, r.Params); err != nil {
			return err
		}
	}
	if err := askSubscribe(t, &st, r.Events); err != nil {
		return err
	}
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	now, ok, err := readConnection(t.Core.Rows, id)
	if err != nil {
		return err
	}
	if !ok {
		return host.Errorf(host.PermissionDenied, "the actor closed the connection")
	}
	if st.State == nil {
		st.State = now.State // by SetConnectionState
	}
	rec.State = st.State
	if !bytes.Equal(st.Params, rec.Params) {
		// The hook says what to keep.
		if len(st.Params) > host.MaxConnectionParams {
			return host.OverLimit("connection parameter bytes", host.MaxConnectionParams,
				int64(len(st.Params))).With("field", "params")
		}
		if len(st.Params) > 0 && !json.Valid(st.Params) {
			return host.Errorf(host.InvalidArgument, "the parameters that the connect hook keeps are not JSON")
		}
		rec.Params = st.Params
	}
	return nil
}

// askSubscribe runs the hooks of the events that have one.
func askSubscribe(t *kernel.Turn, st *host.ConnectionState, names []string) error {
	for _, name := range names {
		i, err := event.Event(t.Actor.Type, name)
		if err != nil {
			return err
		}
		if t.Actor.Type.Events[i].Subscribe == "" {
			continue
		}
		if err := t.Core.Instance.Subscribe(t.Host, i, st); err != nil {
			return err
		}
	}
	return nil
}

// join makes l the live end of a connection that gets the events after a position. Events beyond
// last are pushed to it when the commits after this turn are durable.
//
// REQUIRES: t.Mu
func join(t *kernel.Turn, l *LiveConnection, id string, rec *connectionRecord, after, last uint64) error {
	l.ID, l.incarnation = id, t.Core.ID
	copy(l.token[:], rec.Token)
	l.Subscriptions = make(map[string]uint64, len(rec.Events))
	for _, s := range rec.Events {
		l.Subscriptions[s.Name] = s.After
	}
	l.Position, l.Lagging = after, after < last
	return l.Hub.Join(l.Key, l)
}

// connectionChange records a change to publish.
//
// REQUIRES: t.Mu
func connectionChange(t *kernel.Turn, op, id string, more func(map[string]any)) {
	t.Change(engine.ChangeConn, op, func() any {
		m := map[string]any{"op": op, "connection": id}
		if more != nil {
			more(m)
		}
		return m
	})
}

// graceEnd returns when a connection that was lost at a time ends.
func graceEnd(t *kernel.Type, lost time.Time) int64 {
	return max(1, lost.Add(max(0, t.Base.ConnectionGrace)).UnixMilli())
}
