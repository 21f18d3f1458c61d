// Package queue is the part for queues: it notifies receivers, runs handlers and wakes the actor.
// Package queuerows has the rows.
package queue

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for queues.
type Part struct {
	sent, failures, dead prometheus.Counter
	Lag                  prometheus.Histogram
	// receiver receives the messages of queues with ByRun.
	receiver queueReceiver
}

var _ interface {
	kernel.Declarer
	survey.Explainer
	kernel.Meter
	kernel.Recoverer
	kernel.Retrier
	kernel.Server
	kernel.Waker
} = (*Part)(nil)

// A queueReceiver receives messages that its actor neither handles nor leaves to workers.
type queueReceiver interface {
	// Refuses returns why messages must not be sent to one of its queues; nil if they may.
	Refuses(c *kernel.Core, messages []host.Enqueue) error
	// Told is called at the end of a turn, before its commit, when one of its queues has a message
	// to receive.
	Told(t *kernel.Turn, name string) error
}

// New makes the part of queues.
func New(r queueReceiver) *Part {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Part{
		receiver: r,
		sent:     counter("cairn_queue_messages_total", "Messages sent to queues."),
		failures: counter("cairn_queue_failures_total", "Attempts of messages that failed."),
		dead:     counter("cairn_queue_dead_total", "Messages that became dead letters."),
		Lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_queue_lag_seconds", Help: "Time from sending a message to an attempt to handle it.",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 13)}),
	}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "queue" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.sent, p.failures, p.dead, p.Lag}
}

// A queueType is the part's data of an actor type.
type queueType struct {
	*Part
	// settings are the behavior's queues with their defaults.
	settings []host.Queue
	// pace holds a moving average of the time that the handler of each takes, in nanoseconds; 0 for
	// never run.
	pace []atomic.Int64
}

// Queueing returns the part's data of the type.
func Queueing(t *kernel.Type) *queueType { return attach.Get[*queueType](&t.Attached) }

// Declare implements kernel.Declarer.
func (p *Part) Declare(t *kernel.Type) error {
	own := &queueType{Part: p, settings: slices.Clone(t.Queues), pace: make([]atomic.Int64, len(t.Queues))}
	for i := range own.settings {
		own.settings[i].EnsureDefaults()
	}
	attach.Make(&t.Attached, func() *queueType { return own })
	return nil
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeQueue} }

// Due implements kernel.Waker.
func (*Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake, _ func(*kernel.Work)) *kernel.Work {
	return &kernel.Work{Job: (*queueDue)(row)}
}

// Wakes implements kernel.Waker.
func (*Part) Wakes(rows engine.Reader) ([]engine.Wake, error) {
	due, err := queuerows.Wakes(rows)
	all := make([]engine.Wake, len(due))
	for i, q := range due {
		all[i] = engine.Wake{Due: q.Due, Kind: keyspace.WakeQueue, Name: q.Queue}
	}
	return all, err
}

// StandsFor implements kernel.Recoverer.
func (*Part) StandsFor() keyspace.WakeKind { return keyspace.WakeQueue }

// TakeUp implements kernel.Recoverer.
func (*Part) TakeUp(a *kernel.Actor) *kernel.Work { return queueDuty(a).Item(true) }

// Retry implements kernel.Retrier: it makes an actor handle its messages at once.
func (*Part) Retry(s *kernel.Kernel, t *kernel.Type, addr host.Address, id keyspace.ActorID) error {
	snap := s.Store.Snapshot(id)
	defer snap.Close()
	all, err := queuerows.AllStats(snap)
	if err == nil && slices.ContainsFunc(all, func(st host.QueueStats) bool { return st.Pending > 0 && handled(t, st.Queue) }) {
		duty.TakeUp(s, t, addr, queueDuty)
	}
	return err
}

// Turn is the view of handlers on queues.
type Turn struct {
	K   *kernel.Turn
	set *queuerows.Set // the queues as the turn sees them; nil until it looks
}

// asQueue returns the part's view of a turn.
func (h *Turn) asQueue() *Turn { return h }

func queuesOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asQueue() *Turn }).asQueue() }

// Query is the view of query handlers on queues.
type Query struct{ K *kernel.Query }

// Package queuerows has the rows of queues. This file ties them to turns: it notifies receivers,
// runs handlers, and wakes an actor whose messages are due.

// queueOf returns a queue by name: its place among the behavior's queues, and its settings.
func queueOf(t *kernel.Type, name string) (int, host.Queue, error) {
	i := queueIndex(t, name)
	if i < 0 {
		return 0, host.Queue{}, wire.UnknownName(t.Behavior, host.NotFound, "queue", name)
	}
	return i, Queueing(t).settings[i], nil
}

