package queue

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
)

// This file handles the messages of an actor's own queues, and wakes the actor when messages are due.

// A failedMessage is a message whose handler failed. The next turn must count the attempt.
type failedMessage struct {
	message host.Received
	cause   *host.Error
	reason  string // for operators; "" for the message of cause
	counted bool   // written and read in turns of the actor
}

// queueActivation is the part's data of an Actor: the duty to handle the messages of its own
// queues.
type queueActivation struct {
	duty.Duty
	failed atomic.Pointer[failedMessage] // its attempt must be counted before any message is handled
}

func activationOf(a *kernel.Actor) *queueActivation {
	return attach.Make(&a.Attached, func() *queueActivation {
		return &queueActivation{Duty: duty.Duty{A: a, Of: queueDuty, Job: newQueueJob, First: retry.Soon, Most: retry.Soon, Finish: func(w *kernel.Work) { pumped(a, w) }}}
	})
}

// queueDuty is the duty to handle the messages of the actor's own queues.
func queueDuty(a *kernel.Actor) *duty.Duty { return &activationOf(a).Duty }

// A queueJob handles messages of the actor's own queues.
type queueJob struct {
	failed    *failedMessage                // a failed attempt to count first; nil for none
	message   atomic.Pointer[host.Received] // the message that is being handled; also read when the turn is abandoned
	recovered bool
}

func newQueueJob(recovered bool) kernel.Job { return &queueJob{recovered: recovered} }

// Traits implements kernel.Job.
func (*queueJob) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "queue", Code: true, Quick: quickQueues(a)}
}

// Run implements kernel.Job.
func (j *queueJob) Run(c *kernel.Core, w *kernel.Work) { handleQueues(c, w, j) }

// countFailed makes the actor count a failed attempt of a message, and then handle messages.
func countFailed(a *kernel.Actor, failed *failedMessage) {
	w := queueDuty(a).Item(true)
	w.Job = &queueJob{failed: failed, recovered: true}
	if _, err := a.Kernel.Post(a.Type, a.Address, w, nil); err != nil {
		w.Fail(err)
	}
}

// pumped ends a job: it asks for another one if an attempt must be counted.
func pumped(a *kernel.Actor, w *kernel.Work) {
	j := w.Job.(*queueJob)
	failed, wait := j.failed, retry.In(w.Err, retry.Soon)
	if m := j.message.Load(); m != nil && !w.Paused && host.CodeOf(w.Err) != host.Unavailable {
		e, _ := a.Kernel.PublicError(w.Err)
		failed, wait = &failedMessage{message: *m, cause: e}, 0
	}
	switch {
	case failed == nil:
		queueDuty(a).Done(w)
	case w.Err != nil:
		activationOf(a).failed.Store(failed) // another job may come first
		duty.Again(a.Kernel, a.Address, "message "+strconv.FormatUint(failed.message.ID, 10), w, wait, func() { countFailed(a, failed) })
	}
}

// maxPump is the number of messages that are handled before other work of the actor.
const maxPump = 64

// handleQueues handles messages of the actor's own queues, each in its own turn, one message of each
// queue after the other. A broken queue does not delay the others. A stopping node keeps waiting
// messages for its next start.
func handleQueues(c *kernel.Core, w *kernel.Work, j *queueJob) {
	a, own := c.Actor, activationOf(c.Actor)
	if j.failed == nil {
		own.Begin() // a message that is sent from here on asks again
		j.failed = own.failed.Load()
	}
	if !c.Exists {
		c.Respond(w, nil, fault.NotFound(a.Address))
		return
	}
	if f := j.failed; f != nil {
		if !f.counted {
			if err := messageFailed(c, w, f); err != nil {
				c.Respond(w, nil, err)
				return
			}
		}
		f.counted, j.failed = true, nil
		own.failed.CompareAndSwap(f, nil)
	}
	if j.recovered {
		c.Standing.Note(keyspace.WakeQueue, standing.Armed)
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
		more, failed := handleNext(c, w, j, names[0], len(names) == 1 && err == nil)
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
	if len(names) == 0 && err == nil && c.Standing.Of(keyspace.WakeQueue) == standing.Armed && !own.Posted.Load() && !c.Broken {
		err = disarmQueues(c, w)
	}
	c.Respond(w, nil, err)
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

// handleNext handles the next message of a queue. last says that no other queue is known to have a
// message. It returns an error if the queue cannot be read or written, but not if the handler fails.
func handleNext(c *kernel.Core, w *kernel.Work, j *queueJob, name string, last bool) (more bool, err error) {
	i, _, err := queueOf(c.Actor.Type, name)
	if err != nil {
		return false, nil // it was declared when the message was sent, and waits for code that handles it
	}
	found, left, own := false, int64(0), Queueing(c.Actor.Type)
	start := time.Now()
	j.message.Store(nil)
	c.Actor.Type.Profile.Enter("queue", c.Actor.Type.Queues[i].Name, true)
	_, err = c.RunTurn(w, c.Actor.Type.Queues[i].Handler, true, func(h *kernel.Turn) ([]byte, error) {
		set := SetOf(h)
		m, ok, err := set.Next(name)
		if err != nil || !ok {
			return nil, err
		}
		found = true
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
		if left == 0 && err == nil && last && !queueDuty(c.Actor).Posted.Load() { // else an earlier handler sent a message to another queue
			c.Arm(keyspace.WakeQueue, false)
		}
		return nil, err
	})
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
	return true, messageFailed(c, w, &failedMessage{message: *m, cause: e, reason: reason})
}

// messageFailed counts a failed attempt of a message, in its own turn.
func messageFailed(c *kernel.Core, w *kernel.Work, f *failedMessage) error {
	m := &f.message
	err := c.System(w, "queue retry", func(h *kernel.Turn) error {
		Queueing(c.Actor.Type).failures.Inc()
		QueueChange(h, "failed", m.Queue, func(d map[string]any) { d["id"], d["attempt"], d["error"] = m.ID, m.Attempt, f.cause.Error() })
		return SetOf(h).Fail(m, f.cause, f.reason)
	})
	return err
}

// disarmQueues removes the row that wakes the actor at a start, when no message waits for its
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
