package node

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// in runs a test in a bubble with a hotel.
func in(t *testing.T, d puppetType, limits host.Limits, f func(t *testing.T, h *hotel)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { f(t, newHotel(t, d, limits)) })
}

func TestConnectHookSeesAllAndCredentialsAreNotStored(t *testing.T) {
	const params = `{"name":"ann","Access-Token":"s3cret","deep":[{"my_password":"s3cret","n":12345678901234567890}]}`
	var saw string
	keeps := false
	d := puppetType{connect: func(p *puppet, h host.Turn) error {
		saw, p.conn.State = string(p.given), []byte{0x01}
		if keeps { // what the hook sets is stored unchanged
			p.conn.Params = p.given
		}
		if h.Caller() != p.conn.ID {
			return fmt.Errorf("the caller is %q", h.Caller())
		}
		return h.EmitTo(evSaid, []byte(`"welcome"`), p.conn.ID, nil)
	}}
	in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{Params: []byte(params), Transport: "sse"})
		errorIf(t, saw != params, "the hook saw %s", saw)
		w := l.Welcome()
		errorIf(t, w.Resumed || w.Cursor != 0 || !strings.HasPrefix(w.Token, w.Connection+"."), "welcome %+v", w)
		c := h.records()[0]
		if c.ID != w.Connection || string(c.Params) != `{"deep":[{"n":12345678901234567890}],"name":"ann"}` ||
			!bytes.Equal(c.State, []byte{0x01}) || c.Transport != "sse" || c.Connected.IsZero() || !c.Lost.IsZero() {
			t.Errorf("stored %+v, parameters %s", c, c.Params)
		}
		page, err := h.Inspect(t.Context(), pAddr("a"), host.InspectQuery{ValueBytes: 1 << 20})
		h.ok(err)
		_, secret, _ := strings.Cut(w.Token, ".")
		for _, k := range page.Keys {
			errorIf(t, bytes.Contains(k.Value, []byte("s3cret")) || bytes.Contains(k.Value, []byte(secret)), "%s holds a secret", k.Text)
		}
		expect(t, l, "welcome")
		h.ok(l.Close(t.Context(), false))
		keeps = true
		h.connect(host.ConnectRequest{Params: []byte(params)})
		same(t, string(h.records()[0].Params), params, "stored")
	})
}

func TestConnectIsChecked(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		for _, c := range []struct {
			r    host.ConnectRequest
			want host.Code
		}{
			{host.ConnectRequest{Existing: true}, host.NotFound},
			{host.ConnectRequest{Params: []byte("{")}, host.InvalidArgument},
			{host.ConnectRequest{Params: make([]byte, host.MaxConnectionParams+1)}, host.TooLarge},
			{host.ConnectRequest{Transport: "pigeon"}, host.InvalidArgument},
		} {
			_, err := h.Connect(t.Context(), pAddr("a"), c.r)
			wantCode(t, err, c.want)
		}
		wantCode(t, h.do("a", func(_ *puppet, turn host.Turn) error { // a turn cannot hold a connection
			_, err := h.Connect(turn, pAddr("a"), host.ConnectRequest{})
			return err
		}), host.FailedPrecondition)
	})
}

// noting makes a disconnect hook that records why connections end.
func noting(p *puppet, _ host.Turn) error {
	why := "left"
	if p.cause != nil {
		why = p.cause.Message
	}
	p.s.Log = append(p.s.Log, why)
	return nil
}

// A client that comes back with a position beyond the actor's, as after a restore of a backup, gets
// all kept events, and a reset.
func TestClientThatIsAheadOfTheActorBeginsAnew(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(listening)
		h.say("one", "two")
		h.ok(l.Close(t.Context(), true))
		d, err := h.back(l.Welcome(), 99).Next(t.Context())
		errorIf(t, err != nil || !d.Reset || len(d.Events) != 2 || d.Events[0].Sequence != 1, "%+v, %v", d, err)
	})
}

