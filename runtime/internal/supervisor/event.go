package supervisor

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// eventPart is the part of actors that is events.
type eventPart struct{}

func (*eventPart) name() string { return "event" }

// eventTurn is what handlers may do with events.
type eventTurn struct{ t *turn }

// Emit implements host.Turn.
func (h eventTurn) Emit(event int, data []byte) error { return h.EmitTo(event, data, "", nil) }

// EmitTo implements host.Turn.
func (h eventTurn) EmitTo(event int, data []byte, to string, except []string) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	if event < 0 || event >= len(t.a.typ.Events) {
		return host.Errorf(host.InvalidArgument, "actor type %q has no event %d: it was declared after the type was defined", t.a.addr.Type, event)
	}
	if to != "" {
		if len(except) > 0 {
			return host.Errorf(host.InvalidArgument, "an event for one connection cannot except others")
		}
		if _, ok, err := readConnection(t.c.ws, to); err != nil {
			return err
		} else if !ok {
			return noConnection(to)
		}
	}
	if t.a.typ.Events[event].Durable && to == "" {
		if sink := t.a.sup.options.Changes; sink != nil {
			if err := sink.Refuse(); err != nil {
				return err
			}
		}
		t.durable = true
	}
	t.events = append(t.events, emitted{event: event, data: data, to: to, except: except})
	return nil
}

type emitted struct {
	event  int
	data   []byte
	to     string
	except []string
}

// writeEvents adds a turn's events to the kept history, dropping the oldest.
func (c *core) writeEvents(t *turn) error {
	if len(t.events) == 0 {
		return nil
	}
	last, err := c.lastSequence()
	if err != nil {
		return err
	}
	// At least one event is kept, so that the sequence goes on after a sleep.
	keep := uint64(max(1, c.a.typ.base.EventHistory))
	for _, e := range t.events {
		last++
		c.lastEvent.set(c.ws, last)
		ev := host.EmittedEvent{
			Sequence: last, Version: uint64(t.version), Name: c.a.typ.Events[e.event].Name,
			Time: timeMS(unixMS(t.start)), Data: e.data, To: e.to, Except: e.except,
		}
		rec, err := record.Encode(&eventRecord{
			Name: ev.Name, Version: ev.Version, Time: unixMS(t.start), Data: e.data, To: e.to, Except: e.except,
		})
		if err != nil {
			return err
		}
		if err := c.ws.Put(keyspace.AppendEvent(nil, ev.Sequence), rec, engine.PutOptions{New: true}); err != nil {
			return err
		}
		if last > keep {
			if _, err := c.ws.Delete(keyspace.AppendEvent(nil, last-keep)); err != nil {
				return err
			}
		}
		c.group.events = append(c.group.events, publishedEvent{EmittedEvent: ev})
	}
	return nil
}

// lastEvents hands what a turn emitted that destroys its actor to the subscribers; it is not kept.
func (c *core) lastEvents(t *turn) error {
	if len(t.events) == 0 {
		return nil
	}
	last, err := c.lastSequence()
	if err != nil {
		return err
	}
	for _, e := range t.events {
		last++
		c.group.events = append(c.group.events, publishedEvent{EmittedEvent: host.EmittedEvent{
			Sequence: last, Version: uint64(t.version), Name: c.a.typ.Events[e.event].Name,
			Time: timeMS(unixMS(t.start)), Data: e.data, To: e.to, Except: e.except,
		}})
	}
	c.lastEvent.set(c.ws, last)
	return nil
}
