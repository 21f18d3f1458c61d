package workflow

// An op is one operation of a workflow function while it lasts: from when the function asks for it until it is resolved.
//
//  1. An op that the history has already resolved carries that resolution's seq, and waits in Run.replays for its turn.
//     Resolutions are handed out in the order of seq, each when every coroutine is parked; so code runs again in the order in
//     which it ran.
//  2. Other ops are live. When what an op waits for has happened, it goes to Run.due, and the scheduler resolves it, first
//     come first served, when every coroutine is parked and no replay is left. Resolving writes the entry.
//  3. done is set once, then waiter (if any) becomes runnable.
type op struct {
	s     *scope
	name  string
	loc   []byte // location: the tuple after 07 15 02
	entry Entry
	// replay is the seq of the recorded resolution, 0 for a live op.
	replay uint64
	// resolve sets the entry's outcome. It runs on the driver within a transaction, at most once with success; an error ends the
	// transaction. The scheduler then gives the entry its seq and time and writes it, unless quiet.
	resolve func() error
	// clean asks for a transaction in which nothing was written yet, because resolve runs functions of the user that may fail.
	clean bool
	// quiet leaves the writing of the entry to resolve.
	quiet  bool
	queued bool // stands in Run.due
	done   bool
	waiter *coroutine
}

// wait parks the calling coroutine until o is done.
func (o *op) wait(c *coroutine) {
	for !o.done {
		o.waiter, c.waits = c, o
		c.park()
	}
	o.waiter, c.waits = nil, nil
}

// happened queues a live op to be resolved.
func (o *op) happened() {
	if !o.queued && !o.done {
		o.queued = true
		o.s.run.due = append(o.s.run.due, o)
	}
}

// finish marks o as done and lets whoever waits go on.
func (o *op) finish() {
	o.done = true
	o.s.run.ready(o.waiter)
}
