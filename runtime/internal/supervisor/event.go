package supervisor

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// eventPart is the part of actors that is events.
type eventPart struct{ hub hub }

func (*eventPart) name() string { return "event" }

// begin implements broadcaster.
func (p *eventPart) begin(s *Supervisor) { p.hub.limit = s.options.MaxEventBytes }

// end implements broadcaster.
func (p *eventPart) end() { p.hub.close() }

// collectors implements meter.
func (p *eventPart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cairn_events_held_bytes",
		Help: "Estimated memory of the events that streams and connections hold for their readers.",
	}, func() float64 { return float64(p.hub.held.Load()) })}
}

// hubOf returns the hub of a node.
func hubOf(s *Supervisor) *hub { return &partOf[*eventPart](s).hub }

// eventRecord is the value of KindEventHistory.
type eventRecord struct {
	_       struct{} `cbor:",toarray"`
	Name    string
	Version uint64
	Time    int64 // unix milliseconds
	Data    []byte
	To      string   // the only connection that gets it; "" for all that are subscribed
	Except  []string // the connections that do not
}

// eventTurn is what handlers may do with events, and the events of the turn. Their sequences are set by its seal.
type eventTurn struct {
	t      *turn
	events []publishedEvent
	group  *group // which they leave with
}

// eventsOf returns the events of a turn.
func eventsOf(t *turn) *eventTurn { return t.host.(interface{ asEvent() *eventTurn }).asEvent() }

func (h *eventTurn) asEvent() *eventTurn { return h }

// Emit implements host.Turn.
func (h *eventTurn) Emit(event int, data []byte) error {
	if err := h.t.enter(); err != nil {
		return err
	}
	defer h.t.leave()
	return h.emit(event, data, "", nil)
}

// emit adds an event, for the only connection that gets it, or for all that are subscribed but some.
//
// REQUIRES: t.mu
func (h *eventTurn) emit(event int, data []byte, to string, except []string) error {
	t := h.t
	if err := t.a.typ.hasEvent(event); err != nil {
		return err
	}
	e := &t.a.typ.Events[event]
	if e.Durable && to == "" {
		if sink := t.a.sup.options.Changes; sink != nil {
			if err := sink.Refuse(); err != nil {
				return err
			}
		}
	}
	if len(h.events) == 0 {
		t.enlist(h)
	}
	h.events = append(h.events, publishedEvent{EmittedEvent: host.EmittedEvent{
		Version: uint64(t.version), Name: e.Name, Time: timeMS(unixMS(t.start)), Data: data, To: to, Except: except,
	}})
	return nil
}

// hasEvent refuses the index of an event that the type does not have.
func (t *actorType) hasEvent(event int) error {
	if event < 0 || event >= len(t.Events) {
		return host.Errorf(host.InvalidArgument, "actor type %q has no event %d: it was declared after the type was defined", t.Type, event)
	}
	return nil
}

// seal implements participant: it adds the events to the kept history, dropping the oldest.
func (h *eventTurn) seal(t *turn) error {
	c := t.c
	last, err := h.number()
	if err != nil {
		return err
	}
	// At least one event is kept, so that the sequence goes on after a sleep.
	keep := uint64(max(1, c.a.typ.base.EventHistory))
	for i := range h.events {
		ev := &h.events[i]
		rec, err := record.Encode(&eventRecord{
			Name: ev.Name, Version: ev.Version, Time: unixMS(t.start), Data: ev.Data, To: ev.To, Except: ev.Except,
		})
		if err != nil {
			return err
		}
		if err := c.ws.Put(keyspace.AppendEvent(nil, ev.Sequence), rec, engine.PutOptions{New: true}); err != nil {
			return err
		}
		if ev.Sequence > keep {
			if _, err := c.ws.Delete(keyspace.AppendEvent(nil, ev.Sequence-keep)); err != nil {
				return err
			}
		}
	}
	eventCoreOf(c).last.set(c.ws, last)
	h.leave()
	return nil
}

// number gives the events their sequences, and returns the last.
func (h *eventTurn) number() (last uint64, err error) {
	last, err = h.t.c.lastSequence()
	for i := range h.events {
		last++
		h.events[i].Sequence = last
	}
	return last, err
}

// leave has the events published: to those who follow the actor, before what else the turn has for them, and as changes.
func (h *eventTurn) leave() {
	t := h.t
	h.group = t.c.group
	h.group.after = append(h.group.after, h)
	if t.a.sup.options.Changes == nil {
		return
	}
	t.ahead = make([]engine.Change, 0, len(h.events)+len(t.changes))
	for i := range h.events {
		e := &h.events[i]
		if e.To != "" {
			continue // it is for one client's eyes
		}
		declared, _ := t.a.typ.event(e.Name)
		t.ahead = append(t.ahead, engine.Change{Kind: engine.ChangeEvent, Name: e.Name, Data: e.Data, Durable: t.a.typ.Events[declared].Durable})
	}
}

// durable implements consequence.
func (h *eventTurn) durable() {
	c := h.t.c
	hubOf(c.a.sup).publish(c.a.key, c.id, c.ident.ID, commitName{eventCoreOf(c), h.group.commit}, h.events)
}

// destroy implements destroyer. What the turn emitted is handed to the subscribers, and not kept; then they learn that the
// actor is gone.
func (p *eventPart) destroy(t *turn) error {
	if h := eventsOf(t); len(h.events) > 0 {
		if _, err := h.number(); err != nil {
			return err
		}
		h.leave()
	}
	key, id := t.a.key, t.c.id
	t.then(func() { p.hub.end(key, id) })
	return nil
}

// eventCore is what an awake actor remembers of its events.
type eventCore struct{ last cached[uint64] }

func eventCoreOf(c *core) *eventCore {
	return attach(&c.attached, func() *eventCore { return new(eventCore) })
}

// forget implements facet.
func (f *eventCore) forget(_ *core, version engine.Version) { f.last.forget(version) }

// close implements facet.
func (*eventCore) close(*core) {}

// abandon implements facet.
func (*eventCore) abandon(*core) {}

// lastSequence is the sequence of the last event that a turn which succeeded has emitted.
func (c *core) lastSequence() (uint64, error) {
	return eventCoreOf(c).last.get(c.ws, func() (uint64, error) { return lastEvent(c.ws) })
}
