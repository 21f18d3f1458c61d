package supervisor

import (
	"cmp"
	"encoding/binary"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/workflow"
)

// One turn binds at most so many messages of a channel, so that its write set has room for them.
const (
	maxPinned      = 256
	maxPinnedBytes = 1 << 20
)

// run implements job: it rewrites the rows of some of a channel's waiting messages so that each names the incarnation that it is for: the target
// as it is when the first are bound, or the id under which the first of them will create it.
//
// The sender asks again until the messages that waited at first, with the same Target, are all bound to one id, and delivers
// none before that. So if the target is destroyed meanwhile, they end with it, however many there are. Messages that are sent
// meanwhile are left for another binding: a sender that never rests would have none delivered.
//
// A crash between two turns leaves the first messages bound and the others as they were. That is safe: no message was
// delivered under the id it is bound to, because those were all to be bound first, and rows are bound in the order of
// delivery. The next start delivers the bound ones, which may create their target, and then binds the others to the target
// that there is. Only if the target was destroyed since are they for its successor, like messages that were never looked at.
func (b *binding) run(c *core, w *work) {
	ch := b.channel
	s := c.a.sender
	sup := c.a.sup
	if b.bound == 0 {
		id, ok, err := sup.store.Lookup(sup.identity(ch.addr))
		if err != nil {
			c.respond(w, nil, err)
			return
		}
		if !ok {
			id = sup.newID(ch.addr)
		}
		b.id = id
	}
	b.part = b.part[:0]
	size := 0
	s.mu.Lock()
	if b.of == 0 {
		b.of = ch.alike(len(ch.queue))
	}
	for _, m := range ch.queue[b.bound:b.of] {
		n := len(m.record.Input)
		if len(b.part) == maxPinned || len(b.part) > 0 && size+n > maxPinnedBytes {
			break
		}
		m.record.Target = b.id[:]
		b.part = append(b.part, m)
		size += n
	}
	s.mu.Unlock()
	_, err := c.internal(w, "pin", func(h *turn) error {
		for _, m := range b.part {
			rec, err := record.Encode(&m.record)
			if err != nil {
				return err
			}
			if err := c.ws.Put(keyspace.AppendOutgoing(nil, m.seq), rec, engine.PutOptions{Exempt: true}); err != nil {
				return err
			}
		}
		return nil
	})
	c.respond(w, nil, err)
}

// traits implements job.
func (*binding) traits(*activation) traits { return traits{kind: "pin", quick: true, sturdy: true} }

// traits implements job.
func (*settlement) traits(*activation) traits {
	return traits{kind: "settle", quick: true, sturdy: true}
}

// run implements job: it removes the rows of messages that were handled, and moves those aside that cannot be.
func (set *settlement) run(c *core, w *work) {
	s := c.a.sender
	n := len(set.handled) + len(set.failed)
	s.mu.Lock()
	last := s.pending-s.settling == n && len(c.group.messages) == 0 // no other message is in a row, durable or on its way there
	s.mu.Unlock()
	_, err := c.internal(w, "settle", func(h *turn) error {
		for _, seq := range set.handled {
			if _, err := c.ws.Delete(keyspace.AppendOutgoing(nil, seq)); err != nil {
				return err
			}
		}
		for _, f := range set.failed {
			if err := c.moveAside(h, f); err != nil {
				return err
			}
		}
		if last {
			c.arm(keyspace.WakeSends, false)
			h.destroy = c.a.ghost
		}
		return nil
	})
	if err == nil {
		s.mu.Lock()
		s.settling += n
		set.done = true
		s.mu.Unlock()
	}
	c.respond(w, nil, err)
}

// moveAside puts a message that cannot be handled where operators find it.
func (c *core) moveAside(h *turn, f failedSend) error {
	if _, err := c.ws.Delete(keyspace.AppendOutgoing(nil, f.message.seq)); err != nil {
		return err
	}
	e, _ := publicError(f.err)
	if m := &f.message.record; (m.Method == runDeliver || m.Method == runAsk) && !c.a.ghost {
		out := workflow.Outgoing{To: workflow.Destination{Type: m.Type, Key: m.Key}, Body: m.Input}
		if err := c.tolerate(workflow.Undeliverable(&runRows{h: h, exempt: true}, &out, e)); err != nil {
			return err
		}
		if err := c.flowKnown(); err != nil {
			return err
		}
		c.runNews(h)
		if m.Method == runAsk {
			return nil // the run has its answer: there is nothing to look at or to send again
		}
	}
	c.a.sup.metrics.sendsFailed.Inc()
	c.a.sup.logger.Warn("message moved aside", "actor_type", c.a.addr.Type, "actor_key", c.a.addr.Key,
		"target", formatAddress(f.message.record.address()), "method", f.message.record.Method, "code", e.Code, "reason", cmp.Or(f.reason, e.Message))
	if c.a.ghost {
		return nil // nothing of a destroyed actor is kept
	}
	return c.keepDeadSend(h, f.message.seq, &failedRecord{
		Message: f.message.record, Code: string(e.Code), Reason: cmp.Or(f.reason, e.Message), Attempts: f.attempts, Failed: unixMS(h.start),
	})
}

