package natspub

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/engine"
)

// TestEventsOfARealStoreSurviveAPowerCut runs the publisher on the engine's outbox: commits while NATS is away, a power
// cut that takes what was not synced, and a second node on what is left.
func TestEventsOfARealStoreSurviveAPowerCut(t *testing.T) {
	srv := newOutage(t)
	srv.stream(allEvents)
	disk := engine.NewDisk()
	open := func(d *engine.Disk) *engine.Store {
		s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: d})
		if err != nil {
			t.Fatal(err)
		}
		return s
	}
	away := func(...nats.Option) (*nats.Conn, error) { return nil, errors.New("away") }
	store := open(disk)
	p, err := Start(t.Context(), Options{Outbox: store, Dial: away, JetStream: true, MemoryRows: 8})
	if err != nil {
		t.Fatal(err)
	}
	const versions = 200
	identity := engine.Identity{Namespace: "default", Type: "airport", Key: []string{"ORD"}}
	id := store.NewActorID(identity)
	commit := func(store *engine.Store, p *Publisher, from, to int) {
		space, err := store.OpenSpace(id)
		if err != nil {
			t.Fatal(err)
		}
		defer space.Close()
		done := make(chan error, to-from+1)
		for v := from; v <= to; v++ {
			w := space.Writes()
			set := emitted(0, int(w.Advance(time.Now().UnixMilli())), true, "moved")
			set.ID, set.Identity = id, identity
			if v == 1 {
				if err := w.Create(identity); err != nil {
					t.Fatal(err)
				}
			}
			seq := new(uint64)
			if err := w.Outbox(set.Append(nil), seq); err != nil {
				t.Fatal(err)
			}
			if _, err := space.Commit(func(err error) {
				if err == nil {
					p.Committed(*seq, set)
				}
				done <- err
			}); err != nil {
				t.Fatal(err)
			}
		}
		for v := from; v <= to; v++ {
			if err := <-done; err != nil {
				t.Fatal(err)
			}
		}
	}
	commit(store, p, 1, versions/2)
	crashed := disk.Crash(1, 0)
	kill(t, p)
	if err := store.Close(); err != nil {
		t.Fatal(err)
	}

	store = open(crashed)
	defer store.Close()
	if rows, _ := store.OutboxSize(); rows != versions/2 {
		t.Fatalf("%d rows after the crash", rows)
	}
	p, err = Start(t.Context(), Options{Outbox: store, Dial: srv.dial, JetStream: true, MemoryRows: 8})
	if err != nil {
		t.Fatal(err)
	}
	commit(store, p, versions/2+1, versions)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	if err := p.Close(ctx); err != nil {
		t.Fatal(err)
	}
	if rows, bytes := store.OutboxSize(); rows != 0 || bytes != 0 {
		t.Errorf("%d rows of %d bytes left", rows, bytes)
	}
	ids := storedIDs(srv, "EVENTS")
	if len(ids) != versions {
		t.Fatalf("%d of %d events", len(ids), versions)
	}
	checkGrowing(t, ids)
}
