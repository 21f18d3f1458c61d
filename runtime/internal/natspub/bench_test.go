package natspub

import (
	"fmt"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/cairn-run/cairn/engine"
)

// sink is an outbox that keeps nothing, so a benchmark measures only the publisher.
type sink struct{ acked chan int }

func (sink) Outbox(uint64, int) ([]engine.OutboxRow, error) { return nil, nil }
func (s sink) AckOutbox(seqs []uint64) error                { s.acked <- len(seqs); return nil }
func (sink) OutboxSize() (rows, bytes int64)                { return 1, 1 }

// BenchmarkPublish compares the publisher, from Committed to the deletion of the row, with plain
// publishing of the same payload and headers to the same kind of server.
func BenchmarkPublish(b *testing.B) {
	payload := []byte(`{"mean_delay_minutes":31.5,"flights":120,"since":"2001-01-01T09:00:00Z"}`)
	const actors = 64
	sets := make([]*engine.ChangeSet, actors)
	for a := range sets {
		sets[a] = emitted(a, 1, true, "delay-bad")
		sets[a].Changes[0].Data = payload
	}
	b.Run("raw with the same headers", func(b *testing.B) {
		nc := newOutage(b).client()
		e := newEnvelope(b)
		e.begin(sets[0], 0)
		m := e.message(0)
		b.ReportAllocs()
		for b.Loop() {
			if err := nc.PublishMsg(m); err != nil {
				b.Fatal(err)
			}
		}
		if err := nc.Flush(); err != nil {
			b.Fatal(err)
		}
	})
	for _, acks := range []bool{false, true} {
		for _, n := range []int{1, actors} {
			b.Run(fmt.Sprintf("publisher jetstream=%v actors=%d", acks, n), func(b *testing.B) {
				srv := newOutage(b)
				if acks {
					// The next run repeats the ids, and the server has little room.
					srv.stream(jetstream.StreamConfig{Name: "S", Subjects: []string{"cairn.>"},
						Storage: jetstream.MemoryStorage, MaxMsgs: 1000, Duplicates: 100 * time.Millisecond})
				}
				acked := make(chan int, 1024)
				p := begin(b, Options{Outbox: sink{acked}, Dial: srv.dial, JetStream: acks, MaxOutboxRows: 1 << 40})
				eventually(b, "connected", p.Connected)
				b.ReportAllocs()
				b.ResetTimer()
				waiting := 0
				for i := range b.N {
					set := *sets[i%n]
					set.Version = engine.Version(i)
					p.Committed(uint64(i+1), &set)
					for waiting++; waiting > 8192; {
						waiting -= <-acked
					}
				}
				for waiting > 0 {
					waiting -= <-acked
				}
			})
		}
	}
}
