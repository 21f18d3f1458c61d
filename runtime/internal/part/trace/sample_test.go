package trace

import (
	"sync/atomic"
	"testing"
	"time"
)

func TestSamplerIsAlwaysRefilled(t *testing.T) {
	var s sampler
	var wanted atomic.Pointer[func()]
	s.start(1, 1, func(_ time.Duration, f func()) { wanted.Store(&f) })
	stop, done := make(chan struct{}), make(chan struct{})
	taken := 0
	go func() {
		defer close(done)
		for {
			select {
			case <-stop:
				return
			default:
			}
			if s.take() {
				taken++
			}
		}
	}()
	refills := 0
	for deadline := time.Now().Add(10 * time.Second); refills < 20_000 && time.Now().Before(deadline); {
		if f := wanted.Swap(nil); f != nil {
			(*f)()
			refills++
		}
	}
	close(stop)
	<-done
	if refills < 20_000 {
		t.Errorf("after %d refills and %d traces nothing refills it", refills, taken)
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
