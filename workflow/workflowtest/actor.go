package workflowtest

import (
	"context"
	"sync"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// An Actor is what one run belongs to: its rows, its queues, and its state. Methods that change something only write; see Env
// for what lets the run go on.
type Actor struct {
	w        *world
	self     workflow.Destination
	rows     *memory.Rows
	state    any // a pointer, or nil
	queues   *memory.Queues
	requests map[uint64]*Request // by id of their message

	run     *wfhost.Run
	ctx     context.Context
	cancel  context.CancelFunc
	out     wfhost.Outcome
	started bool
	stale   bool // the run is to Advance
	ended   bool
}

// values encodes bodies of messages, which are in CBOR whatever the codec of a workflow is.
var values = sync.OnceValue(func() *wfhost.Program {
	return workflow.NewFunction("values", func(workflow.Context, struct{}) (struct{}, error) { return struct{}{}, nil }).Program()
})

// transact runs f in a transaction, and has the run look at the control rows, and go on.
//
// REQUIRES: world.mu is held.
func (a *Actor) transact(f func(t *turn) error) error {
	t := a.begin()
	if err := f(t); err != nil {
		t.rollback()
		return err
	}
	t.commit()
	a.changed()
	return nil
}

func (a *Actor) changed() {
	if a.run != nil {
		a.run.ControlChanged()
	}
	a.started, a.stale, a.ended = true, true, false
	a.w.wakeUp()
}

// control runs a control function, whose errors fail the test unless it is a refusal.
func (a *Actor) control(reopen bool, f func(t wfhost.Turn) error) error {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	if reopen {
		a.w.shut(a)
		a.w.await(func(b *Actor) bool { return a == b })
	}
	return a.transact(func(t *turn) error { return f(t) })
}

// Cancel requests that the run ends: see wfhost.Cancel.
func (a *Actor) Cancel(reason string) error {
	return a.control(false, func(t wfhost.Turn) error { return wfhost.Cancel(t, reason) })
}

// Terminate ends the run without asking it: see wfhost.Terminate.
func (a *Actor) Terminate(reason string) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.Terminate(t, reason) })
}

// Pause pauses the run until Resume: see wfhost.Hold.
func (a *Actor) Pause(reason string) error {
	return a.control(false, func(t wfhost.Turn) error { return wfhost.Hold(t, reason) })
}

// Resume lets a paused run go on: see wfhost.Resume.
func (a *Actor) Resume() error { return a.control(false, wfhost.Resume) }

// Retry executes a step again: see wfhost.RetryEntry.
func (a *Actor) Retry(entry wfhost.EntryID) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.RetryEntry(t, entry) })
}

// Rewind has the run go on from before an entry: see wfhost.Rewind.
func (a *Actor) Rewind(entry wfhost.EntryID) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.Rewind(t, entry) })
}

// Restore replaces the run by a recorded one, which goes on from where it was: see wfhost.Import. Its clock must not be
// behind, so the Env's is set to when the recording was made, if that is later.
func (a *Actor) Restore(rec *wfhost.Recording) error {
	return a.control(true, func(t wfhost.Turn) error {
		if a.w.clock.Before(rec.Manifest.Time) {
			a.w.clock = rec.Manifest.Time
		}
		_, err := wfhost.Import(t, rec, wfhost.StartOptions{Restore: true, Replace: true})
		return err
	})
}

// Send puts a message into a queue. The body is encoded in CBOR.
func (a *Actor) Send(queue string, body any) {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	a.send(queue, body, false)
}

// Request is Send for a sender that waits for a reply.
func (a *Actor) Request(queue string, body any) *Request {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	q := &Request{w: a.w}
	a.requests[a.send(queue, body, true)] = q
	return q
}

func (a *Actor) send(queue string, body any, want bool) uint64 {
	a.w.t.Helper()
	data, err := values().EncodeInput(body)
	if err != nil {
		a.w.t.Fatal(err)
	}
	a.w.lastID++
	id := a.w.lastID
	a.queues.Add(wfhost.Delivery{Queue: queue, ID: id, Body: data, Sent: a.w.now(), WantReply: want})
	a.stale = true
	a.w.wakeUp()
	return id
}

// A Request is a message whose sender waits for a reply.
type Request struct {
	w        *world
	answer   []byte
	failure  *wfhost.Failure
	answered bool
}

// Reply reports whether the message was answered, and decodes the answer into what v points to; nil drops it. If it was
// answered with an error, that is returned, as a *workflow.FailureError.
func (q *Request) Reply(v any) (answered bool, err error) {
	q.w.t.Helper()
	q.w.mu.Lock()
	defer q.w.mu.Unlock()
	switch {
	case !q.answered:
		return false, nil
	case q.failure != nil:
		return true, values().DecodeFailure(q.failure)
	case v == nil:
		return true, nil
	}
	if err := values().DecodeOutput(q.answer, v); err != nil {
		q.w.t.Fatal(err)
	}
	return true, nil
}

// Queued returns how many messages are in a queue.
func (a *Actor) Queued(queue string) int {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return len(a.queues.Lists()[queue])
}

// StateOf returns the state of an actor, which has the type that WithState made.
func StateOf[S any](a *Actor) *S {
	a.w.t.Helper()
	s, ok := a.state.(*S)
	if !ok {
		a.w.t.Fatalf("the state is a %T and not a %T: see WithState", a.state, s)
	}
	return s
}

// Change changes the state of an actor, as its actions would, and lets the run look at it.
func Change[S any](a *Actor, f func(s *S)) {
	a.w.t.Helper()
	s := StateOf[S](a)
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	f(s)
	a.stale = true
	a.w.wakeUp()
}

// Status returns what the run does. There must be one.
func (a *Actor) Status() wfhost.RunStatus {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	s, err := wfhost.ReadStatus(a.rows)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return s
}

// Published decodes the value that the run shows of itself (see workflow.Publish) into what v points to, and reports whether
// there is one.
func (a *Actor) Published(v any) bool {
	a.w.t.Helper()
	s := a.Status()
	if s.Published == nil {
		return false
	}
	p := a.w.lookup(s.Workflow)
	if p == nil {
		p = values()
	}
	if err := p.DecodeOutput(s.Published, v); err != nil {
		a.w.t.Fatal(err)
	}
	return true
}

// History returns the entries of the run's history that a filter lets through, in the order of their places.
func (a *Actor) History(f wfhost.Filter) (list []wfhost.HistoryEntry) {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return entries(a.w.t, a.rows, f)
}

// Entry returns the entry of the history at a path: the first whose path matches the pattern (see Env.Stub). There must be one.
func (a *Actor) Entry(pattern string) wfhost.HistoryEntry {
	a.w.t.Helper()
	for _, e := range a.History(wfhost.Filter{}) {
		if matches(pattern, e.Path) {
			return e
		}
	}
	a.w.t.Fatalf("the history has no entry %q", pattern)
	return wfhost.HistoryEntry{}
}

// Export returns a recording of the run as it is now, made at the Env's time.
func (a *Actor) Export() *wfhost.Recording {
	a.w.t.Helper()
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	rec, err := wfhost.Export(a.rows)
	if err != nil {
		a.w.t.Fatal(err)
	}
	rec.Manifest.Time = a.w.now().Round(0)
	return rec
}

// over reports whether the run has ended.
//
// REQUIRES: world.mu is not held.
func (a *Actor) over() bool {
	a.w.mu.Lock()
	defer a.w.mu.Unlock()
	return a.ended && !a.stale
}
