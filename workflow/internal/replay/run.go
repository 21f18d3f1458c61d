package replay

import (
	"encoding/hex"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/workflow/internal/journal"
)

// A Run is one activation of a workflow run: its coroutines in memory.
type Run struct {
	options RunOptions
	program *Program
	st      *store
	names   *journal.Names
	record  runRecord
	seed    uint64 // of random values that are not secret: jitter

	// The transaction of the present Advance.
	turn     Turn
	turnTime time.Time // in ms, UTC
	wrote    bool
	resolved int
	settled  []*op  // ops that were resolved in it
	durable  bool   // it holds more than records of deferred steps
	turns    uint64 // counts transactions
	asked    uint64 // grows when a poll may have another result
	polled   bool   // pollChildren was called
	glanced  bool   // glance was called
	err      error

	state    State
	fault    *Pause // the function cannot go on
	final    bool   // after fault, the run does not try again by itself
	pause    *Pause // as recorded
	lifted   *Pause // pause when the run went live
	progress uint64 // seq then
	began    uint64 // seq when the transaction began, 0 if it was a cold start
	gone     bool   // closed; coroutines unwind
	ended    bool
	live     bool // the replay is over
	fresh    bool // no part of it has ever run
	verify   bool // stops when it would go live
	control  *control
	changed  bool   // the control rows must be read again
	leaving  bool   // Leave was called
	hurried  bool   // TryNow was called
	entered  bool   // Enter was called, and no Advance has succeeded since
	safe     bool   // it has recorded something, so Enter need not count
	halt     *Pause // requested by a step: written with the other rows of the transaction
	image    *image // until it is live
	places   []*place
	scratch  journal.Location
	bytes    int64 // approximate size of the history's keys and values; dropped rows are not subtracted
	entries  int

	top        *scope
	rootOver   bool
	output     []byte
	failed     error
	cancelRoot *cancellation
	coroutines []*coroutine
	runnable   fifo[*coroutine]
	current    atomic.Pointer[coroutine]
	moves      movement
	replays    replayQueue // ops that the history has resolved, by seq
	due        fifo[*op]   // live ops that can be resolved, first come first served
	seq        uint64      // of the last resolution
	now        time.Time   // of the last resolution: the logical clock
	timers     timers
	receives   []*receive // parked, in the order of their begin
	awaits     []*await   // parked
	starting   []*task    // attempts to launch
	inflight   []*Attempt // launched and not returned
	ends       []ended    // how steps ended in a transaction that was undone
	published  []byte     // the recorded value
	publish    []byte     // the value of the function

	structure

	mu       sync.Mutex
	reported fifo[*Attempt] // attempts with news, in that order

	verifyEnded bool // verify even a run that has ended

	log *slog.Logger
}

// RunOptions are a host's options of a run. Zero fields have defaults.
type RunOptions struct {
	// Programs finds the program of a run by its name; nil if there is none, which pauses the run.
	Programs func(name string) *Program
	// Self is the run's own actor, as a parent or child in another one names it.
	Self Destination
	// Logger returns the receiver of the messages of [Context.Logger]. It is called when the
	// function first logs. Without it, or if it returns nil, the messages are discarded.
	Logger func() *slog.Logger
	// Coroutines are shared with other runs; nil for none.
	Coroutines *Coroutines
	// MaxPayload bounds one result, state or message, in bytes; 0 means 16 MiB.
	MaxPayload int64
}

