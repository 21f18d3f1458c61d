package mail

import (
	"cmp"
	"encoding/binary"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// One turn binds up to so many messages of a channel, so that its write set has room for them.
const (
	MaxPinned      = 256
	maxPinnedBytes = 1 << 20
)

// Run implements kernel.Job: it rewrites the rows of some of a channel's waiting messages, so that
// each names the incarnation that it is for. That is the target that exists when the first are
// bound, or the id under which the first of them will create it.
//
// The sender repeats this until all first messages with the same Target are bound to one id, and
// delivers none before that. So if the target is destroyed meanwhile, they all end with it.
// Messages that are sent meanwhile are left for another binding; else a sender that never rests
// would have none delivered.
//
// A crash between two turns leaves the first messages bound and the others as they were. That is
// safe: no message was delivered under its bound id, because all must be bound first, and rows are
// bound in the order of delivery. The next start delivers the bound messages, which may create
// their target, and then binds the others to the existing target. Only if the target was destroyed
// since, they are for its successor, like messages that were never bound.
func (b *binding) Run(c *kernel.Core, w *kernel.Work) {
	ch, s, sup := b.channel, b.sender, c.Actor.Kernel
	if c.ID != s.id {
		c.Respond(w, nil, fault.DestroyedAt(c.Actor.Address))
		return
	}
	if b.bound == 0 {
		id, ok, err := sup.Store.Lookup(sup.Identity(ch.addr))
		if err != nil {
			c.Respond(w, nil, err)
			return
		}
		if !ok {
			id = sup.NewID(ch.addr)
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
		n := len(m.Record.Input)
		if len(b.part) == MaxPinned || len(b.part) > 0 && size+n > maxPinnedBytes {
			break
		}
		m.Record.Target = b.id[:]
		b.part = append(b.part, m)
		size += n
	}
	s.mu.Unlock()
	err := c.System(w, "pin", func(h *kernel.Turn) error {
		for _, m := range b.part {
			rec, err := record.Encode(&m.Record)
			if err != nil {
				return err
			}
			if err := c.Rows.Put(keyspace.Outgoing.Append(nil, m.seq), rec,
				engine.PutOptions{Exempt: true}); err != nil {
				return err
			}
		}
		return nil
	})
	c.Respond(w, nil, err)
}

// Traits implements kernel.Job.
func (*binding) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "pin", Quick: true, Sturdy: true}
}

// Traits implements kernel.Job.
func (*settlement) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "settle", Quick: true, Sturdy: true}
}

// Run implements kernel.Job: it removes the rows of handled messages, and moves aside messages that
// cannot be handled.
func (set *settlement) Run(c *kernel.Core, w *kernel.Work) {
	if c.ID != set.sender.id { // the rows belong to the remains of the incarnation that sent them
		c.Respond(w, nil, fault.DestroyedAt(c.Actor.Address))
		return
	}
	err := c.System(w, "settle", func(h *kernel.Turn) error {
		set.entry.Join(h)
		left, err := countOutgoing(c, len(set.handled)+len(set.failed))
		if err != nil {
			return err
		}
		before := left
		remove := func(seq uint64) error {
			was, err := c.Rows.Delete(keyspace.Outgoing.Append(nil, seq))
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
			was, err := received(c, &f.message)
			if err != nil {
				return err
			}
			if was { // but that was not settled, before the node ended
				continue
			}
			if err := set.sender.Part.moveAside(h, f); err != nil {
				return err
			}
		}
		Post(c).wait(c, left-before)
		if left == 0 {
			c.Arm(keyspace.WakeSends, false)
			h.Ends = c.Actor.Left()
		}
		return nil
	})
	c.Respond(w, nil, err)
}

// received reports whether the target of an actor's message has handled it.
func received(c *kernel.Core, m *outgoing) (bool, error) {
	target := m.Record.Pinned()
	if target.IsZero() {
		return false, nil
	}
	snap := c.Actor.Kernel.Store.Snapshot(target)
	defer snap.Close()
	e, ok, err := snap.Get(keyspace.Received.Append(nil, c.ID))
	return ok && covers(e.Value, m.seq), err
}

// covers reports whether a target's row for a sender says that it has handled a message.
func covers(row []byte, seq uint64) bool { return len(row) == 8 && binary.BigEndian.Uint64(row) >= seq }

// moveAside puts a message that cannot be handled where operators find it. The message's row was
// removed.
func (p *Part) moveAside(h *kernel.Turn, f failedSend) error {
	c, m := h.Core, &f.message.Record
	e, _ := c.Actor.Kernel.PublicError(f.err)
	if give := p.handlers[m.Method].Undeliverable; give != nil && !c.Actor.Left() {
		if keep, err := give(h, m, e); err != nil || !keep {
			return err
		}
	}
	p.Failed.Inc()
	c.Actor.Kernel.Logger.Warn("message moved aside", "actor_type", c.Actor.Address.Type,
		"actor_key", c.Actor.Address.Key,
		"target", address.Format(m.Address()), "method", m.Method, "code", e.Code, "reason", cmp.Or(f.reason, e.Message))
	if c.Actor.Left() {
		return nil // nothing of a destroyed actor is kept
	}
	return KeepDeadSend(c, h, f.message.seq, &FailedRecord{
		Message: *m, Code: string(e.Code), Reason: cmp.Or(f.reason,
			e.Message), Attempts: f.attempts, Failed: h.Start.UnixMilli(),
	})
}

