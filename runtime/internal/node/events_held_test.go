package node

import (
	"context"
	"fmt"
	"math/rand/v2"
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

// gets reads what is there. These must be the events of the sequences.
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
		quick := g.follow("quick") // gets small events at once though the node is full
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
		hoarder := g.client("a", listening) // with anything more, the node is full
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

// TestNothingIsHeldAfterTheLastClientHoweverTheyEnd is for the race detector: real time, everything at once.
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

// A client that loses its connection before the first event resumes from where it began.
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
