package kernel

import (
	"sync"
	"time"
)

// A turnTimer ends the contexts of a core's turns at their deadlines. There is one for all turns of a core, one after the
// other, because most are over before the deadline, and setting a timer anew costs less than making one.
type turnTimer struct {
	mu    sync.Mutex
	timer *time.Timer // nil before the first turn that asked
	t     *Turn       // nil while none waits
}

// start ends t at its deadline, unless stop is called before.
func (k *turnTimer) start(t *Turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	k.t = t
	wait := t.limit - time.Since(t.Start)
	if k.timer == nil {
		k.timer = time.AfterFunc(wait, k.fire)
		return
	}
	k.timer.Reset(wait)
}

// stop forgets t. Its context may still end at its deadline if that comes at this moment.
func (k *turnTimer) stop(t *Turn) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.t == t {
		k.t = nil
		k.timer.Stop()
	}
}

// fire is called by the timer, which may have been set for the turn before.
func (k *turnTimer) fire() {
	k.mu.Lock()
	t := k.t
	if t != nil {
		if wait := t.limit - time.Since(t.Start); wait > 0 {
			k.timer.Reset(wait)
			t = nil
		} else {
			k.t = nil
		}
	}
	k.mu.Unlock()
	if t != nil {
		t.end(expired)
	}
}
