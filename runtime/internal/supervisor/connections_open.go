package supervisor

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
)

// Connect implements host.Connector: one turn of the actor, which may refuse.
//
// Besides what the connect hook says, the error code is Overloaded, retryable, if the actor has as many connections as its
// type allows; InvalidArgument or TooLarge for parameters or events that cannot be.
func (s *Supervisor) Connect(ctx context.Context, addr host.Address, r host.ConnectRequest) (host.LiveConnection, error) {
	t, err := s.typeOf(addr)
	if err != nil {
		return nil, err
	}
	if err := checkConnect(t, &r); err != nil {
		return nil, err
	}
	if err := s.outside(ctx); err != nil {
		return nil, err
	}
	l := &liveConnection{
		s: s, hub: hubOf(s), t: t, addr: addr, key: string(appendAddress(nil, addr)), limit: t.base.ConnectionBytes,
		settled: make(chan error, 1), signal: make(chan struct{}, 1),
	}
	l.addr.Key = slices.Clone(addr.Key)
	b := &builtin{name: "connect", pace: &connTypeOf(t).join, run: func(c *core, w *work) ([]byte, error) {
		return nil, c.connect(w, l, &r)
	}}
	w := &work{
		call: call{method: -1, builtin: b}, ctx: ctx, existing: r.Existing, traceparent: r.Traceparent,
		finish: func(w *work) { l.settle(w.err) },
	}
	w.calls()
	if _, err := s.post(t, addr, w); err != nil {
		return nil, err
	}
	select {
	case err = <-l.settled:
	case <-ctx.Done():
		if l.fate.CompareAndSwap(0, fateGivenUp) {
			return nil, contextError(ctx)
		}
		err = <-l.settled
	}
	if err != nil {
		return nil, err
	}
	return l, nil
}

// outside refuses what a connection does if it comes from inside a turn or query, or if the node is going away.
func (s *Supervisor) outside(ctx context.Context) error {
	if callerOf(ctx) != nil {
		return host.Errorf(host.FailedPrecondition, "connections are for clients, and not for turns and queries")
	}
	if s.draining.Load() {
		return unavailable("the node is shutting down")
	}
	return nil
}

