package sqlitevfs

import (
	"context"
	"fmt"
	"maps"
	"runtime/debug"
	"sync"
	"sync/atomic"
	"time"
	"unsafe"

	"github.com/ncruces/go-sqlite3"
)

// A pool checks the running calls every lookAfter. It stops a call whose context ended stopAfter
// before.
const (
	lookAfter = 250 * time.Millisecond
	stopAfter = time.Second
)

// A stopper ends a call into SQLite that does not end by itself.
//
// SQLite checks for an interrupt every thousand steps of its machine. One step may be one call of a
// function, which may take hours. Go cannot end a goroutine from outside. But SQLite works in
// memory that the library has mapped for this instance alone, outside Go's heap. The stopper
// removes access to that memory. The next instruction of the call that touches it faults. The
// goroutine has [debug.SetPanicOnFault], so the fault is a panic, which ends the call like any
// other panic of the library. The goroutine returns with an error, and the memory is given back.
// Nothing is left behind.
//
//  1. Only a call that is in SQLite is stopped. A Reader or a Writer may hold locks, and may be
//     writing into the memory: see outside.
//  2. An instance that was stopped is broken. Nothing calls it again, and its session is poisoned.
//  3. The memory is protected under mu, while the call runs. So it is never protected after it was
//     given back.
type stopper struct {
	memory []byte // the memory reserved for the instance; nil if it cannot be protected
	state  atomic.Int32

	mu      sync.Mutex
	calls   uint64          // how many began
	session *interrupt      // nil while no call runs
	call    context.Context // nil while something is cleaned up
	looked  uint64          // the call that was found running after its context had ended
	since   time.Time       // when that was found
	cause   error           // reason why the call was stopped
}

// The states of a stopper.
const (
	stopIdle    int32 = iota // no call runs
	stopRuns                 // a call runs in SQLite
	stopOutside              // a call runs in a Reader or a Writer
	stopStopped              // the memory is protected
)

// attach stores the memory of an instance.
func (w *stopper) attach(memory *[]byte) {
	if memory != nil && canProtect {
		w.memory = unsafe.Slice(unsafe.SliceData(*memory), cap(*memory))
	}
}

// begin records a call of this goroutine, and returns the argument of end.
func (w *stopper) begin(session *interrupt, call context.Context) (faults bool) {
	w.mu.Lock()
	w.calls++
	w.session, w.call = session, call
	w.state.Store(stopRuns)
	w.mu.Unlock()
	return debug.SetPanicOnFault(true)
}

// end records the end of the call. It returns an error if the call was stopped.
func (w *stopper) end(faults bool) error {
	w.mu.Lock()
	w.state.CompareAndSwap(stopRuns, stopIdle)
	w.state.CompareAndSwap(stopOutside, stopIdle) // after a panic
	w.session, w.call = nil, nil
	w.mu.Unlock()
	debug.SetPanicOnFault(faults)
	return w.stopped()
}

// stopped returns the error of a call that was stopped, or nil.
func (w *stopper) stopped() error {
	if w.state.Load() != stopStopped {
		return nil
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	return &Error{Code: int(sqlite3.INTERRUPT),
		Message: "interrupted: a call of SQLite did not end by itself", Err: w.cause}
}

// outside records that a Reader or a Writer is called. It returns false if the call was stopped:
// then the memory must not be passed on.
func (w *stopper) outside() bool {
	return w.state.CompareAndSwap(stopRuns, stopOutside) || w.state.Load() != stopStopped
}

// inside records that the Reader or the Writer has returned.
func (w *stopper) inside() { w.state.CompareAndSwap(stopOutside, stopRuns) }

// look stops the running call if its context ended long enough ago. It reports whether it did.
func (w *stopper) look(now time.Time, grace time.Duration) (bool, error) {
	w.mu.Lock()
	session, call, n := w.session, w.call, w.calls
	w.mu.Unlock()
	if session == nil {
		return false, nil
	}
	// Without mu, because contexts may have their own locks.
	cause := session.ended()
	if cause == nil && call != nil {
		cause = causeOf(call)
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case cause == nil || w.session == nil || w.calls != n:
		return false, nil
	case w.looked != n:
		w.looked, w.since = n, now
		return false, nil
	case now.Sub(w.since) < grace || w.memory == nil || !w.state.CompareAndSwap(stopRuns, stopStopped):
		return false, nil
	}
	w.cause = cause
	if err := protect(w.memory); err != nil {
		// The memory is unchanged. The call continues, and so does its instance.
		w.state.Store(stopRuns)
		return false, fmt.Errorf("stop a call of SQLite: %w", err)
	}
	return true, nil
}

// causeOf returns the reason why a context has ended, or nil.
func causeOf(ctx context.Context) error {
	if ctx.Err() == nil {
		return nil
	}
	return context.Cause(ctx)
}

// use watches the calls of a session's connection until put.
func (p *Pool) use(c *conn) {
	p.mu.Lock()
	p.watch(&c.stop, c.database.name)
	p.mu.Unlock()
}

// watchImport watches the call that checks a file. The caller calls done at the end, on the same
// goroutine.
func (p *Pool) watchImport(w *stopper, ctx context.Context) (done func() error) {
	p.mu.Lock()
	p.watch(w, "import")
	p.mu.Unlock()
	faults := w.begin(&interrupt{session: ctx}, nil)
	return func() error {
		p.mu.Lock()
		delete(p.watched, w)
		p.mu.Unlock()
		return w.end(faults)
	}
}

// watch adds a stopper to the pool's list. database is for the log. REQUIRES: mu
func (p *Pool) watch(w *stopper, database string) {
	if p.watched == nil {
		p.watched = make(map[*stopper]string)
	}
	p.watched[w] = database
	if p.watching {
		return
	}
	p.watching = true
	if p.watchTimer == nil {
		p.watchTimer = time.AfterFunc(p.lookAfter, p.look)
		return
	}
	p.watchTimer.Reset(p.lookAfter)
}

// look stops calls that do not end. It sets the timer again while connections are in use.
func (p *Pool) look() {
	p.mu.Lock()
	calls := maps.Clone(p.watched)
	p.mu.Unlock()
	now := time.Now()
	for w, database := range calls {
		switch stopped, err := w.look(now, p.stopAfter); {
		case err != nil:
			p.options.Logger.Error("a call of SQLite does not end and cannot be stopped",
				"database", database, "error", err)
		case stopped:
			p.options.Logger.Warn("a call of SQLite did not end and was stopped", "database",
				database, "cause", w.cause)
		}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if len(p.watched) > 0 && !(p.closed && p.stats.InUse == 0) {
		p.watchTimer.Reset(p.lookAfter)
		return
	}
	p.watching = false
	p.changed.Broadcast()
}
