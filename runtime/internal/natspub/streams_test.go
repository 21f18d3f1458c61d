package natspub

import (
	"bytes"
	"fmt"
	"net"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/engine"
)

// storedIDs returns the message ids of a stream.
func storedIDs(srv *outage, name string) []string {
	var ids []string
	for _, m := range srv.stored(name) {
		ids = append(ids, m.Header.Get(nats.MsgIdHdr))
	}
	return ids
}

func TestWithoutAStreamChangesPassAndDurableEventsWait(t *testing.T) {
	r := publishing(t, Options{JetStream: true})
	r.sub = subscribe(t, r.srv.client(), "cairn.>") // a subscriber must not count as a stream
	r.change(0, 1, 10)
	r.box.awaitEmpty(t)
	for range 10 {
		r.next()
	}
	wantValue(t, r.metrics.unstored, "", 10)
	r.box.commit(r.Publisher, emitted(1, 1, true, "kept")) // waits
	r.change(1, 2, 2)                                      // waits behind it
	r.change(0, 11, 11)                                    // does not
	r.box.await(t, "an actor waits for another", func(rows int) bool { return rows == 2 })
	r.srv.stream(jetstream.StreamConfig{Name: "LATE", Subjects: []string{"cairn.>"}})
	r.box.awaitEmpty(t)
	ids := storedIDs(r.srv, "LATE")
	errorIf(t, len(ids) == 0 || ids[0] != actorID(1).String()+"/1/0/986000000123", "stored %v", ids)
}

func TestAStreamForOneKeyDoesNotHoldTheOthers(t *testing.T) {
	r := publishing(t, Options{JetStream: true},
		jetstream.StreamConfig{Name: "ONE", Subjects: []string{"cairn.default.event.airport.moved.A1"}})
	r.commit(2, 1, 5, false)
	r.box.awaitEmpty(t)
	ids := storedIDs(r.srv, "ONE")
	errorIf(t, len(ids) != 5, "stored %v", ids)
	wantValue(t, r.metrics.unstored, "", 5)
}

func TestOrderHoldsWhenAFullStreamRefusesForAWhile(t *testing.T) {
	config := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"}, MaxMsgs: 10,
		Discard: jetstream.DiscardNew, Duplicates: time.Hour}
	r := publishing(t, Options{JetStream: true}, config)
	const actors, versions = 4, 25
	r.commit(actors, 1, versions, true)
	for ; config.MaxMsgs < actors*versions+7; config.MaxMsgs += 7 {
		r.srv.stream(config)
		r.box.await(t, "not taken", func(rows int) bool { return int64(rows) <= max(0, actors*versions-config.MaxMsgs) })
	}
	r.box.awaitEmpty(t)
	checkOrder(t, storedIDs(r.srv, "EVENTS"), actors, versions)
}

func TestAStreamsOwnSizeLimitLeavesThePayloadOut(t *testing.T) {
	r := publishing(t, Options{JetStream: true}, jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"cairn.>"}, MaxMsgSize: 600})
	set, hopeless := emitted(0, 1, true, "a", "b"), emitted(0, 2, true, "c")
	set.Changes[0].Data = []byte(`"` + strings.Repeat("x", 2000) + `"`)
	hopeless.Identity.Key = []string{strings.Repeat("k", 900)}
	r.box.commit(r.Publisher, set)
	r.box.commit(r.Publisher, hopeless)
	r.commit(1, 3, 3, true)
	r.box.awaitEmpty(t)
	all := r.srv.stored("SMALL")
	fatalIf(t, len(all) != 3 || all[0].Header.Get(HeaderOmitted) == "" || len(all[0].Data) != 0 || all[1].Header.Get(HeaderOmitted) != "",
		"stored %d", len(all))
	wantValue(t, r.metrics.dropped, dropTooLarge, 1)
}

