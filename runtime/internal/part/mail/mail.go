// Package mail is the part for messages to other actors: each is handled exactly once, in order per
// target.
package mail

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/duty"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for messages to other actors.
type Part struct {
	// handlers are for the messages that the runtime handles, by method.
	handlers map[string]MessageHandler

	Sent, Failures, Failed prometheus.Counter
}

var _ interface {
	survey.Explainer
	kernel.Keeper
	kernel.Meter
	kernel.Remainder
	survey.Reporter
	call.Server
} = (*Part)(nil)

// A MessageHandler handles messages of one method that are for another part of the actor.
type MessageHandler struct {
	// Check refuses, when a handler sends it, a message that no actor of the type would take; nil
	// if no handler may send it.
	Check func(target *kernel.Type, input []byte) error
	// Missing decides about a message to an actor that does not exist: create it, or count the
	// message as handled, or, with an error, as failed. nil creates it.
	Missing func(c *kernel.Core) (create bool, err error)
	// Handle handles the message in a turn of the target.
	Handle func(t *kernel.Turn, input []byte) error
	// Lasts: the message is tried until it is handled or cannot be, however many attempts it takes.
	Lasts bool
	// Undeliverable is called in a turn of the sender for a message that is given up. It returns
	// whether to keep it for operators; nil keeps it.
	Undeliverable func(t *kernel.Turn, m *MessageRecord, e *host.Error) (keep bool, err error)
}

// New makes the part.
func New() *Part {
	return &Part{
		handlers: make(map[string]MessageHandler),
		Failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_sends_failed_total",
			Help: "Messages between actors that were moved aside."}),
		Sent: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_sends_total",
			Help: "Messages sent to other actors."}),
		Failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_send_failures_total",
			Help: "Attempts of messages between actors that failed."}),
	}
}

// Handle registers the handler for messages of a method that no actor type declares.
func (p *Part) Handle(method string, h MessageHandler) { p.handlers[method] = h }

// Name implements kernel.Part.
func (*Part) Name() string { return "mail" }

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Serve(method.SendSkip, skipSend),
		call.Unwoken(call.Ask(method.SendDeadList, listDeadSends)),
		call.Act(method.SendDeadRequeue,
			func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.SendSelectInput) (host.CountOutput, error) {
				return eachDeadSend(c, h, in, true)
			}),
		call.Act(method.SendDeadDelete,
			func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.SendSelectInput) (host.CountOutput, error) {
				return eachDeadSend(c, h, in, false)
			}),
	}
}

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.Failed, p.Sent, p.Failures}
}

// StandsFor implements kernel.Recoverer.
func (*Part) StandsFor() keyspace.WakeKind { return keyspace.WakeSends }

// TakeUp implements kernel.Recoverer: it wakes an actor, or the remains of a destroyed one, for its
// messages.
func (p *Part) TakeUp(a *kernel.Actor) *kernel.Work {
	return &kernel.Work{Job: &recovery{}, Existing: true, Finish: func(w *kernel.Work) {
		if w.Err != nil && duty.MayPass(a.Kernel, w.Err) {
			a.Kernel.Later(retry.Soon, func() { a.Kernel.TakeUpOf(a.Type, a.Address, a.Remains, p.TakeUp) })
		}
	}}
}

// Remains implements kernel.Remainder: waiting messages, and messages of this turn, outlive the
// actor until they are handled. It closes the sender, which exists by now even if the destroyer of
// another part was the first to send.
func (*Part) Remains(t *kernel.Turn) ([]keyspace.Kind, error) {
	if o := attach.Get[*outbox](&t.Actor.Attached); o != nil {
		if s := o.sender.Load(); s != nil && s.id == t.Core.ID {
			t.After = append(t.After, s)
		}
	}
	n, err := countOutgoing(t.Core, 0)
	if err != nil || n+len(MailOf(t).messages) == 0 {
		return nil, err
	}
	return []keyspace.Kind{keyspace.Outgoing.Kind}, nil
}

// Bequeath implements kernel.Remainder.
func (*Part) Bequeath(t *kernel.Turn) error { return MailOf(t).Seal(t) }

// Turn is the view of handlers on messages to other actors.
type Turn struct {
	K        *kernel.Turn
	messages []outgoing // numbered when the turn is sealed
	again    bool       // messages were given up before, and take the room that they had
	sender   *sender    // delivers them
}

func (h *Turn) asMail() *Turn { return h }

// MailOf returns the messages of a turn.
func MailOf(t *kernel.Turn) *Turn { return t.Host.(interface{ asMail() *Turn }).asMail() }

// creatable returns the id under which a message may create its target.
func creatable(s *kernel.Kernel, id keyspace.ActorID, addr host.Address) (keyspace.ActorID, error) {
	if id.IsZero() {
		return id, errRepin
	}
	_, dead, err := s.Store.Tombstone(id)
	if err != nil {
		return id, err
	}
	if dead {
		return id, fault.DestroyedAt(addr)
	}
	return id, nil
}

// errRepin: the message is bound to no incarnation, or to one that never was created; its sender
// must bind it.
var errRepin = errors.New("mail: message must be bound to its target")

