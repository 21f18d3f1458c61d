package natspub

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/actor/host"
)

func TestOldestBestEffortRowsAreDroppedWhenTheOutboxIsFull(t *testing.T) {
	for _, memory := range []int{4, 1000} {
		t.Run(fmt.Sprintf("memory=%d", memory), func(t *testing.T) {
			r := publishing(t, Options{MaxOutboxRows: 100, MemoryRows: memory}, jetstream.StreamConfig{Name: "ALL", Subjects: []string{"cairn.>"}})
			r.srv.stop()
			for v := 1; v <= 95; v++ {
				if v%10 == 0 {
					r.commit(1, v, v, true)
				} else {
					r.change(0, v, v)
				}
			}
			wantValue(t, r.metrics.dropped, dropOutboxFull, 0)
			r.change(0, 96, 100)
			r.box.await(t, "nothing dropped", func(rows int) bool { return rows < 90 })
			check(t, r.Refuse(), "refused although rows could be dropped")
			eventually(t, "counted", func() bool { return value(t, r.metrics.dropped, dropOutboxFull) == 11 })
			r.srv.start()
			r.box.awaitEmpty(t)
			r.srv.awaitStored("ALL", 89)
			// Versions 1 to 12 are gone, except for the durable event of version 10.
			ids := storedIDs(r.srv, "ALL")
			for i, want := range map[int]string{0: "/10/0/", 1: "/13/0/", 88: "/100/0/"} {
				errorIf(t, len(ids) != 89 || !strings.Contains(ids[i], want), "published %d: %d is %s", len(ids), i, ids[i])
			}
		})
	}
}

func TestDurableEventsAreRefusedWhenNothingCanBeDropped(t *testing.T) {
	r := publishing(t, Options{MaxOutboxRows: 20})
	r.srv.stop()
	for v := 1; v <= 20; v++ {
		must(t, r.Refuse(), "version", v, "refused")
		r.commit(1, v, v, true)
	}
	eventually(t, "refused", func() bool { return r.Refuse() != nil })
	err := r.Refuse()
	var e *host.Error
	errorIf(t, !errors.As(err, &e) || e.Code != host.Unavailable || !e.Retryable || e.Metadata["outbox_rows"] != "20",
		"Refuse() = %#v", err)
	got := value(t, r.metrics.refused, "")
	errorIf(t, got < 2, "counted %v", got)
	// Best-effort changes go on meanwhile and take turns in what room there is.
	r.change(1, 1, 1)
	r.box.await(t, "not dropped", func(rows int) bool { return rows == 20 })
	r.srv.start()
	r.box.awaitEmpty(t)
	check(t, r.Refuse(), "still refused")
}

// stalled is an outbox whose deletions hang until released.
type stalled struct {
	*outbox
	entered, release chan struct{}
	once             sync.Once
}

func (s *stalled) AckOutbox(seqs []uint64) error {
	s.once.Do(func() {
		close(s.entered)
		<-s.release
	})
	return s.outbox.AckOutbox(seqs)
}

func TestTheLimitHoldsEvenIfDroppingLagsBehind(t *testing.T) {
	s := &stalled{outbox: newOutbox(t), entered: make(chan struct{}), release: make(chan struct{})}
	r := &rig{t: t, box: s.outbox, Publisher: begin(t, Options{Outbox: s, MaxOutboxRows: 20, Dial: away})}
	r.change(0, 1, 20)
	<-s.entered // the loop is dropping, and slow
	for v := 21; v <= 24; v++ {
		must(t, r.Refuse(), "refused at", v-1, "rows, although the loop is at work")
		r.commit(1, v, v, true)
	}
	r.commit(1, 25, 25, true)
	errorIf(t, r.Refuse() == nil, "not refused a quarter over the limit")
	close(s.release)
	r.box.await(t, "not dropped", func(rows int) bool { return rows < 20 })
}

func TestALargePayloadIsLeftOutAndDoesNotStopTheOthers(t *testing.T) {
	r := publishing(t, Options{})
	huge := emitted(0, 2, true, "moved")
	huge.Changes[0].Data = []byte(`"` + strings.Repeat("x", 1<<20) + `"`)
	r.commit(1, 1, 1, false)
	r.box.commit(r.Publisher, huge)
	r.commit(1, 3, 3, false)
	r.next()
	m := r.next()
	errorIf(t, len(m.Data) != 0 || m.Header.Get(HeaderOmitted) != "too_large" || m.Header.Get(HeaderSize) != fmt.Sprint(1<<20+2),
		"%d bytes, headers %v", len(m.Data), m.Header)
	if m := r.next(); m.Header.Get(HeaderOmitted) != "" || string(m.Data) != `{"v":3}` {
		t.Errorf("the message after it: %q, headers %v", m.Data, m.Header)
	}
	r.box.awaitEmpty(t)
	wantValue(t, r.metrics.omitted, "", 1)
}

// A server may take shorter control lines than others, which is learned from its refusal.
func TestASubjectTooLongIsDroppedAndDoesNotStopTheOthers(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true, MaxControlLine: 512})
	must(t, err)
	ns.Start()
	t.Cleanup(func() { ns.Shutdown(); ns.WaitForShutdown() })
	fatalIf(t, !ns.ReadyForConnections(patience), "not ready")
	for _, c := range []struct {
		part string
		dial Dial
	}{{strings.Repeat(".", 2000), nil}, {strings.Repeat("k", 1000), URL(ns.ClientURL())}} {
		r := publishing(t, Options{Dial: c.dial})
		if c.dial != nil {
			nc, err := c.dial()
			must(t, err)
			defer nc.Close()
			r.sub = subscribe(t, nc, "cairn.>")
		}
		long := emitted(0, 1, true, "moved")
		long.Identity.Key = []string{c.part}
		r.box.commit(r.Publisher, long)
		r.commit(1, 2, 2, false)
		m := r.next()
		errorIf(t, m.Subject != "cairn.default.event.airport.moved.A0", "got %q", m.Subject)
		r.box.awaitEmpty(t)
		wantValue(t, r.metrics.dropped, dropSubject, 1)
	}
}
