package node

import (
	"context"
	"testing"

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
