package supervisor

import (
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// failures remembers actors that could not be woken or keep crashing, so that each is tried again only after a while and
// operators see why. It is not durable: after a restart every actor gets a fresh chance.
type failures struct {
	mu    sync.Mutex
	m     map[string]*failed
	crash map[string]int // turns in a row that panicked, of actors that exist
}

// A failed actor, and whether it is for damaged data that it cannot be woken.
type failed struct {
	host.Failure
	damaged bool
}

// crashesToFail is how many turns in a row may panic before the actor counts as failed and is left alone for a while.
const crashesToFail = 5

// crashed counts a turn that panicked.
func (f *failures) crashed(a *activation, err error) {
	f.mu.Lock()
	if f.crash == nil {
		f.crash = make(map[string]int)
	}
	f.crash[a.key]++
	a.crashes = f.crash[a.key]
	f.mu.Unlock()
	if a.crashes >= crashesToFail {
		e, _ := a.sup.publicError(err)
		f.add(a, e, err)
	}
}

// crashes returns how many turns in a row have panicked.
func (f *failures) crashes(a *activation) int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.crash[a.key]
}

// A failed actor is tried again after 1 second, doubling up to 5 minutes.
const (
	failureRetryMin = time.Second
	failureRetryMax = 5 * time.Minute
)

// add counts a failure of an actor. public is what callers are told of cause.
func (f *failures) add(a *activation, public *host.Error, cause error) {
	reason := cause.Error()
	f.mu.Lock()
	if f.m == nil {
		f.m = make(map[string]*failed)
	}
	now := time.Now()
	x := f.m[a.key]
	if x == nil {
		x = &failed{Failure: host.Failure{Since: now.UTC()}}
		f.m[a.key] = x
	}
	x.Reason, x.Public, x.Code, x.ErrorID = reason, public.Error(), public.Code, public.Metadata["error_id"]
	x.damaged = damage(cause)
	x.Attempts++
	x.RetryAt = now.Add(backoff(x.Attempts, failureRetryMin, failureRetryMax)).UTC()
	c := x.Failure
	f.mu.Unlock()
	a.sup.metrics.failed.Set(float64(f.count()))
	a.sup.logger.Error("actor failed", "actor_type", a.addr.Type, "actor_key", a.addr.Key, "reason", reason, "attempts", c.Attempts, "retry_at", c.RetryAt)
	a.sup.lifeFailed(a, &c)
}

func (f *failures) count() int {
	f.mu.Lock()
	defer f.mu.Unlock()
	return len(f.m)
}

// blocked returns the error for an actor that must not be tried yet.
func (f *failures) blocked(a *activation) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.m[a.key]
	if x == nil || !time.Now().Before(x.RetryAt) {
		return nil
	}
	e := host.Errorf(host.ActorFailed, "actor %s does not run: %s", a, x.Public).With("retry_at", x.RetryAt.Format(time.RFC3339Nano))
	if x.damaged {
		return e.With("reason", host.ReasonDamaged).With("error_id", x.ErrorID)
	}
	return e.With("reason", x.Public).Retry()
}

func (f *failures) clear(a *activation) {
	f.mu.Lock()
	_, had := f.m[a.key]
	delete(f.m, a.key)
	delete(f.crash, a.key)
	f.mu.Unlock()
	if had {
		a.sup.metrics.failed.Set(float64(f.count()))
	}
}

// forget lets an actor be tried at once, and reports that it had failed.
func (f *failures) forget(key string) bool {
	f.mu.Lock()
	defer f.mu.Unlock()
	_, had := f.m[key]
	delete(f.m, key)
	delete(f.crash, key)
	return had
}

func (f *failures) of(addr host.Address) *host.Failure {
	var buf [128]byte
	key := appendAddress(buf[:0], addr)
	f.mu.Lock()
	defer f.mu.Unlock()
	x := f.m[string(key)]
	if x == nil {
		return nil
	}
	c := x.Failure
	return &c
}

// The reasons that tasks learn as the cause of the end of their context.
const (
	causeSleep    = "the actor goes to sleep"
	causeMemory   = "the actor goes to sleep: memory is short"
	causeShutdown = "the node is shutting down"
	causeRestart  = "the actor was restarted"
)

// restartCause is what the tasks of a core learn that is given up.
func (c *core) restartCause() *host.Error {
	switch {
	case c.a.sup.killed.Load():
		return unavailable(causeShutdown)
	case c.slept != nil:
		return unavailable(causeSleep)
	}
	return unavailable(causeRestart)
}