// A client that was cut off may still be served: its subscriptions are on record when it comes
// back, but its new end gets their events only after it has subscribed there.
func TestClientThatSubscribesAtBothItsEndsGetsEvents(t *testing.T) {
	in(t, puppetType{}, host.Limits{}, func(t *testing.T, h *hotel) {
		old := h.connect(host.ConnectRequest{})
		hold := make(chan struct{})
		go func() { _ = h.do("a", func(*puppet, host.Turn) error { <-hold; return nil }) }()
		synctest.Wait()
		var l host.LiveConnection
		go func() { l = h.connect(host.ConnectRequest{Token: old.Welcome().Token}) }()
		synctest.Wait()
		go func() { _ = old.Subscribe(t.Context(), "said") }()
		synctest.Wait()
		close(hold)
		synctest.Wait()
		h.ok(l.Subscribe(t.Context(), "said"))
		h.say("one")
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		d, err := l.Next(ctx)
		errorIf(t, err != nil || len(d.Events) != 1, "%+v, %v", d, err)
	})
}

func TestLongHistoryIsReadInPages(t *testing.T) {
	in(t, puppetType{}, host.Limits{EventHistory: 2000, ConnectionBytes: 4096}, func(t *testing.T, h *hotel) {
		emitted, heard := 0, 0
		emit := func(n int) {
			var texts []string
			for range n {
				texts = append(texts, fmt.Sprint(emitted))
				emitted++
			}
			h.say(texts...)
		}
		l := h.connect(listening)
		l.Close(t.Context(), true)
		emit(1000)
		for l = h.back(l.Welcome(), 0); heard < emitted; {
			d, err := l.Next(t.Context())
			fatalIf(t, err != nil || d.Missed > 0, "after %d: missed %d, %v", heard, d.Missed, err)
			for _, e := range d.Events {
				fatalIf(t, string(e.Data) != fmt.Sprintf("%q", fmt.Sprint(heard)), "event %d is %s", heard, e.Data)
				heard++
			}
			if emitted < 1500 { // events that are emitted meanwhile do not cut the client off
				emit(100)
			}
		}
	})
}

func TestCallsOverATokenNameTheirConnection(t *testing.T) {
	in(t, puppetType{disconnect: noting}, host.Limits{}, func(t *testing.T, h *hotel) {
		ctx := t.Context()
		l := h.connect(host.ConnectRequest{})
		w := l.Welcome()
		named := ""
		turn := request(func(_ *puppet, t host.Turn) error { named = t.Caller(); return nil })
		look := remember(glance(func(_ *puppetState, r host.Reader) error { named = r.Caller(); return nil }))
		over := func(token string) error { _, err := h.CallOver(ctx, token, turn); return err }
		for name, call := range map[string]func() error{
			"a turn": func() error { _, err := l.Call(ctx, turn); return err },
			"a query": func() error {
				_, err := l.Call(ctx, &host.Request{Method: "look", Codec: host.JSON, Input: look})
				return err
			},
			"a turn over the token":   func() error { return over(w.Token) },
			"a turn of a lost client": func() error { return errors.Join(l.Close(ctx, true), over(w.Token)) },
		} {
			named = ""
			if err := call(); err != nil || named != w.Connection {
				t.Errorf("the caller of %s is %q, %v", name, named, err)
			}
			l = h.back(w, 0)
		}
		for _, token := range []string{"", "x", w.Connection, w.Connection + ".x", "x" + w.Token, strings.Repeat("x", 1000) + ".x"} {
			wantCode(t, over(token), host.Unauthenticated)
			wantCode(t, h.Disconnect(ctx, pAddr("a"), token), host.Unauthenticated)
		}
		h.ok(h.Disconnect(ctx, pAddr("a"), w.Token))
		_, _, _, err := heard(l)
		wantCode(t, err, host.FailedPrecondition)
		log := h.log()
		errorIf(t, !slices.Equal(log, []string{"left"}), "%q", log)
		wantCode(t, over(w.Token), host.Unauthenticated)
		wantCode(t, h.Disconnect(ctx, pAddr("none"), w.Token), host.Unauthenticated)
	})
}

