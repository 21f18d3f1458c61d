package natspub

import (
	"errors"
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

func TestCommittedChangesArriveInOrderAndTheirRowsAreDeleted(t *testing.T) {
	r := publishing(t, Options{})
	const actors, versions = 5, 200
	for v := 1; v <= versions; v++ {
		r.commit(actors, v, v, v%2 == 0)
	}
	var ids []string
	for range actors * versions {
		ids = append(ids, r.next().Header.Get(nats.MsgIdHdr))
	}
	checkOrder(t, ids, actors, versions)
	r.box.awaitEmpty(t)
	wantValue(t, r.metrics.published, familyEvent, actors*versions)
	wantValue(t, r.metrics.repeated, "", 0)
}

// away is a server that cannot be reached.
func away(...nats.Option) (*nats.Conn, error) { return nil, errors.New("no route") }

func TestKilledBetweenCommitAndPublishAnEventAppearsOnce(t *testing.T) {
	bothModes(t, func(t *testing.T, acks bool) {
		// The first process commits and dies before it published anything.
		r := publishing(t, Options{Dial: away, JetStream: acks}, allEvents)
		r.commit(1, 1, 3, true)
		kill(t, r.Publisher)

		// The second publishes and dies before the rows are deleted.
		r.box.deaf.Store(true)
		o := Options{Outbox: r.box, Dial: r.srv.dial, JetStream: acks}
		r.Publisher = begin(t, o)
		r.commit(1, 4, 4, true)
		eventually(t, "published", func() bool { return value(t, r.metrics.published, familyEvent) == 4 })
		kill(t, r.Publisher)
		r.wantRows(4)
		r.box.deaf.Store(false)

		// The third publishes all of it again.
		r.Publisher = begin(t, o)
		r.commit(1, 5, 5, true)
		r.box.awaitEmpty(t)
		wantValue(t, r.metrics.published, familyEvent, 5)
		r.srv.awaitStored("EVENTS", 5)
		checkOrder(t, storedIDs(r.srv, "EVENTS"), 1, 5)
	})
}

// Commits while NATS is away, a power cut that takes what was not synced, and a second node on what is left.
func TestEventsSurviveAPowerCut(t *testing.T) {
	bothModes(t, func(t *testing.T, acks bool) {
		disk := engine.NewDisk()
		r := publishing(t, Options{Outbox: openOutbox(t, disk), Dial: away, JetStream: acks, MemoryRows: 8}, allEvents)
		const versions = 400
		r.commit(1, 1, versions/2, true)
		crashed := disk.Crash(1, 0)
		kill(t, r.Publisher)
		r.box = openOutbox(t, crashed)
		r.wantRows(versions / 2)
		r.Publisher = begin(t, Options{Outbox: r.box, Dial: r.srv.dial, JetStream: acks, MemoryRows: 8})
		r.commit(1, versions/2+1, versions, true)
		end(t, r.Publisher)
		if rows, bytes := r.box.OutboxSize(); rows != 0 || bytes != 0 {
			t.Errorf("%d rows of %d bytes left", rows, bytes)
		}
		r.srv.awaitStored("EVENTS", versions)
		checkOrder(t, storedIDs(r.srv, "EVENTS"), 1, versions)
	})
}

func TestOrderHoldsAndNothingIsLostWhileConnectionsBreak(t *testing.T) {
	bothModes(t, func(t *testing.T, acks bool) {
		srv := newOutage(t)
		url := srv.listen()
		srv.stream(allEvents)
		r := &rig{t: t, srv: srv, box: newOutbox(t)}
		r.Publisher = begin(t, Options{Outbox: r.box, JetStream: acks, MemoryRows: 64,
			Dial: URL(url, nats.SetCustomDialer(&breaking{rng: rand.New(rand.NewPCG(1, 2))}))})
		const actors, versions = 7, 400
		for v := 0; v < versions; v += 50 {
			r.commit(actors, v+1, v+50, true)
			r.box.await(t, "nothing is published", func(rows int) bool { return rows < 150 })
		}
		r.box.awaitEmpty(t)
		srv.awaitStored("EVENTS", actors*versions)
		checkOrder(t, storedIDs(srv, "EVENTS"), actors, versions)
		got := value(t, r.metrics.connects, "")
		errorIf(t, got < 4, "only %v connections", got)
	})
}

// breaking dials connections that break in the middle of a write, after some tens of kilobytes.
type breaking struct{ rng *rand.Rand }

func (b *breaking) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	return &breakingConn{Conn: c, left: 2_000 + b.rng.IntN(400_000)}, nil
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

func TestAConnectionGivenIsThePatternForOthers(t *testing.T) {
	nc := newOutage(t).client()
	r := publishing(t, Options{Conn: nc, Root: "acme.actors"})
	r.sub = subscribe(t, nc, "acme.actors.>")
	r.commit(1, 1, 1, false)
	m := r.next()
	errorIf(t, m.Subject != "acme.actors.default.event.airport.moved.A0", "subject %q", m.Subject)
}

func TestARowNotYetReadableIsWaitedFor(t *testing.T) {
	r := publishing(t, Options{MemoryRows: 1, MemoryBytes: 1}) // nothing fits: every record is read back
	box := r.box
	first, second, third := emitted(0, 1, false, "a"), emitted(1, 1, false, "b"), emitted(2, 1, false, "c")
	one := box.insert(first)
	box.last.Store(one)
	two, three := box.insert(second), box.insert(third)
	r.Committed(one, first)
	r.Committed(three, third) // the commit of row 2 is not durable yet
	m := r.next()
	fatalIf(t, !strings.HasSuffix(m.Subject, "A0"), "got %q", m.Subject)
	box.last.Store(0)
	r.Committed(two, second)
	if a, b := r.next().Subject, r.next().Subject; !strings.HasSuffix(a, "A2") || !strings.HasSuffix(b, "A1") {
		t.Errorf("got %q, %q", a, b)
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
	if p.Refuse() != nil || p.Lag() == 0 {
		t.Errorf("below the limit: %v, lag %v", p.Refuse(), p.Lag())
	}
	close(release)
	end(t, p)
	if rows, _ := box.OutboxSize(); rows != 1000 {
		t.Errorf("%d rows", rows)
	}
	errorIf(t, value(t, p.metrics.dropped, dropMemoryFull) == 0, "no life change was dropped, although the memory was full")
}

func TestARecordThatDoesNotDecodeIsKeptAndPassedOver(t *testing.T) {
	box := newOutbox(t)
	box.insertRecord(emitted(0, 1, false, "moved"), []byte{0xFF, 1, 2, 3})
	box.insert(emitted(0, 2, false, "moved"))
	r := publishing(t, Options{Outbox: box})
	same(t, versionOf(t, r.next()), 2, "got version")
	box.await(t, "not kept", func(rows int) bool { return rows == 1 })
	wantValue(t, r.metrics.dropped, dropInvalid, 1)
}

func TestCloseDrainsAndLeavesNoGoroutine(t *testing.T) {
	srv := newOutage(t)
	srv.stream(allEvents)
	bothModes(t, func(t *testing.T, acks bool) {
		before := ours()
		registry := prometheus.NewRegistry()
		r := &rig{t: t, box: newOutbox(t)}
		r.Publisher = begin(t, Options{Outbox: r.box, Dial: srv.dial, JetStream: acks, Registerer: registry, Node: fakeNode{}, Endpoints: airport})
		r.commit(1, 1, 500, true)
		end(t, r.Publisher)
		r.wantRows(0)
		end(t, r.Publisher) // again
		families, err := registry.Gather()
		errorIf(t, err != nil || len(families) != 0, "metrics still registered: %v, %v", families, err)
		eventually(t, "no goroutine is left", func() bool { return ours() <= before })
	})
}

func TestCloseDoesNotWaitForAServerThatIsAway(t *testing.T) {
	took := flushTimeout
	for n := 0; n < 3 && took >= flushTimeout; n++ { // a slow machine is not as slow three times
		r := publishing(t, Options{Node: fakeNode{}, Endpoints: airport})
		r.commit(1, 1, 1, true)
		r.box.awaitEmpty(t)
		r.srv.stop()
		eventually(t, "the loss is noticed", func() bool { return !r.Connected() })
		r.commit(1, 2, 2, true)
		began := time.Now()
		end(t, r.Publisher)
		took = time.Since(began)
		r.wantRows(1)
	}
	errorIf(t, took >= flushTimeout, "took %v", took)
}

func TestOptionsAreValidated(t *testing.T) {
	_, err := Start(t.Context(), Options{Root: "a..b", MaxCalls: -1})
	fatalIf(t, err == nil, "no error")
	for _, part := range []string{"Outbox", "Conn", "root", "MaxCalls"} {
		errorIf(t, !strings.Contains(err.Error(), part), "%q is not in %v", part, err)
	}
	registry := prometheus.NewRegistry()
	begin(t, Options{Outbox: newOutbox(t), Dial: away, Registerer: registry})
	if _, err := Start(t.Context(), Options{Outbox: newOutbox(t), Dial: away, Registerer: registry}); err == nil {
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
		errorIf(t, err != nil || got != want, "%v: last row %d, %v", seqs, got, err)
		errorIf(t, reads.n > 200, "%v: %d reads", seqs, reads.n)
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
	r := publishing(t, Options{})
	eventually(t, "connected", r.Connected)
	set := emitted(3, 9, false)
	set.Changes = []engine.Change{{Kind: engine.ChangeLife, Name: "slept", Data: []byte(`{"reason":"idle"}`)}}
	r.Life(set)
	m := r.next()
	if m.Subject != "cairn.default.life.airport.slept.A3" || m.Header.Get(nats.MsgIdHdr) != actorID(3).String()+"/9/slept-986000000123-1" || len(m.Data) == 0 {
		t.Errorf("subject %q, headers %v, data %q", m.Subject, m.Header, m.Data)
	}
}
