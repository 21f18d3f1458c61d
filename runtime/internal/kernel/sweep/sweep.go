// Package sweep decides which of the values in memory go to sleep, and when.
package sweep

import (
	"slices"
	"time"
)

// A Sweep puts values to sleep that were idle for their time, and the least recently used idle ones
// first while memory is short. Its fields are set before Look is called, and all but Idle are
// needed.
type Sweep[V any] struct {
	Over   func() bool // whether memory is short
	Enough func() bool // whether no more values need to sleep
	Each   func(func(V))
	State  func(V) State
	Used   func(V) time.Time // when the value was used last
	Sleep  func(V) bool      // false if it must stay awake a little longer
	Retire func(V)           // asks what works for the value to end, so that it can sleep
	Idle   time.Duration     // the shortest idle time of any value; 0 if none has one

	// What the last walk over all values left:
	idle  []candidate[V] // if memory was short, the least recently used ones first; others were used later, or could not sleep
	short bool           // memory was short
	next  time.Time      // when the next walk is due
	stuck int            // walks in a row in which a value had to stay awake
	none  time.Time      // a walk before follows only one that found enough memory: they take at most a twentieth of one core, for any number of values
}

// maxKept is how long the candidates of a walk are kept.
const maxKept = time.Minute

// A value that must stay awake is asked again after minAgain, and then after twice as long each
// time: some must for hours.
const (
	minAgain = 100 * time.Millisecond
	maxAgain = 10 * time.Second
)

// A State is the state of a value.
type State struct {
	Busy  bool          // it cannot sleep: it runs, or sleeps already
	Works bool          // something works for it, and says itself when it has ended
	Idle  time.Duration // after which it goes to sleep; 0 for never
}

type candidate[V any] struct {
	value V
	used  time.Time
}

// Look puts values to sleep. It returns how long to wait until the next look; more is false if no
// value may fall asleep. An early look is for when memory is short: it costs little if it is not,
// or if the last walk found enough candidates.
func (s *Sweep[V]) Look(now time.Time) (wait time.Duration, more bool) {
	if now.Before(s.next) {
		if !s.Over() || s.relieve() {
			return until(s.next), true
		}
		if s.short && now.Before(s.none) {
			return until(s.none), true
		}
	}
	next := s.walk(now)
	s.none = time.Now().Add(20 * time.Since(now))
	if next.IsZero() && len(s.idle) == 0 {
		s.next = next
		return time.Hour, false
	}
	wait = maxKept
	if len(s.idle) == 0 {
		wait = next.Sub(now)
	} else if !next.IsZero() {
		wait = min(wait, next.Sub(now))
	}
	if s.Idle > 0 {
		wait = min(wait, s.Idle) // a value may become idle that the walk saw busy, or not at all
	}
	s.next = now.Add(wait) // regardless of the wall clock
	if s.next.Before(s.none) {
		s.next = s.none
	}
	return until(s.next), true
}

func until(at time.Time) time.Duration { return max(time.Until(at), time.Millisecond) }

// walk looks at all values, and returns when one may fall asleep; the zero time for never.
func (s *Sweep[V]) walk(now time.Time) (next time.Time) {
	again := func(at time.Time) {
		if next.IsZero() || at.Before(next) {
			next = at
		}
	}
	soon := now.Add(minAgain)
	later := now.Add(min(maxAgain, minAgain<<min(s.stuck, 10)))
	over, stuck := s.Over(), false
	s.short = over
	var idle, working []candidate[V]
	s.Each(func(v V) {
		state := s.State(v)
		if state.Busy {
			return
		}
		used := s.Used(v)
		switch {
		case over && state.Works:
			working = append(working, candidate[V]{v, used})
		case over:
			idle = append(idle, candidate[V]{v, used})
		}
		if state.Works || state.Idle == 0 {
			return
		}
		if due := used.Add(state.Idle); due.After(now) {
			again(due)
		} else if !s.Sleep(v) {
			stuck = true
			again(later)
		}
	})
	if stuck {
		s.stuck++
	} else {
		s.stuck = 0
	}
	s.idle = nil
	if !over {
		return next
	}
	byUse := func(x, y candidate[V]) int { return x.used.Compare(y.used) }
	slices.SortFunc(idle, byUse)
	if s.idle = idle; len(idle) == 0 { // else there are others, though some of them may need a moment
		slices.SortFunc(working, byUse)
		for _, c := range working {
			if s.Enough() {
				break
			}
			s.Retire(c.value)
		}
	}
	s.relieve()
	if s.Over() {
		again(soon)
	}
	return next
}

// relieve puts candidates to sleep until there is enough memory. A candidate that was used since it
// was found stays awake. It returns false if there are too few.
func (s *Sweep[V]) relieve() bool {
	for i, c := range s.idle {
		if s.Enough() {
			clear(s.idle[:i]) // so that they can be collected
			s.idle = s.idle[i:]
			return true
		}
		if s.Used(c.value).Equal(c.used) {
			s.Sleep(c.value)
		}
	}
	s.idle = nil
	return !s.Over()
}
