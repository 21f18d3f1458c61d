// Package ledger holds results until they may leave.
package ledger

import "sync"

// A Ledger holds the results of turns that are not committed yet. Two goroutines may share it: the
// one that runs an actor, and one that abandons the actor. R is a result, and E says why the
// results were given up. Safe for concurrent use.
type Ledger[R any, E comparable] struct {
	mu   sync.Mutex
	held []R
	gone E // why it was abandoned; zero if it was not
}

// Add holds a result and returns zero. If the ledger was abandoned, it returns why, and the caller
// must answer the result.
func (l *Ledger[R, E]) Add(r R) (gone E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var none E
	if l.gone == none {
		l.held = append(l.held, r)
	}
	return l.gone
}

// Take hands the results over to a commit.
func (l *Ledger[R, E]) Take() []R {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.held
	l.held = nil
	return r
}

// Give takes results back from a commit that was not made. It returns the same as Add.
func (l *Ledger[R, E]) Give(results []R) (gone E) {
	l.mu.Lock()
	defer l.mu.Unlock()
	var none E
	if l.gone == none {
		l.held = append(results, l.held...)
	}
	return l.gone
}

// Empty reports whether no result is held.
func (l *Ledger[R, E]) Empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.held) == 0
}

// Abandon returns everything that is held. Nothing is held from now on.
func (l *Ledger[R, E]) Abandon(why E) []R {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.held
	l.held, l.gone = nil, why
	return r
}
