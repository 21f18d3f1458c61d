package supervisor

import (
	"cmp"
	"encoding/binary"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
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
	ch, s, sup := b.channel, b.sender, c.a.sup
	if c.id != s.id {
		c.respond(w, nil, destroyedError(c.a.addr))
		return
	}
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
	if c.id != set.sender.id { // the rows belong to what is left of the incarnation that sent them
		c.respond(w, nil, destroyedError(c.a.addr))
		return
	}
	_, err := c.internal(w, "settle", func(h *turn) error {
		left, err := c.outgoing(len(set.handled) + len(set.failed))
		if err != nil {
			return err
		}
		before := left
		remove := func(seq uint64) error {
			was, err := c.ws.Delete(keyspace.AppendOutgoing(nil, seq))
			if was {
				left--
			}
			return err
		}
		for _, seq := range set.handled {
			if err := remove(seq); err != nil {
				return err
			}
		}
		for _, f := range set.failed {
			if err := remove(f.message.seq); err != nil {
				return err
			}
			if err := set.sender.part.moveAside(h, f); err != nil {
				return err
			}
		}
		c.post().wait(c, left-before)
		if left == 0 {
			c.arm(keyspace.WakeSends, false)
			h.destroy = c.a.left()
		}
		return nil
	})
	c.respond(w, nil, err)
}

// moveAside puts a message that cannot be handled, and whose row was removed, where operators find it.
func (p *mailPart) moveAside(h *turn, f failedSend) error {
	c, m := h.c, &f.message.record
	e, _ := c.a.sup.publicError(f.err)
	if give := p.handlers[m.Method].undeliverable; give != nil && !c.a.left() {
		if keep, err := give(h, m, e); err != nil || !keep {
			return err
		}
	}
	p.failed.Inc()
	c.a.sup.logger.Warn("message moved aside", "actor_type", c.a.addr.Type, "actor_key", c.a.addr.Key,
		"target", formatAddress(m.address()), "method", m.Method, "code", e.Code, "reason", cmp.Or(f.reason, e.Message))
	if c.a.left() {
		return nil // nothing of a destroyed actor is kept
	}
	return c.keepDeadSend(h, f.message.seq, &failedRecord{
		Message: *m, Code: string(e.Code), Reason: cmp.Or(f.reason, e.Message), Attempts: f.attempts, Failed: unixMS(h.start),
	})
}

// A recovery takes up messages that wait in the store: from before the node last stopped, or of an actor that is destroyed.
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
	if err := c.sender().load(c); err != nil {
		return err
	}
	if r.taken != nil {
		if err := r.taken(c.sender()); err != nil {
			return err
		}
	}
	if left, err := c.outgoing(0); err != nil || left > 0 {
		return err
	}
	_, err := c.internal(w, "recover", func(h *turn) error {
		c.arm(keyspace.WakeSends, false)
		h.destroy = c.a.left()
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
		if err := c.handle(w, d, &d.messages[i]); err != nil {
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
func (c *core) handle(w *work, d *delivery, m *outgoing) error {
	key := keyspace.AppendReceived(nil, d.from)
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
	if own, ok := d.mail.handlers[m.record.Method]; ok {
		if !c.exists && own.missing != nil {
			if create, err := own.missing(c); err != nil || !create {
				return err
			}
		}
		return c.handleInternal(w, key, m, own.handle)
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

// handleInternal handles a message that is for another part of the actor.
func (c *core) handleInternal(w *work, key []byte, m *outgoing, fn func(*turn, []byte) error) error {
	return c.together(func() error {
		if err := c.exist(w); err != nil {
			return err
		}
		item := &work{job: w.job, traceparent: m.record.Traceparent, of: w}
		_, err := c.internal(item, m.record.Method, func(h *turn) error {
			if err := c.ws.Put(key, binary.BigEndian.AppendUint64(nil, m.seq), engine.PutOptions{}); err != nil {
				return err
			}
			return fn(h, m.record.Input)
		})
		return err
	})
}
