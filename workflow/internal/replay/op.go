package replay

import (
	"errors"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// An op is one operation of a workflow function, from its begin until it is resolved.
//
//  1. An op that the history has already resolved carries that resolution's seq, and waits in
//     Run.replays for its turn. Resolutions are handed out in the order of seq, each when every
//     coroutine is parked; so code runs again in the order in which it ran.
//  2. Other ops are live. When the event of an op has happened, it goes to Run.due. The scheduler
//     resolves it, first come first served, when every coroutine is parked and no replay is left.
//     Resolving writes the entry.
//  3. done is set once, then the waiters become runnable.
type op struct {
	s     *scope
	name  string // in the code; a renamed operation has another one in the history
	index uint32 // of the recorded name
	loc   journal.Location
	entry Entry
	// recorded is set if the history has the op, in any status.
	recorded bool
	// replay is the seq of the recorded resolution, 0 for a live op.
	replay uint64

	// live is the wait of the op; nil if resolve and canceled are other functions.
	live waiting
	// resolve and canceled are methods of waiting. An op without canceled is not resolved by
	// cancellation.
	resolve  func() error
	canceled func(abandon bool)
	// after runs once a live resolution was written, within its transaction.
	after func() error
	// replayed runs when a recorded resolution is handed out.
	replayed func()
	// abandon runs when the scope ends while the op is live; nil if the scope then waits for it.
	abandon func()
	// clean requests a transaction in which nothing was written yet, because resolve runs functions
	// of the user that may fail.
	clean bool
	// quiet means that resolve writes the entry.
	quiet bool
	// hidden is set if the entry has no row yet.
	hidden bool

	// deferred: later operations may begin before the entry is durable.
	deferred bool
	tries    uint32 // executions of a step that has ended

	queued   bool // stands in Run.due
	done     bool
	waiter   *coroutine
	waiters  []*coroutine // further ones
	watch    *cancellation
	position int // in watch.ops
}

// A waiting is the wait of a live op.
type waiting interface {
	// resolve sets the entry's outcome. It runs on the driver within a transaction; Seq and Ended
	// of the entry are set already. On errUndo the transaction is undone and resolve is called
	// again in the next one, errNotYet removes the op from Run.due, and other errors end the
	// transaction.
	resolve() error
	// canceled runs when the scope is canceled. For abandon see cancellation.cancel.
	canceled(abandon bool)
}

// settleLive resolves a live op.
func (o *op) settleLive() error {
	if o.live != nil {
		return o.live.resolve()
	}
	return o.resolve()
}

// tell notifies a live op that its scope was canceled.
func (o *op) tell(abandon bool) {
	switch {
	case o.done || o.replay != 0:
	case o.live != nil:
		o.live.canceled(abandon)
	case o.canceled != nil:
		o.canceled(abandon)
	}
}

var (
	errUndo   = errors.New("workflow: undo the transaction")
	errNotYet = errors.New("workflow: not resolved")
)

// wait parks the calling coroutine until o is done.
func (o *op) wait(c *coroutine) {
	if o.done {
		return
	}
	o.catchUp(c)
	for !o.done {
		o.park(c)
	}
	if o.waiter == c {
		o.waiter = nil
	}
}

// catchUp hands out recorded resolutions up to that of o, if c is the only coroutine. c is about to
// park, so the driver would do the same. It is apart from wait to keep the stack of a parked
// coroutine small.
//
//go:noinline
func (o *op) catchUp(c *coroutine) {
	r := c.run
	if o.replay == 0 || len(r.coroutines) > 1 || r.runnable.len() > 0 || r.fault != nil {
		return
	}
	for !o.done && len(r.replays) > 0 && r.replays[0].seq <= o.replay {
		r.hand(r.replays.pop())
	}
}

// park parks a coroutine that waits for o.
func (o *op) park(c *coroutine) {
	if o.waiter == nil || o.waiter == c {
		o.waiter = c
	} else {
		o.waiters = append(o.waiters, c)
	}
	c.waits = o
	c.park()
	c.waits = nil
}

// happened queues a live op to be resolved.
func (o *op) happened() {
	if !o.queued && !o.done {
		o.queued = true
		o.s.run.due.push(o)
	}
}

// complete resolves a container on the coroutine that runs it.
func (o *op) complete(c *coroutine) {
	o.happened()
	o.wait(c)
}

// finish marks o as done and makes its waiters runnable.
func (o *op) finish() {
	o.done = true
	o.unwatch()
	o.s.run.ready(o.waiter)
	for _, c := range o.waiters {
		o.s.run.ready(c)
	}
	o.waiters = nil
}

// A replayItem is an event at a point of the history: an op was resolved, or the run was canceled.
type replayItem struct {
	seq uint64
	at  time.Time
	o   *op
	do  func()
}

// A replayQueue is a heap of replayItems by seq.
type replayQueue []replayItem

func (q *replayQueue) push(it replayItem) {
	h := append(*q, it)
	i := len(h) - 1
	for i > 0 {
		up := (i - 1) / 2
		if h[up].seq <= h[i].seq {
			break
		}
		h[up], h[i] = h[i], h[up]
		i = up
	}
	*q = h
}

func (q *replayQueue) pop() replayItem {
	h := *q
	first := h[0]
	last := len(h) - 1
	h[0], h[last] = h[last], replayItem{}
	h = h[:last]
	for i := 0; ; {
		least, left := i, 2*i+1
		if left < last && h[left].seq < h[least].seq {
			least = left
		}
		if right := left + 1; right < last && h[right].seq < h[least].seq {
			least = right
		}
		if least == i {
			break
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
	*q = h
	return first
}

// replayAt marks o as done when the resolutions before seq have been handed out. It is for events
// of an operation that has not ended, such as the advance of a loop.
func (r *Run) replayAt(seq uint64, o *op) {
	r.replays.push(replayItem{seq: seq, at: o.entry.Ended, o: o})
}

// hand replays a recorded resolution.
func (r *Run) hand(it replayItem) {
	r.seq = max(r.seq, it.seq)
	if it.at.After(r.now) {
		r.now = it.at
	}
	if it.do != nil {
		it.do()
		return
	}
	if it.o.replayed != nil {
		it.o.replayed()
	}
	it.o.finish()
}
