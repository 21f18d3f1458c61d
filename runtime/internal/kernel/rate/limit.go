// Package rate bounds how often something happens: calls of an actor, and log lines of one cause.
package rate

import (
	"math"
	"strconv"
	"sync"
	"time"
)

// A Limit bounds how often each of many keys is used, by a token bucket for each. A bucket is full
// at first, and when its key was left alone for long enough.
//
// A bucket is one time: when it will be full again. A full bucket is not kept.
//
// Invariant: within any time t a key is used at most Burst + t/Every times, and a key that uses
// less is never refused.
type Limit struct {
	// Every is the time between two uses at the full rate.
	Every time.Duration
	// Burst is how many uses a full bucket has.
	Burst int

	epoch time.Time
	mu    sync.Mutex
	full  map[string]time.Duration // by key: when its bucket is full, since epoch
	room  int                      // how many buckets there may be before the full ones are dropped
}

// minBuckets is how many buckets are kept without looking for full ones.
const minBuckets = 1024

// MaxFill bounds the time that an empty bucket takes to fill.
const MaxFill = 100 * 365 * 24 * time.Hour

// New makes a limit of some uses per second, which must be more than 0. A burst of 0 means the uses
// of one second. A burst that takes longer than MaxFill is cut.
func New(perSecond float64, burst int) *Limit {
	r := &Limit{Burst: burst, epoch: time.Now(), full: make(map[string]time.Duration), room: minBuckets}
	if r.Burst == 0 {
		r.Burst = int(min(max(math.Ceil(perSecond), 1), math.MaxInt32))
	}
	r.Every = time.Duration(max(float64(time.Second)/perSecond, 1))
	r.Burst = min(r.Burst, int(MaxFill/r.Every))
	return r
}

// Take takes one use out of the bucket of a key. If the bucket is empty, it returns how long to
// wait for the next use.
func (r *Limit) Take(key []byte) (wait time.Duration, ok bool) {
	now := time.Since(r.epoch)
	r.mu.Lock()
	defer r.mu.Unlock()
	full := max(r.full[string(key)], now)
	// An empty bucket is full after burst times every.
	if wait = full + r.Every - now - r.Every*time.Duration(r.Burst); wait > 0 {
		return wait, false
	}
	r.full[string(key)] = full + r.Every
	if len(r.full) > r.room {
		for k, at := range r.full {
			if at <= now {
				delete(r.full, k)
			}
		}
		r.room = max(minBuckets, 2*len(r.full))
	}
	return 0, true
}

// Wait returns how long to wait until the bucket of a key has a use; 0 if it has one.
func (r *Limit) Wait(key []byte) time.Duration {
	now := time.Since(r.epoch)
	r.mu.Lock()
	defer r.mu.Unlock()
	return max(max(r.full[string(key)], now)+r.Every-now-r.Every*time.Duration(r.Burst), 0)
}

// Len returns the number of buckets that are kept.
func (r *Limit) Len() int {
	r.mu.Lock()
	defer r.mu.Unlock()
	return len(r.full)
}

// PerSecond returns the rate, for people.
func (r *Limit) PerSecond() string {
	return strconv.FormatFloat(float64(time.Second)/float64(r.Every), 'g', 4, 64)
}
