package node

import (
	"context"
	"fmt"
	"math"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// TestNoEventIsLostOrDoubledHoweverConnectionsAndTurnsMeet is for the race detector, too: real time, everything at once.
// Every client gets all events after its cursor, without a hole, over however many connections.
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
