package natspub

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"log/slog"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/nats-io/nats.go"
	"github.com/nats-io/nats.go/jetstream"
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/runtime/localnats"
)

// patience bounds every wait of the tests.
const patience = 2 * time.Minute

// An outbox is the outbox of a store on a disk in memory. It survives the publishers of a test, as
// a store survives a process.
type outbox struct {
	*engine.Store
	t    testing.TB
	deaf atomic.Bool   // acknowledgements are lost, as if the process died first
	last atomic.Uint64 // later rows cannot be read yet; 0 means that all can
}

func newOutbox(t testing.TB) *outbox { return openOutbox(t, engine.NewDisk()) }

func openOutbox(t testing.TB, disk *engine.Disk) *outbox {
	t.Helper()
	s, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: disk, Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { s.Close() })
	return &outbox{Store: s, t: t}
}

func (o *outbox) Outbox(after uint64, limit int) ([]engine.OutboxRow, error) {
	rows, err := o.Store.Outbox(after, limit)
	if last := o.last.Load(); last > 0 {
		rows = slices.DeleteFunc(rows, func(r engine.OutboxRow) bool { return r.Seq > last })
	}
	return rows, err
}

func (o *outbox) AckOutbox(seqs []uint64) error {
	if o.deaf.Load() {
		return errors.New("the store is gone")
	}
	return o.Store.AckOutbox(seqs)
}

// insert commits a turn of an actor.
func (o *outbox) insert(set *engine.ChangeSet) uint64 { return o.insertRecord(set, set.Append(nil)) }

func (o *outbox) insertRecord(set *engine.ChangeSet, record []byte) (seq uint64) {
	o.t.Helper()
	space, err := o.OpenSpace(set.ID)
	must(o.t, err)
	defer space.Close()
	w := space.Writes()
	if w.Advance(set.TimeMS) == 1 {
		err = w.Create(set.Identity)
	}
	done := make(chan error, 1)
	if err = errors.Join(err, w.Outbox(record, &seq)); err == nil {
		_, err = space.Commit(func(err error) { done <- err })
	}
	if err == nil {
		err = <-done
	}
	must(o.t, err)
	return seq
}

// commit writes a row and passes it to the publisher, as a durable commit does.
func (o *outbox) commit(p *Publisher, set *engine.ChangeSet) { p.Committed(o.insert(set), set) }

// await waits until ok accepts the number of rows.
func (o *outbox) await(t testing.TB, what string, ok func(rows int) bool) {
	t.Helper()
	eventually(t, what, func() bool {
		rows, _ := o.OutboxSize()
		return ok(int(rows))
	})
}

func (o *outbox) awaitEmpty(t testing.TB) {
	t.Helper()
	o.await(t, "not published", func(rows int) bool { return rows == 0 })
}

// eventually polls until ok returns true.
func eventually(t testing.TB, what string, ok func() bool) {
	t.Helper()
	tick := time.NewTicker(time.Millisecond)
	defer tick.Stop()
	deadline := time.After(patience)
	for !ok() {
		select {
		case <-tick.C:
		case <-deadline:
			t.Fatalf("never happened: %s", what)
		}
	}
}

// outage is a server that can go away and come back.
type outage struct {
	t    testing.TB
	opts localnats.Options

	mu sync.Mutex
	s  *localnats.Server
}

// newOutage runs a server with JetStream.
func newOutage(t testing.TB) *outage {
	o := &outage{t: t, opts: localnats.Options{JetStream: true, StoreDir: t.TempDir(), NoSync: true,
		MaxStoreBytes: 64 << 20, MaxMemoryBytes: 64 << 20}}
	o.start()
	t.Cleanup(o.stop)
	return o
}

func (o *outage) start() {
	o.t.Helper()
	s, err := localnats.Start(o.opts)
	must(o.t, err)
	o.mu.Lock()
	o.s = s
	o.mu.Unlock()
}

func (o *outage) stop() {
	o.mu.Lock()
	s := o.s
	o.s = nil
	o.mu.Unlock()
	if s != nil {
		s.Close()
	}
}

// listen restarts the server on a port, and returns the URL.
func (o *outage) listen() string {
	o.t.Helper()
	o.stop()
	o.opts.Listen = "127.0.0.1:0"
	o.start()
	url := o.s.ClientURL()
	o.opts.Listen = strings.TrimPrefix(url, "nats://") // for the next start
	return url
}

// dial connects to the running server.
func (o *outage) dial(opts ...nats.Option) (*nats.Conn, error) {
	o.mu.Lock()
	s := o.s
	o.mu.Unlock()
	if s == nil {
		return nil, errors.New("the server is away")
	}
	return s.Connect(opts...)
}

