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
		s := newStage(b, nil, &puppetType{name: "p", tick: func(*puppet, host.Turn) error {
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
					in := fmt.Sprintf(`{"name":"tick","at":%q}`, at.Format(time.RFC3339Nano))
					r := &host.Request{Address: pAddr(fmt.Sprint(caller, i)), Method: host.ScheduleSet, Codec: host.JSON, Input: []byte(in)}
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
