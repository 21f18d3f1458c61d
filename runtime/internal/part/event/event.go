// Package event is the part for events: it sends them to subscribers once their turn is durable,
// and keeps their history.
package event

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/cached"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for events.
type Part struct{ hub Hub }

// Name implements kernel.Part.
func (*Part) Name() string { return "event" }

// Begin implements kernel.Broadcaster.
func (p *Part) Begin(s *kernel.Kernel) { p.hub.Limit = s.Options.MaxEventBytes }

// End implements kernel.Broadcaster.
func (p *Part) End() { p.hub.close() }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "cairn_events_held_bytes",
		Help: "Estimated memory of the events that streams and connections hold for their readers.",
	}, func() float64 { return float64(p.hub.Held.Load()) })}
}

var _ interface {
	kernel.Broadcaster
	kernel.Destroyer
	survey.Explainer
	kernel.Meter
} = (*Part)(nil)

// HubOf returns the hub of a node.
func HubOf(s *kernel.Kernel) *Hub { return &kernel.PartOf[*Part](s).hub }

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

// Turn is the view of handlers on events, and the events of the turn. Their sequences are set by
// its seal.
type Turn struct {
	K      *kernel.Turn
	events []PublishedEvent
	group  *kernel.Group // which they leave with
}

// TurnOf returns the events of a turn.
func TurnOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asEvent() *Turn }).asEvent() }

func (h *Turn) asEvent() *Turn { return h }

// Emit implements host.Turn.
func (h *Turn) Emit(event int, data []byte) error {
	if err := h.K.Enter(); err != nil {
		return err
	}
	defer h.K.Leave()
	return h.Collect(event, data, "", nil)
}

// Collect adds an event: for the connection to, or if to is "" for all that are subscribed, except
// some.
//
// REQUIRES: t.Mu
func (h *Turn) Collect(event int, data []byte, to string, except []string) error {
	t := h.K
	if err := HasEvent(t.Actor.Type, event); err != nil {
		return err
	}
	e := &t.Actor.Type.Events[event]
	if e.Durable && to == "" {
		if sink := t.Actor.Kernel.Options.Changes; sink != nil {
			if err := sink.Refuse(); err != nil {
				return err
			}
		}
	}
	if len(h.events) == 0 {
		t.Enlist(h)
	}
	h.events = append(h.events, PublishedEvent{EmittedEvent: host.EmittedEvent{
		Version: uint64(t.AsOf), Name: e.Name, Time: clock.TimeMS(t.Start.UnixMilli()), Data: data, To: to, Except: except,
	}})
	return nil
}

// HasEvent refuses the index of an event that the type does not have.
func HasEvent(t *kernel.Type, event int) error {
	if event < 0 || event >= len(t.Events) {
		return host.Errorf(host.InvalidArgument,
			"actor type %q has no event %d: it was declared after the type was defined", t.Type, event)
	}
	return nil
}

// Seal implements kernel.Participant: it adds the events to the kept history, dropping the oldest.
func (h *Turn) Seal(t *kernel.Turn) error {
	c := t.Core
	last, err := h.number()
	if err != nil {
		return err
	}
	// At least one event is kept, so that the sequence goes on after a sleep.
	keep := uint64(max(1, c.Actor.Type.Base.EventHistory))
	for i := range h.events {
		ev := &h.events[i]
		rec, err := record.Encode(&eventRecord{
			Name: ev.Name, Version: ev.Version, Time: t.Start.UnixMilli(), Data: ev.Data, To: ev.To, Except: ev.Except,
		})
		if err != nil {
			return err
		}
		if err := c.Rows.Put(keyspace.Event.Append(nil, ev.Sequence), rec, engine.PutOptions{New: true}); err != nil {
			return err
		}
		if ev.Sequence > keep {
			if _, err := c.Rows.Delete(keyspace.Event.Append(nil, ev.Sequence-keep)); err != nil {
				return err
			}
		}
	}
	f := eventCoreOf(c)
	if last > keep && !f.trimmed {
		if f.trimmed, err = trim(c.Rows, last-keep); err != nil {
			return err
		}
	}
	f.last.Set(c.Rows, last)
	h.leave()
	return nil
}

