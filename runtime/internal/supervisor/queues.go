package supervisor

import (
	"slices"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/queue"
	"github.com/prometheus/client_golang/prometheus"
)

// queuePart is the part of actors that is queues.
type queuePart struct {
	sent, failures, dead prometheus.Counter
	lag                  prometheus.Histogram
	// receiver receives the messages of queues whose setting ByRun says so.
	receiver queueReceiver
}

// A queueReceiver receives messages that its actor neither handles nor leaves to workers.
type queueReceiver interface {
	// refuses returns why messages must not be sent to a queue of its; nil if they may.
	refuses(c *core, messages []host.Enqueue) error
	// told is called at the end of a turn, before its commit, when a queue of its has a message to receive.
	told(t *turn, name string) error
}

func newQueuePart(r queueReceiver) *queuePart {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &queuePart{
		receiver: r,
		sent:     counter("cairn_queue_messages_total", "Messages sent to queues."),
		failures: counter("cairn_queue_failures_total", "Attempts of messages that failed."),
		dead:     counter("cairn_queue_dead_total", "Messages that became dead letters."),
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_queue_lag_seconds", Help: "Time from sending a message to an attempt to handle it.",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 13)}),
	}
}

func (*queuePart) name() string { return "queue" }

// collectors implements meter.
func (p *queuePart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.sent, p.failures, p.dead, p.lag}
}

// A queueType is what the part keeps with an actor type.
type queueType struct {
	*queuePart
	// settings are the behavior's queues with their defaults.
	settings []host.Queue
	// pace holds a moving average of the time that the handler of each takes, in nanoseconds; 0 for never run.
	pace []atomic.Int64
}

// queueing returns what the part keeps with the type.
func (t *actorType) queueing() *queueType { return attachedTo[*queueType](&t.attached) }

// declare implements declarer.
func (p *queuePart) declare(t *actorType) error {
	own := &queueType{queuePart: p, settings: slices.Clone(t.Queues), pace: make([]atomic.Int64, len(t.Queues))}
	for i := range own.settings {
		own.settings[i].EnsureDefaults()
	}
	attach(&t.attached, func() *queueType { return own })
	return nil
}

// kinds implements waker.
func (*queuePart) kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeQueue} }

// due implements waker.
func (*queuePart) due(_ *Supervisor, _ *actorType, _ host.Address, row *engine.Wake, _ func(*work)) *work {
	return &work{job: (*queueDue)(row)}
}

// wakes implements waker.
func (*queuePart) wakes(rows engine.Reader) ([]engine.Wake, error) {
	due, err := queue.Wakes(rows)
	all := make([]engine.Wake, len(due))
	for i, q := range due {
		all[i] = engine.Wake{Due: q.Due, Kind: keyspace.WakeQueue, Name: q.Queue}
	}
	return all, err
}

// standsFor implements recoverer.
func (*queuePart) standsFor() keyspace.WakeKind { return keyspace.WakeQueue }

// takeUp implements recoverer.
func (*queuePart) takeUp(a *activation) *work { return a.queueDuty().item(true) }

// retry implements retrier: it has an actor handle its messages at once, if it has any.
func (*queuePart) retry(s *Supervisor, t *actorType, addr host.Address, id keyspace.ActorID) error {
	snap := s.store.Snapshot(id)
	defer snap.Close()
	all, err := queue.AllStats(snap)
	if err == nil && slices.ContainsFunc(all, func(st host.QueueStats) bool { return st.Pending > 0 && t.handled(st.Queue) }) {
		s.takeUp(t, addr, (*activation).queueDuty)
	}
	return err
}

// queueTurn is what handlers may do with queues.
type queueTurn struct {
	t   *turn
	set *queue.Set // the queues as the turn sees them; nil until it looks
}

// asQueue returns what the turn of a handler has done with queues.
func (h *queueTurn) asQueue() *queueTurn { return h }

func queuesOf(t *turn) *queueTurn { return t.host.(interface{ asQueue() *queueTurn }).asQueue() }

// queueQuery is what handlers of queries may read of queues.
type queueQuery struct{ r *reader }

// The rows of queues are package queue's. What is here ties them to turns: who is told of a message, who handles it, and
// what brings an actor up whose messages are due.

// queueOf returns a queue by name: its place among the behavior's queues, and its settings.
func (t *actorType) queueOf(name string) (int, host.Queue, error) {
	i := t.queueIndex(name)
	if i < 0 {
		return 0, host.Queue{}, t.unknownName(host.NotFound, "queue", name)
	}
	return i, t.queueing().settings[i], nil
}

