package natspub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/engine"
)

var allEvents = jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"}, Storage: jetstream.FileStorage, Duplicates: time.Hour}

// next receives one message.
func next(t testing.TB, sub *nats.Subscription) *nats.Msg {
	t.Helper()
	m, err := sub.NextMsg(patience)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// subscribe subscribes, and returns once the server knows.
func subscribe(t testing.TB, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err != nil {
		t.Fatal(err)
	}
	if err := nc.Flush(); err != nil {
		t.Fatal(err)
	}
	return sub
}

func TestCommittedChangesArriveInOrderAndTheirRowsAreDeleted(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	const actors, versions = 5, 200
	for v := 1; v <= versions; v++ {
		for a := range actors {
			box.commit(p, emitted(a, v, v%2 == 0, "moved"))
		}
	}
	var ids []string
	for range actors * versions {
		ids = append(ids, next(t, sub).Header.Get(nats.MsgIdHdr))
	}
	checkOrder(t, ids, actors, versions)
	box.awaitEmpty(t)
	if got := value(t, p.metrics.published, familyEvent); got != actors*versions {
		t.Errorf("published %v", got)
	}
	if got := value(t, p.metrics.repeated, ""); got != 0 {
		t.Errorf("repeated %v", got)
	}
}

func TestRowsOfAnEarlierProcessComeFirst(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.default.event.>")
	box := newOutbox(t)
	for v := 1; v <= 500; v++ {
		box.insert(emitted(0, v, false, "moved"))
	}
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	for v := 501; v <= 700; v++ {
		box.commit(p, emitted(0, v, false, "moved"))
	}
	var ids []string
	for range 700 {
		ids = append(ids, next(t, sub).Header.Get(nats.MsgIdHdr))
	}
	checkOrder(t, ids, 1, 700)
	box.awaitEmpty(t)
}

func TestKilledBetweenCommitAndPublishAnEventAppearsOnce(t *testing.T) {
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprintf("jetstream=%v", acks), func(t *testing.T) {
			srv := newOutage(t)
			srv.stream(allEvents)
			box := newOutbox(t)

			// The first process commits and dies before it published anything.
			away := func(...nats.Option) (*nats.Conn, error) { return nil, errors.New("no route") }
			p := begin(t, Options{Outbox: box, Dial: away, JetStream: acks})
			for v := 1; v <= 3; v++ {
				box.commit(p, emitted(0, v, true, "moved"))
			}
			kill(t, p)

			// The second publishes and dies before the rows are deleted.
			box.deaf.Store(true)
			p = begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: acks})
			box.commit(p, emitted(0, 4, true, "moved"))
			eventually(t, "published", func() bool { return value(t, p.metrics.published, familyEvent) == 4 })
			kill(t, p)
			if rows, _ := box.OutboxSize(); rows != 4 {
				t.Fatalf("%d rows", rows)
			}
			box.deaf.Store(false)

			// The third publishes all of it again.
			p = begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: acks})
			box.commit(p, emitted(0, 5, true, "moved"))
			box.awaitEmpty(t)
			if got := value(t, p.metrics.published, familyEvent); got != 5 {
				t.Errorf("the third process published %v", got)
			}
			srv.awaitStored("EVENTS", 5)
			checkOrder(t, storedIDs(srv, "EVENTS"), 1, 5)
		})
	}
}

