package node

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/conn"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
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

// BenchmarkPublish measures the work of the gate for one event: it puts it into the buffers of
// 1,000 connections.
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
				h.Publish("room", keyspace.ActorID{}, "", event.CommitName{Number: uint64(i + 1)},
					[]event.PublishedEvent{{EmittedEvent: e}})
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

// BenchmarkReconnect measures how fast 1,000 lost clients come back at once, including the hook.
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

var quickLook = jsonCall("a", "look", string(remember(glance(func(*puppetState, host.Reader) error { return nil }))))

// BenchmarkTraced compares calls of a node that records nothing with those of one whose callers are
// not traced, or all are.
func BenchmarkTraced(b *testing.B) {
	for mode, o := range map[string]parttrace.Options{"off": {Off: true}, "rate spent": {PerSecond: 1}, "all": {PerSecond: 1 << 40}} {
		g := newStage(b, func(all *Options) { all.Traces = o })
		g.must("a", add(1))
		for name, q := range map[string]*host.Request{"query": quickLook, "call": request(add(0))} {
			b.Run(name+" "+mode, func(b *testing.B) {
				b.ReportAllocs()
				for b.Loop() {
					if _, err := g.Call(context.Background(), q); err != nil {
						b.Fatal(err)
					}
				}
			})
		}
	}
}

// BenchmarkQueryTracedPair compares queries of a node that records nothing with those of one whose
// rate is spent, in pairs of short turns, so that other load of the machine affects both. It
// reports how many of the latter come in the time of one of the former.
func BenchmarkQueryTracedPair(b *testing.B) {
	var nodes [2]*stage
	for i, o := range []parttrace.Options{{Off: true}, {PerSecond: 1}} {
		nodes[i] = newStage(b, func(all *Options) { all.Traces = o })
		nodes[i].must("a", add(1))
	}
	pairs(b, nodes, 50, func(g *stage) error { _, err := g.Call(context.Background(), quickLook); return err })
}

// pairs compares two nodes in pairs of short turns of so many calls.
func pairs(b *testing.B, nodes [2]*stage, calls int, do func(*stage) error) {
	var took [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range nodes {
			i = (i + n) % 2
			began := time.Now()
			for range calls {
				if err := do(nodes[i]); err != nil {
					b.Fatal(err)
				}
			}
			took[i] = append(took[i], time.Since(began)/time.Duration(calls))
		}
	}
	for i := range took {
		slices.Sort(took[i])
	}
	off, on := took[0][len(took[0])/4], took[1][len(took[1])/4]
	b.ReportMetric(float64(off), "off-ns")
	b.ReportMetric(float64(on), "on-ns")
	b.ReportMetric(float64(off)/float64(on), "ratio")
}

// BenchmarkCountedPair compares a node that does not count what actors do with one that does:
// queries, calls, and calls that wake the actor and put it to sleep.
func BenchmarkCountedPair(b *testing.B) {
	for name, do := range map[string]func(g *stage) error{
		"query": func(g *stage) error { _, err := g.Call(context.Background(), quickLook); return err },
		"call":  func(g *stage) error { return g.do("a", add(1)) },
		"wake": func(g *stage) error {
			if err := g.do("a", add(1)); err != nil {
				return err
			}
			return g.verb("a", host.ActorSleep, nil, nil)
		},
	} {
		b.Run(name, func(b *testing.B) {
			var nodes [2]*stage
			for i := range nodes {
				nodes[i] = newStage(b, func(o *Options) { o.UsageOff = i == 0 })
				nodes[i].must("a", add(1))
			}
			pairs(b, nodes, 10, do)
		})
	}
}
