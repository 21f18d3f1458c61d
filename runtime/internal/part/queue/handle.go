package queue

import (
	"maps"
	"slices"
	"strconv"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
)

// This file handles the messages of an actor's own queues, and wakes the actor when messages are
// due.

// A failedMessage is a message whose handler failed. The next turn must count the attempt.
type failedMessage struct {
	life    keyspace.ActorID // of the actor
	message host.Received
	cause   *host.Error
	reason  string // for operators; "" for the message of cause
	at      time.Time
}

// uncounted has the failed attempts of messages whose handlers took their cores with them: they
// panicked or did not return. They are counted before the actor handles another message, regardless
// of why it runs again. The zero value has none.
type uncounted struct {
	mu  sync.Mutex
	all map[string][]*failedMessage // by the address of the actor
}

// add keeps a failed attempt. Those of actors destroyed meanwhile are forgotten in time.
func (u *uncounted) add(addr host.Address, f *failedMessage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.all == nil {
		u.all = make(map[string][]*failedMessage)
	}
	if len(u.all) >= 1024 {
		maps.DeleteFunc(u.all, func(_ string, old []*failedMessage) bool { return f.at.Sub(old[0].at) > time.Hour })
	}
	key := string(address.Append(nil, addr))
	u.all[key] = append(u.all[key], f)
}

func (u *uncounted) of(addr host.Address) []*failedMessage {
	u.mu.Lock()
	defer u.mu.Unlock()
	if len(u.all) == 0 { // as nearly always
		return nil
	}
	return slices.Clone(u.all[string(address.Append(nil, addr))])
}

// counted forgets failed attempts of an actor.
func (u *uncounted) counted(addr host.Address, done []*failedMessage) {
	u.mu.Lock()
	defer u.mu.Unlock()
	key := string(address.Append(nil, addr))
	left := slices.DeleteFunc(u.all[key], func(f *failedMessage) bool { return slices.Contains(done, f) })
	if u.all[key] = left; len(left) == 0 {
		delete(u.all, key)
	}
}

// queueActivation is the part's data of an Actor: the duty to handle the messages of its own
// queues.
type queueActivation struct {
	duty.Duty
	astray // whether messages are ready in queues that are not declared
}

// queueDuty is the duty to handle the messages of the actor's own queues.
func queueDuty(a *kernel.Actor) *duty.Duty { return &activationOf(a).Duty }

func activationOf(a *kernel.Actor) *queueActivation {
	return attach.Make(&a.Attached, func() *queueActivation {
		return &queueActivation{Duty: duty.Duty{A: a, Of: queueDuty, Job: newQueueJob, First: retry.Soon,
			Most: retry.Soon, Finish: func(w *kernel.Work) { pumped(a, w) }}}
	})
}

// astray records whether messages are ready in queues that this release does not declare. The actor
// is woken at each start for them, because a release with their handlers may begin then.
type astray uint8

const (
	notRead astray = iota
	noneAstray
	someAstray
)

// of returns the answer, after reading it the first time.
func (a *astray) of(c *kernel.Core) (some bool, err error) {
	if *a == notRead {
		all, err := queuerows.AllStats(c.Rows)
		if err != nil {
			return false, err
		}
		*a = noneAstray
		if slices.ContainsFunc(all, func(s host.QueueStats) bool {
			return s.Pending > 0 && queueIndex(c.Actor.Type, s.Queue) < 0
		}) {
			*a = someAstray
		}
	}
	return *a == someAstray, nil
}

// A queueJob handles messages of the actor's own queues.
type queueJob struct {
	message   atomic.Pointer[host.Received] // the message that is being handled; also read when the turn is abandoned
	recovered bool

	// These are of the message, and written before it.
	life  keyspace.ActorID
	queue int
	began time.Time
}

func newQueueJob(recovered bool) kernel.Job { return &queueJob{recovered: recovered} }

// Traits implements kernel.Job.
func (*queueJob) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "queue", Code: true, Quick: quickQueues(a)}
}

// Run implements kernel.Job.
func (j *queueJob) Run(c *kernel.Core, w *kernel.Work) { handleQueues(c, w, j) }

