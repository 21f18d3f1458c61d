package natspub

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/localnats"
)

var allEvents = jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"},
	Storage: jetstream.FileStorage, Duplicates: time.Hour}

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

// away dials a server that cannot be reached.
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

// Commits while NATS is away, a power cut that loses unsynced data, and a second node on the rest.
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
		r.Publisher = begin(t,
			Options{Outbox: r.box, Dial: srv.dial, JetStream: acks, Registerer: registry, Node: fakeNode{}, Endpoints: airport})
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
	for n := 0; n < 3 && took >= flushTimeout; n++ { // a slow machine is not that slow three times
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

// counted is an outbox with rows that have only a sequence number.
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
	if m.Subject != "cairn.default.life.airport.slept.A3" ||
		m.Header.Get(nats.MsgIdHdr) != actorID(3).String()+"/9/slept-986000000123-1" || len(m.Data) == 0 {
		t.Errorf("subject %q, headers %v, data %q", m.Subject, m.Header, m.Data)
	}
}

// In a synctest bubble the client library must not flush or wait with its own timeout, because it
// keeps timers in a pool that outlives the bubble. This test relies on the publisher passing
// contexts instead.
func TestServerAndPublisherRunInABubbleWithVirtualTime(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, err := localnats.Start(localnats.Options{})
		must(t, err)
		defer s.Close()
		got := make(chan *nats.Msg, 16)
		nc, err := s.Connect(nats.NoReconnect())
		must(t, err)
		defer nc.Close()
		must(t, errOf(nc.ChanSubscribe("cairn.>", got)))
		ctx, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		must(t, nc.FlushWithContext(ctx))

		var away atomic.Bool
		away.Store(true)
		began := time.Now()
		var attempts atomic.Int32
		box := newOutbox(t)
		p, err := Start(t.Context(), Options{Outbox: box, Dial: func(opts ...nats.Option) (*nats.Conn, error) {
			attempts.Add(1)
			if away.Load() {
				return nil, errors.New("away")
			}
			return s.Connect(opts...)
		}})
		must(t, err)
		set := emitted(0, 1, true, "moved")
		set.TimeMS = time.Now().UnixMilli()
		box.commit(p, set)
		time.Sleep(time.Minute) // virtual
		lag := p.Lag()
		errorIf(t, lag < 59*time.Second || lag > 61*time.Second, "lag %v after a minute away", lag)
		n := attempts.Load()
		errorIf(t, n < 20 || n > 200, "%d attempts to connect in a minute", n)
		away.Store(false)
		m := <-got
		took := time.Since(began)
		errorIf(t, took < time.Minute || took > time.Minute+maxConnectPause+time.Second, "published after %v", took)
		errorIf(t, m.Subject != "cairn.default.event.airport.moved.A0", "subject %q", m.Subject)
		check(t, p.Close(t.Context()), "Close")
		if rows, _ := box.OutboxSize(); rows != 0 {
			t.Errorf("%d rows", rows)
		}
	})
}

// The grant of docs/nats.md is enough to publish and to answer calls.
func TestTheGrantOfTheGuideIsEnough(t *testing.T) {
	grant := func(subjects ...string) *server.SubjectPermission { return &server.SubjectPermission{Allow: subjects} }
	s, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: -1, NoLog: true, NoSigs: true, JetStream: true,
		StoreDir: t.TempDir(), Users: []*server.User{
			{Username: "admin", Password: "a"},
			{Username: "node", Password: "n", Permissions: &server.Permissions{
				Publish: grant("cairn.*.event.>", "cairn.*.change.>", "cairn.*.life.>", "cairn.*.audit.>", "_INBOX.>",
					"$JS.API.STREAM.NAMES"),
				Subscribe: grant("cairn.*.call.>", "$SRV.>", "_INBOX.>"),
			}},
		}})
	must(t, err)
	s.Start()
	defer s.WaitForShutdown()
	defer s.Shutdown()
	fatalIf(t, !s.ReadyForConnections(patience), "the server does not start")
	admin, err := nats.Connect(s.ClientURL(), nats.UserInfo("admin", "a"))
	must(t, err)
	defer admin.Close()
	js, err := jetstream.New(admin)
	must(t, err)
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	must(t, errOf(js.CreateStream(ctx, allEvents)))
	box := newOutbox(t)
	p := begin(t, Options{
		Outbox: box, JetStream: true, Dial: URL(s.ClientURL(), nats.UserInfo("node", "n")), Endpoints: airport,
		Node: fakeNode{call: func(context.Context, *host.Request) (host.Reply, error) { return host.Reply{Output: []byte("1")}, nil }},
	})
	must(t, p.calls.nc.FlushTimeout(patience))
	if reply, code := request(t, admin, callSubject+"delays.ORD", "{}"); code != "" || string(reply.Data) != "1" {
		t.Errorf("a call: %s %s", code, reply.Data)
	}
	box.commit(p, emitted(0, 1, true, "opened"))
	box.commit(p, changed(0, 2)) // no stream covers it
	box.awaitEmpty(t)
	stream, err := js.Stream(ctx, allEvents.Name)
	must(t, err)
	info, err := stream.Info(ctx)
	errorIf(t, err != nil || info.State.Msgs != 1, "%+v %v", info, err)
	same(t, value(t, p.metrics.errors, ""), 0, "errors that the server reports")
}

func TestOldestBestEffortRowsAreDroppedWhenTheOutboxIsFull(t *testing.T) {
	for _, memory := range []int{4, 1000} {
		t.Run(fmt.Sprintf("memory=%d", memory), func(t *testing.T) {
			r := publishing(t, Options{MaxOutboxRows: 100, MemoryRows: memory},
				jetstream.StreamConfig{Name: "ALL", Subjects: []string{"cairn.>"}})
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
			// Versions 1 to 12 are gone, except the durable event of version 10.
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
	// Best-effort changes continue meanwhile and share the remaining room.
	r.change(1, 1, 1)
	r.box.await(t, "not dropped", func(rows int) bool { return rows == 20 })
	r.srv.start()
	r.box.awaitEmpty(t)
	check(t, r.Refuse(), "still refused")
}

// stalled is an outbox whose deletions wait for release.
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

// A server may accept only short control lines; the publisher finds that from its refusal.
func TestASubjectTooLongIsDroppedAndDoesNotStopTheOthers(t *testing.T) {
	ns, err := server.NewServer(&server.Options{Host: "127.0.0.1", Port: server.RANDOM_PORT, NoSigs: true, NoLog: true,
		MaxControlLine: 512})
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