func TestClientThatGivesUpWhileConnectingLeavesNothing(t *testing.T) {
	for _, gone := range []bool{false, true} {
		var hold chan struct{}
		d := puppetType{disconnect: noting, connect: func(*puppet, host.Turn) error { <-hold; return nil }}
		in(t, d, host.Limits{}, func(t *testing.T, h *hotel) {
			hold = make(chan struct{}) // of the bubble
			h.say("x")
			ctx, cancel := context.WithCancel(t.Context())
			failed := make(chan error)
			go func() {
				_, err := h.Connect(ctx, pAddr("a"), listening)
				failed <- err
			}()
			if gone { // before the turn begins
				cancel()
			}
			synctest.Wait()
			cancel()
			synctest.Wait()
			wantCode(t, <-failed, host.Canceled)
			close(hold)
			h.say("y")
			synctest.Wait()
			if n := len(event.HubOf(h.Kernel).Audiences); n != 0 || len(h.records()) != 0 || h.wakes() != 0 || h.held() != 0 {
				t.Errorf("%d audiences, %d connections, %d wake rows, %d bytes of events are left", n, len(h.records()),
					h.wakes(), h.held())
			}
			log := h.log()
			errorIf(t, len(log) > 1 || len(log) == 1 && log[0] != "the client gave up", "%q", log)
		})
	}
}

// TestNoEventIsLostOrDoubledHoweverConnectionsAndTurnsMeet is for the race detector, too: real
// time, everything at once. Every client gets all events after its cursor, without a hole, over any
// number of connections.
func TestNoEventIsLostOrDoubledHoweverConnectionsAndTurnsMeet(t *testing.T) {
	h := newHotel(t, puppetType{disconnect: noting}, host.Limits{EventHistory: 100_000})
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	const emitters, emissions, clients = 4, 100, 8
	var emitting, listening sync.WaitGroup
	for g := range emitters {
		emitting.Go(func() {
			for i := range emissions {
				check(t, h.do("a", says(fmt.Sprint(g, i), "again")))
			}
		})
	}
	const last = emitters*emissions*2 + 1
	for g := range clients {
		listening.Go(func() {
			r := host.ConnectRequest{Events: []string{"said"}}
			for first := true; ; first = false {
				l, err := h.Connect(ctx, pAddr("a"), r)
				if err != nil {
					t.Error(err)
					return
				}
				w := l.Welcome()
				errorIf(t, w.Resumed == first, "welcome %+v", w)
				at := w.Cursor
				if !first && at != r.After {
					t.Errorf("resumed after %d, want %d", at, r.After)
				}
				for begin := at; at < last && at < begin+uint64(20*(g+1)); {
					d, err := l.Next(ctx)
					if err != nil || d.Missed > 0 {
						t.Errorf("missed %d, %v", d.Missed, err)
						return
					}
					for _, e := range d.Events {
						if at++; e.Sequence != at {
							t.Errorf("got event %d in the place of %d", e.Sequence, at)
							return
						}
					}
				}
				if at >= last {
					check(t, l.Close(ctx, false))
					return
				}
				r.Token, r.After, r.HasAfter = w.Token, at, true
				if g%2 == 0 { // the others take their own connection over
					check(t, l.Close(ctx, true))
				}
			}
		})
	}
	emitting.Wait()
	h.say("end")
	listening.Wait()
	if log := h.log(); len(log) != clients || len(h.records()) != 0 || h.wakes() != 0 || event.HubOf(h.Kernel).Total() != 0 {
		t.Errorf("%d clients left; %d connections, %d wake rows, %d live ends are there",
			len(log), len(h.records()), h.wakes(), event.HubOf(h.Kernel).Total())
	}
}

func TestFanOutAllocatesNothingPerReceiver(t *testing.T) {
	h, all := crowd(1000)
	seq := uint64(0)
	say := func() {
		seq++
		e := host.EmittedEvent{Sequence: seq, Name: "said", Data: []byte("1")}
		h.Publish("room", keyspace.ActorID{}, "", event.CommitName{Number: seq}, []event.PublishedEvent{{EmittedEvent: e}})
	}
	for range 200 {
		say()
	}
	for _, l := range all {
		if d := l.Take(); len(d.Events) != 200 || d.Events[0].Shared == nil {
			t.Fatalf("%d events", len(d.Events))
		}
	}
	least := math.Inf(1)
	for range 10 { // the count is of the whole process and may include other tests
		least = min(least, testing.AllocsPerRun(10, say))
	}
	if least > 100 { // the race detector makes a few of its own
		t.Errorf("%v allocations for one event to 1,000 connections", least)
	}
}