// checkConnect checks a request, and leaves each event in it once.
func checkConnect(t *actorType, r *host.ConnectRequest) error {
	if len(r.Params) > host.MaxConnectionParams {
		return host.OverLimit("connection parameter bytes", host.MaxConnectionParams, int64(len(r.Params))).With("field", "params")
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
func checkEvents(t *actorType, names []string) ([]string, error) {
	var out []string
	for _, n := range names {
		if _, err := t.event(n); err != nil {
			return nil, err
		}
		if !slices.Contains(out, n) {
			out = append(out, n)
		}
	}
	if len(out) > host.MaxSubscriptions {
		return nil, host.OverLimit("subscriptions of a connection", host.MaxSubscriptions, int64(len(out))).With("field", "events")
	}
	return out, nil
}

// guarded reports whether one of the events has a subscribe hook.
func (t *actorType) guarded(names []string) bool {
	return slices.ContainsFunc(t.Events, func(e host.Event) bool { return e.Subscribe != "" && slices.Contains(names, e.Name) })
}

// settle takes in what became of the turn that opens or resumes a connection. It is called once, and does not block.
func (l *liveConnection) settle(err error) {
	s := l.s
	if err != nil {
		if l.leave() {
			s.tend(l.t, l.addr, &tending{id: l.id}, nil) // a client that came back has not, after all
		}
		l.discard()
		l.settled <- err
		return
	}
	if l.welcome.Resumed {
		partOf[*connPart](s).resumed.Add(1)
	}
	if !l.hub.promote(l.key, l) {
		l.finish(unavailable("the node is shutting down"))
		s.tend(l.t, l.addr, &tending{id: l.id}, nil) // unless the actor has ended it, it is lost already
	}
	if !l.fate.CompareAndSwap(0, fateJoined) {
		if l.leave() {
			// Nobody waits any more. A client that has an older token may use it again; a new one never got it.
			d := &tending{id: l.id}
			if !l.welcome.Resumed {
				d.end, d.cause = true, host.Errorf(host.Canceled, "the client gave up")
			}
			s.tend(l.t, l.addr, d, nil)
		}
		l.discard()
	}
	l.settled <- nil
}

// connect opens a connection, or resumes the one that the request has the token of.
func (c *core) connect(w *work, l *liveConnection, r *host.ConnectRequest) error {
	if id, ok := tokenID(r.Token); ok {
		rec, ok, err := readConnection(c.ws, id)
		if err != nil {
			return err
		}
		if ok && rec.matches(r.Token) {
			w.connection = id
			_, err := c.internal(w, "resume", func(h *turn) error { return h.resume(l, r, id, &rec) })
			return err
		}
	}
	id := newConnectionID()
	w.connection = id
	open := func(h *turn) ([]byte, error) { return nil, h.open(l, r, id) }
	handler := cmp.Or(c.a.typ.Behavior.Connections.Connect, "connect")
	_, err := c.turn(w, handler, handler != "connect" || c.a.typ.guarded(r.Events), open)
	return err
}

// resume makes the client of a connection l.
func (t *turn) resume(l *liveConnection, r *host.ConnectRequest, id string, rec *connectionRecord) error {
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	last, err := t.c.lastSequence()
	if err != nil {
		return err
	}
	if rec.Due != 0 {
		t.c.ws.ClearWake(rec.Due, keyspace.WakeConnections, id, "")
	}
	rec.Lost, rec.Due, rec.Transport = 0, 0, r.Transport
	if err := t.c.markConnection(id, rec); err != nil {
		return err
	}
	t.connectionChange("resumed", id, nil)
	after := last
	if r.HasAfter {
		after = min(r.After, last)
	}
	l.welcome = host.Welcome{
		Connection: id, Token: r.Token, Cursor: after, Life: t.c.id.String(), Resumed: true, Events: rec.names(),
	}
	return t.join(l, id, rec, after, last)
}

// open makes a new connection, if the hooks let it.
func (t *turn) open(l *liveConnection, r *host.ConnectRequest, id string) error {
	token := newResumeToken(id)
	hash := sha256.Sum256([]byte(token))
	rec := &connectionRecord{
		Token: hash[:], Params: withoutCredentials(r.Params), Transport: r.Transport, Connected: unixMS(t.start),
	}
	last, err := t.admit(id, rec, r)
	if err != nil {
		return err
	}
	if err := t.askConnect(id, rec, r); err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	if err := t.c.putConnection(id, rec); err != nil {
		return err
	}
	t.connectionChange("opened", id, func(m map[string]any) { m["transport"] = rec.Transport })
	after := last
	if r.HasAfter {
		if after = r.After; after > last || r.Life != "" && r.Life != t.c.id.String() {
			after, l.reset = 0, true // the position is none of this life: all that is kept is new to the client
		}
	}
	l.welcome = host.Welcome{Connection: id, Token: token, Cursor: after, Life: t.c.id.String(), Events: rec.names()}
	return t.join(l, id, rec, after, last)
}

// admit writes the record of a new connection before its hooks run, so that they find it, and returns the sequence of the
// last event before it.
func (t *turn) admit(id string, rec *connectionRecord, r *host.ConnectRequest) (uint64, error) {
	if err := t.enter(); err != nil {
		return 0, err
	}
	defer t.leave()
	limit := t.c.limits.Connections
	n, err := t.c.countConnections()
	if err != nil {
		return 0, err
	}
	if n >= limit {
		return 0, host.Errorf(host.Overloaded, "%s has %d connections, and may have no more", t.a, n).
			With("limit", strconv.Itoa(limit)).Retry()
	}
	last, err := t.c.lastSequence()
	if err != nil {
		return 0, err
	}
	since := last
	if r.HasAfter {
		since = 0 // what the client missed is for it, too
	}
	for _, name := range r.Events {
		rec.Events = append(rec.Events, subscriptionRecord{Name: name, After: since})
	}
	return last, t.c.addConnection(id, rec)
}

// askConnect runs the connect hook and the subscribe hooks of a new connection, and takes over what they decide.
func (t *turn) askConnect(id string, rec *connectionRecord, r *host.ConnectRequest) error {
	typ, inst := t.a.typ, t.c.inst
	st := rec.state(id)
	if typ.Behavior.Connections.Connect != "" {
		if err := inst.Connect(t.host, &st, r.Params); err != nil {
			return err
		}
	}
	if err := t.askSubscribe(&st, r.Events); err != nil {
		return err
	}
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	now, ok, err := readConnection(t.c.ws, id)
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
		// The hook says what is to be kept.
		if len(st.Params) > host.MaxConnectionParams {
			return host.OverLimit("connection parameter bytes", host.MaxConnectionParams, int64(len(st.Params))).With("field", "params")
		}
		if len(st.Params) > 0 && !json.Valid(st.Params) {
			return host.Errorf(host.InvalidArgument, "the parameters that the connect hook keeps are not JSON")
		}
		rec.Params = st.Params
	}
	return nil
}

// askSubscribe runs the hooks of the events that have one.
func (t *turn) askSubscribe(st *host.ConnectionState, names []string) error {
	for _, name := range names {
		i, err := t.a.typ.event(name)
		if err != nil {
			return err
		}
		if t.a.typ.Events[i].Subscribe == "" {
			continue
		}
		if err := t.c.inst.Subscribe(t.host, i, st); err != nil {
			return err
		}
	}
	return nil
}

// join makes l the live end of a connection that gets the events after a position. What it gets beyond last is pushed to it
// when the commits after this turn are durable.
//
// REQUIRES: t.mu
func (t *turn) join(l *liveConnection, id string, rec *connectionRecord, after, last uint64) error {
	l.id, l.incarnation = id, t.c.id
	copy(l.token[:], rec.Token)
	l.subscriptions = make(map[string]uint64, len(rec.Events))
	for _, s := range rec.Events {
		l.subscriptions[s.Name] = s.After
	}
	l.position, l.lagging = after, after < last
	return l.hub.join(l.key, l)
}

// connectionChange notes a change to publish.
//
// REQUIRES: t.mu
func (t *turn) connectionChange(op, id string, more func(map[string]any)) {
	t.change(engine.ChangeConn, op, func() any {
		m := map[string]any{"op": op, "connection": id}
		if more != nil {
			more(m)
		}
		return m
	})
}

// graceEnd is when a connection ends that is lost at a time.
func (t *actorType) graceEnd(lost time.Time) int64 {
	return max(1, unixMS(lost.Add(max(0, t.base.ConnectionGrace))))
}