func TestOneTurnsChangesStayTogetherAndInOrder(t *testing.T) {
	r := publishing(t, Options{JetStream: true}, allEvents)
	r.sub = subscribe(t, r.srv.client(), "cairn.>")
	for v := 1; v <= 20; v++ {
		set := emitted(0, v, true, "a", "b")
		set.Changes = append(set.Changes[:1:1], engine.Change{Kind: engine.ChangeState, Data: []byte(`{}`)}, set.Changes[1])
		r.box.commit(r.Publisher, set)
	}
	for v := 1; v <= 20; v++ {
		for i := range 3 {
			if got, want := r.next().Header.Get(nats.MsgIdHdr), fmt.Sprintf("%s/%d/%d/986000000123", actorID(0), v, i); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	r.box.awaitEmpty(t)
	wantValue(t, r.metrics.published, familyEvent, 40)
}

// A stream removes messages with a known id. Two changes without a commit may have the same version
// and millisecond.
func TestAStreamKeepsTwoVerbsOfOneMillisecond(t *testing.T) {
	r := publishing(t, Options{JetStream: true}, jetstream.StreamConfig{Name: "AUDIT", Subjects: []string{"cairn.*.audit.>"}})
	eventually(t, "connected", r.Connected)
	for range 2 {
		set := emitted(0, 0, false)
		set.Changes = []engine.Change{{Kind: engine.ChangeAudit, Name: "actor.wake", Data: []byte(`{}`)}}
		r.Life(set)
	}
	r.srv.awaitStored("AUDIT", 2)
}

// The actors of a restored backup use versions again. Their new changes do not count as already
// published.
func TestVersionsAfterARestoreAreOtherMessages(t *testing.T) {
	r := publishing(t, Options{JetStream: true}, allEvents)
	for _, later := range []int64{0, 1} {
		set := emitted(0, 1, true, "opened")
		set.TimeMS += later
		r.box.commit(r.Publisher, set)
		r.box.awaitEmpty(t)
	}
	ids := storedIDs(r.srv, "EVENTS")
	errorIf(t, len(ids) != 2 || ids[0] == ids[1], "stored %v", ids)
}

// mute dials a first connection that passes on only a number of the server's answers to flushes,
// and further connections after letGo.
type mute struct {
	url   string
	heard int
	conn  *muteConn
	again chan struct{} // closed when a second connection may be opened
	once  sync.Once
}

// letGo allows further connections.
func (m *mute) letGo() { m.once.Do(func() { close(m.again) }) }

// newMute starts a publisher for the rows in box, whose first connection is mute.
func newMute(t testing.TB, heard int, box *outbox, o Options) (*rig, *mute) {
	srv := newOutage(t)
	m := &mute{url: srv.listen(), heard: heard, again: make(chan struct{})}
	r := &rig{t: t, srv: srv, box: box, sub: subscribe(t, srv.client(), "cairn.>")}
	o.Outbox, o.Dial = box, m.dial
	r.Publisher = begin(t, o)
	t.Cleanup(m.letGo) // before the publisher is closed
	return r, m
}

func (m *mute) dial(opts ...nats.Option) (*nats.Conn, error) {
	if m.conn != nil {
		<-m.again
		return URL(m.url)(opts...)
	}
	nc, err := URL(m.url, nats.SetCustomDialer(m))(opts...)
	if err == nil {
		m.conn.limit(m.heard)
	}
	return nc, err
}

func (m *mute) Dial(network, address string) (net.Conn, error) {
	c, err := net.Dial(network, address)
	if err != nil {
		return nil, err
	}
	m.conn = &muteConn{Conn: c, closed: make(chan struct{})}
	return m.conn, nil
}

type muteConn struct {
	net.Conn
	mu      sync.Mutex
	limited bool
	left    int // how many answers still pass
	once    sync.Once
	closed  chan struct{}
}

func (c *muteConn) limit(answers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.limited, c.left = true, answers
}

func (c *muteConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	c.mu.Lock()
	pong, heard := []byte("PONG\r\n"), n
	for at := 0; c.limited; {
		i := bytes.Index(b[at:n], pong)
		if i < 0 {
			break
		}
		if c.left == 0 {
			heard = at
			break
		}
		c.left--
		at += i + len(pong)
	}
	c.mu.Unlock()
	if heard < n {
		if heard == 0 {
			<-c.closed
			return 0, net.ErrClosed
		}
		return heard, nil // the rest answers flushes, which come in order: nothing after it passes either
	}
	return n, err
}

func (c *muteConn) Close() error {
	c.once.Do(func() { close(c.closed) })
	return c.Conn.Close()
}

// versionOf returns the version of the message's change.
func versionOf(t testing.TB, m *nats.Msg) (v int) {
	t.Helper()
	parts := strings.Split(m.Header.Get(nats.MsgIdHdr), "/")
	must(t, errOf(fmt.Sscan(parts[1], &v)))
	return v
}

// wantVersions receives versions from first to last.
func (r *rig) wantVersions(first, last int) {
	r.t.Helper()
	for want := first; want <= last; want++ {
		v := versionOf(r.t, r.next())
		fatalIf(r.t, v != want, "version %d where %d was due", v, want)
	}
}

func TestBatchesOnTheWayAreSentAgainInOrderWhenTheConnectionBreaksBetweenThem(t *testing.T) {
	for answers := range 2 {
		t.Run(fmt.Sprintf("heard=%d", answers), func(t *testing.T) {
			box := newOutbox(t)
			const versions = 4*batchRows + 10
			for v := 1; v <= versions; v++ {
				box.insert(emitted(0, v, true, "moved"))
			}
			r, dialer := newMute(t, answers, box, Options{})

			// Flushes of several batches may be on the way in any order. The answer that passes may
			// be to a later flush, and then does not confirm the first batch. Without an answer
			// nothing is deleted.
			sent := (answers + 2) * batchRows
			r.wantVersions(1, sent)
			dialer.conn.Close()
			eventually(t, "the loss is noticed", func() bool { return !r.Connected() })
			if rows, _ := box.OutboxSize(); rows < int64(versions-answers*batchRows) {
				t.Fatalf("%d rows of %d, although %d answers were heard", rows, versions, answers)
			}

			// All unconfirmed messages come again, in order, from the first. Meanwhile the server
			// may still read messages of the lost connection, which are in order as well.
			dialer.letGo()
			for before, again := sent+1, 0; again <= versions; {
				switch v := versionOf(t, r.next()); {
				case v == again:
					again++
				case v == before:
					before++
				case again > 0 || v > before || (v-1)%batchRows != 0 || v-1 > answers*batchRows:
					t.Fatalf("version %d where %d or %d was due, of %d, with %d answers", v, before, again, versions, answers)
				default:
					again = v + 1
				}
			}
			box.awaitEmpty(t)
			eventually(t, "counted", func() bool { return value(t, r.metrics.published, familyEvent) == versions })
			got := value(t, r.metrics.repeated, "")
			errorIf(t, got < batchRows || got > maxBatches*batchRows, "repeated %v", got)
		})
	}
}

func TestRowsOnTheWayAreNotDroppedWhenTheOutboxIsFull(t *testing.T) {
	box := newOutbox(t)
	for v := 1; v <= 50; v++ {
		box.insert(changed(0, v))
	}
	r, dialer := newMute(t, 0, box, Options{MaxOutboxRows: 100})
	r.wantVersions(1, 50)
	r.change(0, 51, 100)
	eventually(t, "counted", func() bool { return value(t, r.metrics.dropped, dropOutboxFull) == 11 })
	dialer.conn.Close()
	dialer.letGo()
	r.wantVersions(1, 50)
	r.wantVersions(62, 100) // the oldest that are not on the way are dropped
	box.awaitEmpty(t)
}

// Rows that were on the way when the outbox was full are dropped when they are no longer.
func TestRowsThatWereOnTheWayAreDroppedLater(t *testing.T) {
	r := publishing(t, Options{JetStream: true, MaxOutboxRows: 20, AckTimeout: 100 * time.Millisecond},
		jetstream.StreamConfig{Name: "SILENT", Subjects: []string{"cairn.>"}, NoAck: true})
	defer kill(t, r.Publisher) // or its end waits for the stream
	for a := range 20 {
		r.change(a, 1, 1) // best effort
		r.srv.awaitStored("SILENT", a+1)
	}
	r.box.await(t, "dropped", func(rows int) bool { return rows < 20 && r.Refuse() == nil })
}

// The messages of an actor and its successor are in order, even if the first wait for a stream.
func TestLivesOfOneKeyAreInOrder(t *testing.T) {
	r := publishing(t, Options{JetStream: true},
		jetstream.StreamConfig{Name: "LIVES", Subjects: []string{"cairn.*.life.>"}})
	life := func(id, version int, what string) *engine.ChangeSet {
		set := emitted(id, version, false)
		set.Identity.Key = []string{"cart"}
		set.Changes = []engine.Change{{Kind: engine.ChangeLife, Name: what, Data: []byte(`{}`)}}
		return set
	}
	paid := emitted(0, 1, true, "paid") // durable, and there is no stream for it yet
	paid.Identity.Key = []string{"cart"}
	r.box.commit(r.Publisher, paid)
	r.box.commit(r.Publisher, life(0, 2, "destroyed"))
	born := life(1, 1, "created")
	seq := r.box.insertRecord(emitted(1, 1, false), born.Append(nil)) // the test's store does not destroy: another name there
	r.Publisher.Committed(seq, born)
	r.srv.stream(jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"}})
	r.box.awaitEmpty(t)
	var got []string
	for _, m := range r.srv.stored("LIVES") {
		got = append(got, m.Subject)
	}
	if len(got) != 2 || !strings.Contains(got[0], ".destroyed.") {
		t.Errorf("the stream has %q", got)
	}
}