// The events of a hotel's puppets.
const (
	evSaid = iota
	evPrivate
	evKept
)

// A hotel is a stage whose puppet "a" has clients.
type hotel struct{ *stage }

func newHotel(t testing.TB, d puppetType, limits host.Limits) *hotel {
	t.Helper()
	d.name, d.idle, d.limits, d.events = "p", 10*time.Second, limits, []host.Event{{Name: "said"}, {Name: "private"}, {Name: "kept"}}
	return &hotel{newStage(t, nil, &d)}
}

// say emits the event said once for each text.
func (h *hotel) say(texts ...string) {
	h.t.Helper()
	h.must("a", says(texts...))
}

func says(texts ...string) deed {
	return func(_ *puppet, t host.Turn) error {
		for _, text := range texts {
			if err := t.Emit(evSaid, []byte(strconv.Quote(text))); err != nil {
				return err
			}
		}
		return nil
	}
}

// listening asks for all events said from now on.
var listening = host.ConnectRequest{Events: []string{"said"}}

// client connects a client.
func (g *stage) client(key string, r host.ConnectRequest) host.LiveConnection {
	g.t.Helper()
	l, err := g.Connect(context.Background(), pAddr(key), r)
	must(g.t, err)
	return l
}

func (h *hotel) connect(r host.ConnectRequest) host.LiveConnection {
	h.t.Helper()
	return h.client("a", r)
}

// back resumes a connection after an event.
func (h *hotel) back(w host.Welcome, after uint64) host.LiveConnection {
	h.t.Helper()
	l := h.connect(host.ConnectRequest{Token: w.Token, After: after, HasAfter: true, Events: []string{"said"}})
	got := l.Welcome()
	fatalIf(h.t, !got.Resumed || got.Connection != w.Connection, "resumed %q: %+v", w.Connection, got)
	return l
}

// log returns the log of the puppet.
func (h *hotel) log() (log []string) {
	h.t.Helper()
	h.must("a", func(p *puppet, _ host.Turn) error { log = slices.Clone(p.s.Log); return nil })
	return log
}

// records returns the connections of the puppet.
func (h *hotel) records() (list []host.ConnectionState) {
	h.t.Helper()
	h.must("a", func(_ *puppet, t host.Turn) (err error) { list, err = t.Connections("", 0); return err })
	return list
}

// wakes returns how many rows the wake index has.
func (h *hotel) wakes() int {
	h.t.Helper()
	rows, err := h.store.Wakes(nil, 1<<60, 1<<20)
	must(h.t, err)
	return len(rows)
}

// heard reads events for a second: their texts, and the number of missed ones. It ends early when
// the connection does.
func heard(l host.LiveConnection) (texts []string, last, missed uint64, err error) {
	ctx, cancel := context.WithTimeout(context.Background(), time.Second)
	defer cancel()
	for {
		d, err := l.Next(ctx)
		if err != nil {
			if ctx.Err() != nil {
				err = nil
			}
			return texts, last, missed, err
		}
		missed += d.Missed
		for _, e := range d.Events {
			var text string
			if err := json.Unmarshal(e.Data, &text); err != nil {
				return texts, last, missed, err
			}
			texts, last = append(texts, text), e.Sequence
		}
	}
}

// expect reads events for a second and compares them.
func expect(t testing.TB, l host.LiveConnection, want ...string) {
	t.Helper()
	got, _, missed, err := heard(l)
	errorIf(t, !slices.Equal(got, want) || missed != 0 || err != nil, "heard %q, missed %d, %v; want %q", got, missed, err, want)
}

// listeners are puppets that emit.
func listeners() []*puppetType {
	return []*puppetType{{name: "p", events: []host.Event{{Name: "said"}}, limits: host.Limits{EventHistory: 1000}}}
}

// emits emits n events of a size.
func emits(n, size int) deed {
	return func(_ *puppet, t host.Turn) error {
		for range n {
			if err := t.Emit(0, []byte(`"`+strings.Repeat("x", size-2)+`"`)); err != nil {
				return err
			}
		}
		return nil
	}
}

func (g *stage) follow(key string) host.EventStream { return g.followFrom(key, host.Subscription{}) }