// client opens a connection for the test itself.
func (o *outage) client() *nats.Conn {
	o.t.Helper()
	nc, err := o.dial()
	must(o.t, err)
	o.t.Cleanup(nc.Close)
	return nc
}

// js opens a connection for the streams of the test itself.
func (o *outage) js() (context.Context, jetstream.JetStream) {
	o.t.Helper()
	js, err := jetstream.New(o.client())
	must(o.t, err)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	o.t.Cleanup(cancel)
	return ctx, js
}

// stream makes a stream.
func (o *outage) stream(c jetstream.StreamConfig) {
	o.t.Helper()
	ctx, js := o.js()
	must(o.t, errOf(js.CreateOrUpdateStream(ctx, c)))
}

// awaitStored waits until a stream holds n messages. Without acknowledgements, the stream stores
// them some time after the server has them.
func (o *outage) awaitStored(name string, n int) {
	o.t.Helper()
	ctx, js := o.js()
	eventually(o.t, fmt.Sprintf("%d messages in %s", n, name), func() bool {
		s, err := js.Stream(ctx, name)
		return err == nil && s.CachedInfo().State.Msgs >= uint64(n)
	})
}

// stored returns all messages of a stream.
func (o *outage) stored(name string) []*jetstream.RawStreamMsg {
	o.t.Helper()
	ctx, js := o.js()
	s, err := js.Stream(ctx, name)
	must(o.t, err)
	var all []*jetstream.RawStreamMsg
	state := s.CachedInfo().State
	for seq := state.FirstSeq; seq <= state.LastSeq && state.Msgs > 0; seq++ {
		switch m, err := s.GetMsg(ctx, seq); {
		case err == nil:
			all = append(all, m)
		case !errors.Is(err, jetstream.ErrMsgNotFound):
			o.t.Fatal(err)
		}
	}
	return all
}

// begin starts a publisher that ends with the test.
func begin(t testing.TB, o Options) *Publisher {
	t.Helper()
	p, err := Start(t.Context(), o)
	must(t, err)
	t.Cleanup(func() { shut(p, patience) }) // a test that closes it itself checks the error
	return p
}

// shut closes a publisher within a time.
func shut(p *Publisher, within time.Duration) error {
	ctx, cancel := context.WithTimeout(context.Background(), within)
	defer cancel()
	return p.Close(ctx)
}

// end closes a publisher, within the tests' patience.
func end(t testing.TB, p *Publisher) {
	t.Helper()
	check(t, shut(p, patience), "Close")
}

// kill ends a publisher without letting it finish anything.
func kill(t testing.TB, p *Publisher) {
	t.Helper()
	if err := shut(p, 0); err != nil && !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("Close: %v", err)
	}
}

// A rig is a publisher between an outbox and a server. Without JetStream it has a subscription to
// all published messages.
type rig struct {
	*Publisher
	t   testing.TB
	srv *outage
	box *outbox
	sub *nats.Subscription
}

// publishing starts a publisher, with its own server and outbox unless the options have them.
func publishing(t testing.TB, o Options, streams ...jetstream.StreamConfig) *rig {
	t.Helper()
	r := &rig{t: t, srv: newOutage(t)}
	if !o.JetStream && o.Node == nil { // otherwise the test needs a server without subscribers
		r.sub = subscribe(t, r.srv.client(), "cairn.>")
	}
	for _, c := range streams {
		r.srv.stream(c)
	}
	if o.Outbox == nil {
		r.box = newOutbox(t)
		o.Outbox = r.box
	} else {
		r.box, _ = o.Outbox.(*outbox)
	}
	if o.Dial == nil && o.Conn == nil {
		o.Dial = r.srv.dial
	}
	r.Publisher = begin(t, o)
	return r
}

// commit commits versions of the first actors; each version emits an event.
func (r *rig) commit(actors, from, to int, durable bool) {
	r.t.Helper()
	for v := from; v <= to; v++ {
		for a := range actors {
			r.box.commit(r.Publisher, emitted(a, v, durable, "moved"))
		}
	}
}

// change commits versions of an actor that write its state.
func (r *rig) change(actor, from, to int) {
	r.t.Helper()
	for v := from; v <= to; v++ {
		r.box.commit(r.Publisher, changed(actor, v))
	}
}

// next receives one message.
func (r *rig) next() *nats.Msg {
	r.t.Helper()
	m, err := r.sub.NextMsg(patience)
	must(r.t, err)
	return m
}

