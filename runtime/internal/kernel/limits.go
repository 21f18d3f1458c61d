package kernel

import (
	"fmt"
	"math"
	"strconv"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// Overloaded makes the error for a bound that is reached, with the time after which another try may succeed.
func Overloaded(limit int64, after time.Duration, format string, args ...any) *host.Error {
	return host.Errorf(host.Overloaded, format, args...).Retry().
		With("limit", strconv.FormatInt(limit, 10)).With("retry_at", time.Now().Add(after).UTC().Format(time.RFC3339Nano))
}

// The least and the most that a caller is told to wait for room in a mailbox.
const (
	MinDrain = 10 * time.Millisecond
	MaxDrain = time.Second
)

// Drains estimates when half of a full mailbox of n calls is worked off, by how long the type's methods usually take.
func (a *Actor) Drains(w *Work, n int64) time.Duration {
	var pace, known int64
	if j, ok := w.Job.(*Call); ok && j.Method >= 0 {
		pace, known = a.Type.Pace[j.Method].Load(), 1
	}
	if pace == 0 {
		known = 0
		for i := range a.Type.Pace {
			if p := a.Type.Pace[i].Load(); p > 0 {
				pace, known = pace+p, known+1
			}
		}
	}
	if known == 0 {
		return MinDrain
	}
	return min(max(time.Duration(pace/known*(n/2)), MinDrain), MaxDrain)
}

// A rateLimit bounds how often the actors of one type are called from outside: each has a bucket of its own, which is full
// at first and when it was left alone for long enough, whether the actor sleeps or not.
//
// A bucket is one time: when it will be full again. A full one is not kept, so there are never more than the actors that
// were called within the time that an empty bucket needs to fill.
type rateLimit struct {
	Every time.Duration // between two calls at the full rate
	Burst int
	epoch time.Time

	mu   sync.Mutex
	Full map[string]time.Duration // by address key: when, since epoch
	room int                      // how many there may be before those that are full are forgotten
}

// MinBuckets is how many buckets are kept without looking for full ones.
const MinBuckets = 1024

// maxFill bounds how long an empty bucket takes to fill.
const maxFill = 100 * 365 * 24 * time.Hour

// checkRate returns what is wrong with the rate limit in l.
func checkRate(l host.Limits) error {
	switch {
	case l.CallRate < 0 || math.IsNaN(l.CallRate) || math.IsInf(l.CallRate, 0):
		return &LimitsError{Name: "call_rate", Reason: fmt.Sprintf("is %v, which is not a rate", l.CallRate)}
	case l.CallBurst < 0:
		return &LimitsError{Name: "call_burst", Reason: fmt.Sprintf("is %d; it must not be negative", l.CallBurst)}
	case l.CallRate > 0 && max(1, float64(l.CallBurst))/l.CallRate > maxFill.Seconds():
		return &LimitsError{Name: "call_burst", Reason: fmt.Sprintf("is %d, which takes more than a hundred years at a call_rate of %v", l.CallBurst, l.CallRate)}
	}
	return nil
}

// NewRateLimit makes the limit that a type asks for; nil if it asks for none.
func NewRateLimit(l host.Limits) *rateLimit {
	if l.CallRate <= 0 {
		return nil
	}
	r := &rateLimit{Burst: l.CallBurst, epoch: time.Now(), Full: make(map[string]time.Duration), room: MinBuckets}
	if r.Burst == 0 {
		r.Burst = int(min(max(math.Ceil(l.CallRate), 1), math.MaxInt32))
	}
	r.Every = time.Duration(max(float64(time.Second)/l.CallRate, 1))
	r.Burst = min(r.Burst, int(maxFill/r.Every))
	return r
}

// Take takes one call out of an actor's bucket, or returns the error for an empty one.
func (r *rateLimit) Take(addr host.Address) error {
	var buf [128]byte
	key := address.Append(buf[:0], addr)
	now := time.Since(r.epoch)
	r.mu.Lock()
	full := max(r.Full[string(key)], now)
	// An empty bucket is full after burst times every.
	wait := full + r.Every - now - r.Every*time.Duration(r.Burst)
	if wait > 0 {
		r.mu.Unlock()
		return Overloaded(int64(r.Burst), wait, "actor %s takes %s, and %d at once", address.Format(addr), r, r.Burst)
	}
	r.Full[string(key)] = full + r.Every
	if len(r.Full) > r.room {
		for k, at := range r.Full {
			if at <= now {
				delete(r.Full, k)
			}
		}
		r.room = max(MinBuckets, 2*len(r.Full))
	}
	r.mu.Unlock()
	return nil
}

// String says what the rate is, for people.
func (r *rateLimit) String() string {
	return strconv.FormatFloat(float64(time.Second)/float64(r.Every), 'g', 4, 64) + " calls per second from outside"
}

// counted reports whether calls of a built-in method from outside count like calls of the actor's own. The verbs of
// operators do not, because they must work while callers keep the actor busy. What a worker says of messages that it holds
// does not, because receiving them was counted and a refusal would only bring them back.
func (b *Method) counted(t *Type) bool {
	return !b.free && !host.OperatorMethod(b.Name, t.OpenSQL)
}

// admit takes a call from outside out of the actor's bucket, if its type has a rate.
func (s *Kernel) admit(t *Type, r *host.Request) error {
	rate := s.rateOf(t, r.Address)
	if rate == nil || r.Continues {
		return nil
	}
	err := rate.Take(r.Address)
	if err != nil {
		t.metrics.overloaded.Inc()
	}
	return err
}
