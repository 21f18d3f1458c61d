package node

import (
	"sync"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// crowd is a hub with n connections that are subscribed to the event said.
func crowd(n int) (*event.Hub, []*conn.LiveConnection) {
	sup := &kernel.Kernel{Parts: []kernel.Part{new(event.Part)}}
	h := event.HubOf(sup)
	h.Limit = 1 << 40
	all := make([]*conn.LiveConnection, n)
	for i := range all {
		l := &conn.LiveConnection{
			S: sup, Hub: h, Key: "room", ID: conn.NewConnectionID(), Limit: 1 << 30, Signal: make(chan struct{}, 1),
			Subscriptions: map[string]uint64{"said": 0, "kept": 0},
		}
		h.Join(l.Key, l)
		h.Promote(l.Key, l)
		all[i] = l
	}
	return h, all
}

// BenchmarkPublish measures what the gate does for one event: it hands it to the buffers of 1,000 connections.
func BenchmarkPublish(b *testing.B) {
	for name, e := range map[string]host.EmittedEvent{
		"all":          {Name: "said", Data: []byte(`"hello"`)},
		"all but one":  {Name: "said", Data: []byte(`"hello"`), Except: []string{"x"}},
		"all but many": {Name: "said", Data: []byte(`"hello"`), Except: make([]string, 500)},
		"one":          {Name: "said", Data: []byte(`"hello"`)},
		"nobody":       {Name: "private", Data: []byte(`"hello"`)},
	} {
		b.Run(name, func(b *testing.B) {
			h, all := crowd(1000)
			if name == "one" {
				e.To = all[500].ID
			}
			b.ReportAllocs()
			for i := range b.N {
				if i%256 == 0 {
					b.StopTimer()
					for _, l := range all {
						l.Take()
						l.LetGo()
					}
					b.StartTimer()
				}
				e.Sequence = uint64(i + 1)
				h.Publish("room", keyspace.ActorID{}, "", event.CommitName{Number: uint64(i + 1)}, []event.PublishedEvent{{EmittedEvent: e}})
			}
		})
	}
}

// BenchmarkFollow measures one event until the only subscription of its actor has it.
func BenchmarkFollow(b *testing.B) {
	sup := &kernel.Kernel{Parts: []kernel.Part{new(event.Part)}}
	h := event.HubOf(sup)
	h.Limit = 1 << 40
	s := &event.Subscription{S: sup, Hub: h, Key: "room", Signal: make(chan struct{}, 1)}
	h.Add(s)
	b.ReportAllocs()
	for i := range b.N {
		e := host.EmittedEvent{Name: "said", Data: []byte(`"hello"`), Sequence: uint64(i + 1)}
		h.Publish("room", keyspace.ActorID{}, "", event.CommitName{Number: uint64(i + 1)}, []event.PublishedEvent{{EmittedEvent: e}})
		if d, err := s.Next(b.Context()); err != nil || len(d.Events) != 1 {
			b.Fatal(d, err)
		}
	}
}

// BenchmarkReconnect measures how fast 1,000 clients that were lost come back at once, hook and all.
func BenchmarkReconnect(b *testing.B) {
	h := newHotel(b, puppetType{connect: add(0), disconnect: add(0)}, host.Limits{})
	tokens := make([]string, 1000)
	for i := range tokens {
		tokens[i] = h.connect(listening).Welcome().Token
	}
	for b.Loop() {
		var clients sync.WaitGroup
		for _, token := range tokens {
			clients.Go(func() {
				if l, err := h.Connect(b.Context(), pAddr("a"), host.ConnectRequest{Token: token}); err != nil || !l.Welcome().Resumed {
					b.Errorf("%v", err)
				}
			})
		}
		clients.Wait()
	}
}
