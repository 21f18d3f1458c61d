package natspub

import (
	"errors"
	"testing"

	"github.com/nats-io/nats.go"

	"github.com/cairn-run/cairn/engine"
)

// Commits while NATS is away, a power cut that takes what was not synced, and a second node on what is left.
func TestEventsSurviveAPowerCut(t *testing.T) {
	srv := newOutage(t)
	srv.stream(allEvents)
	disk := engine.NewDisk()
	box := openOutbox(t, disk)
	away := func(...nats.Option) (*nats.Conn, error) { return nil, errors.New("away") }
	p := begin(t, Options{Outbox: box, Dial: away, JetStream: true, MemoryRows: 8})
	const versions = 200
	for v := 1; v <= versions/2; v++ {
		box.commit(p, emitted(0, v, true, "moved"))
	}
	crashed := disk.Crash(1, 0)
	kill(t, p)
	box = openOutbox(t, crashed)
	if rows, _ := box.OutboxSize(); rows != versions/2 {
		t.Fatalf("%d rows after the crash", rows)
	}
	p = begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true, MemoryRows: 8})
	for v := versions/2 + 1; v <= versions; v++ {
		box.commit(p, emitted(0, v, true, "moved"))
	}
	end(t, p)
	if rows, bytes := box.OutboxSize(); rows != 0 || bytes != 0 {
		t.Errorf("%d rows of %d bytes left", rows, bytes)
	}
	checkOrder(t, storedIDs(srv, "EVENTS"), 1, versions)
}