// An Outcome says what the run needs from the host after an Advance.
type Outcome struct {
	// Undo: a function of the user failed, or the run must pause. The host undoes the transaction,
	// and then calls Advance in another one at once. The run stays valid.
	Undo bool
	// Again: there is more to do, in another transaction. The host commits this one, without
	// waiting for the disk, and calls Advance again; other work of the actor may come in between.
	Again bool
	// Launch lists attempts to run when the transaction is durable. It may come with Again.
	Launch []*Attempt
	// Unlaunched: after Leave, there are attempts that the next activation launches.
	Unlaunched bool
	// Deferred: Launch need not wait until this transaction is durable, only until the earlier ones
	// are.
	Deferred bool
	// Wake is the time at which the run must advance; zero for none. The host must keep it across
	// restarts.
	Wake time.Time
	// Queues are the queues whose next message the run waits for; empty for none.
	Queues []string
	// Watching: the run waits for a condition of the host's state.
	Watching bool
	// Children: the run waits for children in other actors. A newly opened run asks them for their
	// results, so advancing it when the actor wakes recovers a lost result.
	Children bool
	// Result has ID, Workflow, State and Output as [ReadOutcome] returns them, for a run that has
	// completed; set with Ended.
	Result *RunStatus
	// Ended: the run is over, and nothing else but Result is set. Paused: it goes on after Resume,
	// or when Wake has come.
	Ended, Paused bool
	// Pause says why the run is paused; nil if it is not.
	Pause *Pause
}

// Open returns a run that has not read any row yet.
func Open(o RunOptions) *Run { return &Run{options: o} }

// ControlChanged causes the next Advance to read the control rows again, because a request to
// cancel, pause or resume was committed. After Retry, Rewind, Terminate or a replacing Start, the
// host discards the run instead and opens another one when the attempts have returned.
func (r *Run) ControlChanged() { r.changed = true }

// TryNow causes the next Advance to try a paused run at once, because its code may have changed. It
// only affects runs that would be tried later: a run that an operator has paused stays paused, and
// so does a run whose steps have ended the process.
func (r *Run) TryNow() { r.hurried = true }

// Leave announces that the host is about to close the run: Advance launches nothing more.
func (r *Run) Leave() { r.leaving = true }

// Rest follows Leave when the host has ended the contexts of the attempts. These then count as not
// run instead of as cut off by a crash. Call it in a transaction, after the attempts have
// returned and an Advance has handled their results.
func (r *Run) Rest(t Turn) error {
	if r.gone {
		return ErrClosed
	}
	if r.st == nil || r.ended || r.record.Boots == 0 {
		return nil
	}
	r.record.Boots = 0
	return putRecord(t, &r.record)
}

// Close ends the run in memory. Its coroutines unwind, which runs deferred functions of the user,
// and are gone when Close returns. Running attempts go on, and their results are dropped. Close may
// be called again.
func (r *Run) Close() {
	r.kill()
	r.gone = true
}

// Discard is Close, for a run whose transaction was undone.
func (r *Run) Discard() { r.Close() }

// kill ends all coroutines, and clears all state about them.
//
// REQUIRES: not called on a coroutine.
func (r *Run) kill() {
	gone := r.gone
	r.gone = true
	for len(r.coroutines) > 0 {
		last := len(r.coroutines) - 1
		c := r.coroutines[last]
		r.coroutines = r.coroutines[:last]
		c.kill()
	}
	r.gone = gone
	r.runnable, r.due = fifo[*coroutine]{}, fifo[*op]{}
	r.replays, r.receives, r.awaits, r.starting = nil, nil, nil, nil
	r.timers = timers{}
	r.halt = nil
	r.structure = structure{}
	r.image, r.places, r.top, r.rootOver = nil, nil, nil, false
}

// id returns the run's id in hexadecimal.
func (r *Run) id() string { return hex.EncodeToString(r.record.ID[:]) }

// put writes an entry as it is now. An error ends the transaction.
func (r *Run) put(o *op) {
	if r.err != nil || r.verify {
		return
	}
	r.wrote, r.durable = true, true
	var size int
	var err error
	if o.hidden && r.image == nil { // while there is an image, it may have a row that the code has not reached
		size, err = r.st.putNew(r.turn, o.loc, &o.entry)
	} else {
		size, err = r.st.put(r.turn, o.loc, &o.entry)
	}
	if err != nil {
		r.err = err
		return
	}
	o.hidden = false
	r.bytes += int64(size)
}

