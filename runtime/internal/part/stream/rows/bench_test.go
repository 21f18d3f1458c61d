package streamrows

import (
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
)

// BenchmarkAppend appends one item a turn to a stream that is full, so that each append removes an item too.
func BenchmarkAppend(b *testing.B) {
	for _, full := range []bool{false, true} {
		b.Run(fmt.Sprintf("full=%v", full), func(b *testing.B) {
			s, cfg := newStore(b), config(host.Stream{})
			if full {
				cfg.Items = 1000
			}
			data := [][]byte{make([]byte, 100)}
			for range 1000 {
				_, err := s.log(begin).Append(cfg, "s", data)
				must(b, err)
			}
			s.commit()
			b.ReportAllocs()
			b.ResetTimer()
			for i := range b.N {
				_, err := s.log(begin).Append(cfg, "s", data)
				must(b, err)
				if i%100 == 99 {
					s.commit()
				}
			}
		})
	}
}

// BenchmarkRead reads a page of 100 items.
func BenchmarkRead(b *testing.B) {
	s, cfg := newStore(b), config(host.Stream{})
	for range 1000 {
		_, err := s.log(begin).Append(cfg, "s", [][]byte{make([]byte, 100)})
		must(b, err)
	}
	s.commit()
	snap := s.store.Snapshot(actorID)
	defer snap.Close()
	b.ReportAllocs()
	for b.Loop() {
		p, err := Read(snap, begin, cfg, "s", 500, 100, 0)
		fatalIf(b, err != nil || len(p.Items) != 100, "%v", err)
	}
}
