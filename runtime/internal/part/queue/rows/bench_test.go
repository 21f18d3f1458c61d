package queuerows

import (
	"fmt"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// benchWorld is an actor in a store on a real disk. Nothing waits for commits, so the figures are
// of the processor.
func benchWorld(b *testing.B) *world {
	w := &world{t: b, now: start, cfg: map[string]host.Queue{"jobs": {Name: "jobs", Messages: 1 << 30}}}
	w.open(engine.Options{Dir: b.TempDir(), Durability: engine.NoSync})
	b.Cleanup(w.close)
	return w
}

var benchBody = make([]byte, 64)

func BenchmarkSend(b *testing.B) {
	w := benchWorld(b)
	one := []host.Enqueue{{Body: benchBody}}
	b.ReportAllocs()
	for b.Loop() {
		w.must(func(s *Set) error { _, err := s.Send("jobs", one); return err })
	}
}

// BenchmarkSendAndHandle sends a message in one turn and handles it in the next.
func BenchmarkSendAndHandle(b *testing.B) {
	w := benchWorld(b)
	one := []host.Enqueue{{Body: benchBody}}
	b.ReportAllocs()
	for b.Loop() {
		w.must(func(s *Set) error { _, err := s.Send("jobs", one); return err })
		w.must(func(s *Set) error {
			m, ok, err := s.Next("jobs")
			if !ok || err != nil {
				return fmt.Errorf("%v %w", ok, err)
			}
			return s.Done(m, nil)
		})
	}
}

// lengths are 1,000 messages, and more with QUEUE_BENCH=1000000.
func lengths(b *testing.B) []int {
	all := []int{1_000}
	if n, err := strconv.Atoi(os.Getenv("QUEUE_BENCH")); err == nil {
		all = append(all, n)
	}
	return all
}

func (w *world) fill(n int) {
	batch := make([]host.Enqueue, 500)
	for i := range batch {
		batch[i].Body = benchBody
	}
	for ; n > 0; n -= len(batch) {
		w.must(func(s *Set) error { _, err := s.Send("jobs", batch); return err })
	}
	// The compactions that this causes must not be measured.
	tick := time.NewTicker(time.Second)
	defer tick.Stop()
	for range 30 {
		before := w.store.Metrics().Compactions
		if <-tick.C; w.store.Metrics().Compactions == before {
			return
		}
	}
}

// BenchmarkReceiveAck shows that receiving takes the same time for any length of the queue. It has
// a worker that receives messages, does them and sends others, so that the queue keeps its length.
func BenchmarkReceiveAck(b *testing.B) {
	for _, n := range lengths(b) {
		for _, batch := range []int{1, 100} {
			b.Run(fmt.Sprintf("queue=%d/batch=%d", n, batch), func(b *testing.B) {
				w := benchWorld(b)
				w.fill(n)
				again := make([]host.Enqueue, batch)
				for i := range again {
					again[i].Body = benchBody
				}
				receipts := make([]string, batch)
				b.ReportAllocs()
				for b.Loop() {
					w.now = w.now.Add(time.Millisecond)
					w.must(func(s *Set) error {
						got, err := s.Receive("jobs", batch, 0)
						if len(got) != batch {
							return fmt.Errorf("%d messages, %w", len(got), err)
						}
						for i := range got {
							receipts[i] = got[i].Receipt
						}
						return err
					})
					w.must(func(s *Set) error {
						if _, lost, err := s.Ack("jobs", receipts, nil); len(lost) > 0 || err != nil {
							return fmt.Errorf("lost %v, %w", lost, err)
						}
						_, err := s.Send("jobs", again)
						return err
					})
				}
				b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*batch), "ns/message")
			})
		}
	}
}
