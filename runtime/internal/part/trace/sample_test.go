package trace

import (
	"runtime"
	"sync/atomic"
	"testing"
	"time"
)

func TestSamplerIsAlwaysRefilled(t *testing.T) {
	var s sampler
	var wanted atomic.Pointer[func()]
	s.start(1, 1, func(_ time.Duration, f func()) { wanted.Store(&f) })
	stop, done := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
				if !s.take() {
					runtime.Gosched()
				}
			}
		}
	}()
	const refills = 2000
	n := 0
	for last := time.Now(); n < refills && time.Since(last) < time.Minute; {
		if f := wanted.Swap(nil); f != nil {
			(*f)()
			n, last = n+1, time.Now()
		} else {
			runtime.Gosched()
		}
	}
	close(stop)
	<-done
	if n < refills {
		t.Errorf("after %d refills nothing refills it", n)
	}
}

func TestSamplerTakesItsShare(t *testing.T) {
	var s sampler
	s.start(0.25, 1<<40, func(time.Duration, func()) {})
	n := 0
	for range 10_000 {
		if s.take() {
			n++
		}
	}
	if n < 2_000 || n > 3_000 {
		t.Errorf("%d of 10,000, want a quarter", n)
	}
}
