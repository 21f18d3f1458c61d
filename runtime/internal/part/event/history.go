package event

import (
	"context"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A historyPage is a page of an actor's kept events.
type historyPage struct {
	ID keyspace.ActorID // the incarnation; zero if there is no actor
	// after is the position that the page follows: the requested one, or 0 with reset set if that
	// is of another life.
	after  uint64
	reset  bool
	Events []host.EmittedEvent
	More   bool // there are events behind the page
}

// pageBytes bounds one read of the history, for which its reader waits.
const pageBytes = 64 << 10

// History reads the kept events after a position, as far as they are durable. life is the life that
// the position counts in, or zero for the current life. The error is an *Error.
func History(s *kernel.Kernel, ctx context.Context, addr host.Address, life keyspace.ActorID,
	after uint64) (historyPage, error) {
	snap, id, err := s.Durable(ctx, addr)
	if host.CodeOf(err) == host.NotFound {
		return historyPage{}, nil // the events of a new incarnation count from 1
	}
	if err != nil {
		return historyPage{}, err
	}
	defer snap.Close()
	most := pageBytes
	if HubOf(s).full() {
		most = MinBuffered
	}
	p, err := readHistory(snap, id, life, after, most)
	if err != nil {
		return p, s.StoreError(err)
	}
	return p, nil
}

func readHistory(l call.Lister, id, life keyspace.ActorID, after uint64, most int) (historyPage, error) {
	p := historyPage{ID: id, after: after}
	last, err := lastEvent(l)
	if err != nil {
		return p, err
	}
	if after > last || !life.IsZero() && life != id {
		p.after, p.reset = 0, true
	}
	_, end := keyspace.Event.Range()
	page, err := l.List(engine.ListQuery{
		Start: keyspace.Event.Append(nil, p.after+1), End: end, Limit: MaxBuffered, MaxBytes: most,
	})
	if err != nil {
		return p, err
	}
	p.More = page.Next != nil
	p.Events = make([]host.EmittedEvent, 0, len(page.Entries))
	name := id.String()
	for _, e := range page.Entries {
		ev, err := decodeEvent(e)
		if err != nil {
			return p, err
		}
		ev.Life = name
		p.Events = append(p.Events, ev)
	}
	return p, nil
}

func decodeEvent(e engine.Entry) (host.EmittedEvent, error) {
	seq, err := keyspace.Event.Parse(e.Key)
	if err != nil {
		return host.EmittedEvent{}, err
	}
	var r eventRecord
	if err := record.Decode(e.Value, &r); err != nil {
		return host.EmittedEvent{}, err
	}
	return host.EmittedEvent{
		Sequence: seq, Version: r.Version, Name: r.Name, Time: clock.TimeMS(r.Time).
				UTC(), Data: r.Data, To: r.To, Except: r.Except,
	}, nil
}

// lastEvent returns the sequence of the actor's last event; 0 if it has emitted none.
func lastEvent(l call.Lister) (uint64, error) {
	start, end := keyspace.Event.Range()
	page, err := l.List(engine.ListQuery{Start: start, End: end, Reverse: true, Limit: 1, KeysOnly: true})
	if err != nil || len(page.Entries) == 0 {
		return 0, err
	}
	return keyspace.Event.Parse(page.Entries[0].Key)
}

// Event returns the index of an event by its name. The error has the code InvalidArgument.
func Event(t *kernel.Type, name string) (int, error) {
	for i := range t.Events {
		if t.Events[i].Name == name {
			return i, nil
		}
	}
	return 0, host.Errorf(host.InvalidArgument, "actor type %q has no event %q", t.Type, name).With("event", name)
}