// pumped ends a job. If a message took the core with it, another job comes at once and counts the
// attempt.
func pumped(a *kernel.Actor, w *kernel.Work) {
	j, own := w.Job.(*queueJob), queueDuty(a)
	m := j.message.Load()
	if m == nil || w.Err == nil || w.Paused || host.CodeOf(w.Err) == host.Unavailable {
		own.Done(w)
		return
	}
	e, _ := a.Kernel.PublicError(w.Err)
	typ := Queueing(a.Type)
	typ.pace[j.queue].Add(time.Since(j.began))
	typ.uncounted.add(a.Address, &failedMessage{life: j.life, message: *m, cause: e, at: time.Now()})
	duty.Again(a.Kernel, a.Address, "message "+strconv.FormatUint(m.ID, 10), w, 0, own.TakeUp)
}

// maxPump is the number of messages that are handled before other work of the actor.
const maxPump = 64

// handleQueues handles messages of the actor's own queues, each in its own turn, one message of
// each queue after the other. A broken queue does not delay the others. A stopping node keeps
// waiting messages for its next start.
func handleQueues(c *kernel.Core, w *kernel.Work, j *queueJob) {
	a, own := c.Actor, queueDuty(c.Actor)
	own.Begin() // a message that is sent from here on asks again
	if !c.Exists {
		c.Respond(w, nil, fault.NotFound(a.Address))
		return
	}
	if err := countFailed(c, w); err != nil {
		c.Respond(w, nil, err)
		return
	}
	if j.recovered {
		c.Standing.Note(keyspace.WakeQueue, standing.Armed)
	}
	waiting, err := activationOf(a).astray.of(c)
	if err != nil {
		c.Respond(w, nil, err)
		return
	}
	names, err := readyQueues(c)
	if err != nil {
		c.Respond(w, nil, err)
		return
	}
	for n := 0; len(names) > 0; n++ {
		if a.Kernel.Draining.Load() {
			c.Respond(w, nil, nil)
			return
		}
		if n > 0 && (n >= maxPump || !quickQueue(a, names[0])) {
			own.Ask()
			break
		}
		more, failed := handleNext(c, w, j, names[0], len(names) == 1 && err == nil && !waiting)
		if c.Ended {
			c.Respond(w, nil, nil)
			return
		}
		if failed == kernel.ErrAbandoned || failed != nil && c.Broken {
			c.Respond(w, nil, failed)
			return
		}
		if failed != nil {
			err = failed
		}
		if more {
			names = append(names, names[0])
		}
		names = names[1:]
		if c.Group.Turns >= kernel.MaxGroupTurns || c.Rows.Bytes() >= kernel.MaxGroupBytes {
			c.Commit()
			if c.Broken {
				break
			}
		}
	}
	if len(names) == 0 && err == nil && !waiting && c.Standing.Of(keyspace.WakeQueue) == standing.Armed &&
		!own.Posted.Load() && !c.Broken {
		err = disarmQueues(c, w)
	}
	c.Respond(w, nil, err)
}

// countFailed counts the attempts that took their cores with them, and commits that: the next
// handler may take its core, too.
func countFailed(c *kernel.Core, w *kernel.Work) error {
	own := &Queueing(c.Actor.Type).uncounted
	all := own.of(c.Actor.Address)
	if len(all) == 0 {
		return nil
	}
	for _, f := range all {
		if f.life != c.ID {
			continue
		}
		if err := messageFailed(c, w, f); err != nil {
			return err
		}
	}
	if c.Commit(); c.Broken {
		return fault.Unavailable("the attempts of messages were not committed")
	}
	own.counted(c.Actor.Address, all)
	return nil
}

// readyQueues returns the queues with messages for handlers.
func readyQueues(c *kernel.Core) ([]string, error) {
	var names []string
	if !slices.ContainsFunc(c.Actor.Type.Queues, func(q host.Queue) bool { return q.Name == host.AnyName }) {
		set := newQueueSet(c.Actor.Type, c.Rows, c.Limits, time.Now())
		for i := range c.Actor.Type.Queues {
			q := &c.Actor.Type.Queues[i]
			if q.Handler == "" {
				continue
			}
			n, err := set.Pending(q.Name)
			if err != nil {
				return nil, err
			}
			if n > 0 {
				names = append(names, q.Name)
			}
		}
		return names, nil
	}
	all, err := queuerows.AllStats(c.Rows)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Pending > 0 && handled(c.Actor.Type, s.Queue) {
			names = append(names, s.Queue)
		}
	}
	return names, nil
}

// quickQueue reports whether the handler of a queue is usually fast, so that several messages may
// share a commit.
func quickQueue(a *kernel.Actor, name string) bool {
	i := queueIndex(a.Type, name)
	if i < 0 {
		return false
	}
	return Queueing(a.Type).pace[i].Quick(1)
}

