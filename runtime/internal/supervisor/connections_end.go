package supervisor

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A tending is a task of the runtime's own with connection records: to note that a client was lost, or, with end, to end the
// connection; with row, what an index row that is due says; with sweep, to note all that were lost because nobody holds
// them. What is noted is what is so when its turn comes, so it may be done twice, or too late.
type tending struct {
	id    string
	end   bool
	cause *host.Error // why it ends; nil if the client ended it
	row   *engine.Wake
	sweep bool
	// bare leaves out the disconnect hook, which has failed.
	bare bool
	// A sweep goes on after a connection. next is where, if the turn is kept and more is set.
	after, next string
	more        bool
	attempts    int
}

// A tending that failed is tried again after 1 second, doubling up to 5 minutes.
const (
	tendRetryMin = time.Second
	tendRetryMax = 5 * time.Minute
)

// sweepPage is how many records one turn of a sweep looks at.
const sweepPage = 256

// traits implements job. Only the end of a connection runs the disconnect hook.
func (d *tending) traits(a *activation) traits {
	hook := !d.bare && (d.end || d.row != nil)
	return traits{kind: "connection", name: d.id, code: hook, quick: !hook || a.typ.Behavior.Connections.Disconnect == "" || fast(&connTypeOf(a.typ).leave)}
}

// run implements job.
func (d *tending) run(c *core, w *work) { c.respond(w, nil, c.tendConnections(w, d)) }

// tend posts d, and tries it again until it is durable, then calls done, if that is not nil; with the error if the node
// stops before, or d is of a row, which is tried again when the clock says so. It does not block.
func (s *Supervisor) tend(t *actorType, addr host.Address, d *tending, done func(*work)) {
	w := s.tending(t, addr, d, done)
	if _, err := s.post(t, addr, w); err != nil && done != nil {
		w.err = err
		done(w) // the node has stopped; the next start finds the record
	}
}

// tending makes the work that tend posts.
func (s *Supervisor) tending(t *actorType, addr host.Address, d *tending, done func(*work)) *work {
	return &work{job: d, existing: true, finish: func(w *work) {
		if host.CodeOf(w.err) == host.NotFound {
			w.err = nil // the actor is gone, and all connections with it
		}
		switch code := host.CodeOf(w.err); {
		case w.err == nil && d.more:
			d.after, d.more, d.attempts = d.next, false, 0
			s.tend(t, addr, d, done)
		case w.err == nil, s.draining.Load():
			if done != nil {
				done(w)
			}
		case (code == host.Crashed || code == host.DeadlineExceeded) && !d.bare:
			// The hook crashed or did not return; the connection ends all the same.
			d.bare = true
			s.tend(t, addr, d, done)
		case d.row != nil:
			done(w)
		case code == host.ActorPaused && s.pauses.park(addr, "connection "+d.id, func() { s.tend(t, addr, d, done) }):
		default:
			d.attempts++
			s.later(backoff(d.attempts, tendRetryMin, tendRetryMax), func() { s.tend(t, addr, d, done) })
		}
	}}
}

// tendAndWait tends, and returns when that is durable.
func (s *Supervisor) tendAndWait(ctx context.Context, t *actorType, addr host.Address, d *tending) error {
	durable := make(chan error, 1)
	s.tend(t, addr, d, func(w *work) { durable <- w.err })
	select {
	case err := <-durable:
		return err
	case <-ctx.Done():
		return contextError(ctx)
	case <-s.life.Done():
		return unavailable("the node is shutting down")
	}
}

// standsFor implements recoverer.
func (*connPart) standsFor() keyspace.WakeKind { return keyspace.WakeConnections }

// takeUp implements recoverer: the connections that the node was holding when it stopped are lost.
func (*connPart) takeUp(a *activation) *work {
	return a.sup.tending(a.typ, a.addr, &tending{sweep: true}, nil)
}

// kinds implements waker.
func (*connPart) kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeConnections} }

// due implements waker.
func (*connPart) due(s *Supervisor, t *actorType, addr host.Address, row *engine.Wake, done func(*work)) *work {
	return s.tending(t, addr, &tending{row: row}, done)
}

// tendConnections does what a tending asks for.
func (c *core) tendConnections(w *work, d *tending) error {
	switch {
	case d.sweep:
		return c.sweepConnections(w, d)
	case d.row != nil:
		return c.dueRow(w, d.row, func() error { return c.connectionDue(w, d) })
	case d.end:
		_, err := c.endConnection(w, d.id, d.cause, d.bare, nil)
		return err
	}
	_, err := c.internal(w, "lose connection", func(h *turn) error {
		rec, ok, err := readConnection(c.ws, d.id)
		if err != nil || !ok {
			return err
		}
		return h.lose(d.id, &rec)
	})
	return err
}

