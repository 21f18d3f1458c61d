package node

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	parttrace "github.com/cairn-run/cairn/runtime/internal/part/trace"
)

// BenchmarkTraced compares calls of a node that records nothing with those of one whose callers are not traced, or all are.
func BenchmarkTraced(b *testing.B) {
	look := remember(glance(func(*puppetState, host.Reader) error { return nil }))
	for _, mode := range []struct {
		name, from string
		o          parttrace.Options
	}{
		{"off", "", parttrace.Options{Off: true}},
		{"rate spent", "", parttrace.Options{PerSecond: 1}},
		{"all", "", parttrace.Options{PerSecond: 1 << 40}},
	} {
		g := newStage(b, func(o *Options) { o.Traces = mode.o })
		g.must("a", add(1))
		for name, q := range map[string]*host.Request{
			"query": {Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: look},
			"call":  request(add(0)),
		} {
			b.Run(name+" "+mode.name, func(b *testing.B) {
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
	q := &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(glance(func(*puppetState, host.Reader) error { return nil }))}
	var nodes [2]*stage
	for i, o := range []parttrace.Options{{Off: true}, {PerSecond: 1}} {
		nodes[i] = newStage(b, func(all *Options) { all.Traces = o })
		nodes[i].must("a", add(1))
	}
	var took [2][]time.Duration
	for n := 0; b.Loop(); n++ {
		for i := range nodes {
			i = (i + n) % 2
			began := time.Now()
			for range 50 {
				if _, err := nodes[i].Call(context.Background(), q); err != nil {
					b.Fatal(err)
				}
			}
			took[i] = append(took[i], time.Since(began)/50)
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