func TestOrderHoldsWhileTheServerComesAndGoesAndMemoryOverflows(t *testing.T) {
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprintf("jetstream=%v", acks), func(t *testing.T) {
			srv := newOutage(t)
			srv.stream(allEvents)
			box := newOutbox(t)
			p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: acks, MemoryRows: 16})
			const actors, versions, outages = 7, 300, 4
			published := func() float64 { return value(t, p.metrics.published, familyEvent) }
			for v := 1; v <= versions; v++ {
				if v%(versions/outages) == versions/outages/2 {
					srv.stop()
				}
				for a := range actors {
					box.commit(p, emitted(a, v, true, "moved"))
				}
				if v%(versions/outages) == 0 {
					before := published()
					srv.start()
					eventually(t, "publishing goes on", func() bool { return published() > before })
				}
			}
			box.awaitEmpty(t)
			if ids := storedIDs(srv, "EVENTS"); acks {
				checkOrder(t, ids, actors, versions)
			} else {
				checkGrowing(t, ids) // a server that goes away takes along what its streams had not stored yet
			}
			// The first outage may begin before there was a connection at all.
			if got := value(t, p.metrics.connects, ""); got < outages-1 {
				t.Errorf("%v connections for %d outages", got, outages)
			}
		})
	}
}

func TestOrderHoldsAndNothingIsLostWhileConnectionsBreak(t *testing.T) {
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprintf("jetstream=%v", acks), func(t *testing.T) {
			srv := newOutage(t)
			url := srv.listen()
			srv.stream(allEvents)
			box := newOutbox(t)
			p := begin(t, Options{Outbox: box, JetStream: acks, MemoryRows: 64, Dial: URL(url, nats.SetCustomDialer(&breaking{rng: rand.New(rand.NewPCG(1, 2))}))})
			const actors, versions = 7, 400
			for v := 1; v <= versions; v++ {
				for a := range actors {
					box.commit(p, emitted(a, v, true, "moved"))
				}
				if v%50 == 0 {
					box.await(t, "nothing is published", func(rows int) bool { return rows < 150 })
				}
			}
			box.awaitEmpty(t)
			srv.awaitStored("EVENTS", actors*versions)
			checkOrder(t, storedIDs(srv, "EVENTS"), actors, versions)
			if got := value(t, p.metrics.connects, ""); got < 4 {
				t.Errorf("only %v connections", got)
			}
		})
	}
}

// breaking dials connections that break in the middle of a write, after some tens of kilobytes.
type breaking struct{ rng *rand.Rand }

func (b *breaking) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &breakingConn{Conn: c, left: 2_000 + b.rng.IntN(300_000)}, nil
}

type breakingConn struct {
	net.Conn
	left int
}

func (c *breakingConn) Write(b []byte) (int, error) {
	if len(b) <= c.left {
		c.left -= len(b)
		return c.Conn.Write(b)
	}
	n, _ := c.Conn.Write(b[:c.left])
	c.left = 0
	c.Conn.Close()
	return n, net.ErrClosed
}

func TestATCPServerThatRestartsIsFoundAgain(t *testing.T) {
	srv := newOutage(t)
	url := srv.listen()
	srv.stream(allEvents)
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: URL(url)})
	box.commit(p, emitted(0, 1, false, "moved"))
	box.awaitEmpty(t)
	srv.awaitStored("EVENTS", 1)
	srv.stop()
	eventually(t, "the loss is noticed", func() bool { return !p.Connected() })
	box.commit(p, emitted(0, 2, false, "moved"))
	eventually(t, "lag", func() bool { return p.Lag() > 0 })
	srv.start()
	box.awaitEmpty(t)
	eventually(t, "no lag", func() bool { return p.Lag() == 0 })
	srv.awaitStored("EVENTS", 2)
}

func TestAConnectionGivenIsThePatternForOthers(t *testing.T) {
	srv := newOutage(t)
	nc := srv.client()
	sub := subscribe(t, nc, "acme.actors.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Conn: nc, Root: "acme.actors"})
	box.commit(p, emitted(0, 1, false, "moved"))
	if m := next(t, sub); m.Subject != "acme.actors.default.event.airport.moved.A0" {
		t.Errorf("subject %q", m.Subject)
	}
}

func TestARowNotYetReadableIsWaitedFor(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, MemoryRows: 1, MemoryBytes: 1}) // nothing fits: every record is read back
	first, second, third := emitted(0, 1, false, "a"), emitted(1, 1, false, "b"), emitted(2, 1, false, "c")
	one := box.insert(first)
	box.last.Store(one)
	two, three := box.insert(second), box.insert(third)
	p.Committed(one, first)
	p.Committed(three, third) // the commit of row 2 is not durable yet
	if m := next(t, sub); !strings.HasSuffix(m.Subject, "A0") {
		t.Fatalf("got %q", m.Subject)
	}
	box.last.Store(0)
	p.Committed(two, second)
	got := []string{next(t, sub).Subject, next(t, sub).Subject}
	if !strings.HasSuffix(got[0], "A2") || !strings.HasSuffix(got[1], "A1") {
		t.Errorf("got %q", got)
	}
	box.awaitEmpty(t)
}