// lose notes that the client of a connection was lost, unless that is known or another client has it.
func (t *turn) lose(id string, rec *connectionRecord) error {
	if rec.Lost != 0 || hubOf(t.a.sup).holds(t.a.key, id) {
		return nil
	}
	rec.Lost = unixMS(t.start)
	rec.Due = t.a.typ.graceEnd(t.start)
	if err := t.c.markConnection(id, rec); err != nil {
		return err
	}
	t.c.ws.SetWake(rec.Due, keyspace.WakeConnections, id, "")
	t.connectionChange("lost", id, nil)
	return nil
}

// sweepConnections notes a page of connections that nobody holds as lost.
func (c *core) sweepConnections(w *work, d *tending) error {
	_, err := c.internal(w, "sweep connections", func(h *turn) error {
		page, more, err := listConnections(c.ws, d.after, sweepPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := h.lose(page[i].id, &page[i].rec); err != nil {
				return err
			}
			d.next = page[i].id
		}
		if d.more = more; more {
			return nil
		}
		n, err := c.countConnections()
		if err == nil && n == 0 {
			c.arm(keyspace.WakeConnections, false)
		}
		return err
	})
	return err
}

// connectionDue ends a connection whose client did not come back in time.
func (c *core) connectionDue(w *work, d *tending) error {
	row := d.row
	rec, ok, err := readConnection(c.ws, row.Name)
	if err != nil {
		return err
	}
	if !ok || rec.Due != row.Due {
		return errLeftover // the client came back, or the connection ended
	}
	_, err = c.endConnection(w, row.Name, unavailable("the client did not come back"), d.bare, nil)
	return err
}

// endConnection ends a connection in one turn with its disconnect hook, and returns what reply, which may be nil, makes of
// whether there was one. If the hook fails, the connection ends without it.
func (c *core) endConnection(
	w *work, id string, cause *host.Error, bare bool, reply func(found bool) ([]byte, error),
) ([]byte, error) {
	if reply == nil {
		reply = func(bool) ([]byte, error) { return nil, nil }
	}
	hook := c.a.typ.Behavior.Connections.Disconnect
	_, found, err := readConnection(c.ws, id)
	if err != nil {
		return nil, err
	}
	if hook != "" && found && !bare {
		begun := time.Now()
		out, err := c.run(w, hook, func(h *turn) ([]byte, error) {
			found, err := h.closeConnection(id, cause)
			if err != nil {
				return nil, err
			}
			return reply(found)
		})
		updatePace(&connTypeOf(c.a.typ).leave, time.Since(begun))
		if err == nil || err == errAbandoned || c.broken || c.gone() {
			return out, err
		}
		c.a.sup.logger.Warn("the disconnect hook failed; the connection ends without it", "actor_type", c.a.addr.Type,
			"actor_key", c.a.addr.Key, "connection", id, "handler", hook, "error", err)
	}
	return c.turn(w, "end connection", false, func(h *turn) ([]byte, error) {
		if err := h.enter(); err != nil {
			return nil, err
		}
		defer h.leave()
		_, found, err := h.dropConnection(id, cause)
		if err != nil {
			return nil, err
		}
		return reply(found)
	})
}

// closeConnection deletes a connection and runs its disconnect hook in this turn.
func (t *turn) closeConnection(id string, cause *host.Error) (bool, error) {
	if err := t.enter(); err != nil {
		return false, err
	}
	rec, ok, err := t.dropConnection(id, cause)
	t.leave()
	if err != nil || !ok {
		return false, err
	}
	if t.a.typ.Behavior.Connections.Disconnect == "" {
		return true, nil
	}
	st := rec.state(id)
	return true, t.c.inst.Disconnect(t.host, &st, cause)
}

// dropConnection deletes a connection. Its client learns why when that is durable.
//
// REQUIRES: t.mu
func (t *turn) dropConnection(id string, cause *host.Error) (connectionRecord, bool, error) {
	rec, ok, err := readConnection(t.c.ws, id)
	if err != nil || !ok {
		return rec, false, err
	}
	if err := t.c.removeConnection(id, &rec); err != nil {
		return rec, false, err
	}
	t.connectionChange("closed", id, func(m map[string]any) {
		if cause != nil {
			m["code"], m["reason"] = cause.Code, cause.Message
		}
	})
	reason := cause
	if reason == nil {
		reason = connectionClosed("the client ended the connection")
	}
	hub, key := hubOf(t.a.sup), t.a.key
	t.then(func() { hub.drop(key, id, reason) })
	return rec, true, nil
}
