package natspub

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/actor/host"
)

func TestOldestBestEffortRowsAreDroppedWhenTheOutboxIsFull(t *testing.T) {
	srv := newOutage(t)
	srv.stream(jetstream.StreamConfig{Name: "ALL", Subjects: []string{"cairn.>"}, Duplicates: time.Hour})
	srv.stop()
	stored := 0
	for _, memory := range []int{4, 1000} {
		t.Run(fmt.Sprintf("memory=%d", memory), func(t *testing.T) {
			box := newOutbox(t)
			p := begin(t, Options{Outbox: box, Dial: srv.dial, MaxOutboxRows: 100, MemoryRows: memory})
			actor := memory // each case has an actor of its own
			for v := 1; v <= 95; v++ {
				if v%10 == 0 {
					box.commit(p, emitted(actor, v, true, "kept"))
				} else {
					box.commit(p, changed(actor, v))
				}
			}
			if got := value(t, p.metrics.dropped, dropOutboxFull); got != 0 {
				t.Fatalf("dropped %v below the limit", got)
			}
			for v := 96; v <= 100; v++ {
				box.commit(p, changed(actor, v))
			}
			box.await(t, "nothing dropped", func(rows int) bool { return rows < 90 })
			if err := p.Refuse(); err != nil {
				t.Errorf("refused although rows could be dropped: %v", err)
			}
			eventually(t, "counted", func() bool { return value(t, p.metrics.dropped, dropOutboxFull) == 11 })
			srv.start()
			box.awaitEmpty(t)
			stored += 89
			srv.awaitStored("ALL", stored)
			var versions []string
			for _, m := range srv.stored("ALL") {
				if parts := strings.Split(m.Header.Get(nats.MsgIdHdr), "/"); parts[0] == actorID(actor).String() {
					versions = append(versions, parts[1])
				}
			}
			srv.stop()
			// Versions 1 to 12 are gone, except for the durable event of version 10.
			if len(versions) != 89 || versions[0] != "10" || versions[1] != "13" || versions[88] != "100" {
				t.Errorf("published %d: %v", len(versions), versions)
			}
		})
	}
}

func TestDurableEventsAreRefusedWhenNothingCanBeDropped(t *testing.T) {
	srv := newOutage(t)
	srv.stop()
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, MaxOutboxRows: 20})
	for v := 1; v <= 20; v++ {
		if err := p.Refuse(); err != nil {
			t.Fatalf("version %d refused: %v", v, err)
		}
		box.commit(p, emitted(0, v, true, "kept"))
	}
	eventually(t, "refused", func() bool { return p.Refuse() != nil })
	err := p.Refuse()
	var e *host.Error
	if !errors.As(err, &e) || e.Code != host.Unavailable || !e.Retryable || e.Metadata["outbox_rows"] != "20" {
		t.Errorf("Refuse() = %#v", err)
	}
	if got := value(t, p.metrics.refused, ""); got < 2 {
		t.Errorf("counted %v", got)
	}
	// Best-effort changes go on meanwhile and take turns in what room there is.
	box.commit(p, changed(1, 1))
	box.await(t, "not dropped", func(rows int) bool { return rows == 20 })
	srv.start()
	box.awaitEmpty(t)
	if err := p.Refuse(); err != nil {
		t.Errorf("still refused: %v", err)
	}
}

func TestTheLimitHoldsEvenIfDroppingLagsBehind(t *testing.T) {
	box := newOutbox(t)
	entered, release := make(chan struct{}), make(chan struct{})
	p := begin(t, Options{Outbox: &stalled{outbox: box, entered: entered, release: release}, MaxOutboxRows: 20,
		Dial: func(...nats.Option) (*nats.Conn, error) { return nil, errors.New("away") }})
	for v := 1; v <= 20; v++ {
		box.commit(p, changed(0, v))
	}
	<-entered // the loop is dropping, and slow
	for v := 21; v <= 24; v++ {
		if err := p.Refuse(); err != nil {
			t.Fatalf("refused at %d rows, although the loop is at work: %v", v-1, err)
		}
		box.commit(p, emitted(0, v, true, "kept"))
	}
	box.commit(p, emitted(0, 25, true, "kept"))
	if p.Refuse() == nil {
		t.Error("not refused a quarter over the limit")
	}
	close(release)
	box.await(t, "not dropped", func(rows int) bool { return rows < 20 })
}

func TestALargePayloadIsLeftOutAndDoesNotStopTheOthers(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	huge := emitted(0, 2, true, "moved")
	huge.Changes[0].Data = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	box.commit(p, emitted(0, 1, false, "moved"))
	box.commit(p, huge)
	box.commit(p, emitted(0, 3, false, "moved"))
	next(t, sub)
	m := next(t, sub)
	if len(m.Data) != 0 || m.Header.Get(HeaderOmitted) != "too_large" || m.Header.Get(HeaderSize) != fmt.Sprint(1<<20+2) {
		t.Errorf("%d bytes, headers %v", len(m.Data), m.Header)
	}
	if m := next(t, sub); m.Header.Get(HeaderOmitted) != "" || string(m.Data) != `{"v":3}` {
		t.Errorf("the message after it: %q, headers %v", m.Data, m.Header)
	}
	box.awaitEmpty(t)
	if got := value(t, p.metrics.omitted, ""); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestASubjectTooLongIsDroppedAndDoesNotStopTheOthers(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	long := emitted(0, 1, true, "moved")
	long.Identity.Key = []string{strings.Repeat(".", 2000)}
	box.commit(p, long)
	box.commit(p, emitted(0, 2, false, "moved"))
	if m := next(t, sub); m.Subject != "cairn.default.event.airport.moved.A0" {
		t.Errorf("got %q", m.Subject)
	}
	box.awaitEmpty(t)
	if got := value(t, p.metrics.dropped, dropSubject); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestAServerWithShorterControlLinesIsLearnedFrom(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxControlLine: 512})
	if err != nil {
		t.Fatal(err)
	}
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	if !ns.ReadyForConnections(patience) {
		t.Fatal("not ready")
	}
	dial := URL(ns.ClientURL())
	nc, err := dial()
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(nc.Close)
	sub := subscribe(t, nc, "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: dial})
	long := emitted(0, 1, true, "moved")
	long.Identity.Key = []string{strings.Repeat("k", 1000)}
	box.commit(p, long)
	box.commit(p, emitted(0, 2, false, "moved"))
	if m := next(t, sub); m.Subject != "cairn.default.event.airport.moved.A0" {
		t.Errorf("got %q", m.Subject)
	}
	box.awaitEmpty(t)
}
