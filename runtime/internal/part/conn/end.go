package conn

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/part/event"
)

// A tending is a job of the runtime with connection records: it records that a client was lost.
// With end it ends the connection, with row it handles a due index row, with sweep it records all
// connections that were lost because they have no live end. It decides by the rows of its own turn,
// so it may run twice, or too late.
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

// SweepPage is how many records one turn of a sweep looks at.
const SweepPage = 256

// Traits implements kernel.Job. Only the end of a connection runs the disconnect hook.
func (d *tending) Traits(a *kernel.Actor) kernel.Traits {
	hook := !d.bare && (d.end || d.row != nil)
	return kernel.Traits{Kind: "connection", Name: d.id, Code: hook, Quick: !hook ||
		a.Type.Behavior.Connections.Disconnect == "" || connTypeOf(a.Type).leave.Quick(1)}
}

// Run implements kernel.Job.
func (d *tending) Run(c *kernel.Core, w *kernel.Work) { c.Respond(w, nil, tendConnections(c, w, d)) }

// tend posts d and tries it again until it is durable. Then it calls done, if done is not nil. It
// calls done with the error if the node stops before, or if d is for a row, which the clock tries
// again. It does not block.
func tend(s *kernel.Kernel, t *kernel.Type, addr host.Address, d *tending, done func(*kernel.Work)) {
	w := work(s, t, addr, d, done)
	if _, err := s.Post(t, addr, w, nil); err != nil && done != nil {
		w.Err = err
		done(w) // the node has stopped; the next start finds the record
	}
}

// work makes the work that tend posts.
func work(s *kernel.Kernel, t *kernel.Type, addr host.Address, d *tending, done func(*kernel.Work)) *kernel.Work {
	return &kernel.Work{Job: d, Existing: true, Finish: func(w *kernel.Work) {
		if host.CodeOf(w.Err) == host.NotFound {
			w.Err = nil // the actor is gone, and all connections with it
		}
		switch code := host.CodeOf(w.Err); {
		case w.Err == nil && d.more:
			d.after, d.more, d.attempts = d.next, false, 0
			tend(s, t, addr, d, done)
		case w.Err == nil, s.Draining.Load():
			if done != nil {
				done(w)
			}
		case (code == host.Crashed || code == host.DeadlineExceeded) && !d.bare:
			// The hook crashed or did not return; the connection ends all the same.
			d.bare = true
			tend(s, t, addr, d, done)
		case d.row != nil:
			done(w)
		case code == host.ActorPaused && s.Pauses.Park(addr, "connection "+d.id, func() { tend(s, t, addr, d, done) }):
		default:
			d.attempts++
			s.Later(retry.Backoff(d.attempts, tendRetryMin, tendRetryMax), func() { tend(s, t, addr, d, done) })
		}
	}}
}

// tendAndWait is tend, and returns when the work is durable.
func tendAndWait(s *kernel.Kernel, ctx context.Context, t *kernel.Type, addr host.Address, d *tending) error {
	durable := make(chan error, 1)
	tend(s, t, addr, d, func(w *kernel.Work) { durable <- w.Err })
	select {
	case err := <-durable:
		return err
	case <-ctx.Done():
		return fault.Ended(ctx)
	case <-s.Life.Done():
		return fault.Unavailable("the node is shutting down")
	}
}

// StandsFor implements kernel.Recoverer.
func (*Part) StandsFor() keyspace.WakeKind { return keyspace.WakeConnections }

// TakeUp implements kernel.Recoverer: connections that were live when the node stopped are lost.
func (*Part) TakeUp(a *kernel.Actor) *kernel.Work {
	return work(a.Kernel, a.Type, a.Address, &tending{sweep: true}, nil)
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeConnections} }

// Due implements kernel.Waker.
func (*Part) Due(s *kernel.Kernel, t *kernel.Type, addr host.Address, row *engine.Wake,
	done func(*kernel.Work)) *kernel.Work {
	return work(s, t, addr, &tending{row: row}, done)
}

// tendConnections does the work of a tending.
func tendConnections(c *kernel.Core, w *kernel.Work, d *tending) error {
	switch {
	case d.sweep:
		return sweepConnections(c, w, d)
	case d.row != nil:
		return c.DueRow(w, d.row, func() error { return connectionDue(c, w, d) })
	case d.end:
		_, err := endConnection(c, w, d.id, d.cause, d.bare, nil)
		return err
	}
	err := c.System(w, "lose connection", func(h *kernel.Turn) error {
		rec, ok, err := readConnection(c.Rows, d.id)
		if err != nil || !ok {
			return err
		}
		return lose(h, d.id, &rec)
	})
	return err
}

