package supervisor

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A historyPage is a part of what is kept of an actor's events.
type historyPage struct {
	id keyspace.ActorID // the incarnation; zero if there is no actor
	// after is the position that the page follows: the one asked for, or 0 if that is another incarnation's.
	after  uint64
	events []host.EmittedEvent
	more   bool // there are events behind the page
}

// history reads the events after a position that are kept, as far as they are durable. The error is an *Error.
func (s *Supervisor) history(ctx context.Context, addr host.Address, after uint64) (historyPage, error) {
	if a := s.find(addr); a != nil {
		if v := a.acquireView(); v != nil {
			defer a.releaseView(v)
			// What the view shows may not be durable yet; like a query, the reader waits at the gate.
			if err := a.pass(ctx, v.commit); err != nil {
				return historyPage{}, err
			}
			snap, err := a.snapshotOf(v)
			if err != nil {
				return historyPage{}, err
			}
			return s.readHistory(v.id, snap, after)
		}
	}
	id, ok, err := s.store.Lookup(s.identity(addr))
	if err != nil {
		return historyPage{}, s.storeError(err)
	}
	if !ok {
		return historyPage{}, nil // the events of a new incarnation count from 1
	}
	snap := s.store.Snapshot(id)
	defer snap.Close()
	// What the snapshot shows beyond the disk was committed by an activation that cannot have left since.
	if a := s.find(addr); a != nil {
		if err := a.pass(ctx, a.applied.Load()); err != nil {
			return historyPage{}, err
		}
	}
	return s.readHistory(id, snap, after)
}

func (s *Supervisor) readHistory(id keyspace.ActorID, l lister, after uint64) (historyPage, error) {
	p := historyPage{id: id, after: after}
	last, err := lastEvent(l)
	if err != nil {
		return p, s.storeError(err)
	}
	if after > last {
		p.after = 0 // the position is another incarnation's
	}
	_, end := keyspace.KindRange(keyspace.KindEventHistory)
	page, err := l.List(engine.ListQuery{
		Start: keyspace.AppendEvent(nil, p.after+1), End: end, Limit: maxBuffered, MaxBytes: maxBufferedBytes,
	})
	if err != nil {
		return p, s.storeError(err)
	}
	p.more = page.Next != nil
	p.events = make([]host.EmittedEvent, 0, len(page.Entries))
	for _, e := range page.Entries {
		ev, err := decodeEvent(e)
		if err != nil {
			return p, s.storeError(err)
		}
		p.events = append(p.events, ev)
	}
	return p, nil
}

func decodeEvent(e engine.Entry) (host.EmittedEvent, error) {
	seq, err := keyspace.ParseEvent(e.Key)
	if err != nil {
		return host.EmittedEvent{}, err
	}
	var r eventRecord
	if err := record.Decode(e.Value, &r); err != nil {
		return host.EmittedEvent{}, err
	}
	return host.EmittedEvent{
		Sequence: seq, Version: r.Version, Name: r.Name, Time: timeMS(r.Time).UTC(), Data: r.Data, To: r.To, Except: r.Except,
	}, nil
}

// lastEvent returns the sequence of the actor's last event; 0 if it has emitted none.
func lastEvent(l lister) (uint64, error) {
	start, end := keyspace.KindRange(keyspace.KindEventHistory)
	page, err := l.List(engine.ListQuery{Start: start, End: end, Reverse: true, Limit: 1, KeysOnly: true})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return keyspace.ParseEvent(page.Entries[0].Key)
}

// lastSequence is the sequence of the last event that a turn which succeeded has emitted.
func (c *core) lastSequence() (uint64, error) {
	if c.events < 0 {
		n, err := lastEvent(c.ws)
		if err != nil {
			return 0, err
		}
		c.events = int64(n)
	}
	return uint64(c.events), nil
}

// event returns the index of an event by its name. The error has the code InvalidArgument.
func (t *actorType) event(name string) (int, error) {
	for i := range t.Events {
		if t.Events[i].Name == name {
			return i, nil
		}
	}
	return 0, host.Errorf(host.InvalidArgument, "actor type %q has no event %q", t.Type, name).With("event", name)
}
