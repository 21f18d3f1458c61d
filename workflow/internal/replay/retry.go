package replay

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// An ExhaustedPolicy says what happens when the attempts of a step are used up.
type ExhaustedPolicy uint8

const (
	// Fail returns the error to the workflow function.
	Fail ExhaustedPolicy = iota
	// PauseRun pauses the run until Resume, which grants the step as many attempts again. Other
	// running steps are finished meanwhile.
	PauseRun
)

// A RetryPolicy says when a step is tried again. Zero fields have defaults.
type RetryPolicy struct {
	// MaxAttempts bounds the executions, including attempts cut off by a crash: 0 means 4, -1 no
	// limit.
	MaxAttempts int
	// Initial is the wait after the first failure, 0 means 100 ms; Max bounds every wait, 0 means
	// 30 s.
	Initial, Max time.Duration
	// Factor multiplies the wait after each further failure, 0 means 2, less than 1 is refused.
	// Jitter shortens or prolongs it by up to this fraction, at random: 0 means 0.2, -1 none, more
	// than 1 is refused.
	Factor, Jitter float64
	// MaxElapsed bounds the time from the begin of the step to the begin of an attempt; 0 for no
	// limit.
	MaxElapsed time.Duration
	// Retryable reports whether the step is tried again after an error; nil means after all errors
	// except those of Permanent. A result of false says nothing about the step's effects; Permanent
	// does. Retryable runs on the body's goroutine.
	Retryable func(error) bool
	// OnExhausted applies when the attempts, or MaxElapsed, are used up.
	OnExhausted ExhaustedPolicy
}

func (p *RetryPolicy) validate() error {
	var errs []error
	bad := func(format string, args ...any) { errs = append(errs, fmt.Errorf("RetryPolicy."+format, args...)) }
	if p.MaxAttempts < -1 {
		bad("MaxAttempts %d: want -1 for no limit, 0 for the default, or more", p.MaxAttempts)
	}
	if p.Initial < 0 || p.Max < 0 || p.MaxElapsed < 0 {
		bad("Initial %v, Max %v, MaxElapsed %v: negative", p.Initial, p.Max, p.MaxElapsed)
	}
	if p.Factor != 0 && !(p.Factor >= 1) || math.IsInf(p.Factor, 0) {
		bad("Factor %v: want 0 for the default, or at least 1", p.Factor)
	}
	if p.Jitter != -1 && !(p.Jitter >= 0 && p.Jitter <= 1) {
		bad("Jitter %v: want -1 for none, 0 for the default, or up to 1", p.Jitter)
	}
	if p.OnExhausted > PauseRun {
		bad("OnExhausted %d: unknown", p.OnExhausted)
	}
	return errors.Join(errs...)
}

// The defaults of RetryPolicy, and of that of undo handlers.
const (
	defaultAttempts     = 4
	defaultInitial      = 100 * time.Millisecond
	defaultMax          = 30 * time.Second
	defaultUndoAttempts = 20
	defaultUndoMax      = 5 * time.Minute
)

// maxAttempts returns the bound, 0 for none.
func (p *RetryPolicy) maxAttempts() uint32 {
	switch {
	case p.MaxAttempts < 0:
		return 0
	case p.MaxAttempts == 0:
		return defaultAttempts
	default:
		return uint32(min(p.MaxAttempts, math.MaxUint32))
	}
}

// wait returns the wait after the n-th failure. random is at least 0 and less than 1.
func (p *RetryPolicy) wait(n uint32, random float64) time.Duration {
	initial, limit, factor, jitter := p.Initial, p.Max, p.Factor, p.Jitter
	if initial == 0 {
		initial = defaultInitial
	}
	if limit == 0 {
		limit = defaultMax
	}
	if factor == 0 {
		factor = 2
	}
	switch jitter {
	case 0:
		jitter = 0.2
	case -1:
		jitter = 0
	}
	d := float64(initial) * math.Pow(factor, float64(n)-1)
	d = min(d, float64(limit)) * (1 + jitter*(2*random-1))
	return time.Duration(min(d, float64(limit)))
}

// random returns a number of at least 0 and less than 1 that depends on the run, a place in it and
// n.
func (r *Run) random(loc journal.Location, n uint32) float64 {
	h := fnv(fnv(r.seed, loc), strconv.AppendUint(nil, uint64(n), 10))
	h ^= h >> 29
	h *= 0xbf58476d1ce4e5b9
	h ^= h >> 32
	return float64(h>>11) / (1 << 53)
}
