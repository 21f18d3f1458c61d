package kernel

import (
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// failures remembers actors that could not be woken or keep crashing, so that each is tried again only after a while and
// operators see why. It is not durable: after a restart every actor gets a fresh chance.
type failures struct {
	Mu    sync.Mutex
	M     map[string]*failed
	Crash map[string]int // turns in a row that panicked, of actors that exist
}

// A failed actor, and whether it is for damaged data that it cannot be woken.
type failed struct {
	host.Failure
	damaged bool
}

// CrashesToFail is how many turns in a row may panic before the actor counts as failed and is left alone for a while.
const CrashesToFail = 5

// crashed counts a turn that panicked.
func (f *failures) crashed(a *Actor, err error) {
	f.Mu.Lock()
	if f.Crash == nil {
		f.Crash = make(map[string]int)
	}
	f.Crash[a.Key]++
	a.crashes = f.Crash[a.Key]
	f.Mu.Unlock()
	if a.crashes >= CrashesToFail {
		e, _ := a.Kernel.PublicError(err)
		f.add(a, e, err)
	}
}

// crashes returns how many turns in a row have panicked.
func (f *failures) crashes(a *Actor) int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return f.Crash[a.Key]
}

// A failed actor is tried again after 1 second, doubling up to 5 minutes.
const (
	failureRetryMin = time.Second
	failureRetryMax = 5 * time.Minute
)

// add counts a failure of an actor. public is what callers are told of cause.
func (f *failures) add(a *Actor, public *host.Error, cause error) {
	reason := cause.Error()
	f.Mu.Lock()
	if f.M == nil {
		f.M = make(map[string]*failed)
	}
	now := time.Now()
	x := f.M[a.Key]
	if x == nil {
		x = &failed{Failure: host.Failure{Since: now.UTC()}}
		f.M[a.Key] = x
	}
	x.Reason, x.Public, x.Code, x.ErrorID = reason, public.Error(), public.Code, public.Metadata["error_id"]
	x.damaged = damage(cause)
	x.Attempts++
	x.RetryAt = now.Add(Backoff(x.Attempts, failureRetryMin, failureRetryMax)).UTC()
	c := x.Failure
	f.Mu.Unlock()
	a.Kernel.Metrics.Failed.Set(float64(f.Count()))
	a.Kernel.Logger.Error("actor failed", "actor_type", a.Address.Type, "actor_key", a.Address.Key, "reason", reason, "attempts", c.Attempts, "retry_at", c.RetryAt)
	a.Kernel.lifeFailed(a, &c)
}

// Count returns the number of failed actors.
func (f *failures) Count() int {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	return len(f.M)
}

// blocked returns the error for an actor that must not be tried yet.
func (f *failures) blocked(a *Actor) error {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	x := f.M[a.Key]
	if x == nil || !time.Now().Before(x.RetryAt) {
		return nil
	}
	e := host.Errorf(host.ActorFailed, "actor %s does not run: %s", a, x.Public).With("retry_at", x.RetryAt.Format(time.RFC3339Nano))
	if x.damaged {
		return e.With("reason", host.ReasonDamaged).With("error_id", x.ErrorID)
	}
	return e.With("reason", x.Public).Retry()
}

func (f *failures) clear(a *Actor) {
	f.Mu.Lock()
	_, had := f.M[a.Key]
	delete(f.M, a.Key)
	delete(f.Crash, a.Key)
	f.Mu.Unlock()
	if had {
		a.Kernel.Metrics.Failed.Set(float64(f.Count()))
	}
}

// Forget lets an actor be tried at once, and reports that it had failed.
func (f *failures) Forget(key string) bool {
	f.Mu.Lock()
	defer f.Mu.Unlock()
	_, had := f.M[key]
	delete(f.M, key)
	delete(f.Crash, key)
	return had
}

func (f *failures) of(addr host.Address) *host.Failure {
	var buf [128]byte
	key := address.Append(buf[:0], addr)
	f.Mu.Lock()
	defer f.Mu.Unlock()
	x := f.M[string(key)]
	if x == nil {
		return nil
	}
	c := x.Failure
	return &c
}

// The reasons that tasks learn as the cause of the end of their context.
const (
	CauseSleep    = "the actor goes to sleep"
	causeMemory   = "the actor goes to sleep: memory is short"
	CauseShutdown = "the node is shutting down"
	causeRestart  = "the actor was restarted"
)

// RestartCause is what the tasks of a core learn that is given up.
func (c *Core) RestartCause() *host.Error {
	switch {
	case c.Actor.Kernel.Killed.Load():
		return Unavailable(CauseShutdown)
	case c.slept != nil:
		return Unavailable(CauseSleep)
	}
	return Unavailable(causeRestart)
}
