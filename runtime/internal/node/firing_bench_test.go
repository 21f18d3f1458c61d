package node

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// BenchmarkSchedulesDueAtOnce has 10,000 schedules of as many actors come due at one moment, and takes the time from then
// on until all have run.
func BenchmarkSchedulesDueAtOnce(b *testing.B) {
	const count, callers = 10_000, 100
	for range b.N {
		b.StopTimer()
		var left atomic.Int64
		left.Store(count)
		done := make(chan struct{})
		s := newBenchNode(b, &diaryHooks{schedule: func(*diary, host.Turn, *host.Tick, []byte) error {
			if left.Add(-1) == 0 {
				close(done)
			}
			return nil
		}})
		at := time.Now().Add(10 * time.Second)
		var armed sync.WaitGroup
		for caller := range callers {
			armed.Go(func() {
				for i := range count / callers {
					in := fmt.Sprintf(`{"name":"s","at":%q}`, at.Format(time.RFC3339Nano))
					addr := host.Address{Type: "diary", Key: []string{fmt.Sprint(caller, i)}}
					r := &host.Request{Address: addr, Method: host.ScheduleSet, Codec: host.JSON, Input: []byte(in)}
					if _, err := s.Call(context.Background(), r); err != nil {
						b.Error(err)
						return
					}
				}
			})
		}
		armed.Wait()
		if late := time.Since(at); late > 0 {
			b.Fatal("arming took too long by", late)
		}
		time.Sleep(time.Until(at))
		b.StartTimer()
		<-done
	}
	b.ReportMetric(float64(count*b.N)/b.Elapsed().Seconds(), "runs/s")
}
