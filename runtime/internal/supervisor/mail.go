package supervisor

import (
	"errors"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// mailPart is the part of actors that is messages to other actors.
type mailPart struct {
	// handlers are for the messages that the runtime handles, by method.
	handlers map[string]messageHandler

	sent, failures, failed prometheus.Counter
}

// A messageHandler says how messages of one method are handled that are for another part of the actor.
type messageHandler struct {
	// check refuses, when a handler sends it, what an actor of the type would never take; nil if no handler may send it.
	check func(target *actorType, input []byte) error
	// missing is asked about a message to an actor that does not exist: create it, or take the message for handled, or else
	// for failed. nil creates it.
	missing func(c *core) (create bool, err error)
	// handle handles the message in a turn of the target.
	handle func(t *turn, input []byte) error
	// lasts: the message is tried until it is handled or cannot be, however often that takes.
	lasts bool
	// undeliverable hears, in a turn of the sender, of a message that is given up, and says whether it is kept for operators;
	// nil keeps it.
	undeliverable func(t *turn, m *messageRecord, e *host.Error) (keep bool, err error)
}

// newMailPart makes the part.
func newMailPart() *mailPart {
	return &mailPart{
		handlers: make(map[string]messageHandler),
		failed:   prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_sends_failed_total", Help: "Messages between actors that were moved aside."}),
		sent:     prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_sends_total", Help: "Messages sent to other actors."}),
		failures: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_send_failures_total", Help: "Attempts of messages between actors that failed."}),
	}
}

// handle registers how messages of a method are handled that no actor type declares.
func (p *mailPart) handle(method string, h messageHandler) { p.handlers[method] = h }

func (*mailPart) name() string { return "mail" }

// methods implements server.
func (*mailPart) methods() []*builtin {
	return []*builtin{
		serve(host.SendSkip, (*Supervisor).skipSend),
		ask(host.SendDeadList, listDeadSends),
		existing(act(host.SendDeadRequeue, func(c *core, h *turn, _ host.Codec, in *host.SendSelectInput) (host.CountOutput, error) {
			return c.eachDeadSend(h, in, true)
		})),
		existing(act(host.SendDeadDelete, func(c *core, h *turn, _ host.Codec, in *host.SendSelectInput) (host.CountOutput, error) {
			return c.eachDeadSend(h, in, false)
		})),
	}
}

// collectors implements meter.
func (p *mailPart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.failed, p.sent, p.failures}
}

// standsFor implements recoverer.
func (*mailPart) standsFor() keyspace.WakeKind { return keyspace.WakeSends }

// takeUp implements recoverer: it wakes an actor, or what is left of a destroyed one, for its messages.
func (p *mailPart) takeUp(a *activation) *work {
	return &work{job: &recovery{}, existing: true, finish: func(w *work) {
		if w.err != nil && a.sup.mayPass(w.err) {
			a.sup.later(settleRetry, func() { a.sup.takeUpOf(a.typ, a.addr, a.remains, p.takeUp) })
		}
	}}
}

// remains implements remainder: messages that wait, and those that the turn sends, outlive the actor until they are handled.
// The sender is closed: it is there by now if a destroyer of another part was the first to send.
func (*mailPart) remains(t *turn) ([]keyspace.Kind, error) {
	if o := attachedTo[*outbox](&t.a.attached); o != nil {
		if s := o.sender.Load(); s != nil && s.id == t.c.id {
			t.after = append(t.after, s)
		}
	}
	n, err := t.c.outgoing(0)
	if err != nil || n+len(mailOf(t).messages) == 0 {
		return nil, err
	}
	return []keyspace.Kind{keyspace.KindOutgoing}, nil
}

// bequeath implements remainder.
func (*mailPart) bequeath(t *turn) error { return mailOf(t).seal(t) }

// mailTurn is what handlers may do with messages to other actors.
type mailTurn struct {
	t        *turn
	messages []outgoing // numbered when the turn is sealed
	again    bool       // messages were given up before, and take the room that they had
	sender   *sender    // delivers them
}

func (h *mailTurn) asMail() *mailTurn { return h }

// mailOf returns what a turn does with messages.
func mailOf(t *turn) *mailTurn { return t.host.(interface{ asMail() *mailTurn }).asMail() }

// creatable returns the id under which a message may create its target.
func (s *Supervisor) creatable(id keyspace.ActorID, addr host.Address) (keyspace.ActorID, error) {
	if id.IsZero() {
		return id, errRepin
	}
	_, dead, err := s.store.Tombstone(id)
	if err != nil {
		return id, err
	}
	if dead {
		return id, destroyedError(addr)
	}
	return id, nil
}