// Send implements host.Turn.
func (h *Turn) Send(m *host.Message) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	addr := host.Address{Type: m.Type, Key: m.Key}
	target, err := t.Actor.Kernel.TypeOf(addr)
	if err != nil {
		return err
	}
	if i, ok := target.ByName[m.Method]; ok && target.Methods[i].Kind == host.Action {
		return h.Post(addr, m.Method, m.Input)
	}
	check := kernel.PartOf[*Part](t.Actor.Kernel).handlers[m.Method].Check
	if check == nil {
		return fault.UnknownMethod(m.Type, m.Method)
	}
	if err := check(target, m.Input); err != nil {
		return err
	}
	return h.Post(addr, m.Method, m.Input)
}

// Post queues a message to another actor.
//
// REQUIRES: Turn.Mu; the address was checked.
func (h *Turn) Post(addr host.Address, method string, input []byte) error {
	t := h.K
	if len(h.messages) >= maxMessages {
		return host.OverLimit("messages of one turn", maxMessages, int64(len(h.messages))+1)
	}
	s := senderOf(t.Core)
	// The messages of earlier lives of the actor go before the first one of this life.
	if err := s.load(t.Core); err != nil {
		return err
	}
	id, err := s.incarnation(addr)
	if err != nil {
		return err
	}
	r := MessageRecord{
		Type: addr.Type, Key: addr.Key, Method: method, Input: input, Sent: t.Start.UnixMilli(), Traceparent: span.Sent(t.Actor.Spans, t.From.Span.Span(), addr.Type, method).String(),
	}
	if !id.IsZero() {
		r.Target = id[:]
	}
	if h.sender == nil {
		h.sender = s
		t.Enlist(h)
	}
	h.messages = append(h.messages, outgoing{Record: r})
	return nil
}

// Seal implements kernel.Participant: it queues the messages.
func (h *Turn) Seal(t *kernel.Turn) error {
	if len(h.messages) == 0 {
		return nil
	}
	c := t.Core
	for i := range h.messages {
		m := &h.messages[i]
		m.seq = messageSequence(t.AsOf, i)
		rec, err := record.Encode(&m.Record)
		if err != nil {
			return err
		}
		if n := len(rec); n > MaxMessageBytes {
			return host.OverLimit("bytes of a message", MaxMessageBytes, int64(n))
		}
		if err := c.Rows.Put(keyspace.Outgoing.Append(nil, m.seq), rec,
			engine.PutOptions{New: true, Exempt: h.again}); err != nil {
			return err
		}
	}
	Post(c).wait(c, len(h.messages))
	c.Arm(keyspace.WakeSends, true)
	t.After = append(t.After, h)
	return nil
}

// Collected counts messages that are in no row before the seal. REQUIRES: Turn.Mu
func (h *Turn) Collected() int { return len(h.messages) }

// Durable implements kernel.Consequence.
func (h *Turn) Durable() {
	h.sender.Part.Sent.Add(float64(len(h.messages)))
	h.sender.add(h.messages)
}

// MaxMessageBytes bounds a message to another actor, so that there is room for what is added when
// it is pinned or given up.
const MaxMessageBytes = engine.MaxValueCap - 4<<10

// messageSequence numbers messages: by the turn that sent them, then by their order in it. It only
// grows per sender.
func messageSequence(v engine.Version, i int) uint64 { return uint64(v)<<20 | uint64(i) }

// maxMessages is how many messages a turn may send.
const maxMessages = 1 << 20

// A Delivery is a batch of messages from one actor to another, in order.
type Delivery struct {
	mail     *Part
	from     keyspace.ActorID
	target   keyspace.ActorID // the incarnation that the messages are for
	messages []outgoing
	bytes    int64 // of the messages, in a mailbox
	// handled counts the messages that are done; err is why the next one is not.
	handled int
	// lost: messages were handled, but the commit was lost. hung is the place of the message that
	// caused it; 0 if it is none of these.
	lost   bool
	hung   int
	err    error
	reason string // err for operators; "" for its text
	paused bool   // the target did not take them because it is paused
}

// An outgoing message waits at its sender until its target has handled it.
type outgoing struct {
	seq    uint64
	Record MessageRecord
}

// A binding binds the first messages of a channel: see sender.pin. Turns of the sender do it, one
// at a time.
type binding struct {
	sender  *sender
	channel *channel
	id      keyspace.ActorID // the incarnation that they are bound to
	of      int              // how many must be bound; 0 until the first turn
	bound   int              // how many are, durably
	part    []outgoing       // the ones that the last turn bound
}

// A settlement has the results of a sender's messages.
type settlement struct {
	sender  *sender
	handled []uint64
	failed  []failedSend
	entry   *audit.Entry // of the verb that makes it; nil if none does
	settled func(error)  // called once, when it is durable, or the actor was destroyed before; may be nil
}

// A failedSend is a message to be moved aside.
type failedSend struct {
	message  outgoing
	err      error
	reason   string // err for operators; "" for its text
	attempts int
}