// wantRows checks how many rows the outbox has.
func (r *rig) wantRows(want int64) {
	r.t.Helper()
	if rows, _ := r.box.OutboxSize(); rows != want {
		r.t.Errorf("%d rows, want %d", rows, want)
	}
}

// bothModes runs a test with and without JetStream.
func bothModes(t *testing.T, f func(t *testing.T, acks bool)) {
	for _, acks := range []bool{false, true} {
		t.Run(fmt.Sprintf("jetstream=%v", acks), func(t *testing.T) { f(t, acks) })
	}
}

// subscribe subscribes, and returns once the server has the subscription.
func subscribe(t testing.TB, nc *nats.Conn, subject string) *nats.Subscription {
	t.Helper()
	sub, err := nc.SubscribeSync(subject)
	if err == nil {
		err = nc.Flush()
	}
	must(t, err)
	return sub
}

// actorID makes a recognisable id.
func actorID(n int) keyspace.ActorID {
	var id keyspace.ActorID
	binary.BigEndian.PutUint32(id[:], uint32(n))
	id[6], id[8] = 0x80, 0x80
	return id
}

// emitted is the change set of a turn of actor n that emitted events.
func emitted(n, version int, durable bool, names ...string) *engine.ChangeSet {
	set := &engine.ChangeSet{
		ID: actorID(n), Identity: engine.Identity{Namespace: "default", Type: "airport", Key: []string{fmt.Sprintf("A%d", n)}},
		Generation: 1, Version: engine.Version(version), TimeMS: 986_000_000_123,
	}
	for _, name := range names {
		set.Changes = append(set.Changes,
			engine.Change{Kind: engine.ChangeEvent, Name: name, Data: []byte(fmt.Sprintf(`{"v":%d}`, version)), Durable: durable})
	}
	return set
}

// changed is the change set of a turn of actor n that wrote its state.
func changed(n, version int) *engine.ChangeSet {
	set := emitted(n, version, false)
	set.Changes = []engine.Change{{Kind: engine.ChangeState, Data: []byte(fmt.Sprintf(`{"version":%d,"kind":"state"}`, version))}}
	return set
}

// value reads a metric without labels, or with the given label value.
func value(t testing.TB, c prometheus.Collector, label string) float64 {
	t.Helper()
	out := make(chan prometheus.Metric, 100)
	c.Collect(out)
	close(out)
	for m := range out {
		var d dto.Metric
		must(t, m.Write(&d))
		if label != "" && !slices.ContainsFunc(d.Label, func(l *dto.LabelPair) bool { return l.GetValue() == label }) {
			continue
		}
		if d.Gauge != nil {
			return d.Gauge.GetValue()
		}
		return d.Counter.GetValue()
	}
	t.Fatalf("no metric with label %q", label)
	return 0
}

// wantValue checks a metric.
func wantValue(t testing.TB, c prometheus.Collector, label string, want float64) {
	t.Helper()
	same(t, value(t, c, label), want, "counted")
}

// checkOrder checks that the messages of each actor are versions 1 to n, each once and in order.
func checkOrder(t testing.TB, ids []string, actors, n int) {
	t.Helper()
	next := map[string]int{}
	for _, id := range ids {
		parts := strings.Split(id, "/")
		fatalIf(t, len(parts) != 4 || parts[3] != "986000000123", "message id %q", id)
		next[parts[0]]++
		if want := fmt.Sprint(next[parts[0]]); parts[1] != want {
			t.Fatalf("actor %s: version %s where %s was due", parts[0], parts[1], want)
		}
	}
	for a := range actors {
		id := actorID(a).String()
		errorIf(t, next[id] != n, "actor %s: %d of %d versions", id, next[id], n)
	}
}

// ours counts the goroutines of this package and of the client library. It ignores the server's,
// which come and go.
func ours() (n int) {
	stacks := make([]byte, 4<<20)
	for one := range strings.SplitSeq(string(stacks[:runtime.Stack(stacks, true)]), "\n\n") {
		if strings.Contains(one, "/nats.go.") || strings.Contains(one, "/natspub.(*") {
			n++
		}
	}
	return n
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf

// errOf returns the error of a call that also returns a value.
func errOf[T any](_ T, err error) error { return err }

// same fails the test unless got is want. where names the value.
func same[T comparable](t testing.TB, got, want T, where ...any) {
	if got != want {
		t.Helper()
		t.Error(append(where, fmt.Sprintf("got %v, want %v", got, want))...)
	}
}

// gives is same for the result of a call that must succeed.
func gives[T comparable](t testing.TB, want T, where ...any) func(got T, err error) {
	return func(got T, err error) {
		t.Helper()
		check(t, err, where...)
		same(t, got, want, where...)
	}
}