func (g *stage) followFrom(key string, from host.Subscription) host.EventStream {
	g.t.Helper()
	s, err := g.Subscribe(context.Background(), pAddr(key), from)
	must(g.t, err)
	return s
}

// held returns how many bytes of events the node holds for its clients.
func (g *stage) held() int64 { return event.HubOf(g.Kernel).Held.Load() }

// gets reads what is there. It must be the events of the sequences.
func gets(t *testing.T, s interface {
	Next(context.Context) (host.Delivery, error)
}, first, last uint64) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	for {
		d, err := s.Next(ctx)
		if ctx.Err() != nil {
			break
		}
		fatalIf(t, err != nil || d.Missed > 0, "missed %d, %v", d.Missed, err)
		for _, e := range d.Events {
			fatalIf(t, e.Sequence != first, "got event %d in the place of %d", e.Sequence, first)
			first++
		}
	}
	fatalIf(t, first != last+1, "event %d does not come", first)
}

func TestSlowFollowersOfManyActorsHoldNoMoreThanTheNodeAllows(t *testing.T) {
	const actors, events, limit = 20, 50, 128 << 10
	bubble(t, func(o *Options) { o.MaxEventBytes = limit }, listeners(), func(t *testing.T, g *stage) {
		var slow []host.EventStream
		for i := range actors {
			slow = append(slow, g.follow(fmt.Sprint(i)))
		}
		for range events {
			for i := range actors {
				g.must(fmt.Sprint(i), emits(1, 1000))
			}
		}
		if held := g.held(); held < limit/2 || held > limit+actors*2*event.MinBuffered {
			t.Errorf("they hold %d bytes; the limit is %d", held, limit)
		}
		quick := g.follow("quick") // gets small events at once even if the node is full
		g.must("quick", emits(1, 100))
		quick.(*event.Subscription).Mu.Lock()
		same(t, quick.(*event.Subscription).Count, 1, "events in the buffer of a new stream")
		quick.(*event.Subscription).Mu.Unlock()
		for _, s := range slow {
			gets(t, s, 1, events)
		}
		for _, s := range append(slow, quick) {
			s.Close()
		}
		same(t, g.held(), 0, "bytes are held by nobody")
	})
}

func TestEventOfManyFollowersCountsOnce(t *testing.T) {
	const size = 100_000
	bubble(t, nil, listeners(), func(t *testing.T, g *stage) {
		var all []host.EventStream
		for range 100 {
			all = append(all, g.follow("a"))
		}
		g.must("a", emits(1, size))
		once := int64((1 + event.Frames) * (event.EventOverhead + len("said") + size))
		if got, want := g.held(), once+100*event.PlaceBytes; got != want {
			t.Errorf("held are %d bytes, want %d", got, want)
		}
		for i, s := range all {
			must(t, errOf(s.Next(t.Context())))
			if got := g.held(); got < once { // until the reader comes back, the event is in its hands
				t.Fatalf("after reader %d, %d bytes are held", i, got)
			}
		}
		for _, s := range all[1:] {
			gets(t, s, 1, 0) // no more
		}
		if got, want := g.held(), once+event.PlaceBytes; got != want {
			t.Errorf("one reader holds %d bytes, want %d", got, want)
		}
		all[0].Close()
		same(t, g.held(), 0, "bytes are held by nobody")
	})
}

func TestConnectionThatHadReadAllIsNotCutOffByTurnsThatShareACommit(t *testing.T) {
	h, all := crowd(1)
	h.Limit = 0 // the node is full
	for seq, commit := range []uint64{1, 1, 2} {
		e := host.EmittedEvent{Sequence: uint64(seq + 1), Name: "said", Data: make([]byte, 3000)}
		h.Publish("room", keyspace.ActorID{}, "", event.CommitName{Number: commit}, []event.PublishedEvent{{EmittedEvent: e}})
	}
	if l := all[0]; l.Ended() != nil || !l.Lagging || l.Position != 0 {
		t.Errorf("it ended with %v, or is to read on from the history after event %d: %v", l.Ended(), l.Position, l.Lagging)
	}
}

