package retry

import (
	"fmt"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// CrashesToFail is how many turns in a row may panic before the actor counts as failed and is left
// alone for a while.
const CrashesToFail = 5

// A failed actor is tried again after 1 second, doubling up to 5 minutes.
const (
	minRest = time.Second
	maxRest = 5 * time.Minute
)

// Failures has the actors that could not be woken or keep crashing, so that each is tried again
// only after a while and operators see why. It is not durable: after a restart every actor gets a
// fresh chance. An actor is named by the key of its address. The zero value has none.
//
// Invariant: an actor has an entry from its failure until it is forgotten, and Blocked refuses it
// until its RetryAt.
type Failures struct {
	mu      sync.Mutex
	failed  map[string]*failed
	crashes map[string]int // turns in a row that panicked, of actors that exist
}

// failed is the failure of an actor. damaged: its data is damaged, so that it cannot be woken.
type failed struct {
	host.Failure
	damaged bool
}

// Crash counts a turn that panicked, and returns how many did so in a row.
func (f *Failures) Crash(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.crashes == nil {
		f.crashes = make(map[string]int)
	}
	f.crashes[key]++
	return f.crashes[key]
}

// Crashes returns how many turns in a row have panicked.
func (f *Failures) Crashes(key string) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crashes[key]
}

// Add counts a failure of an actor, and returns it. public is what callers see of the cause.
func (f *Failures) Add(key string, public *host.Error, cause error, damaged bool) host.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.failed == nil {
		f.failed = make(map[string]*failed)
	}
	now := time.Now()
	x := f.failed[key]
	if x == nil {
		x = &failed{Failure: host.Failure{Since: now.UTC()}}
		f.failed[key] = x
	}
	x.Reason, x.Public, x.Code, x.ErrorID = cause.Error(), public.Error(), public.Code, public.Metadata["error_id"]
	x.damaged = damaged
	x.Attempts++
	x.RetryAt = now.Add(Backoff(x.Attempts, minRest, maxRest)).UTC()
	return x.Failure
}

// Len returns the number of failed actors.
func (f *Failures) Len() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.failed)
}

// Each calls visit with the keys of the failed actors, in no order. visit must not call the
// failures.
func (f *Failures) Each(visit func(key string)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for key := range f.failed {
		visit(key)
	}
}

// Known returns the number of actors with a failure or crashes.
func (f *Failures) Known() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	n := len(f.failed)
	for key := range f.crashes {
		if f.failed[key] == nil {
			n++
		}
	}
	return n
}

// Blocked returns the error for an actor that must not be tried yet, or nil. name is the actor's,
// for people.
func (f *Failures) Blocked(key string, name fmt.Stringer) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.failed[key]
	if x == nil || !time.Now().Before(x.RetryAt) {
		return nil
	}
	e := host.Errorf(host.ActorFailed, "actor %s does not run: %s", name, x.Public).
		With("retry_at", x.RetryAt.Format(time.RFC3339Nano))
	if x.damaged {
		return e.With("reason", host.ReasonDamaged).With("error_id", x.ErrorID)
	}
	return e.With("reason", x.Public).Retry()
}

// Forget drops the failures and crashes of an actor, which may be tried at once. It reports whether
// the actor had failed.
func (f *Failures) Forget(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, had := f.failed[key]
	delete(f.failed, key)
	delete(f.crashes, key)
	return had
}

// Of returns the failure of an actor, or nil.
func (f *Failures) Of(key []byte) *host.Failure {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.failed[string(key)]
	if x == nil {
		return nil
	}
	c := x.Failure
	return &c
}