func TestCommittedDoesNotWaitForAServerThatHangs(t *testing.T) {
	release, dialed := make(chan struct{}), make(chan struct{})
	var once atomic.Bool
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, MemoryRows: 10, Dial: func(...nats.Option) (*nats.Conn, error) {
		if once.CompareAndSwap(false, true) {
			close(dialed)
		}
		<-release
		return nil, errors.New("gave up")
	}})
	<-dialed
	seqs := make([]uint64, 1001)
	for v := 1; v <= 1000; v++ {
		seqs[v] = box.insert(emitted(0, v, true, "moved"))
	}
	for v := 1; v <= 1000; v++ {
		p.Committed(seqs[v], emitted(0, v, true, "moved"))
		p.Life(emitted(0, v, false, "slept"))
	}
	if p.Refuse() != nil {
		t.Error("refused below the limit")
	}
	close(release)
	end(t, p)
	if rows, _ := box.OutboxSize(); rows != 1000 {
		t.Errorf("%d rows", rows)
	}
	if got := value(t, p.metrics.dropped, dropMemoryFull); got == 0 {
		t.Error("no life change was dropped, although the memory was full")
	}
}

// stalled is an outbox whose deletions hang until released.
type stalled struct {
	*outbox
	entered, release chan struct{}
	once             atomic.Bool
}

func (s *stalled) AckOutbox(seqs []uint64) error {
	if s.once.CompareAndSwap(false, true) {
		close(s.entered)
		<-s.release
	}
	return s.outbox.AckOutbox(seqs)
}

func TestARecordThatDoesNotDecodeIsKeptAndPassedOver(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	box.insertRecord(emitted(0, 1, false, "moved"), []byte{0xFF, 1, 2, 3})
	box.insert(emitted(0, 2, false, "moved"))
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	if id := next(t, sub).Header.Get(nats.MsgIdHdr); !strings.HasSuffix(id, "/2/0") {
		t.Errorf("got %q", id)
	}
	box.await(t, "not kept", func(rows int) bool { return rows == 1 })
	if got := value(t, p.metrics.dropped, dropInvalid); got != 1 {
		t.Errorf("counted %v", got)
	}
}

func TestCloseDrainsAndLeavesNoGoroutine(t *testing.T) {
	srv := newOutage(t)
	srv.stream(allEvents)
	for _, acks := range []bool{false, true} {
		before, _ := ours()
		box := newOutbox(t)
		registry := prometheus.NewRegistry()
		p, err := Start(t.Context(), Options{Outbox: box, Dial: srv.dial, JetStream: acks, Registerer: registry, Node: fakeNode{}, Endpoints: airport})
		if err != nil {
			t.Fatal(err)
		}
		for v := 1; v <= 500; v++ {
			box.commit(p, emitted(0, v, true, "moved"))
		}
		end(t, p)
		if rows, _ := box.OutboxSize(); rows != 0 {
			t.Errorf("jetstream=%v: %d rows after Close", acks, rows)
		}
		end(t, p) // again
		if families, err := registry.Gather(); err != nil || len(families) != 0 {
			t.Errorf("metrics still registered: %v, %v", families, err)
		}
		checkGoroutines(t, before)
	}
}