// newID sets the number of an entry's metadata.
func (r *Run) newID(o *op) {
	if o.entry.ID == 0 {
		o.entry.ID = r.st.newID()
	}
}

// putMetadata writes the metadata of an entry that has an ID.
func (r *Run) putMetadata(o *op, m *Metadata) {
	if r.err != nil || r.verify {
		return
	}
	r.wrote, r.durable = true, true
	r.err = r.st.putMetadata(r.turn, o.entry.ID, m)
}

// drop deletes the history inside a location, with all rows that belong to it; self includes the
// entry itself.
func (r *Run) drop(loc journal.Location, self bool) error {
	r.wrote, r.durable = true, true
	return r.st.drop(r.turn, loc, self)
}

// setState records the state of the run.
func (r *Run) setState(s State) {
	if r.err != nil || r.verify || r.state == s {
		return
	}
	r.wrote, r.durable = true, true
	r.state = s
	r.err = putState(r.turn, s)
}

// Refused reports to a run that was just opened that the host has refused, for good, the writes of
// the run before it. The next Advance pauses it, with PausedMisuse and the text of the error.
func (r *Run) Refused(err error) { r.fail(PausedMisuse, err.Error()) }

// maxText bounds the text of an error, in bytes, so that it can be stored.
const maxText = 64 << 10

// bounded cuts a text to maxText.
func bounded(text string) string {
	if len(text) > maxText {
		text = strings.ToValidUTF8(text[:maxText], "") + "…"
	}
	return text
}

// fail pauses the run because the function cannot go on. The first reason counts.
func (r *Run) fail(reason PauseReason, text string) {
	if r.fault == nil && !r.gone {
		r.fault = &Pause{Reason: reason, Text: bounded(text)}
	}
}

// failForGood is fail for a fault that would do harm again: only Resume continues the run.
func (r *Run) failForGood(reason PauseReason, text string) {
	if r.fault == nil && !r.gone {
		r.fail(reason, text)
		r.final = true
	}
}

// fits returns a *TooLargeError for a value over the limit.
func (r *Run) fits(what string, value []byte) error {
	limit := r.options.MaxPayload
	if limit == 0 {
		limit = DefaultMaxPayload
	}
	if size := int64(len(value)); size > limit {
		return &TooLargeError{What: what, Size: size, Limit: limit}
	}
	return nil
}

// millisUTC rounds a time down to the millisecond, as times are stored.
func millisUTC(t time.Time) time.Time { return time.UnixMilli(t.UnixMilli()).UTC() }

// after returns the time d after another, to the millisecond and not before it.
func after(from time.Time, d time.Duration) time.Time { return roundUp(from.Add(d)) }

func roundUp(t time.Time) time.Time {
	ms := millisUTC(t)
	if ms.Before(t) {
		return ms.Add(time.Millisecond)
	}
	return ms
}

// A fifo is a queue in one slice.
type fifo[T any] struct {
	items []T
	head  int
}

func (q *fifo[T]) len() int { return len(q.items) - q.head }

func (q *fifo[T]) push(v T) { q.items = append(q.items, v) }

// hurry puts the last item first.
func (q *fifo[T]) hurry() {
	last := len(q.items) - 1
	v := q.items[last]
	copy(q.items[q.head+1:], q.items[q.head:last])
	q.items[q.head] = v
}

func (q *fifo[T]) first() T { return q.items[q.head] }

func (q *fifo[T]) pop() T {
	var none T
	v := q.items[q.head]
	q.items[q.head] = none
	q.head++
	if q.head == len(q.items) {
		q.items, q.head = q.items[:0], 0
	} else if q.head >= 64 && q.head*2 >= len(q.items) {
		n := copy(q.items, q.items[q.head:])
		clear(q.items[n:])
		q.items, q.head = q.items[:n], 0
	}
	return v
}
