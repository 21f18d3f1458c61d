package memory

import (
	"bytes"
	"context"
	"errors"
	"time"

	wfhost "github.com/cairn-run/cairn/workflow/host"
	"github.com/cairn-run/cairn/workflow/internal/rowmap"
)

// An Actor has one run: its rows, its queues, and its state. Its methods only write; Drive
// continues the run.
type Actor struct {
	*Host
	Self    wfhost.Destination
	Rows    *Rows
	Queues  *Queues
	State   any // a pointer, or nil
	Replies []Reply

	Run  *wfhost.Run    // in memory; nil if there is none
	Last wfhost.Outcome // of the last Advance

	ctx     context.Context
	cancel  context.CancelFunc
	started bool
	stale   bool // the run must Advance
}

// A Reply is the answer to a message.
type Reply struct {
	Queue   string
	ID      uint64
	Body    []byte
	Failure *wfhost.Failure
}

// due reports whether the run must Advance.
func (a *Actor) due() bool { return a.stale && a.started && !a.Last.Ended }

// Over reports whether the run has ended.
func (a *Actor) Over() bool {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return a.Last.Ended && !a.stale
}

// Start starts a run.
func (a *Actor) Start(p *wfhost.Program, in any, o wfhost.StartOptions) error {
	input, err := p.EncodeInput(in)
	if err != nil {
		return err
	}
	return a.Transact(func(t *Turn) error {
		_, err := wfhost.Start(t, p, input, o)
		return err
	})
}

// Transact runs f in a transaction. Then the run reads the control rows, and goes on.
func (a *Actor) Transact(f func(t *Turn) error) error {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	t := a.Turn()
	if err := f(t); err != nil {
		t.rollback()
		return err
	}
	t.commit()
	a.changed()
	return nil
}

func (a *Actor) changed() {
	if a.Run != nil {
		a.Run.ControlChanged()
	}
	a.started, a.stale, a.Last = true, true, wfhost.Outcome{}
	a.wakeUp()
}

// Send puts a message into a queue, and returns its number. The body is in CBOR. reply is set if
// the sender waits.
func (a *Actor) Send(queue string, body []byte, reply bool) uint64 {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.lastID++
	a.Queues.Add(wfhost.Delivery{Queue: queue, ID: a.lastID, Body: body, Sent: a.Time(), WantReply: reply})
	a.stale = true
	a.wakeUp()
	return a.lastID
}

// Change changes the state, or other data that the run may read.
func (a *Actor) Change(f func()) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	f()
	a.stale = true
	a.wakeUp()
}

// Load replaces all rows.
func (a *Actor) Load(all map[string]string) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.Rows = rowmap.Of(all)
	a.changed()
}

// Shut drops the run out of memory, and waits for its bodies. The next Drive opens it again.
func (a *Actor) Shut() {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.shut()
	a.await(a)
}

// shut is Shut without waiting for bodies.
func (a *Actor) shut() {
	if a.Run == nil {
		return
	}
	a.cancel()
	run := a.Run
	a.Run, a.Last, a.stale = nil, wfhost.Outcome{}, true
	a.unlocked(run.Close) // deferred functions of the user run
}

// Advance advances the run once, in a transaction.
func (a *Actor) Advance() {
	a.t.Helper()
	a.Mu.Lock()
	defer a.Mu.Unlock()
	a.advance()
}

func (a *Actor) advance() {
	a.t.Helper()
	a.stale = false
	if a.Run == nil {
		o := a.Options
		o.Programs, o.Self = a.Lookup, a.Self
		a.Run = wfhost.Open(o)
		a.ctx, a.cancel = context.WithCancel(context.Background())
	}
	a.Advances++
	t := a.Turn()
	out, err := a.Run.Advance(t)
	switch {
	case errors.Is(err, wfhost.ErrNoRun):
		t.rollback()
		a.shut()
		a.stale, a.started = false, false
		return
	case err != nil:
		t.rollback()
		a.shut()
		a.t.Fatalf("the run cannot advance: %v", err)
	case out.Undo:
		t.rollback()
		a.stale, a.Last = true, out
		return
	}
	if a.commit(t) {
		return
	}
	a.Last = out
	a.stale = a.stale || out.Again
	for _, attempt := range out.Launch {
		a.bodies = append(a.bodies, &body{a: a, attempt: attempt})
	}
}

// A Turn is a transaction of an actor. It writes through, and keeps the previous data.
type Turn struct {
	*Rows
	*Queues
	Actor   *Actor
	Sent    []wfhost.Outgoing
	state   *snapshot // before; nil until Value is called
	replies int       // before
	letter  *letter   // that is being delivered
}

// Turn begins a transaction. Transact and Drive end theirs themselves.
func (a *Actor) Turn() *Turn {
	return &Turn{Rows: a.Rows, Queues: a.Queues, Actor: a, replies: len(a.Replies)}
}

// Wrote reports whether anything has changed. The state never changes without rows.
func (t *Turn) Wrote() bool {
	return t.Changed() || t.Moved() || len(t.Actor.Replies) > t.replies || len(t.Sent) > 0
}

func (t *Turn) commit() {
	t.Commit()
	t.Keep()
	for _, m := range t.Sent {
		t.Actor.mail = append(t.Actor.mail, letter{t.Actor, m})
	}
}

func (t *Turn) rollback() {
	a := t.Actor
	t.Rollback()
	t.Restore()
	if t.state != nil {
		t.state.restore()
	}
	a.Replies = a.Replies[:t.replies]
	if t.letter != nil {
		a.mail = append([]letter{*t.letter}, a.mail...)
	}
}

// Get implements wfhost.Reader.
func (t *Turn) Get(key []byte) ([]byte, bool, error) {
	t.Actor.Reads++
	return t.Rows.Get(key)
}

// Scan implements wfhost.Reader.
func (t *Turn) Scan(start, end []byte, visit func(key, value []byte) error) error {
	t.Actor.Reads++
	return t.Rows.Scan(start, end, visit)
}

// Now implements wfhost.Turn.
func (t *Turn) Now() time.Time { return t.Actor.Time() }

// Value implements wfhost.Turn.
func (t *Turn) Value() any {
	if t.Actor.State == nil {
		return nil
	}
	if t.state == nil {
		t.state = take(t.Actor.State)
	}
	return t.Actor.State
}

// Reply implements wfhost.Turn.
func (t *Turn) Reply(m *wfhost.Delivery, reply []byte, failure *wfhost.Failure) error {
	t.Actor.Replies = append(t.Actor.Replies, Reply{m.Queue, m.ID, bytes.Clone(reply), failure})
	return nil
}

// Send implements wfhost.Turn.
func (t *Turn) Send(m *wfhost.Outgoing) error {
	c := *m
	c.Body = bytes.Clone(m.Body)
	t.Sent = append(t.Sent, c)
	return nil
}