// queueIndex returns the place of the contract that a queue's name belongs to, or -1.
func (t *actorType) queueIndex(name string) int {
	return named(len(t.Queues), func(i int) string { return t.Queues[i].Name }, name)
}

// handled reports that the actor handles the messages of a queue itself.
func (t *actorType) handled(name string) bool {
	i := t.queueIndex(name)
	return i >= 0 && t.Queues[i].Handler != ""
}

// byRun reports that the messages of a queue are the receiver's.
func (t *actorType) byRun(name string) bool {
	i := t.queueIndex(name)
	return i >= 0 && t.Queues[i].ByRun
}

// queueSet returns the queues as the turn sees them.
//
// REQUIRES: t.mu, or no handler that runs.
func (t *turn) queueSet() *queue.Set {
	h := queuesOf(t)
	if h.set == nil {
		h.set = t.a.typ.newQueueSet(t.c.ws, t.c.limits, t.start)
		t.enlist(h)
	}
	return h.set
}

func (t *actorType) newQueueSet(rows engine.Writer, limits *actorLimits, now time.Time) *queue.Set {
	s := queue.New(rows, now, func(name string) (host.Queue, bool) {
		_, q, err := t.queueOf(name)
		return q, err == nil
	})
	s.Room = limits.storage.MaxWriteSet
	return s
}

// seal implements participant: it writes what the turn did to queues and lets those know whom it concerns, once it is
// durable.
func (h *queueTurn) seal(t *turn) error {
	set := h.set
	if err := set.Flush(); err != nil {
		return err
	}
	for _, ms := range set.Expires {
		t.expireAt(ms)
	}
	typ := t.a.typ
	own := typ.queueing()
	if set.Dead > 0 {
		own.dead.Add(float64(set.Dead))
	}
	for _, name := range set.Ready {
		if typ.byRun(name) {
			if err := own.receiver.told(t, name); err != nil {
				return err
			}
			continue
		}
		if !typ.handled(name) {
			t.notify("queue/" + name)
			continue
		}
		t.c.arm(keyspace.WakeQueue, true)
		t.a.queueDuty().ask()
	}
	for _, name := range set.Settled {
		t.notify("settled/" + name)
	}
	for _, id := range set.Replied {
		t.notify(replyTopic(id))
	}
	return nil
}

// QueueStats implements host.Reader.
func (h *queueTurn) QueueStats(name string) (host.QueueStats, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return host.QueueStats{}, err
	}
	defer t.leave()
	if _, _, err := t.a.typ.queueOf(name); err != nil {
		return host.QueueStats{}, err
	}
	if h.set != nil { // so that readers of rows see it
		if err := h.set.Flush(); err != nil {
			return host.QueueStats{}, err
		}
	}
	return queue.Stats(t.c.ws, name)
}

// QueueStats implements host.Reader.
func (h queueQuery) QueueStats(name string) (host.QueueStats, error) {
	r := h.r
	if _, _, err := r.a.typ.queueOf(name); err != nil {
		return host.QueueStats{}, err
	}
	rows, done, err := r.rows()
	if err != nil {
		return host.QueueStats{}, err
	}
	defer done()
	return queue.Stats(rows, name)
}

// Enqueue implements host.Turn.
func (h *queueTurn) Enqueue(name string, messages []host.Enqueue) ([]host.Sent, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	return t.enqueue(name, messages)
}

// enqueue sends messages to a queue of the actor.
//
// REQUIRES: t.mu, or no handler that runs.
func (t *turn) enqueue(name string, messages []host.Enqueue) ([]host.Sent, error) {
	for i := range messages {
		// It would be found out only when the message is given up.
		if m := &messages[i]; len(m.KeysIfUndelivered) > 0 && len(m.Body) > t.c.limits.storage.MaxValue {
			return nil, within(i, host.OverLimit("bytes of a body with keys_if_undelivered", int64(t.c.limits.storage.MaxValue), int64(len(m.Body))).With("field", "body"))
		}
	}
	typ := t.a.typ
	if typ.byRun(name) {
		if err := typ.queueing().receiver.refuses(t.c, messages); err != nil {
			return nil, err
		}
	}
	sent, err := t.queueSet().Send(name, messages)
	if err != nil {
		return nil, err
	}
	typ.queueing().sent.Add(float64(len(sent)))
	t.queueChange("send", name, func(m map[string]any) { m["messages"] = sent })
	return sent, nil
}

// queueChange notes a change of a queue to publish.
func (t *turn) queueChange(op, name string, more func(map[string]any)) {
	t.change(engine.ChangeQueue, name, func() any {
		m := map[string]any{"op": op, "queue": name}
		if more != nil {
			more(m)
		}
		return m
	})
}

