package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/reply"
)

// Respond holds a result until the group is durable.
func (c *Core) Respond(w *Work, out []byte, err error) {
	w.Leave()
	if err == ErrAbandoned || c.Gone() {
		w.Fail(fault.Unavailable("the actor was restarted")) // if the abandonment came between two turns, and could not answer
		return
	}
	r := result{w: w, out: out, version: c.Group.version}
	if !c.Group.Changed {
		r.version = c.space.Head().Version
	}
	if err != nil {
		r.err = c.Actor.Kernel.Public(c.Actor, w, err)
	}
	c.hold(r)
}

// Gone reports whether the Actor was taken away from the goroutine that runs c.
func (c *Core) Gone() bool { return c.Actor.Epoch.Load() != c.epoch }

// drop fails the results that the core's group holds, and forgets its writes.
func (c *Core) drop(err *host.Error) {
	failAll(c.held.Take(), err)
	c.Group = &Group{a: c.Actor}
}

// Traits implements Job.
func (j *Call) Traits(a *Actor) Traits {
	t := Traits{Kind: "call", Declared: true, Bounded: true, Creates: true, Code: true, Bytes: int64(len(j.Input)) + j.Bytes}
	switch b := j.Builtin; {
	case b != nil:
		t.Name, t.bare, t.Bounded = b.Row.Name, b.Bare, !b.Bare // or nobody could pause an actor whose mailbox is full, or raise its limits
		t.Code = b.Instance && !b.Operates
		if t.Quick = !b.Instance; b.Pace != nil {
			t.Quick = b.Pace.Quick(1)
		}
		t.Sturdy = b.Operates || b.operators(a.Type)
	case j.Method >= 0:
		t.Name, t.Quick = a.Type.Methods[j.Method].Name, a.Type.Pace[j.Method].Quick(1)
	}
	return t
}

// Run implements Job: an action, a creation or a built-in method.
func (j *Call) Run(c *Core, w *Work) {
	if w.Existing && !c.Exists {
		c.Respond(w, nil, fault.NotFound(c.Actor.Address))
		return
	}
	if w.idempotencyKey != "" && c.Exists {
		if r, replay, err := reply.Find(c.Rows, w.keyed(c.Actor)); err != nil {
			c.Respond(w, nil, err)
			return
		} else if replay {
			w.Leave()
			c.hold(result{w: w, out: r.Output, version: r.Version, replayed: true})
			return
		}
	}
	if w.Create && c.Exists {
		c.Respond(w, nil, host.Errorf(host.AlreadyExists, "actor %s exists", c.Actor).With("actor", c.Actor.String()))
		return
	}
	if c.Exists {
		out, err := c.invoke(w)
		c.Respond(w, out, err)
		return
	}
	var out []byte
	err := c.Together(func() (err error) {
		out, err = c.invoke(w)
		return err
	})
	c.Respond(w, out, err)
}

// Together runs the turns of one call or message. If the first of them creates the actor and a
// later one fails, the actor goes with it.
func (c *Core) Together(turns func() error) error {
	if c.Exists {
		return turns()
	}
	before := c.mark()
	c.joint = creating
	err := turns()
	c.joint = single
	if err != nil && !c.Gone() {
		c.undo(&before)
		if c.Broken {
			return err
		}
		if lerr := c.reload(); lerr != nil {
			c.Broken = true
		}
	}
	return err
}

// invoke runs the turns of a call: the creation, if the actor is new, and the action.
func (c *Core) invoke(w *Work) (out []byte, err error) {
	t := c.Actor.Type
	if w.Builtin != nil {
		if err := c.Exist(w); err != nil {
			return nil, err
		}
		return w.Builtin.Run(c, w)
	}
	if w.Method < 0 || t.Methods[w.Method].Kind == host.Creation {
		return c.create(w)
	}
	if !c.Exists {
		if err := c.Exist(w); err != nil {
			return nil, err
		}
	}
	return c.RunTurn(w, t.Methods[w.Method].Handler, true, func(h *Turn) ([]byte, error) {
		return c.Instance.Act(h.Host, w.Method, w.Codec, w.Input, nil)
	})
}

// Exist makes a missing actor in a turn of its own.
func (c *Core) Exist(w *Work) error {
	if c.Exists {
		return nil
	}
	if w.Existing {
		return fault.NotFound(c.Actor.Address)
	}
	item := &Work{Call: Call{Method: -1}, Ctx: w.Ctx, Span: w.Span, Chain: w.Chain, Of: w}
	item.Job = &item.Call
	if _, err := c.create(item); err != nil || !c.Ended {
		return err
	}
	return fault.DestroyedAt(c.Actor.Address) // by a hook
}

