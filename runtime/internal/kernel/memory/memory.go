// Package memory counts the actors that are awake and their memory, and reports when that is too
// much.
package memory

import "sync/atomic"

// Overhead is what an awake actor counts for besides its state, in bytes.
const Overhead = 2 << 10

// An Account counts the awake actors and their memory. Safe for concurrent use.
type Account struct {
	Awake, Bytes       atomic.Int64
	maxAwake, maxBytes int64
}

// Limit sets the bounds. It is called once, before the account is used.
func (a *Account) Limit(awake int, bytes int64) { a.maxAwake, a.maxBytes = int64(awake), bytes }

// Over reports whether a bound is exceeded.
func (a *Account) Over() bool { return a.Awake.Load() > a.maxAwake || a.Bytes.Load() > a.maxBytes }

// Enough reports whether a tenth of each bound is free. Then no more actors need to sleep.
func (a *Account) Enough() bool {
	return a.Awake.Load() <= a.maxAwake*9/10 && a.Bytes.Load() <= a.maxBytes*9/10
}

// A Weight is what one actor counts for in an account; 0 while it sleeps.
type Weight struct{ bytes atomic.Int64 }

// Wake counts an actor with a state of so many bytes.
func (w *Weight) Wake(in *Account, state int) {
	in.Awake.Add(1)
	in.Bytes.Add(int64(state) + Overhead)
	w.bytes.Store(int64(state) + Overhead)
}

// Grow counts a state that grew by so many bytes.
func (w *Weight) Grow(in *Account, by int) {
	in.Bytes.Add(int64(by))
	w.bytes.Add(int64(by))
}

// Sleep counts the actor off.
func (w *Weight) Sleep(in *Account) {
	in.Awake.Add(-1)
	in.Bytes.Add(-w.bytes.Swap(0))
}