// A failedMessage is a message whose handler crashed or did not return, so that the turn after it has to say so.
type failedMessage struct {
	message host.Received
	cause   *host.Error
	reason  string // for operators; "" for that of cause
}

// queueActivation is what the part keeps with an activation: the duty to handle the messages of the actor's own queues.
type queueActivation struct{ duty }

// queueDuty is the duty to handle the messages of the actor's own queues.
func (a *activation) queueDuty() *duty {
	return &attach(&a.attached, func() *queueActivation {
		return &queueActivation{duty{a: a, of: (*activation).queueDuty, job: newQueueJob, first: settleRetry, most: settleRetry, finish: func(w *work) { a.pumped(w) }}}
	}).duty
}

// A queueJob handles messages of the actor's own queues.
type queueJob struct {
	failed    *failedMessage                // a failed attempt to count first; nil for none
	message   atomic.Pointer[host.Received] // the message that is being handled; also read when the turn is abandoned
	recovered bool
}

func newQueueJob(recovered bool) job { return &queueJob{recovered: recovered} }

// traits implements job.
func (*queueJob) traits(a *activation) traits {
	return traits{kind: "queue", code: true, quick: a.quickQueues()}
}

// run implements job.
func (j *queueJob) run(c *core, w *work) { c.handleQueues(w, j) }

// countFailed has the actor count a failed attempt of a message, and then handle messages.
func (a *activation) countFailed(failed *failedMessage) {
	w := a.queueDuty().item(true)
	w.job = &queueJob{failed: failed, recovered: true}
	if _, err := a.sup.post(a.typ, a.addr, w); err != nil {
		w.fail(err)
	}
}

// pumped is called when messages were handled, or could not be.
func (a *activation) pumped(w *work) {
	j := w.job.(*queueJob)
	failed, wait := j.failed, retryIn(w.err, settleRetry)
	if m := j.message.Load(); m != nil && !w.paused && host.CodeOf(w.err) != host.Unavailable {
		e, _ := a.sup.publicError(w.err)
		failed, wait = &failedMessage{message: *m, cause: e}, 0
	}
	switch {
	case failed == nil:
		a.queueDuty().done(w)
	case w.err != nil:
		a.sup.again(a.addr, "message "+strconv.FormatUint(failed.message.ID, 10), w, wait, func() { a.countFailed(failed) })
	}
}

// maxPump is how many messages are handled before other work of the actor gets its turn.
const maxPump = 64

// handleQueues handles messages of the actor's own queues, each in a turn of its own, taking turns among the queues. A queue
// that cannot be worked on does not hold up the others. A node that is going away keeps what waits for its next start.
func (c *core) handleQueues(w *work, j *queueJob) {
	a, duty := c.a, c.a.queueDuty()
	if j.failed == nil {
		duty.begin() // a message that is sent from here on asks again
	}
	if !c.exists {
		c.respond(w, nil, notFound(a.addr))
		return
	}
	if j.failed != nil {
		if err := c.messageFailed(w, j.failed); err != nil {
			c.respond(w, nil, err)
			return
		}
	}
	if j.recovered {
		c.standing[keyspace.WakeQueue] = armed
	}
	names, err := c.readyQueues()
	if err != nil {
		c.respond(w, nil, err)
		return
	}
	for n := 0; len(names) > 0; n++ {
		if a.sup.draining.Load() {
			c.respond(w, nil, nil)
			return
		}
		if n > 0 && (n >= maxPump || !a.quickQueue(names[0])) {
			duty.ask()
			break
		}
		more, failed := c.handleNext(w, j, names[0], len(names) == 1 && err == nil)
		if c.ended {
			c.respond(w, nil, nil)
			return
		}
		if failed == errAbandoned || failed != nil && c.broken {
			c.respond(w, nil, failed)
			return
		}
		if failed != nil {
			err = failed
		}
		if more {
			names = append(names, names[0])
		}
		names = names[1:]
		if c.group.turns >= maxGroupTurns || c.ws.Bytes() >= maxGroupBytes {
			c.commit()
			if c.broken {
				break
			}
		}
	}
	if len(names) == 0 && err == nil && c.standing[keyspace.WakeQueue] == armed && !duty.posted.Load() && !c.broken {
		err = c.disarmQueues(w)
	}
	c.respond(w, nil, err)
}