func TestClientThatGivesUpWaitingForTheHistoryMissesNothing(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxEventBytes = 32 << 10 }, listeners(), func(t *testing.T, g *stage) {
		hoarder := g.client("a", listening) // with further bytes, the node is full
		defer hoarder.Close(context.Background(), false)
		for range 3 {
			g.must("a", emits(1, 10_000))
		}
		g.must("b", emits(3, 200))
		reads := g.client("b", host.ConnectRequest{Events: []string{"said"}, HasAfter: true})
		disk := make(chan struct{})
		g.disk.Fail(func(op, _ string) error {
			if op == "sync" {
				<-disk
			}
			return nil
		})
		for range 2 {
			go g.do("b", emits(1, 5000))
			synctest.Wait()
		}
		ctx, cancel := context.WithCancel(t.Context())
		failed := make(chan error)
		go func() { _, err := reads.Next(ctx); failed <- err }() // waits until both are durable
		synctest.Wait()
		disk <- struct{}{}
		synctest.Wait() // the first is, and finds the node full
		cancel()
		wantCode(t, <-failed, host.Canceled)
		g.disk.Fail(nil)
		close(disk)
		gets(t, reads, 1, 5)
	})
}

// TestNothingIsHeldAfterTheLastClientHoweverTheyEnd is for the race detector: real time, everything
// at once.
func TestNothingIsHeldAfterTheLastClientHoweverTheyEnd(t *testing.T) {
	g := newStage(t, func(o *Options) { o.MaxEventBytes = 64 << 10 }, listeners()...)
	keys := []string{"a", "b", "c"}
	var emitting, reading sync.WaitGroup
	var over atomic.Bool
	for i := range keys {
		emitting.Go(func() {
			for n := range 60 {
				f := emits(1+n%5, 200<<(n%8))
				if n%40 == 39 {
					f = series(func(_ *puppet, t host.Turn) error { t.DestroySelf(); return nil }, emits(1, 300))
				}
				check(t, g.do(keys[(i+n)%3], f))
			}
		})
	}
	for i := range 12 {
		reading.Go(func() {
			r := rand.New(rand.NewPCG(1, uint64(i)))
			for !over.Load() {
				key := keys[r.IntN(3)]
				next := func(context.Context) (host.Delivery, error) { return host.Delivery{}, context.Canceled }
				if i%2 == 0 {
					s := g.follow(key)
					next = s.Next
					defer s.Close()
				} else {
					soon, stop := context.WithTimeout(t.Context(), time.Duration(r.IntN(20))*time.Millisecond)
					if l, err := g.Connect(soon, pAddr(key), listening); err == nil {
						next = l.Next
						defer l.Close(t.Context(), r.IntN(2) == 0)
					}
					stop()
				}
				for range r.IntN(10) {
					wait, stop := context.WithTimeout(t.Context(), 10*time.Millisecond)
					_, err := next(wait)
					stop()
					if err != nil && host.CodeOf(err) != host.DeadlineExceeded {
						break
					}
				}
			}
		})
	}
	emitting.Wait()
	over.Store(true)
	reading.Wait()
	if n := len(event.HubOf(g.Kernel).Audiences); g.held() != 0 || n != 0 {
		t.Errorf("%d bytes are held; %d actors have an audience", g.held(), n)
	}
}

// A client that loses its connection before the first event resumes from its beginning.
func TestASubscriptionKnowsWhereItBegins(t *testing.T) {
	bubble(t, nil, listeners(), func(t *testing.T, g *stage) {
		begins := func(s host.EventStream) (host.Position, bool) { return s.(*event.Subscription).Position() }
		early := g.follow("a")
		if at, known := begins(early); known {
			t.Errorf("without an actor it begins at %v", at)
		}
		g.must("a", emits(3, 10))
		s := g.follow("a")
		at, known := begins(s)
		want := (host.Position{Sequence: 3, Life: g.status("a").ID})
		errorIf(t, !known || at != want, "it begins at %v, %t, want %v", at, known, want)
		g.must("a", emits(2, 10))
		again := g.followFrom("a", host.Subscription{Resume: true, After: at.Sequence, Life: at.Life})
		gets(t, s, 4, 5)
		gets(t, early, 1, 5)
		gets(t, again, 4, 5)
		for _, s := range []host.EventStream{early, s, again} {
			s.Close()
		}
	})
}