func TestCloseGivesUpWhenItsContextEnds(t *testing.T) {
	srv := newOutage(t) // without a stream a durable event waits for ever
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	box.commit(p, emitted(0, 1, true, "moved"))
	eventually(t, "connected", p.Connected)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if err := p.Close(ctx); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
	if rows, _ := box.OutboxSize(); rows != 1 {
		t.Errorf("%d rows", rows)
	}
}

func TestCloseDoesNotWaitForAServerThatIsAway(t *testing.T) {
	took := closeWithoutServer(t)
	for range 2 { // a slow machine is not as slow three times
		if took >= flushTimeout {
			took = closeWithoutServer(t)
		}
	}
	if took >= flushTimeout {
		t.Errorf("took %v", took)
	}
}

func closeWithoutServer(t *testing.T) time.Duration {
	t.Helper()
	srv := newOutage(t)
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, Node: fakeNode{}, Endpoints: airport})
	box.commit(p, emitted(0, 1, true, "moved"))
	box.awaitEmpty(t)
	srv.stop()
	eventually(t, "the loss is noticed", func() bool { return !p.Connected() })
	box.commit(p, emitted(0, 2, true, "moved"))
	began := time.Now()
	end(t, p)
	took := time.Since(began)
	if rows, _ := box.OutboxSize(); rows != 1 {
		t.Errorf("%d rows", rows)
	}
	return took
}

func TestOptionsAreValidated(t *testing.T) {
	_, err := Start(t.Context(), Options{Root: "a..b", MaxCalls: -1})
	if err == nil {
		t.Fatal("no error")
	}
	for _, part := range []string{"Outbox", "Conn", "root", "MaxCalls"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("%q is not in %v", part, err)
		}
	}
	registry := prometheus.NewRegistry()
	dial := func(...nats.Option) (*nats.Conn, error) { return nil, errors.New("away") }
	begin(t, Options{Outbox: newOutbox(t), Dial: dial, Registerer: registry})
	if _, err := Start(t.Context(), Options{Outbox: newOutbox(t), Dial: dial, Registerer: registry}); err == nil {
		t.Error("two publishers share one registry")
	}
}

func TestLastRowIsFoundInFewReads(t *testing.T) {
	for _, seqs := range [][]uint64{{}, {1}, {5}, {1, 2, 3}, {1 << 40}, {7, 1 << 62, 1<<64 - 2}, {1<<64 - 1}, {3, 900, 1_000_000}} {
		reads := &counted{rows: seqs}
		got, err := lastRow(t.Context(), reads)
		want := uint64(0)
		if len(seqs) > 0 {
			want = slices.Max(seqs)
		}
		if err != nil || got != want {
			t.Errorf("%v: last row %d, %v", seqs, got, err)
		}
		if reads.n > 200 {
			t.Errorf("%v: %d reads", seqs, reads.n)
		}
	}
}

// counted is an outbox with rows of which nothing but the sequence is known.
type counted struct {
	sink
	rows []uint64
	n    int
}

func (c *counted) Outbox(after uint64, limit int) (page []engine.OutboxRow, err error) {
	c.n++
	for _, seq := range c.rows {
		if seq > after && len(page) < limit {
			page = append(page, engine.OutboxRow{Seq: seq})
		}
	}
	return page, nil
}

func TestLifeChangesAreToldApart(t *testing.T) {
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.default.life.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial})
	eventually(t, "connected", p.Connected)
	set := emitted(3, 9, false)
	set.Changes = []engine.Change{{Kind: engine.ChangeLife, Name: "slept", Data: []byte(`{"reason":"idle"}`)}}
	p.Life(set)
	m := next(t, sub)
	if m.Subject != "cairn.default.life.airport.slept.A3" || m.Header.Get(nats.MsgIdHdr) != actorID(3).String()+"/9/slept-986000000123" {
		t.Errorf("subject %q, headers %v", m.Subject, m.Header)
	}
	if binary.Size(m.Data) == 0 {
		t.Error("no payload")
	}
}
