package kernel

import (
	"sync"
	"time"
)

// tasks counts goroutines, so that Close can wait for them. Unlike a sync.WaitGroup it can be told to start no more.
type tasks struct {
	Mu     sync.Mutex
	N      int
	closed bool
	idle   chan struct{} // closed when n is 0 and no more may start
}

// Begin counts one goroutine, and reports whether it may start.
func (t *tasks) Begin() bool {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.closed {
		return false
	}
	t.N++
	return true
}

// Done counts one goroutine off.
func (t *tasks) Done() {
	t.Mu.Lock()
	defer t.Mu.Unlock()
	if t.N--; t.N == 0 && t.closed {
		close(t.idle)
	}
}

// close lets no more goroutines start and waits for those that did, but not longer than grace, because a handler that does
// not return cannot be ended. It returns how many are left.
func (t *tasks) close(grace time.Duration) int {
	t.Mu.Lock()
	t.closed = true
	t.idle = make(chan struct{})
	idle := t.idle
	if t.N == 0 {
		close(idle)
	}
	t.Mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
		return 0
	case <-timer.C:
		t.Mu.Lock()
		defer t.Mu.Unlock()
		return t.N
	}
}

// Go runs f in a goroutine that Close waits for; false means that the kernel has closed.
func (s *Kernel) Go(f func()) bool {
	if !s.Goroutines.Begin() {
		return false
	}
	go func() {
		defer s.Goroutines.Done()
		f()
	}()
	return true
}

// Later runs f after d unless the node stops first.
func (s *Kernel) Later(d time.Duration, f func()) {
	s.Go(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-s.Life.Done():
		}
	})
}
