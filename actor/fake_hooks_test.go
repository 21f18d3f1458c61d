package actor_test

import (
	"cmp"
	"context"
	"fmt"
	"maps"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// fakeHolding is what an actor holds besides state, store and alarms.
type fakeHolding struct {
	lastID      uint64
	messages    []fakeMessage
	results     map[uint64]host.QueueResultOutput
	schedules   []host.Schedule
	runs        map[string][]host.ScheduleRun
	streams     map[string]fakeStream
	connections map[string]host.ConnectionState
	closed      []string
}

type fakeMessage struct {
	host.Enqueue
	id      uint64
	queue   string
	attempt int
	sent    time.Time
	due     time.Time
	receipt string
	dead    bool
	cause   string
}

type fakeStream struct {
	items  []host.StreamItem
	first  uint64 // sequences below are no longer kept
	closed bool
}

func (h fakeHolding) clone() fakeHolding {
	h.messages, h.schedules, h.closed = slices.Clone(h.messages), slices.Clone(h.schedules), slices.Clone(h.closed)
	h.results, h.runs = maps.Clone(h.results), maps.Clone(h.runs)
	h.streams, h.connections = maps.Clone(h.streams), maps.Clone(h.connections)
	return h
}

func put[K comparable, V any](m *map[K]V, k K, v V) {
	if *m == nil {
		*m = make(map[K]V)
	}
	(*m)[k] = v
}

func (n *fakeNode) time() time.Time {
	if n.flowing {
		return time.Now()
	}
	return n.now
}

// find returns the index of a name among a behavior's, or that of AnyName.
func find[T any](all []T, name string, nameOf func(T) string) int {
	if i := slices.IndexFunc(all, func(v T) bool { return nameOf(v) == name }); i >= 0 {
		return i
	}
	return slices.IndexFunc(all, func(v T) bool { return nameOf(v) == host.AnyName })
}

func queueName(q host.Queue) string             { return q.Name }
func scheduleName(s host.ScheduleMethod) string { return s.Name }
func streamName(s host.Stream) string           { return s.Name }

// enqueue adds messages to a queue.
func (h *fakeHolding) enqueue(b *host.Behavior, now time.Time, queue string, messages []host.Enqueue) ([]host.Sent, error) {
	if find(b.Queues, queue, queueName) < 0 {
		return nil, host.Errorf(host.NotFound, "no queue %q", queue)
	}
	sent := make([]host.Sent, len(messages))
	for i, m := range messages {
		if len(m.Body) > 1000 {
			return nil, host.Errorf(host.TooLarge, "the body is too large")
		}
		if j := slices.IndexFunc(h.messages, func(o fakeMessage) bool {
			return m.DedupID != "" && o.DedupID == m.DedupID && o.queue == queue
		}); j >= 0 {
			sent[i] = host.Sent{ID: h.messages[j].id, Duplicate: true}
			continue
		}
		h.lastID++
		sent[i] = host.Sent{ID: h.lastID}
		h.messages = append(h.messages, fakeMessage{Enqueue: m, id: h.lastID, queue: queue, sent: now, due: now.Add(m.Delay)})
	}
	return sent, nil
}

// handled selects the queues that an actor handles itself.
func (n *fakeNode) handled(a *fakeActor) func(queue string) bool {
	return func(queue string) bool {
		i := find(a.behavior.Queues, queue, queueName)
		return i >= 0 && a.behavior.Queues[i].Handler != ""
	}
}

// next returns the message to handle or to receive next from the queues that are selected, or nil.
func (h *fakeHolding) next(selected func(queue string) bool, now time.Time) *fakeMessage {
	var best *fakeMessage
	for i := range h.messages {
		m := &h.messages[i]
		if selected(m.queue) && !m.dead && !m.due.After(now) && (best == nil || m.Priority > best.Priority) {
			best = m
		}
	}
	return best
}

func (h *fakeHolding) remove(id uint64) {
	h.messages = slices.DeleteFunc(h.messages, func(m fakeMessage) bool { return m.id == id })
}

// failed counts a failed attempt of a message, which becomes a dead letter after the last.
func (h *fakeHolding) failed(q host.Queue, m *fakeMessage, delay time.Duration, cause *host.Error, now time.Time) {
	q.EnsureDefaults()
	pauses := q.Backoff
	if m.Backoff != nil {
		pauses = m.Backoff
	}
	m.receipt, m.cause = "", cause.Message
	if m.attempt > len(pauses) {
		m.dead = true
		if m.WantReply {
			put(&h.results, m.id, host.QueueResultOutput{Done: true, Error: cause})
		}
		return
	}
	if delay < 0 {
		delay = pauses[m.attempt-1]
	}
	m.due = now.Add(delay)
}

// deliver has handlers handle what is in the queues of all actors now, until nothing is due.
func (n *fakeNode) deliver(ctx context.Context) error {
	for _, a := range n.actors {
		for {
			m := a.holding.next(n.handled(a), n.time())
			if m == nil {
				break
			}
			i := find(a.behavior.Queues, m.queue, queueName)
			m.attempt++
			received := &host.Received{
				ID: m.id, Queue: m.queue, Body: m.Body, Attempt: m.attempt, Priority: m.Priority, Sent: m.sent, DedupID: m.DedupID,
				WantReply: m.WantReply,
			}
			err := n.turn(ctx, a, func(t *fakeTurn) error {
				reply, err := a.instance.Message(t, i, received, nil)
				t.holding.remove(m.id)
				if m.WantReply {
					put(&t.holding.results, received.ID, host.QueueResultOutput{Done: true, Reply: reply})
				}
				return err
			})
			if err != nil {
				a.holding.failed(a.behavior.Queues[i], m, -1, publicError(err), n.time())
			}
		}
	}
	return nil
}

func publicError(err error) *host.Error {
	if e, ok := err.(*host.Error); ok {
		return e
	}
	return host.Errorf(host.Internal, "hidden")
}

// tick runs a schedule.
func (n *fakeNode) tick(ctx context.Context, at host.Address, tick host.Tick) error {
	a := n.actors[place(at)]
	i := find(a.behavior.Schedules, tick.Name, scheduleName)
	for _, s := range a.holding.schedules {
		if s.Name == tick.Name && s.Instance == tick.Instance {
			return n.turn(ctx, a, func(t *fakeTurn) error { return a.instance.Schedule(t, i, &tick, s.Payload) })
		}
	}
	return host.Errorf(host.NotFound, "no schedule")
}

// connect connects a client.
func (n *fakeNode) connect(ctx context.Context, at host.Address, id, params string, events ...string) error {
	if _, err := n.Call(ctx, &host.Request{Address: at, Codec: host.CBOR}); err != nil {
		return err
	}
	a := n.actors[place(at)]
	return n.turn(ctx, a, func(t *fakeTurn) error {
		st := host.ConnectionState{ID: id, Params: []byte(params), Events: events, Transport: "go", Connected: n.now}
		put(&t.holding.connections, id, st)
		if err := a.instance.Connect(t, &st, []byte(params)); err != nil {
			return err
		}
		for _, name := range events {
			if err := n.asks(t, a, name, &st); err != nil {
				return err
			}
		}
		if st.State == nil {
			st.State = t.holding.connections[id].State
		}
		put(&t.holding.connections, id, st)
		return nil
	})
}

func (n *fakeNode) asks(t *fakeTurn, a *fakeActor, event string, st *host.ConnectionState) error {
	i := slices.IndexFunc(a.behavior.Events, func(e host.Event) bool { return e.Name == event })
	if a.behavior.Events[i].Subscribe == "" {
		return nil
	}
	return a.instance.Subscribe(t, i, st)
}

// subscribe subscribes a client that is connected to an event.
func (n *fakeNode) subscribe(ctx context.Context, at host.Address, id, event string) error {
	a := n.actors[place(at)]
	return n.turn(ctx, a, func(t *fakeTurn) error {
		st := t.holding.connections[id]
		return n.asks(t, a, event, &st)
	})
}

// disconnect ends a connection.
func (n *fakeNode) disconnect(ctx context.Context, at host.Address, id string, cause *host.Error) error {
	return n.turn(ctx, n.actors[place(at)], func(t *fakeTurn) error {
		_, err := t.CloseConnection(id, cause)
		return err
	})
}

// runTasks runs the tasks that were started, one by one.
func (n *fakeNode) runTasks(ctx context.Context) error {
	for len(n.tasks) > 0 {
		t := n.tasks[0]
		n.tasks = n.tasks[1:]
		t.Context = ctx
		if err := t.f(&t); err != nil {
			return fmt.Errorf("task %s: %w", t.name, err)
		}
	}
	return nil
}

// run has handlers handle what is in the queues, and runs tasks.
func (n *fakeNode) run(ctx context.Context) {
	if err := n.deliver(ctx); err != nil {
		panic(err)
	}
	if err := n.runTasks(ctx); err != nil {
		panic(err)
	}
}

func (n *fakeNode) address(typ string, key ...string) host.Address {
	return host.Address{Type: typ, Key: key}
}

// appendTo appends items to a stream.
func (h *fakeHolding) appendTo(stream string, now time.Time, items [][]byte) (uint64, error) {
	s := h.streams[stream]
	if s.closed {
		return 0, host.Errorf(host.FailedPrecondition, "stream %q is closed", stream)
	}
	s.items = slices.Clone(s.items)
	for _, data := range items {
		s.items = append(s.items, host.StreamItem{Sequence: uint64(len(s.items)) + 1, Time: now, Data: data})
	}
	put(&h.streams, stream, s)
	return uint64(len(s.items)), nil
}

func (h *fakeHolding) read(stream string, after uint64, limit int) host.StreamPage {
	s := h.streams[stream]
	page := host.StreamPage{Next: after}
	for _, item := range s.items {
		switch {
		case item.Sequence <= after:
		case item.Sequence < s.first:
			page.Missed++
			page.Next = item.Sequence
		case len(page.Items) < limit:
			page.Items = append(page.Items, item)
			page.Next = item.Sequence
		}
	}
	page.Closed = s.closed && page.Next >= uint64(len(s.items))
	return page
}

func (h *fakeHolding) info(stream string) host.StreamInfo {
	s := h.streams[stream]
	return host.StreamInfo{Stream: stream, First: max(s.first, 1), Last: uint64(len(s.items)), Closed: s.closed}
}

func (h *fakeHolding) stats(queue string) host.QueueStats {
	s := host.QueueStats{Queue: queue}
	for _, m := range h.messages {
		switch {
		case m.queue != queue:
		case m.dead:
			s.Dead++
		case m.receipt != "":
			s.Processing++
		default:
			s.Pending++
		}
	}
	return s
}

func (h *fakeHolding) listSchedules(name string) []host.Schedule {
	var out []host.Schedule
	for _, s := range h.schedules {
		if name == "" || s.Name == name {
			out = append(out, s)
		}
	}
	slices.SortFunc(out, func(a, b host.Schedule) int {
		return cmp.Or(cmp.Compare(a.Name, b.Name), cmp.Compare(a.Instance, b.Instance))
	})
	return out
}

func (h *fakeHolding) setSchedule(s host.Schedule) host.Schedule {
	h.cancelSchedule(s.Name, s.Instance)
	h.schedules = append(h.schedules, s)
	return s
}

func (h *fakeHolding) cancelSchedule(name, instance string) bool {
	before := len(h.schedules)
	h.schedules = slices.DeleteFunc(h.schedules, func(s host.Schedule) bool { return s.Name == name && s.Instance == instance })
	return len(h.schedules) < before
}

func (t *fakeTurn) QueueStats(queue string) (host.QueueStats, error) {
	return t.holding.stats(queue), nil
}

func (t *fakeTurn) Schedules(name string) ([]host.Schedule, error) {
	return t.holding.listSchedules(name), nil
}

func (t *fakeTurn) StreamInfo(stream string) (host.StreamInfo, error) {
	return t.holding.info(stream), nil
}

func (t *fakeTurn) StreamRead(stream string, after uint64, limit int) (host.StreamPage, error) {
	return t.holding.read(stream, after, min(limit, t.node.pageSize)), nil
}

func (t *fakeTurn) Connections(after string, limit int) ([]host.ConnectionState, error) {
	var out []host.ConnectionState
	for _, id := range slices.Sorted(maps.Keys(t.holding.connections)) {
		if id > after && len(out) < limit {
			out = append(out, t.holding.connections[id])
		}
	}
	return out, nil
}

func (t *fakeTurn) Connection(id string) (host.ConnectionState, bool, error) {
	c, ok := t.holding.connections[id]
	return c, ok, nil
}

func (t *fakeTurn) Caller() string { return t.caller }

func (t *fakeTurn) EmitTo(event int, data []byte, to string, except []string) error {
	if t.refuse != nil {
		return t.refuse
	}
	t.emitted = append(t.emitted, fmt.Sprintf("%s %s to %q except %q", t.actor.behavior.Events[event].Name, data, to, except))
	return nil
}

func (t *fakeTurn) Enqueue(queue string, messages []host.Enqueue) ([]host.Sent, error) {
	if t.refuse != nil {
		return nil, t.refuse
	}
	return t.holding.enqueue(t.actor.behavior, t.node.time(), queue, messages)
}

func (t *fakeTurn) SetSchedule(s host.Schedule) (host.Schedule, error) {
	if t.refuse != nil {
		return s, t.refuse
	}
	return t.holding.setSchedule(s), nil
}

func (t *fakeTurn) CancelSchedule(name, instance string) (bool, error) {
	return t.holding.cancelSchedule(name, instance), t.refuse
}

func (t *fakeTurn) StreamAppend(stream string, items [][]byte) (uint64, error) {
	if t.refuse != nil {
		return 0, t.refuse
	}
	return t.holding.appendTo(stream, t.node.time(), items)
}

func (t *fakeTurn) StreamClose(stream string) error {
	s := t.holding.streams[stream]
	s.closed = true
	put(&t.holding.streams, stream, s)
	return t.refuse
}

func (t *fakeTurn) SetConnectionState(id string, state []byte) error {
	c, ok := t.holding.connections[id]
	switch {
	case t.refuse != nil:
		return t.refuse
	case !ok:
		return host.Errorf(host.NotFound, "no connection %q", id)
	}
	c.State = state
	put(&t.holding.connections, id, c)
	return nil
}

func (t *fakeTurn) CloseConnection(id string, reason *host.Error) (bool, error) {
	c, ok := t.holding.connections[id]
	if t.refuse != nil || !ok {
		return false, t.refuse
	}
	delete(t.holding.connections, id)
	t.holding.closed = append(t.holding.closed, id)
	return true, t.actor.instance.Disconnect(t, &c, reason)
}

func (t *fakeTurn) Go(name string, f func(host.Task) error) error {
	if t.refuse != nil {
		return t.refuse
	}
	t.tasks = append(t.tasks, fakeTask{Node: t.node, node: t.node, actor: t.actor, name: name, f: f})
	return nil
}

// fakeTask is a task; runTasks runs it.
type fakeTask struct {
	context.Context
	host.Node
	node  *fakeNode
	actor *fakeActor
	name  string
	f     func(host.Task) error
}
