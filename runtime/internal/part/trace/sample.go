package trace

import (
	"math/rand/v2"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// A sampler decides which of the traces that begin at this node are recorded: a share of them, up
// to a number per second.
type sampler struct {
	ratio     float64
	rate      int64 // per second
	left      atomic.Int64
	refilling atomic.Bool
	every     time.Duration               // it gets a part of its rate
	later     func(time.Duration, func()) // runs something after a while
}

func (s *sampler) start(ratio float64, rate int64, later func(time.Duration, func())) {
	s.ratio, s.rate, s.later = ratio, rate, later
	s.every = max(refill, time.Second/time.Duration(max(rate, 1)))
	s.left.Store(rate)
}

// refill is how often, at most, a used sampler gets a part of its rate. An unused one has no timer.
const refill = 100 * time.Millisecond

// take reports whether a trace that begins now is recorded.
func (s *sampler) take() bool {
	if s.left.Load() <= 0 || s.ratio < 1 && rand.Float64() >= s.ratio || s.left.Add(-1) < 0 {
		return false
	}
	if s.refilling.CompareAndSwap(false, true) {
		s.later(s.every, s.more)
	}
	return true
}

// more adds what a sampler gets in the time between two refills, until it is full.
func (s *sampler) more() {
	part := max(1, int64(float64(s.rate)*s.every.Seconds()))
	left := max(s.left.Load(), 0)
	full := left+part >= s.rate
	if full {
		s.refilling.Store(false) // first: a taker of all that comes now must find that nothing refills it
	}
	s.left.Store(min(s.rate, left+part))
	if !full {
		s.later(s.every, s.more)
	}
}

// Begin implements kernel.Tracer.
func (p *Recorder) Begin(t *kernel.Type, cause host.Span) host.Span {
	switch {
	case cause.Sampled():
		return cause.Child()
	case cause.Decided():
		return cause
	case p.rules.Load().of(t).take():
		return host.Span{Flags: sampled}.Child()
	}
	return host.Untraced
}

// Begin implements span.Sink.
func (j *journal) Begin(cause host.Span) host.Span { return j.p.Begin(j.a.Type, cause) }

// sampled is the flag of a span that is recorded.
const sampled = 1
