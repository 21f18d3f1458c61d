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
	r := publishing(t, Options{JetStream: true})
	r.sub = subscribe(t, r.srv.client(), "cairn.>") // a subscriber must not be taken for a stream
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
	r := publishing(t, Options{JetStream: true}, jetstream.StreamConfig{Name: "ONE", Subjects: []string{"cairn.default.event.airport.moved.A1"}})
	r.commit(2, 1, 5, false)
	r.box.awaitEmpty(t)
	ids := storedIDs(r.srv, "ONE")
	errorIf(t, len(ids) != 5, "stored %v", ids)
	wantValue(t, r.metrics.unstored, "", 5)
}

func TestOrderHoldsWhenAFullStreamRefusesForAWhile(t *testing.T) {
	config := jetstream.StreamConfig{Name: "EVENTS", Subjects: []string{"cairn.*.event.>"}, MaxMsgs: 10, Discard: jetstream.DiscardNew, Duplicates: time.Hour}
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

// A stream removes messages with an id that it has. Two changes without a commit may be of the same version and millisecond.
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

// A backup that is put back has its actors use versions again, and what they do then is not taken for what was published before.
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
