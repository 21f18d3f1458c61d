// Package queue is the part for queues: it notifies receivers, runs handlers and wakes the actor.
// Package queuerows has the rows.
package queue

import (
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	queuerows "github.com/cairn-run/cairn/runtime/internal/part/queue/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for queues.
type Part struct {
	sent, failures, dead prometheus.Counter
	Lag                  prometheus.Histogram
	// receiver receives the messages of queues with ByRun.
	receiver  queueReceiver
	keep      func(t *kernel.Turn, key, body []byte) error
	uncounted uncounted
}

var _ interface {
	kernel.Declarer
	survey.Explainer
	kernel.Meter
	kernel.Recoverer
	kernel.Retrier
	call.Server
	kernel.Waker
} = (*Part)(nil)

// A queueReceiver receives messages that its actor neither handles nor leaves to workers.
type queueReceiver interface {
	// Refuses returns why messages must not be sent to one of its queues; nil if they may.
	Refuses(c *kernel.Core, messages []host.Enqueue) error
	// Told is called at the end of a turn, before its commit, if one of its queues has a message to
	// receive.
	Told(t *kernel.Turn, name string) error
}

// New makes the part of queues. keep stores a body in the actor's key-value store.
func New(r queueReceiver, keep func(t *kernel.Turn, key, body []byte) error) *Part {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	}
	return &Part{
		receiver: r,
		keep:     keep,
		sent:     counter("cairn_queue_messages_total", "Messages sent to queues."),
		failures: counter("cairn_queue_failures_total", "Attempts of messages that failed."),
		dead:     counter("cairn_queue_dead_total", "Messages that became dead letters."),
		Lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_queue_lag_seconds",
			Help:    "Time from sending a message to an attempt to handle it.",
			Buckets: prometheus.ExponentialBuckets(1e-4, 4, 13)}),
	}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "queue" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(s *kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.sent, p.failures, p.dead, p.Lag, depths{s}}
}

// A queueType is the part's data of an actor type.
type queueType struct {
	*Part
	// settings are the behavior's queues with their defaults.
	settings []host.Queue
	// pace is the time that the handler of each takes.
	pace []pace.Average
}

// Queueing returns the part's data of the type.
func Queueing(t *kernel.Type) *queueType { return attach.Get[*queueType](&t.Attached) }

// Declare implements kernel.Declarer.
func (p *Part) Declare(t *kernel.Type) error {
	own := &queueType{Part: p, settings: slices.Clone(t.Queues), pace: make([]pace.Average, len(t.Queues))}
	for i := range own.settings {
		own.settings[i].EnsureDefaults()
	}
	attach.Make(&t.Attached, func() *queueType { return own })
	return nil
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeQueue} }

// Due implements kernel.Waker.
func (*Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake,
	_ func(*kernel.Work)) *kernel.Work {
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

// Retry implements kernel.Retrier: the actor handles its messages at once.
func (*Part) Retry(s *kernel.Kernel, t *kernel.Type, addr host.Address, id keyspace.ActorID) error {
	snap := s.Store.Snapshot(id)
	defer snap.Close()
	all, err := queuerows.AllStats(snap)
	if err == nil && slices.ContainsFunc(all,
		func(st host.QueueStats) bool { return st.Pending > 0 && handled(t, st.Queue) }) {
		duty.TakeUp(s, t, addr, queueDuty)
	}
	return err
}

// Turn is the view of handlers on queues.
type Turn struct {
	K   *kernel.Turn
	set *queuerows.Set // the queues as the turn sees them; nil until it uses one
}

// asQueue returns the part's view of a turn.
func (h *Turn) asQueue() *Turn { return h }

func queuesOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asQueue() *Turn }).asQueue() }

// Query is the view of query handlers on queues.
type Query struct{ K *call.Query }

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
		h.set.Keeper = (*keeper)(h)
		t.Enlist(h)
	}
	return h.set
}

// A keeper is a turn that keeps the bodies of messages that are given up.
type keeper Turn

// Keep implements queuerows.Keeper. It leaves room for the dead letter: an entry may be written
// with its version and its index.
func (k *keeper) Keep(key, body []byte) error {
	core := k.K.Core
	need := 4*len(body) + min(64<<10, core.Limits.Storage.MaxWriteSet/8)
	if err := core.Rows.Refusal(int64(need)); errors.Is(err, &engine.LimitError{}) {
		return fault.Limit(err)
	}
	return Queueing(core.Actor.Type).keep(k.K, key, body)
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
		t.ExpireAt(ms, time.Hour)
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
		if queueIndex(typ, name) < 0 {
			activationOf(t.Actor).astray = someAstray
			t.Core.Arm(keyspace.WakeQueue, true)
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
			return nil, within(i,
				host.OverLimit("bytes of a body with keys_if_undelivered",
					int64(t.Core.Limits.Storage.MaxValue), int64(len(m.Body))).With("field", "body"))
		}
	}
	typ := t.Actor.Type
	if ByRun(typ, name) {
		if err := Queueing(typ).receiver.Refuses(t.Core, messages); err != nil {
			return nil, err
		}
	}
	set := SetOf(t)
	var o *span.Operation
	if cause := t.From.Span.Span(); cause.Sampled() {
		if o, set.Span = span.New(t.Actor.Spans, "send", typ.Behavior.Type+"."+name, cause); o != nil {
			o.Began = time.Now()
		}
	}
	sent, err := set.Send(name, messages)
	span.End(t.Actor.Spans, o, err)
	if err != nil {
		return nil, err
	}
	Queueing(typ).sent.Add(float64(len(sent)))
	QueueChange(t, "send", name, func(m map[string]any) { m["messages"] = sent })
	return sent, nil
}

// QueueChange records a change of a queue to publish.
func QueueChange(t *kernel.Turn, op, name string, more func(map[string]any)) {
	t.Change(engine.ChangeQueue, name, func() any {
		m := map[string]any{"op": op, "queue": name}
		if more != nil {
			more(m)
		}
		return m
	})
}

// packKeys packs keys of the key-value store from requests.
func packKeys(keys [][]any) ([][]byte, error) {
	if len(keys) > maxUndeliveredKeys {
		return nil, host.OverLimit("keys_if_undelivered", maxUndeliveredKeys, int64(len(keys))).
			With("field", "keys_if_undelivered")
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