// readyQueues returns the queues with messages for handlers.
func (c *core) readyQueues() ([]string, error) {
	var names []string
	if !slices.ContainsFunc(c.a.typ.Queues, func(q host.Queue) bool { return q.Name == host.AnyName }) {
		set := c.a.typ.newQueueSet(c.ws, c.limits, time.Now())
		for i := range c.a.typ.Queues {
			q := &c.a.typ.Queues[i]
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
	all, err := queue.AllStats(c.ws)
	if err != nil {
		return nil, err
	}
	for _, s := range all {
		if s.Pending > 0 && c.a.typ.handled(s.Queue) {
			names = append(names, s.Queue)
		}
	}
	return names, nil
}

// quickQueue reports that the handler of a queue usually takes so little time that several messages may share a commit.
func (a *activation) quickQueue(name string) bool {
	i := a.typ.queueIndex(name)
	if i < 0 {
		return false
	}
	p := a.typ.queueing().pace[i].Load()
	return p > 0 && p < int64(quickTurn)
}

// quickQueues reports that all handlers of the actor's queues are quick.
func (a *activation) quickQueues() bool {
	pace := a.typ.queueing().pace
	for i := range pace {
		if p := pace[i].Load(); a.typ.Queues[i].Handler != "" && (p == 0 || p >= int64(quickTurn)) {
			return false
		}
	}
	return true
}

// handleNext handles the next message of a queue; last says that no other queue is known to have one. The error is why the
// queue cannot be worked on; that the handler failed is no such error.
func (c *core) handleNext(w *work, j *queueJob, name string, last bool) (more bool, err error) {
	i, _, err := c.a.typ.queueOf(name)
	if err != nil {
		return false, nil // it was declared when the message was sent, and waits for code that handles it
	}
	found, left, own := false, int64(0), c.a.typ.queueing()
	start := time.Now()
	j.message.Store(nil)
	_, err = c.run(w, c.a.typ.Queues[i].Handler, func(h *turn) ([]byte, error) {
		set := h.queueSet()
		m, ok, err := set.Next(name)
		if err != nil || !ok {
			return nil, err
		}
		found = true
		j.message.Store(m)
		own.lag.Observe(h.start.Sub(m.Sent).Seconds())
		reply, err := c.inst.Message(h.host, i, m, nil)
		if err != nil {
			return nil, err
		}
		if err := set.Done(m, reply); err != nil {
			return nil, err
		}
		h.queueChange("done", name, func(d map[string]any) { d["id"] = m.ID })
		left, err = set.Pending(name)
		if left == 0 && err == nil && last && !c.a.queueDuty().posted.Load() { // else an earlier handler sent a message to another queue
			c.arm(keyspace.WakeQueue, false)
		}
		return nil, err
	})
	if found {
		updatePace(&own.pace[i], time.Since(start))
	}
	switch {
	case err == nil:
		j.message.Store(nil)
		return left > 0, nil
	case err == errAbandoned || c.broken || !found:
		return false, err
	}
	e, reason := c.a.sup.explained(c.a, w, err)
	m := j.message.Swap(nil)
	return true, c.messageFailed(w, &failedMessage{message: *m, cause: e, reason: reason})
}

// messageFailed counts a failed attempt of a message, in a turn of its own.
func (c *core) messageFailed(w *work, f *failedMessage) error {
	m := &f.message
	_, err := c.internal(w, "queue retry", func(h *turn) error {
		c.a.typ.queueing().failures.Inc()
		h.queueChange("failed", m.Queue, func(d map[string]any) { d["id"], d["attempt"], d["error"] = m.ID, m.Attempt, f.cause.Error() })
		return h.queueSet().Fail(m, f.cause, f.reason)
	})
	return err
}

// disarmQueues removes the row that brings the actor up at a start, when no message waits for its handlers.
func (c *core) disarmQueues(w *work) error {
	_, err := c.internal(w, "queue", func(h *turn) error {
		c.arm(keyspace.WakeQueue, false)
		return nil
	})
	return err
}

// queueDue is a queue's row that is due, on its way through its actor's mailbox.
type queueDue engine.Wake

// traits implements job.
func (d *queueDue) traits(*activation) traits {
	return traits{kind: "queue due", name: d.Name, code: true, quick: true}
}

// run implements job.
func (d *queueDue) run(c *core, w *work) {
	row := (*engine.Wake)(d)
	c.due(w, row, func() error { return c.queueDue(w, row) })
}

// queueDue moves the messages of a queue whose time has come.
func (c *core) queueDue(w *work, row *engine.Wake) error {
	_, err := c.internal(w, "queue due", func(h *turn) error {
		return h.queueSet().Due(row.Name, row.Due)
	})
	return err
}

// packKeys packs keys of the key-value store as they come in requests.
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

// maxUndeliveredKeys is how many keys a message may name for the case that it is not delivered.
const maxUndeliveredKeys = 10