// lose marks a connection as lost, unless it is marked already or another client has it.
func lose(t *kernel.Turn, id string, rec *connectionRecord) error {
	if rec.Lost != 0 || event.HubOf(t.Actor.Kernel).Holds(t.Actor.Key, id) {
		return nil
	}
	rec.Lost = t.Start.UnixMilli()
	rec.Due = graceEnd(t.Actor.Type, t.Start)
	if err := markConnection(t.Core, id, rec); err != nil {
		return err
	}
	t.Core.Rows.SetWake(rec.Due, keyspace.WakeConnections, id, "")
	connectionChange(t, "lost", id, nil)
	return nil
}

// sweepConnections marks a page of connections without a live end as lost.
func sweepConnections(c *kernel.Core, w *kernel.Work, d *tending) error {
	err := c.System(w, "sweep connections", func(h *kernel.Turn) error {
		page, more, err := listConnections(c.Rows, d.after, SweepPage)
		if err != nil {
			return err
		}
		for i := range page {
			if err := lose(h, page[i].id, &page[i].rec); err != nil {
				return err
			}
			d.next = page[i].id
		}
		if d.more = more; more {
			return nil
		}
		n, err := countConnections(c)
		if err == nil && n == 0 {
			c.Arm(keyspace.WakeConnections, false)
		}
		return err
	})
	return err
}

// connectionDue ends a connection whose client did not come back in time.
func connectionDue(c *kernel.Core, w *kernel.Work, d *tending) error {
	row := d.row
	rec, ok, err := readConnection(c.Rows, row.Name)
	if err != nil {
		return err
	}
	if !ok || rec.Due != row.Due {
		return kernel.ErrLeftover // the client came back, or the connection ended
	}
	_, err = endConnection(c, w, row.Name, fault.Unavailable("the client did not come back"), d.bare, nil)
	return err
}

// endConnection ends a connection in one turn with its disconnect hook. It returns the result of
// reply, which may be nil and gets whether there was a connection. If the hook fails, the
// connection ends without it.
func endConnection(c *kernel.Core,
	w *kernel.Work, id string, cause *host.Error, bare bool, reply func(found bool) ([]byte, error),
) ([]byte, error) {
	if reply == nil {
		reply = func(bool) ([]byte, error) { return nil, nil }
	}
	hook := c.Actor.Type.Behavior.Connections.Disconnect
	_, found, err := readConnection(c.Rows, id)
	if err != nil {
		return nil, err
	}
	if hook != "" && found && !bare {
		begun := time.Now()
		out, err := c.RunTurn(w, hook, true, func(h *kernel.Turn) ([]byte, error) {
			audit.Of(w.Ctx).Join(h)
			found, err := closeConnection(h, id, cause)
			if err != nil {
				return nil, err
			}
			return reply(found)
		})
		connTypeOf(c.Actor.Type).leave.Add(time.Since(begun))
		if err == nil || err == kernel.ErrAbandoned || c.Broken || c.Gone() {
			return out, err
		}
		c.Actor.Kernel.Logger.Warn("the disconnect hook failed; the connection ends without it",
			"actor_type", c.Actor.Address.Type,
			"actor_key", c.Actor.Address.Key, "connection", id, "handler", hook, "error", err)
	}
	return c.RunTurn(w, "end connection", false, func(h *kernel.Turn) ([]byte, error) {
		audit.Of(w.Ctx).Join(h)
		if err := h.Enter(); err != nil {
			return nil, err
		}
		defer h.Leave()
		_, found, err := dropConnection(h, id, cause)
		if err != nil {
			return nil, err
		}
		return reply(found)
	})
}

// closeConnection deletes a connection and runs its disconnect hook in this turn.
func closeConnection(t *kernel.Turn, id string, cause *host.Error) (bool, error) {
	if err := t.Enter(); err != nil {
		return false, err
	}
	rec, ok, err := dropConnection(t, id, cause)
	t.Leave()
	if err != nil || !ok {
		return false, err
	}
	if t.Actor.Type.Behavior.Connections.Disconnect == "" {
		return true, nil
	}
	st := rec.state(id)
	return true, t.Core.Instance.Disconnect(t.Host, &st, cause)
}

// dropConnection deletes a connection. Its client gets the reason when that is durable.
//
// REQUIRES: t.Mu
func dropConnection(t *kernel.Turn, id string, cause *host.Error) (connectionRecord, bool, error) {
	rec, ok, err := readConnection(t.Core.Rows, id)
	if err != nil || !ok {
		return rec, false, err
	}
	if err := removeConnection(t.Core, id, &rec); err != nil {
		return rec, false, err
	}
	connectionChange(t, "closed", id, func(m map[string]any) {
		if cause != nil {
			m["code"], m["reason"] = cause.Code, cause.Message
		}
	})
	reason := cause
	if reason == nil {
		reason = connectionClosed("the client ended the connection")
	}
	hub, key := event.HubOf(t.Actor.Kernel), t.Actor.Key
	t.Then(func() { hub.Drop(key, id, reason) })
	return rec, true, nil
}