// A recovery takes up the messages that were pending when the node last stopped.
type recovery struct {
	taken func(*sender) error // called when they are taken up; nil does nothing
}

// traits implements job.
func (*recovery) traits(*activation) traits {
	return traits{kind: "recover", quick: true, sturdy: true}
}

// run implements job.
func (r *recovery) run(c *core, w *work) { c.respond(w, nil, r.recover(c, w)) }

func (r *recovery) recover(c *core, w *work) error {
	if err := c.a.sender.load(c); err != nil {
		return err
	}
	if r.taken != nil {
		if err := r.taken(c.a.sender); err != nil {
			return err
		}
	}
	if c.a.sender.active() {
		return nil
	}
	_, err := c.internal(w, "recover", func(h *turn) error {
		c.arm(keyspace.WakeSends, false)
		h.destroy = c.a.ghost
		return nil
	})
	return err
}

// traits implements job.
func (d *delivery) traits(a *activation) traits {
	t := traits{kind: "deliver", code: true, quick: true, bounded: true, creates: true, bytes: d.bytes}
	if d.handled < len(d.messages) {
		t.name = d.messages[d.handled].record.Method
	}
	if len(d.messages) > 0 {
		if m, ok := a.typ.methods[d.messages[0].record.Method]; ok {
			p := a.typ.pace[m].Load()
			t.quick = p > 0 && p*int64(len(d.messages)) < int64(quickTurn)
		}
	}
	return t
}

// newID implements identified: a message creates its target under the id that its sender has bound it to, so that a message
// which was handled by an actor that is gone by now is known to be late.
func (d *delivery) newID(a *activation) (keyspace.ActorID, error) {
	return a.sup.creatable(d.target, a.addr)
}

// run implements job: it handles messages from another actor, each in a turn of its own, and stops at the first that fails.
func (d *delivery) run(c *core, w *work) {
	if c.id != d.target {
		// The actor was destroyed since, or somebody else made it, or is about to, before the first message could.
		if _, dead, err := c.a.sup.store.Tombstone(d.target); err != nil {
			d.err = err
		} else if dead {
			d.err = destroyedError(c.a.addr)
		} else {
			d.err = errRepin
		}
		c.respond(w, nil, nil)
		return
	}
	for i := range d.messages {
		if err := c.handle(w, d.from, &d.messages[i]); err != nil {
			if err == errAbandoned || c.gone() {
				return
			}
			d.err, d.reason = c.a.sup.explained(c.a, w, err)
			break
		}
		d.handled++
		if c.broken || c.ended {
			break
		}
	}
	c.respond(w, nil, nil)
}

// handle runs one message in one turn, whose commit also records that it was handled.
func (c *core) handle(w *work, from keyspace.ActorID, m *outgoing) error {
	key := keyspace.AppendReceived(nil, from)
	if c.exists {
		e, ok, err := c.ws.Get(key)
		if err != nil {
			return err
		}
		if ok && len(e.Value) == 8 && binary.BigEndian.Uint64(e.Value) >= m.seq {
			return nil // handled before; only the settlement got lost
		}
	}
	t := c.a.typ
	if forRun(m.record.Method) {
		switch {
		case c.exists:
		case m.record.Method == runTell:
			return nil // its target is gone
		case m.record.Method == runAsk:
			return destroyedError(c.a.addr)
		}
		return c.handleInternal(w, key, m, func(h *turn) error { return c.receiveRun(h, m.record.Input) })
	}
	if m.record.Method == host.QueueSend {
		return c.handleInternal(w, key, m, func(h *turn) error {
			var in host.QueueSendInput
			if err := decodeInput(host.QueueSend, host.CBOR, m.record.Input, &in); err != nil {
				return err
			}
			_, err := queueSend(c, h, host.CBOR, &in)
			return err
		})
	}
	i, ok := t.methods[m.record.Method]
	if !ok || t.Methods[i].Kind != host.Action {
		return unknownMethod(t.Type, m.record.Method)
	}
	return c.together(func() error {
		if err := c.exist(w); err != nil {
			return err
		}
		item := &work{job: w.job, traceparent: m.record.Traceparent, of: w}
		_, err := c.run(item, t.Methods[i].Handler, func(h *turn) ([]byte, error) {
			if err := c.ws.Put(key, binary.BigEndian.AppendUint64(nil, m.seq), engine.PutOptions{}); err != nil {
				return nil, err
			}
			return c.inst.Act(h.host, i, host.CBOR, m.record.Input, nil)
		})
		return err
	})
}

// handleInternal handles a message that is for the runtime: one for the actor's workflow run, or for a queue.
func (c *core) handleInternal(w *work, key []byte, m *outgoing, fn func(*turn) error) error {
	return c.together(func() error {
		if err := c.exist(w); err != nil {
			return err
		}
		item := &work{job: w.job, traceparent: m.record.Traceparent, of: w}
		_, err := c.internal(item, m.record.Method, func(h *turn) error {
			if err := c.ws.Put(key, binary.BigEndian.AppendUint64(nil, m.seq), engine.PutOptions{}); err != nil {
				return err
			}
			return fn(h)
		})
		return err
	})
}
