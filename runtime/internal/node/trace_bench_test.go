package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

var quickLook = jsonCall("a", "look", string(remember(glance(func(*puppetState, host.Reader) error { return nil }))))

// BenchmarkTraced compares calls of a node that records nothing with those of one whose callers are not traced, or all are.
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

// BenchmarkQueryTracedPair compares queries of a node that records nothing with those of one whose rate is spent, in pairs of short
// turns, so that what else the machine does hits both. It reports how many of these come in the time of one of those.
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

// BenchmarkCountedPair compares a node that does not count what actors do with one that does: queries, calls, and calls that wake the
// actor and put it to sleep.
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
