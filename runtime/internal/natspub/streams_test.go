package natspub

import (
	"fmt"
	"strings"
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
	srv := newOutage(t)
	sub := subscribe(t, srv.client(), "cairn.>") // a subscriber must not be taken for a stream
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	for v := 1; v <= 10; v++ {
		box.commit(p, changed(0, v))
	}
	box.awaitEmpty(t)
	for range 10 {
		next(t, sub)
	}
	if got := value(t, p.metrics.unstored, ""); got != 10 {
		t.Errorf("unstored: %v", got)
	}
	box.commit(p, emitted(1, 1, true, "kept")) // waits
	box.commit(p, changed(1, 2))               // waits behind it
	box.commit(p, changed(0, 11))              // does not
	box.await(t, "an actor waits for another", func(rows int) bool { return rows == 2 })
	srv.stream(jetstream.StreamConfig{Name: "LATE", Subjects: []string{"cairn.>"}})
	box.awaitEmpty(t)
	if ids := storedIDs(srv, "LATE"); len(ids) == 0 || ids[0] != actorID(1).String()+"/1/0" {
		t.Errorf("stored %v", ids)
	}
}

func TestAStreamForOneKeyDoesNotHoldTheOthers(t *testing.T) {
	srv := newOutage(t)
	srv.stream(jetstream.StreamConfig{Name: "ONE", Subjects: []string{"cairn.default.event.airport.moved.A1"}})
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	for v := 1; v <= 5; v++ {
		box.commit(p, emitted(0, v, false, "moved"))
		box.commit(p, emitted(1, v, false, "moved"))
	}
	box.awaitEmpty(t)
	if ids := storedIDs(srv, "ONE"); len(ids) != 5 {
		t.Errorf("stored %v", ids)
	}
	if got := value(t, p.metrics.unstored, ""); got != 5 {
		t.Errorf("unstored: %v", got)
	}
}

func TestOrderHoldsWhenAFullStreamRefusesForAWhile(t *testing.T) {
	srv := newOutage(t)
	config := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew, Duplicates: time.Hour}
	srv.stream(config)
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	const actors, versions = 4, 25
	for v := 1; v <= versions; v++ {
		for a := range actors {
			box.commit(p, emitted(a, v, true, "moved"))
		}
	}
	box.await(t, "not taken", func(rows int) bool { return rows == actors*versions-10 })
	for limit := int64(17); limit < actors*versions+7; limit += 7 {
		config.MaxMsgs = limit
		srv.stream(config)
		box.await(t, "not taken", func(rows int) bool { return int64(rows) <= max(0, actors*versions-limit) })
	}
	box.awaitEmpty(t)
	checkOrder(t, storedIDs(srv, "EVENTS"), actors, versions)
}

func TestAStreamsOwnSizeLimitLeavesThePayloadOut(t *testing.T) {
	srv := newOutage(t)
	srv.stream(jetstream.StreamConfig{Name: "SMALL", Subjects: []string{"cairn.>"}, MaxMsgSize: 600})
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	set := emitted(0, 1, true, "a", "b")
	set.Changes[0].Data = []byte(`"` + strings.Repeat("x", 2000) + `"`)
	box.commit(p, set)
	hopeless := emitted(0, 2, true, "c")
	hopeless.Identity.Key = []string{strings.Repeat("k", 900)}
	box.commit(p, hopeless)
	box.commit(p, emitted(0, 3, true, "d"))
	box.awaitEmpty(t)
	all := srv.stored("SMALL")
	if len(all) != 3 || all[0].Header.Get(HeaderOmitted) == "" || len(all[0].Data) != 0 || all[1].Header.Get(HeaderOmitted) != "" {
		t.Fatalf("stored %d", len(all))
	}
	if got := value(t, p.metrics.dropped, dropTooLarge); got != 1 {
		t.Errorf("dropped %v", got)
	}
}

func TestOneTurnsChangesStayTogetherAndInOrder(t *testing.T) {
	srv := newOutage(t)
	srv.stream(allEvents)
	sub := subscribe(t, srv.client(), "cairn.>")
	box := newOutbox(t)
	p := begin(t, Options{Outbox: box, Dial: srv.dial, JetStream: true})
	for v := 1; v <= 20; v++ {
		set := emitted(0, v, true, "a", "b")
		set.Changes = append(set.Changes[:1:1], engine.Change{Kind: engine.ChangeState, Data: []byte(`{}`)}, set.Changes[1])
		box.commit(p, set)
	}
	for v := 1; v <= 20; v++ {
		for i := range 3 {
			if got, want := next(t, sub).Header.Get(nats.MsgIdHdr), fmt.Sprintf("%s/%d/%d", actorID(0), v, i); got != want {
				t.Fatalf("got %s, want %s", got, want)
			}
		}
	}
	box.awaitEmpty(t)
	if got := value(t, p.metrics.published, familyEvent); got != 40 {
		t.Errorf("published %v events", got)
	}
}