// quickQueues reports whether all handlers of the actor's queues are quick.
func quickQueues(a *kernel.Actor) bool {
	pace := Queueing(a.Type).pace
	for i := range pace {
		if a.Type.Queues[i].Handler != "" && !pace[i].Quick(1) {
			return false
		}
	}
	return true
}

// handleNext handles the next message of a queue. last: no other queue is known to have a message.
// It returns an error if the queue cannot be read or written, but no error if only the handler
// fails.
func handleNext(c *kernel.Core, w *kernel.Work, j *queueJob, name string, last bool) (more bool, err error) {
	i, _, err := queueOf(c.Actor.Type, name)
	if err != nil {
		return false, nil // it was declared when the message was sent, and waits for code that handles it
	}
	found, left, own := false, int64(0), Queueing(c.Actor.Type)
	start := time.Now()
	j.message.Store(nil)
	c.Actor.Type.Profile.Enter("queue", c.Actor.Type.Queues[i].Name, true)
	ofJob := w.Span
	w.Span = host.Untraced // until the message is read: its turns belong to the message's trace
	_, err = c.RunTurn(w, c.Actor.Type.Queues[i].Handler, true, func(h *kernel.Turn) ([]byte, error) {
		set := SetOf(h)
		m, ok, err := set.Next(name)
		if err != nil || !ok {
			w.Span = ofJob
			return nil, err
		}
		w.Span = m.Span // without one, a trace of its own begins
		h.Begins()
		if !ofJob.Decided() {
			ofJob = w.Span // the messages of a job share a commit, which belongs to the trace of the first
		}
		found = true
		j.life, j.queue, j.began = c.ID, i, start
		j.message.Store(m)
		own.Lag.Observe(h.Start.Sub(m.Sent).Seconds())
		reply, err := c.Instance.Message(h.Host, i, m, nil)
		if err != nil {
			return nil, err
		}
		if err := set.Done(m, reply); err != nil {
			return nil, err
		}
		QueueChange(h, "done", name, func(d map[string]any) { d["id"] = m.ID })
		left, err = set.Pending(name)
		// else an earlier handler sent a message to another queue
		if left == 0 && err == nil && last && !queueDuty(c.Actor).Posted.Load() {
			c.Arm(keyspace.WakeQueue, false)
		}
		return nil, err
	})
	if err != kernel.ErrAbandoned { // else others have the work
		defer func() { w.Span = ofJob }()
	}
	if found {
		own.pace[i].Add(time.Since(start))
	}
	switch {
	case err == nil:
		j.message.Store(nil)
		return left > 0, nil
	case err == kernel.ErrAbandoned || c.Broken || !found:
		return false, err
	}
	e, reason := c.Actor.Kernel.Explained(c.Actor, w, err)
	m := j.message.Swap(nil)
	err = messageFailed(c, w, &failedMessage{message: *m, cause: e, reason: reason})
	return err == nil, err
}

// messageFailed counts a failed attempt of a message, in its own turn.
func messageFailed(c *kernel.Core, w *kernel.Work, f *failedMessage) error {
	m := &f.message
	err := c.System(w, "queue retry", func(h *kernel.Turn) error {
		Queueing(c.Actor.Type).failures.Inc()
		QueueChange(h, "failed", m.Queue,
			func(d map[string]any) { d["id"], d["attempt"], d["error"] = m.ID, m.Attempt, f.cause.Error() })
		set := SetOf(h)
		if !f.at.IsZero() { // what made the message ready may have been lost with the core
			if err := set.Due(m.Queue, 0); err != nil {
				return err
			}
		}
		return set.Fail(m, f.cause, f.reason)
	})
	return err
}

// disarmQueues removes the row that wakes the actor at a start, because no message waits for its
// handlers.
func disarmQueues(c *kernel.Core, w *kernel.Work) error {
	err := c.System(w, "queue", func(h *kernel.Turn) error {
		c.Arm(keyspace.WakeQueue, false)
		return nil
	})
	return err
}

// queueDue is the job of a queue's due row of the wake index.
type queueDue engine.Wake

// Traits implements kernel.Job.
func (d *queueDue) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "queue due", Name: d.Name, Code: true, Quick: true}
}

// Run implements kernel.Job.
func (d *queueDue) Run(c *kernel.Core, w *kernel.Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error { return moveDue(c, w, row) })
}

// moveDue makes the due messages of a queue ready.
func moveDue(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	err := c.System(w, "queue due", func(h *kernel.Turn) error {
		return SetOf(h).Due(row.Name, row.Due)
	})
	return err
}