// create makes the actor: directory entry, create hook, creation method.
func (c *Core) create(w *Work) ([]byte, error) {
	handler := "OnCreate"
	if w.Method >= 0 {
		handler = c.Actor.Type.Methods[w.Method].Handler
	}
	return c.RunTurn(w, handler, true, func(h *Turn) (out []byte, err error) {
		if err := c.Rows.Create(c.Actor.Kernel.Identity(c.Actor.Address)); err != nil {
			return nil, err
		}
		c.Exists = true
		h.LifeChange("created", "")
		if err := h.prepare(); err != nil {
			return nil, err
		}
		if err := c.Instance.Create(h.Host); err != nil {
			return nil, err
		}
		if err := c.Instance.Wake(h.Host); err != nil {
			return nil, err
		}
		if w.Method < 0 {
			return nil, nil
		}
		return c.Instance.Act(h.Host, w.Method, w.Codec, w.Input, nil)
	})
}

// System runs a turn of the runtime's own, which touches no instance.
func (c *Core) System(w *Work, name string, fn func(*Turn) error) error {
	_, err := c.RunTurn(w, name, false, func(h *Turn) ([]byte, error) { return nil, fn(h) })
	return err
}

// RunTurn runs fn as one turn: its writes join the group if it succeeds and vanish otherwise.
// instance: fn may use the instance, so its state is saved, or put back if the turn fails. The
// error is ErrAbandoned if the turn outlived its Actor; then nothing of the core may be touched.
func (c *Core) RunTurn(w *Work, handler string, instance bool, fn func(*Turn) ([]byte, error)) ([]byte, error) {
	a := c.Actor
	if err := c.adoptLimits(w); err != nil {
		return nil, err
	}
	t := a.Kernel.with.Turn()
	t.Core, t.Actor, t.Work, t.Handler, t.mark = c, a, w, handler, c.mark()
	t.Begin(w.Ctx, time.Now(), a.Type.Base.TurnTimeout)
	t.AsOf = c.Rows.Advance(t.Start.UnixMilli())
	t.From = Caller{Waiter: t, Kind: FromTurn, Depth: w.Chain}
	t.Begins()
	a.Turn.Store(t)
	a.Kernel.Watchdog.Start()
	out, crashed, err := guard(t, fn)
	took := time.Since(t.Start)
	t.Close()
	if t.Session != nil {
		t.Session.Wait()
	}
	if !a.Turn.CompareAndSwap(t, nil) {
		// Another goroutine is abandoning the turn, under mu. When it is done, Gone returns true.
		// Until then the turn could be committed although its caller is told that it was not.
		a.Mu.Lock()
		//lint:ignore SA2001 the other goroutine holds mu until it is done
		a.Mu.Unlock()
	}
	if c.Gone() {
		t.dropSession()
		return nil, ErrAbandoned
	}
	if j, ok := w.Job.(*Call); !ok {
	} else if b := j.Builtin; b != nil && b.Pace != nil {
		b.Pace.Add(took)
	} else if j.Method >= 0 {
		a.Type.Pace[j.Method].Add(took)
	}
	if err == nil {
		if crashed, err = c.seal(t, instance && !t.Untouched, out); err == nil {
			c.Group.Turns++
			c.Group.took += took
			if a.crashes > 0 && instance && !w.wakes() {
				a.crashes = 0
				a.Kernel.Recovered(a.Key)
			}
			a.Type.Metrics.Turn(took, nil)
			t.over(took, nil)
			return out, nil
		}
	}
	a.Type.Metrics.Turn(took, err)
	t.over(took, err)
	t.dropSession()
	c.undo(&t.mark)
	if !instance || t.Untouched && !crashed {
		return nil, err
	}
	if crashed {
		// The handler left its instance in an unknown state: the actor is rebuilt, once the turns
		// before it are committed.
		c.Broken = true
		if c.Exists && c.joint != creating && !w.wakes() {
			a.crashed(err)
		}
		c.published("crashed", err.Error())
		return nil, err
	}
	if lerr := c.reload(); lerr != nil {
		c.Broken = true
	}
	return nil, err
}

// guard calls a handler and turns a panic, or a handler that ends its goroutine, into an error.
func guard(t *Turn, fn func(*Turn) ([]byte, error)) (out []byte, crashed bool, err error) {
	returned := false
	defer func() {
		if p := recover(); p != nil {
			out, crashed, err = nil, true, t.Actor.Kernel.Crashed(t.Actor.Address, t.Handler, p, t.attrs()...)
		} else if !returned {
			// runtime.Goexit cannot be stopped; the turn is undone by a goroutine of its own.
			t.Close()
			t.dropSession()
			t.Actor.Kernel.Go(func() {
				t.Actor.AbandonTurn(t, host.Errorf(host.Crashed, "the handler %s ended its goroutine", t.Handler))
			})
		}
	}()
	out, err = fn(t)
	if err == nil {
		t.Mu.Lock()
		ends := t.Ends
		t.Mu.Unlock()
		if ends && !t.Actor.Left() && !t.Core.Bare {
			err = t.Core.Instance.Destroy(t.Host)
		}
	}
	returned = true
	return out, false, err
}
