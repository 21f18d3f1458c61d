package supervisor

import (
	"fmt"
	"runtime/debug"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// perform runs one item of the mailbox to the point where only its commit is missing.
func (c *core) perform(w *work) {
	c.a.sleepSoon = false
	w.job.run(c, w)
}

// respond holds a result until the group is durable.
func (c *core) respond(w *work, out []byte, err error) {
	w.leave()
	if err == errAbandoned || c.gone() {
		w.fail(unavailable("the actor was restarted")) // if the abandonment came between two turns, and could not answer
		return
	}
	r := result{w: w, out: out, version: c.version()}
	if err != nil {
		r.err = c.a.sup.public(c.a, w, err)
	}
	c.held.add(r)
}

// version is that of the last turn that wrote something.
func (c *core) version() engine.Version {
	if c.group.changed {
		return c.group.version
	}
	return c.space.Head().Version
}

// gone reports that the activation was taken away from the goroutine that runs c.
func (c *core) gone() bool { return c.a.epoch.Load() != c.epoch }

// drop answers what the core's group holds and forgets its writes.
func (c *core) drop(err *host.Error) {
	failAll(c.held.take(), err)
	c.group = &group{a: c.a}
}

// traits implements job.
func (j *call) traits(a *activation) traits {
	t := traits{kind: "call", bounded: true, creates: true, code: true, bytes: int64(len(j.input))}
	switch b := j.builtin; {
	case b != nil:
		t.name, t.bare, t.bounded = b.name, b.bare, !b.bare // or nobody could pause an actor whose mailbox is full, or raise its limits
		t.code = b.run != nil && !b.operates
		if t.quick = b.run == nil; b.pace != nil {
			t.quick = fast(b.pace)
		}
		t.sturdy = (b.act != nil || b.operates || b.sturdy) && host.OperatorMethod(b.name, a.typ.OpenSQL)
	case j.method >= 0:
		t.name, t.quick = a.typ.Methods[j.method].Name, fast(&a.typ.pace[j.method])
	}
	return t
}

// run implements job: an action, a creation or a built-in method.
func (j *call) run(c *core, w *work) {
	if w.existing && !c.exists {
		c.respond(w, nil, notFound(c.a.addr))
		return
	}
	if w.idempotencyKey != "" && c.exists {
		if r, replay, err := c.replay(w); replay || err != nil {
			w.leave()
			if err != nil {
				c.respond(w, nil, err)
			} else {
				c.held.add(r)
			}
			return
		}
	}
	if w.create && c.exists {
		c.respond(w, nil, host.Errorf(host.AlreadyExists, "actor %s exists", c.a).With("actor", c.a.String()))
		return
	}
	var out []byte
	err := c.together(func() (err error) {
		out, err = c.invoke(w)
		return err
	})
	c.respond(w, out, err)
}

// together runs the turns of one call or message. If the first of them creates the actor and a later one fails, the
// actor goes with it.
func (c *core) together(turns func() error) error {
	if c.exists {
		return turns()
	}
	before := c.mark()
	c.creating = true
	err := turns()
	c.creating = false
	if err != nil && !c.gone() {
		c.undo(before)
		if c.broken {
			return err
		}
		if lerr := c.reload(); lerr != nil {
			c.broken = true
		}
	}
	return err
}

// invoke runs the turns of a call: the creation, if the actor is new, and the action.
func (c *core) invoke(w *work) (out []byte, err error) {
	t := c.a.typ
	if w.builtin != nil {
		return c.runBuiltin(w)
	}
	if w.method < 0 || t.Methods[w.method].Kind == host.Creation {
		return c.create(w)
	}
	if err := c.exist(w); err != nil {
		return nil, err
	}
	return c.run(w, t.Methods[w.method].Handler, func(h *turn) ([]byte, error) {
		return c.inst.Act(h.host, w.method, w.codec, w.input, nil)
	})
}

// exist makes a missing actor in a turn of its own.
func (c *core) exist(w *work) error {
	if c.exists {
		return nil
	}
	if w.existing {
		return notFound(c.a.addr)
	}
	item := &work{call: call{method: -1}, ctx: w.ctx, traceparent: w.traceparent, chain: w.chain, of: w}
	item.calls()
	_, err := c.create(item)
	return err
}

// create makes the actor: directory entry, create hook, creation method.
func (c *core) create(w *work) ([]byte, error) {
	handler := "OnCreate"
	if w.method >= 0 {
		handler = c.a.typ.Methods[w.method].Handler
	}
	return c.run(w, handler, func(h *turn) (out []byte, err error) {
		if err := c.ws.Create(c.a.sup.identity(c.a.addr)); err != nil {
			return nil, err
		}
		c.exists = true
		h.lifeChange("created", "")
		if err := h.prepare(); err != nil {
			return nil, err
		}
		if err := c.inst.Create(h.host); err != nil {
			return nil, err
		}
		if err := c.inst.Wake(h.host); err != nil {
			return nil, err
		}
		if w.method < 0 {
			return nil, nil
		}
		return c.inst.Act(h.host, w.method, w.codec, w.input, nil)
	})
}

// run runs one handler as one turn: its writes join the group if it succeeds and vanish otherwise. The error is
// errAbandoned if the turn outlived its activation; then nothing of the core may be touched any more.
func (c *core) run(w *work, handler string, fn func(*turn) ([]byte, error)) ([]byte, error) {
	return c.turn(w, handler, true, fn)
}

// internal runs a turn of the runtime's own, which touches no instance.
func (c *core) internal(w *work, name string, fn func(*turn) error) ([]byte, error) {
	return c.turn(w, name, false, func(h *turn) ([]byte, error) { return nil, fn(h) })
}

func (c *core) turn(w *work, handler string, instance bool, fn func(*turn) ([]byte, error)) ([]byte, error) {
	a := c.a
	if err := c.adoptLimits(w); err != nil {
		return nil, err
	}
	t := a.sup.with.turn()
	t.c, t.a, t.work, t.handler, t.start, t.mark = c, a, w, handler, time.Now(), c.mark()
	t.version = c.ws.Advance(unixMS(t.start))
	t.deadline = t.start.Add(a.typ.base.TurnTimeout)
	if w.ctx != nil {
		if d, ok := w.ctx.Deadline(); ok && d.Before(t.deadline) {
			t.deadline = d
		}
	}
	t.from = caller{a: a, turn: t, waiter: t, depth: w.chain, traceparent: w.traceparent}
	a.turn.Store(t)
	a.sup.watchdog.watch()
	out, crashed, err := guard(t, fn)
	took := time.Since(t.start)
	t.close()
	if t.session != nil {
		t.session.wait()
	}
	if !a.turn.CompareAndSwap(t, nil) {
		// Somebody is abandoning the turn, under mu: from the end of that on, gone tells. Until then the turn could be
		// committed although its caller is told that it was not.
		a.mu.Lock()
		a.mu.Unlock() //nolint:staticcheck // only waited for
	}
	if c.gone() {
		t.dropSession()
		return nil, errAbandoned
	}
	if j, ok := w.job.(*call); !ok {
	} else if b := j.builtin; b != nil && b.pace != nil {
		updatePace(b.pace, took)
	} else if j.method >= 0 {
		updatePace(&a.typ.pace[j.method], took)
	}
	if err == nil {
		if err = c.seal(t, instance && !t.untouched, out); err == nil {
			c.group.turns++
			c.group.took += took
			if a.crashes > 0 && instance && !w.wakes() {
				a.crashes = 0
				a.sup.failures.clear(a)
			}
			a.typ.metrics.turn(took, nil)
			return out, nil
		}
	}
	a.typ.metrics.turn(took, err)
	t.dropSession()
	c.undo(t.mark)
	if !instance || t.untouched && !crashed {
		return nil, err
	}
	if crashed {
		// The handler left its instance in an unknown state: the actor is rebuilt, once the turns before it are committed.
		c.broken = true
		if c.exists && !c.creating && !w.wakes() {
			a.sup.failures.crashed(a, err)
		}
		a.sup.publishLife(a, c, "crashed", err.Error())
		return nil, err
	}
	if lerr := c.reload(); lerr != nil {
		c.broken = true
	}
	return nil, err
}

// guard calls a handler and turns a panic, or a handler that ends its goroutine, into an error.
func guard(t *turn, fn func(*turn) ([]byte, error)) (out []byte, crashed bool, err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			out, crashed, err = nil, true, t.a.sup.crashed(t.a, t.handler, p)
		} else if !returned {
			// runtime.Goexit cannot be stopped; the turn is undone by a goroutine of its own.
			t.close()
			t.dropSession()
			t.a.sup.task(func() {
				t.a.abandonTurn(t, host.Errorf(host.Crashed, "the handler %s ended its goroutine", t.handler))
			})
		}
	}()
	out, err = fn(t)
	if err == nil && t.destroyed() && !t.a.left() && !t.c.bare {
		err = t.c.inst.Destroy(t.host)
	}
	returned = true
	return out, false, err
}

// crashed makes the error for a panic and logs the stack under its id.
func (s *Supervisor) crashed(a *activation, handler string, p any) *host.Error {
	id := newErrorID()
	s.logger.Error("handler panicked", "actor_type", a.addr.Type, "actor_key", a.addr.Key, "handler", handler,
		"error_id", id, "panic", fmt.Sprint(p), "stack", string(debug.Stack()))
	return host.Errorf(host.Crashed, "the handler crashed (error %s); nothing of the turn was kept", id).With("error_id", id)
}

// updatePace folds one run's time into the moving average.
func updatePace(p interface {
	Load() int64
	Store(int64)
}, took time.Duration) {
	n := max(int64(took), 1)
	if old := p.Load(); old > 0 {
		n = old + (n-old)/8
	}
	p.Store(n)
}