// queueIndex returns the place of the contract that a queue's name belongs to, or -1.
func queueIndex(t *kernel.Type, name string) int {
	return wire.Named(len(t.Queues), func(i int) string { return t.Queues[i].Name }, name)
}

// handled reports whether the actor handles the messages of a queue itself.
func handled(t *kernel.Type, name string) bool {
	i := queueIndex(t, name)
	return i >= 0 && t.Queues[i].Handler != ""
}

// ByRun reports whether the receiver gets the messages of a queue.
func ByRun(t *kernel.Type, name string) bool {
	i := queueIndex(t, name)
	return i >= 0 && t.Queues[i].ByRun
}

// SetOf returns the queues as the turn sees them.
//
// REQUIRES: t.Mu, or no handler that runs.
func SetOf(t *kernel.Turn) *queuerows.Set {
	h := queuesOf(t)
	if h.set == nil {
		h.set = newQueueSet(t.Actor.Type, t.Core.Rows, t.Core.Limits, t.Start)
		t.Enlist(h)
	}
	return h.set
}

func newQueueSet(t *kernel.Type, rows engine.Writer, limits *limit.Set, now time.Time) *queuerows.Set {
	s := queuerows.New(rows, now, func(name string) (host.Queue, bool) {
		_, q, err := queueOf(t, name)
		return q, err == nil
	})
	s.Room = limits.Storage.MaxWriteSet
	return s
}

// Seal implements kernel.Participant: it writes the turn's changes to queues and notifies waiters
// once the turn is durable.
func (h *Turn) Seal(t *kernel.Turn) error {
	set := h.set
	if err := set.Flush(); err != nil {
		return err
	}
	for _, ms := range set.Expires {
		t.ExpireAt(ms)
	}
	typ := t.Actor.Type
	own := Queueing(typ)
	if set.Dead > 0 {
		own.dead.Add(float64(set.Dead))
	}
	for _, name := range set.Ready {
		if ByRun(typ, name) {
			if err := own.receiver.Told(t, name); err != nil {
				return err
			}
			continue
		}
		if !handled(typ, name) {
			t.Notify("queue/" + name)
			continue
		}
		t.Core.Arm(keyspace.WakeQueue, true)
		queueDuty(t.Actor).Ask()
	}
	for _, name := range set.Settled {
		t.Notify("settled/" + name)
	}
	for _, id := range set.Replied {
		t.Notify(replyTopic(id))
	}
	return nil
}

// QueueStats implements host.Reader.
func (h *Turn) QueueStats(name string) (host.QueueStats, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return host.QueueStats{}, err
	}
	defer t.Leave()
	if _, _, err := queueOf(t.Actor.Type, name); err != nil {
		return host.QueueStats{}, err
	}
	if h.set != nil { // so that readers of rows see it
		if err := h.set.Flush(); err != nil {
			return host.QueueStats{}, err
		}
	}
	return queuerows.Stats(t.Core.Rows, name)
}

// QueueStats implements host.Reader.
func (h Query) QueueStats(name string) (host.QueueStats, error) {
	r := h.K
	if _, _, err := queueOf(r.Actor.Type, name); err != nil {
		return host.QueueStats{}, err
	}
	rows, done, err := r.Rows()
	if err != nil {
		return host.QueueStats{}, err
	}
	defer done()
	return queuerows.Stats(rows, name)
}

// Enqueue implements host.Turn.
func (h *Turn) Enqueue(name string, messages []host.Enqueue) ([]host.Sent, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return nil, err
	}
	defer t.Leave()
	return enqueue(t, name, messages)
}

// enqueue sends messages to a queue of the actor.
//
// REQUIRES: t.Mu, or no handler that runs.
func enqueue(t *kernel.Turn, name string, messages []host.Enqueue) ([]host.Sent, error) {
	for i := range messages {
		// Otherwise this would fail only when the message is given up.
		if m := &messages[i]; len(m.KeysIfUndelivered) > 0 && len(m.Body) > t.Core.Limits.Storage.MaxValue {
			return nil, within(i, host.OverLimit("bytes of a body with keys_if_undelivered", int64(t.Core.Limits.Storage.MaxValue), int64(len(m.Body))).With("field", "body"))
		}
	}
	typ := t.Actor.Type
	if ByRun(typ, name) {
		if err := Queueing(typ).receiver.Refuses(t.Core, messages); err != nil {
			return nil, err
		}
	}
	sent, err := SetOf(t).Send(name, messages)
	if err != nil {
		return nil, err
	}
	Queueing(typ).sent.Add(float64(len(sent)))
	QueueChange(t, "send", name, func(m map[string]any) { m["messages"] = sent })
	return sent, nil
}

