package supervisor

import (
	"errors"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/queue"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// mailPart is the part of actors that is messages to other actors.
type mailPart struct{}

func (*mailPart) name() string { return "mail" }

// mailTurn is what handlers may do with messages to other actors.
type mailTurn struct{ t *turn }

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
func (h mailTurn) Send(m *host.Message) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.mu.Unlock()
	addr := host.Address{Type: m.Type, Key: m.Key}
	target, err := t.a.sup.typeOf(addr)
	if err != nil {
		return err
	}
	if m.Method == host.QueueSend {
		var in host.QueueSendInput
		if err := decodeInput(m.Method, host.CBOR, m.Input, &in); err != nil {
			return err
		}
		// What the queue would never take is found now, and not when the message is given up.
		messages, q, err := target.enqueues(host.CBOR, &in)
		if err == nil {
			err = queue.Check(q, messages)
		}
		if err != nil {
			return err
		}
		return t.send(addr, m.Method, m.Input)
	}
	i, ok := target.methods[m.Method]
	if !ok || target.Methods[i].Kind != host.Action {
		return unknownMethod(m.Type, m.Method)
	}
	return t.send(addr, m.Method, m.Input)
}

// send queues a message to another actor.
//
// REQUIRES: t.mu; the address was checked.
func (t *turn) send(addr host.Address, method string, input []byte) error {
	if len(t.messages) >= maxMessages {
		return host.OverLimit("messages of one turn", maxMessages, int64(len(t.messages))+1)
	}
	// The messages of earlier lives of the actor go before the first one of this life.
	if err := t.a.sender.load(t.c); err != nil {
		return err
	}
	id, err := t.a.sender.incarnation(addr)
	if err != nil {
		return err
	}
	r := messageRecord{
		Type: addr.Type, Key: addr.Key, Method: method, Input: input, Sent: unixMS(t.start), Traceparent: t.from.traceparent,
	}
	if !id.IsZero() {
		r.Target = id[:]
	}
	t.messages = append(t.messages, r)
	return nil
}

// writeMessages queues a turn's messages to other actors.
func (c *core) writeMessages(t *turn) error {
	for i, m := range t.messages {
		o := outgoing{seq: messageSequence(t.version, i), record: m}
		rec, err := record.Encode(&m)
		if err != nil {
			return err
		}
		if n := len(rec); n > maxMessageBytes {
			return host.OverLimit("bytes of a message", maxMessageBytes, int64(n))
		}
		if err := c.ws.Put(keyspace.AppendOutgoing(nil, o.seq), rec, engine.PutOptions{New: true, Exempt: t.again}); err != nil {
			return err
		}
		c.group.messages = append(c.group.messages, o)
	}
	if len(t.messages) > 0 {
		c.arm(keyspace.WakeSends, true)
	}
	return nil
}

// maxMessageBytes bounds a message to another actor, so that there is room for what is noted when it is pinned or given up.
const maxMessageBytes = engine.MaxValueCap - 4<<10

// messageSequence numbers messages: by the turn that sent them, then by their order in it. It only grows per sender.
func messageSequence(v engine.Version, i int) uint64 { return uint64(v)<<20 | uint64(i) }

// maxMessages is how many messages a turn may send.
const maxMessages = 1 << 20

// recoverSender wakes one actor for its messages, or what is left of a destroyed one.
func (s *Supervisor) recoverSender(row engine.Wake, done func()) {
	w := &work{job: &recovery{}, existing: true, finish: func(w *work) {
		done()
		if w.err != nil && s.mayPass(w.err) {
			s.later(settleRetry, func() { s.recoverSender(row, func() {}) })
		}
	}}
	ident, _, ok, err := s.store.Identity(row.ID)
	ghost := false
	if err == nil && !ok {
		var t engine.Tombstone
		if t, ghost, err = s.store.Tombstone(row.ID); ghost {
			ident = t.Identity
		}
	}
	switch t := s.types[ident.Type]; {
	case err != nil:
		s.logger.Error("recover pending messages", "actor_id", row.ID.String(), "error", err)
		done()
	case !ok && !ghost:
		if err := s.store.DropWakes([][]byte{row.Row}); err != nil {
			s.logger.Error("drop a leftover index row", "error", err)
		}
		done()
	case t == nil || t.retired && !ghost:
		s.logger.Warn("messages wait for an actor type that this node does not host", "actor_type", ident.Type)
		done()
	case ghost:
		a := newActivation(s, t, host.Address{Type: ident.Type, Key: ident.Key}, "")
		a.ghost, a.sender.id = true, row.ID
		if !s.memory.addGhost(a, row.ID) {
			done() // it was destroyed since the start, and its messages are on their way
			return
		}
		if err := a.enqueue(w); err != nil {
			done()
		}
	default:
		if _, err := s.post(t, host.Address{Type: ident.Type, Key: ident.Key}, w); err != nil {
			done()
		}
	}
}

// A delivery is a run of messages from one actor to another, in order.
type delivery struct {
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
	channel *channel
	id      keyspace.ActorID // what they are bound to
	of      int              // how many are to be bound; 0 until the first turn
	bound   int              // how many are, durably
	part    []outgoing       // what the last turn has bound of them
}

// A settlement tells a sender what became of messages.
type settlement struct {
	handled []uint64
	failed  []failedSend
	settled func() // told once, when it is durable; may be nil
	done    bool   // a turn removed the rows; guarded by sender.mu
}

// A failedSend is a message to be moved aside.
type failedSend struct {
	message  outgoing
	err      error
	reason   string // what operators read of err; "" for its text
	attempts int
}