// A recovery loads waiting messages from the store: from before the node last stopped, or of a
// destroyed actor.
type recovery struct {
	taken func(*sender) error // called when they are loaded; nil does nothing
}

// Traits implements kernel.Job.
func (*recovery) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "recover", Quick: true, Sturdy: true}
}

// Run implements kernel.Job.
func (r *recovery) Run(c *kernel.Core, w *kernel.Work) { c.Respond(w, nil, r.recover(c, w)) }

func (r *recovery) recover(c *kernel.Core, w *kernel.Work) error {
	if err := senderOf(c).load(c); err != nil {
		return err
	}
	if r.taken != nil {
		if err := r.taken(senderOf(c)); err != nil {
			return err
		}
	}
	if left, err := countOutgoing(c, 0); err != nil || left > 0 {
		return err
	}
	err := c.System(w, "recover", func(h *kernel.Turn) error {
		c.Arm(keyspace.WakeSends, false)
		h.Ends = c.Actor.Left()
		return nil
	})
	return err
}

// Traits implements kernel.Job.
func (d *Delivery) Traits(a *kernel.Actor) kernel.Traits {
	t := kernel.Traits{Kind: "deliver", Code: true, Quick: true, Bounded: true, Creates: true, Bytes: d.bytes}
	if d.handled < len(d.messages) {
		t.Name = d.messages[d.handled].Record.Method
	}
	if len(d.messages) > 0 {
		if m, ok := a.Type.ByName[d.messages[0].Record.Method]; ok {
			t.Quick = a.Type.Pace[m].Quick(len(d.messages))
		}
	}
	return t
}

// NewID implements kernel.identified: a message creates its target under the id that its sender has
// bound it to. So a message that a destroyed actor has handled is recognised as late.
func (d *Delivery) NewID(a *kernel.Actor) (keyspace.ActorID, error) {
	return creatable(a.Kernel, d.target, a.Address)
}

// Run implements kernel.Job: it handles messages from another actor, each in a turn of its own, and
// stops at the first that fails.
func (d *Delivery) Run(c *kernel.Core, w *kernel.Work) {
	if c.ID != d.target {
		// The actor was destroyed since, or another caller created or is creating it before the
		// first message could.
		if _, dead, err := c.Actor.Kernel.Store.Tombstone(d.target); err != nil {
			d.err = err
		} else if dead {
			d.err = fault.DestroyedAt(c.Actor.Address)
		} else {
			d.err = errRepin
		}
		c.Respond(w, nil, nil)
		return
	}
	for i := range d.messages {
		if err := handle(c, w, d, &d.messages[i]); err != nil {
			if err == kernel.ErrAbandoned || c.Gone() {
				return
			}
			d.err, d.reason = c.Actor.Kernel.Explained(c.Actor, w, err)
			break
		}
		d.handled++
		if c.Broken || c.Ended {
			break
		}
	}
	c.Respond(w, nil, nil)
}

// handle runs one message in one turn, whose commit also records that it was handled.
func handle(c *kernel.Core, w *kernel.Work, d *Delivery, m *outgoing) error {
	key := keyspace.Received.Append(nil, d.from)
	if c.Exists {
		e, ok, err := c.Rows.Get(key)
		if err != nil {
			return err
		}
		if ok && covers(e.Value, m.seq) {
			return nil // handled before; only the settlement got lost
		}
	}
	t := c.Actor.Type
	if own, ok := d.mail.handlers[m.Record.Method]; ok {
		if !c.Exists && own.Missing != nil {
			if create, err := own.Missing(c); err != nil || !create {
				return err
			}
		}
		return handleInternal(c, w, key, m, own.Handle)
	}
	i, ok := t.ByName[m.Record.Method]
	if !ok || t.Methods[i].Kind != host.Action {
		return fault.UnknownMethod(t.Type, m.Record.Method)
	}
	return c.Together(func() error {
		if err := c.Exist(w); err != nil {
			return err
		}
		item := &kernel.Work{Job: w.Job, Span: host.ParseSpan(m.Record.Traceparent), Of: w}
		t.Profile.Enter("deliver", t.Methods[i].Name, true)
		_, err := c.RunTurn(item, t.Methods[i].Handler, true, func(h *kernel.Turn) ([]byte, error) {
			if err := c.Rows.Put(key, binary.BigEndian.AppendUint64(nil, m.seq), engine.PutOptions{}); err != nil {
				return nil, err
			}
			return c.Instance.Act(h.Host, i, host.CBOR, m.Record.Input, nil)
		})
		return err
	})
}

// handleInternal handles a message that is for another part of the actor.
func handleInternal(c *kernel.Core, w *kernel.Work, key []byte, m *outgoing,
	fn func(*kernel.Turn, []byte) error) error {
	return c.Together(func() error {
		if err := c.Exist(w); err != nil {
			return err
		}
		item := &kernel.Work{Job: w.Job, Span: host.ParseSpan(m.Record.Traceparent), Of: w}
		err := c.System(item, m.Record.Method, func(h *kernel.Turn) error {
			if err := c.Rows.Put(key, binary.BigEndian.AppendUint64(nil, m.seq), engine.PutOptions{}); err != nil {
				return err
			}
			return fn(h, m.Record.Input)
		})
		return err
	})
}