// QueueChange notes a change of a queue to publish.
func QueueChange(t *kernel.Turn, op, name string, more func(map[string]any)) {
	t.Change(engine.ChangeQueue, name, func() any {
		m := map[string]any{"op": op, "queue": name}
		if more != nil {
			more(m)
		}
		return m
	})
}

// A failedMessage is a message whose handler crashed or did not return, so that the next turn must
// record that.
type failedMessage struct {
	message host.Received
	cause   *host.Error
	reason  string // for operators; "" for that of cause
}

// queueActivation is the part's data of an Actor: the duty to handle the messages of its own
// queues.
type queueActivation struct{ duty.Duty }

// queueDuty is the duty to handle the messages of the actor's own queues.
func queueDuty(a *kernel.Actor) *duty.Duty {
	return &attach.Make(&a.Attached, func() *queueActivation {
		return &queueActivation{duty.Duty{A: a, Of: queueDuty, Job: newQueueJob, First: retry.Soon, Most: retry.Soon, Finish: func(w *kernel.Work) { pumped(a, w) }}}
	}).Duty
}

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

// pumped is called when messages were handled, or could not be.
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
		duty.Again(a.Kernel, a.Address, "message "+strconv.FormatUint(failed.message.ID, 10), w, wait, func() { countFailed(a, failed) })
	}
}

// maxPump is how many messages are handled before other work of the actor.
const maxPump = 64

// handleQueues handles messages of the actor's own queues, each in a turn of its own, taking turns
// among the queues. A broken queue does not delay the others. A stopping node keeps waiting
// messages for its next start.
func handleQueues(c *kernel.Core, w *kernel.Work, j *queueJob) {
	a, own := c.Actor, queueDuty(c.Actor)
	if j.failed == nil {
		own.Begin() // a message that is sent from here on asks again
	}
	if !c.Exists {
		c.Respond(w, nil, kernel.NotFound(a.Address))
		return
	}
	if j.failed != nil {
		if err := messageFailed(c, w, j.failed); err != nil {
			c.Respond(w, nil, err)
			return
		}
	}
	if j.recovered {
		c.Standing.Note(keyspace.WakeQueue, kernel.Armed)
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
	if len(names) == 0 && err == nil && c.Standing.Of(keyspace.WakeQueue) == kernel.Armed && !own.Posted.Load() && !c.Broken {
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

// quickQueue reports whether the handler of a queue is usually so fast that several messages may
// share a commit.
func quickQueue(a *kernel.Actor, name string) bool {
	i := queueIndex(a.Type, name)
	if i < 0 {
		return false
	}
	p := Queueing(a.Type).pace[i].Load()
	return p > 0 && p < int64(kernel.QuickTurn)
}

// quickQueues reports whether all handlers of the actor's queues are quick.
func quickQueues(a *kernel.Actor) bool {
	pace := Queueing(a.Type).pace
	for i := range pace {
		if p := pace[i].Load(); a.Type.Queues[i].Handler != "" && (p == 0 || p >= int64(kernel.QuickTurn)) {
			return false
		}
	}
	return true
}

// handleNext handles the next message of a queue; last says that no other queue is known to have
// one. The error is why the queue cannot be worked on; a failure of the handler is not such an
// error.
func handleNext(c *kernel.Core, w *kernel.Work, j *queueJob, name string, last bool) (more bool, err error) {
	i, _, err := queueOf(c.Actor.Type, name)
	if err != nil {
		return false, nil // it was declared when the message was sent, and waits for code that handles it
	}
	found, left, own := false, int64(0), Queueing(c.Actor.Type)
	start := time.Now()
	j.message.Store(nil)
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
		kernel.UpdatePace(&own.pace[i], time.Since(start))
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

// messageFailed counts a failed attempt of a message, in a turn of its own.
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

// queueDue is a queue's row that is due, on its way through its actor's mailbox.
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

// moveDue moves the messages of a queue whose time has come.
func moveDue(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	err := c.System(w, "queue due", func(h *kernel.Turn) error {
		return SetOf(h).Due(row.Name, row.Due)
	})
	return err
}

// packKeys packs keys of the key-value store from requests.
func packKeys(keys [][]any) ([][]byte, error) {
	if len(keys) > maxUndeliveredKeys {
		return nil, host.OverLimit("keys_if_undelivered", maxUndeliveredKeys, int64(len(keys))).With("field", "keys_if_undelivered")
	}
	packed := make([][]byte, len(keys))
	for i, k := range keys {
		b, err := packKey(k)
		if err != nil {
			field := "keys_if_undelivered[" + strconv.Itoa(i) + "]"
			return nil, host.Errorf(host.InvalidArgument, "%s: %s", field, err).With("field", field)
		}
		packed[i] = b
	}
	return slices.Clip(packed), nil
}

// maxUndeliveredKeys is how many keys a message may name in case it is not delivered.
const maxUndeliveredKeys = 10