// maxTrim is how many events one turn deletes beside the one that each new event replaces.
const maxTrim = 64

// trim deletes events up to a sequence, some in each turn, and reports whether there were none. A
// release that keeps fewer events than the one before it leaves such events.
func trim(rows engine.Writer, to uint64) (done bool, err error) {
	page, err := rows.List(engine.ListQuery{
		Start: keyspace.Event.Append(nil, 0), End: keyspace.Event.Append(nil, to+1), KeysOnly: true, Limit: maxTrim,
	})
	if err != nil {
		return false, err
	}
	for i := range page.Entries {
		if _, err := rows.Delete(page.Entries[i].Key); err != nil {
			return false, err
		}
	}
	return len(page.Entries) == 0, nil
}

// Collected counts events that are in no row before the seal. REQUIRES: Turn.Mu
func (h *Turn) Collected() int { return len(h.events) }

// number gives the events their sequences, and returns the last.
func (h *Turn) number() (last uint64, err error) {
	last, err = LastSequence(h.K.Core)
	for i := range h.events {
		last++
		h.events[i].Sequence = last
	}
	return last, err
}

// leave publishes the events: to the actor's subscribers, before the turn's other notices, and as
// changes.
func (h *Turn) leave() {
	t := h.K
	h.group = t.Core.Group
	h.group.After = append(h.group.After, h)
	if !t.Actor.Kernel.Changes.Wanted() {
		return
	}
	changes := make([]engine.Change, 0, len(h.events)+len(t.Changes))
	for i := range h.events {
		e := &h.events[i]
		if e.To != "" {
			continue // only one client may see it
		}
		declared, _ := Event(t.Actor.Type, e.Name)
		changes = append(changes,
			engine.Change{Kind: engine.ChangeEvent, Name: e.Name, Data: e.Data,
				Durable: t.Actor.Type.Events[declared].Durable})
	}
	t.Lasting = int32(len(changes))
	t.Changes = append(changes, t.Changes...)
}

// Durable implements kernel.Consequence.
func (h *Turn) Durable() {
	c := h.K.Core
	c.Actor.Tally.Send(HubOf(c.Actor.Kernel).
		Publish(c.Actor.Key, c.ID, c.Identity.ID, CommitName{eventCoreOf(c), h.group.Commit}, h.events))
}

// Destroy implements kernel.Destroyer. Subscribers get the events of the turn, which are not kept,
// and then the end of the actor.
func (p *Part) Destroy(t *kernel.Turn) error {
	if h := TurnOf(t); len(h.events) > 0 {
		if _, err := h.number(); err != nil {
			return err
		}
		h.leave()
	}
	key, id := t.Actor.Key, t.Core.ID
	t.Then(func() { p.hub.end(key, id) })
	return nil
}

// eventCore is the memory of an awake actor about its events.
type eventCore struct {
	last    cached.Value[uint64] // the last sequence
	trimmed bool                 // no events are left that only an earlier release kept
}

func eventCoreOf(c *kernel.Core) *eventCore {
	return attach.Make(&c.Attached, func() *eventCore { return new(eventCore) })
}

// Forget implements kernel.Facet.
func (f *eventCore) Forget(_ *kernel.Core, version engine.Version) { f.last.Forget(version) }

// Close implements kernel.Facet.
func (*eventCore) Close(*kernel.Core) {}

// Abandon implements kernel.Facet.
func (*eventCore) Abandon(*kernel.Core) {}

// LastSequence returns the sequence of the last event that a successful turn has emitted.
func LastSequence(c *kernel.Core) (uint64, error) {
	return eventCoreOf(c).last.Get(c.Rows, func() (uint64, error) { return lastEvent(c.Rows) })
}