// errRepin: the message is bound to no incarnation, or to one that never came to be; its sender must bind it.
var errRepin = errors.New("supervisor: message must be bound to its target")

// Send implements host.Turn.
func (h *mailTurn) Send(m *host.Message) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	addr := host.Address{Type: m.Type, Key: m.Key}
	target, err := t.a.sup.typeOf(addr)
	if err != nil {
		return err
	}
	if i, ok := target.methods[m.Method]; ok && target.Methods[i].Kind == host.Action {
		return h.send(addr, m.Method, m.Input)
	}
	check := partOf[*mailPart](t.a.sup).handlers[m.Method].check
	if check == nil {
		return unknownMethod(m.Type, m.Method)
	}
	if err := check(target, m.Input); err != nil {
		return err
	}
	return h.send(addr, m.Method, m.Input)
}

// send queues a message to another actor.
//
// REQUIRES: turn.mu; the address was checked.
func (h *mailTurn) send(addr host.Address, method string, input []byte) error {
	t := h.t
	if len(h.messages) >= maxMessages {
		return host.OverLimit("messages of one turn", maxMessages, int64(len(h.messages))+1)
	}
	s := t.c.sender()
	// The messages of earlier lives of the actor go before the first one of this life.
	if err := s.load(t.c); err != nil {
		return err
	}
	id, err := s.incarnation(addr)
	if err != nil {
		return err
	}
	r := messageRecord{
		Type: addr.Type, Key: addr.Key, Method: method, Input: input, Sent: unixMS(t.start), Traceparent: t.from.traceparent,
	}
	if !id.IsZero() {
		r.Target = id[:]
	}
	if h.sender == nil {
		h.sender = s
		t.enlist(h)
	}
	h.messages = append(h.messages, outgoing{record: r})
	return nil
}

// seal implements participant: it queues the messages.
func (h *mailTurn) seal(t *turn) error {
	if len(h.messages) == 0 {
		return nil
	}
	c := t.c
	for i := range h.messages {
		m := &h.messages[i]
		m.seq = messageSequence(t.version, i)
		rec, err := record.Encode(&m.record)
		if err != nil {
			return err
		}
		if n := len(rec); n > maxMessageBytes {
			return host.OverLimit("bytes of a message", maxMessageBytes, int64(n))
		}
		if err := c.ws.Put(keyspace.AppendOutgoing(nil, m.seq), rec, engine.PutOptions{New: true, Exempt: h.again}); err != nil {
			return err
		}
	}
	c.post().wait(c, len(h.messages))
	c.arm(keyspace.WakeSends, true)
	t.after = append(t.after, h)
	return nil
}

// durable implements consequence.
func (h *mailTurn) durable() {
	h.sender.part.sent.Add(float64(len(h.messages)))
	h.sender.add(h.messages)
}

// maxMessageBytes bounds a message to another actor, so that there is room for what is noted when it is pinned or given up.
const maxMessageBytes = engine.MaxValueCap - 4<<10

// messageSequence numbers messages: by the turn that sent them, then by their order in it. It only grows per sender.
func messageSequence(v engine.Version, i int) uint64 { return uint64(v)<<20 | uint64(i) }

// maxMessages is how many messages a turn may send.
const maxMessages = 1 << 20

// A delivery is a run of messages from one actor to another, in order.
type delivery struct {
	mail     *mailPart
	from     keyspace.ActorID
	target   keyspace.ActorID // the incarnation that the messages are for
	messages []outgoing
	bytes    int64 // of the messages, in a mailbox
	// handled counts the messages that are done; err is why the next one is not.
	handled int
	err     error
	reason  string // what operators read of err; "" for its text
	paused  bool   // the target did not take them because it is paused
}

// An outgoing message waits at its sender until its target has handled it.
type outgoing struct {
	seq    uint64
	record messageRecord
}

// A binding is under way for the first messages of a channel: see core.pin. Turns of the sender do it, one at a time.
type binding struct {
	sender  *sender
	channel *channel
	id      keyspace.ActorID // what they are bound to
	of      int              // how many are to be bound; 0 until the first turn
	bound   int              // how many are, durably
	part    []outgoing       // what the last turn has bound of them
}

// A settlement tells a sender what became of messages.
type settlement struct {
	sender  *sender
	handled []uint64
	failed  []failedSend
	settled func(error) // told once, when it is durable, or the actor was destroyed before; may be nil
}

// A failedSend is a message to be moved aside.
type failedSend struct {
	message  outgoing
	err      error
	reason   string // what operators read of err; "" for its text
	attempts int
}
