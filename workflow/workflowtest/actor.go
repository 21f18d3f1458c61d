package workflowtest

import (
	"sync"

	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/memory"
)

// An Actor has one run: its rows, its queues, and its state. Methods that change something only
// write; methods of Env, such as Wait, continue the run.
type Actor struct {
	w *world
	a *memory.Actor
}

// values encodes bodies of messages, which are in CBOR regardless of the codec of a workflow.
var values = sync.OnceValue(func() *wfhost.Program {
	return workflow.NewFunction("values",
		func(workflow.Context, struct{}) (struct{}, error) { return struct{}{}, nil }).Program()
})

// control runs a control function. If reopen is set, for a change of the history, the run is opened
// again.
func (a *Actor) control(reopen bool, f func(t wfhost.Turn) error) error {
	a.w.t.Helper()
	if reopen {
		a.a.Shut()
	}
	return a.a.Transact(func(t *memory.Turn) error { return f(t) })
}

// Cancel requests that the run ends: see wfhost.Cancel.
func (a *Actor) Cancel(reason string) error {
	return a.control(false, func(t wfhost.Turn) error { return wfhost.Cancel(t, reason) })
}

// Terminate ends the run without running its code: see wfhost.Terminate.
func (a *Actor) Terminate(reason string) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.Terminate(t, reason) })
}

// Pause pauses the run until Resume: see wfhost.Hold.
func (a *Actor) Pause(reason string) error {
	return a.control(false, func(t wfhost.Turn) error { return wfhost.Hold(t, reason) })
}

// Resume continues a paused run: see wfhost.Resume.
func (a *Actor) Resume() error { return a.control(false, wfhost.Resume) }

// Retry executes a step again: see wfhost.RetryEntry.
func (a *Actor) Retry(entry wfhost.EntryID) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.RetryEntry(t, entry) })
}

// Rewind makes the run continue from before an entry: see wfhost.Rewind.
func (a *Actor) Rewind(entry wfhost.EntryID) error {
	return a.control(true, func(t wfhost.Turn) error { return wfhost.Rewind(t, entry) })
}

// Restore replaces the run by a recorded one, which continues from its end: see wfhost.Import. The
// clock must not be behind the recording, so the Env's clock is moved forward to its time if
// needed.
func (a *Actor) Restore(rec *wfhost.Recording) error {
	return a.control(true, func(t wfhost.Turn) error {
		if a.w.Now.Before(rec.Manifest.Time) {
			a.w.Now = rec.Manifest.Time
		}
		_, err := wfhost.Import(t, rec, wfhost.StartOptions{Restore: true, Replace: true})
		return err
	})
}

// Send puts a message into a queue. The body is encoded in CBOR.
func (a *Actor) Send(queue string, body any) {
	a.w.t.Helper()
	a.send(queue, body, false)
}

// Request is Send for a sender that waits for a reply.
func (a *Actor) Request(queue string, body any) *Request {
	a.w.t.Helper()
	q := &Request{a, a.send(queue, body, true)}
	a.w.Mu.Lock()
	defer a.w.Mu.Unlock()
	a.w.requests = append(a.w.requests, q)
	return q
}

func (a *Actor) send(queue string, body any, reply bool) uint64 {
	a.w.t.Helper()
	data, err := values().EncodeInput(body)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return a.a.Send(queue, data, reply)
}

// A Request is a message whose sender waits for a reply.
type Request struct {
	a  *Actor
	id uint64
}

// Reply reports whether the message was answered, and decodes the answer into *v; a nil v drops it.
// If the answer is an error, Reply returns that, as a *workflow.FailureError.
func (q *Request) Reply(v any) (answered bool, err error) {
	w := q.a.w
	w.t.Helper()
	w.Mu.Lock()
	defer w.Mu.Unlock()
	r := q.reply()
	switch {
	case r == nil:
		return false, nil
	case r.Failure != nil:
		return true, values().DecodeFailure(r.Failure)
	case v == nil:
		return true, nil
	}
	if err := values().DecodeOutput(r.Body, v); err != nil {
		w.t.Fatal(err)
	}
	return true, nil
}

// reply returns the first reply to the message; nil if there is none.
//
// REQUIRES: Mu is held.
func (q *Request) reply() *memory.Reply {
	for i := range q.a.a.Replies {
		if r := &q.a.a.Replies[i]; r.ID == q.id {
			return r
		}
	}
	return nil
}

// Queued returns how many messages are in a queue.
func (a *Actor) Queued(queue string) int {
	a.w.Mu.Lock()
	defer a.w.Mu.Unlock()
	return len(a.a.Queues.Lists()[queue])
}

// StateOf returns the state of an actor, of the type that WithState made.
func StateOf[S any](a *Actor) *S {
	a.w.t.Helper()
	s, ok := a.a.State.(*S)
	if !ok {
		a.w.t.Fatalf("the state is a %T and not a %T: see WithState", a.a.State, s)
	}
	return s
}

// Change changes the state of an actor, as its actions would. The run then reads the new state.
func Change[S any](a *Actor, f func(s *S)) {
	a.w.t.Helper()
	s := StateOf[S](a)
	a.a.Change(func() { f(s) })
}

// Status returns the status of the run. There must be one.
func (a *Actor) Status() wfhost.RunStatus {
	a.w.t.Helper()
	a.w.Mu.Lock()
	defer a.w.Mu.Unlock()
	s, err := wfhost.ReadStatus(a.a.Rows)
	if err != nil {
		a.w.t.Fatal(err)
	}
	return s
}

// Published decodes the published value of the run (see workflow.Publish) into the value that v
// points to, and reports whether there is one.
func (a *Actor) Published(v any) bool {
	a.w.t.Helper()
	s := a.Status()
	if s.Published == nil {
		return false
	}
	p := a.w.Lookup(s.Workflow)
	if p == nil {
		p = values()
	}
	if err := p.DecodeOutput(s.Published, v); err != nil {
		a.w.t.Fatal(err)
	}
	return true
}

// History returns the entries of the run's history that a filter selects, in the order of their
// places.
func (a *Actor) History(f wfhost.Filter) (list []wfhost.HistoryEntry) {
	a.w.t.Helper()
	a.w.Mu.Lock()
	defer a.w.Mu.Unlock()
	return entries(a.w.t, a.a.Rows, f)
}

// Entry returns the entry of the history at a path: the first whose path matches the pattern (see
// Env.Stub). There must be one.
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
	a.w.Mu.Lock()
	defer a.w.Mu.Unlock()
	rec, err := wfhost.Export(a.a.Rows)
	if err != nil {
		a.w.t.Fatal(err)
	}
	rec.Manifest.Time = a.w.Time().Round(0)
	return rec
}
