package supervisor

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// maxReason bounds the reason of a pause, in bytes.
const maxReason = 1024

// controlBuiltins returns the verbs of operators. None of them creates an actor, and none but actor.wake runs code of one
// that sleeps, so that they work on actors that have failed.
func controlBuiltins() []*builtin {
	return []*builtin{
		bare(act(host.ActorPause, pauseActor)),
		bare(act(host.ActorResume, resumeActor)),
		bare(act(host.LimitsSet, setLimits)),
		bare(act(host.LimitsReset, resetLimits)),
		serve(host.ActorWake, (*Supervisor).wakeActor),
		serve(host.ActorSleep, (*Supervisor).sleepActor),
		serve(host.ActorRetry, (*Supervisor).retryActor),
		serve(host.ActorWhy, (*Supervisor).why),
		serve(host.SendSkip, (*Supervisor).skipSend),
	}
}

// bare makes a builtin that writes work without waking the actor, and only on one that exists.
func bare(b *builtin) *builtin {
	b.bare, b.existing = true, true
	return b
}

// A target is the actor that a verb is about, and who asks.
type target struct {
	typ  *actorType
	addr host.Address
	from *caller
	// traceparent is that of the request.
	traceparent string
	// veiled is that of the request.
	veiled bool
}

// serve makes a builtin that runs beside the actor.
func serve[In, Out any](name string, f func(s *Supervisor, ctx context.Context, on target, in *In) (Out, error)) *builtin {
	return &builtin{name: name, serve: func(ctx context.Context, s *Supervisor, t *actorType, req *host.Request, from *caller) ([]byte, error) {
		var in In
		if err := decodeInput(name, req.Codec, req.Input, &in); err != nil {
			return nil, err
		}
		out, err := f(s, ctx, target{typ: t, addr: req.Address, from: from, traceparent: req.Traceparent, veiled: req.Veiled}, &in)
		if err != nil {
			return nil, err
		}
		return encodeOutput(req.Codec, &out)
	}}
}

// pauseActor stops an actor. Pausing one that is paused changes the reason.
func pauseActor(c *core, h *turn, _ host.Codec, in *host.PauseInput) (host.Pause, error) {
	if n := len(in.Reason); n > maxReason {
		return host.Pause{}, host.OverLimit("bytes of the reason", maxReason, int64(n)).With("field", "reason")
	}
	pause := host.Pause{Reason: in.Reason, Since: timeMS(unixMS(h.start)).UTC()}
	rec, err := readControl(c.ws)
	if err != nil {
		return host.Pause{}, err
	}
	old := rec.pause()
	if old != nil {
		pause.Since = old.Since
		if pause.Reason == "" {
			pause.Reason = old.Reason
		}
	}
	rec.Reason, rec.Since = pause.Reason, unixMS(pause.Since)
	if err := c.putControl(h, rec); err != nil {
		return host.Pause{}, err
	}
	if old == nil {
		h.lifeChange("paused", pause.Reason)
	}
	a := c.a
	h.after = append(h.after, func() { a.sup.pauses.set(a.key, pause) })
	return pause, nil
}

// resumeActor lets a paused actor go on.
func resumeActor(c *core, h *turn, _ host.Codec, _ *none) (host.CountOutput, error) {
	paused, err := c.clearPause(h)
	if err != nil || !paused {
		return host.CountOutput{}, err
	}
	h.lifeChange("resumed", "")
	if err := c.flowKnown(); err != nil {
		return host.CountOutput{}, err
	}
	if c.flow().live { // compareRuns has left it out
		c.armRun(h, true)
		h.after = append(h.after, c.a.duties.run.takeUp)
	}
	return host.CountOutput{Count: 1}, nil
}

// clearPause removes an actor's pause, if it has one.
func (c *core) clearPause(h *turn) (bool, error) {
	rec, err := readControl(c.ws)
	if err != nil || rec.Since == 0 {
		return false, err
	}
	rec.Reason, rec.Since = "", 0
	if err := c.putControl(h, rec); err != nil {
		return false, err
	}
	a := c.a
	h.after = append(h.after, func() { a.sup.unpause(a.key) })
	return true, nil
}

// wakeActor brings an actor into memory. One that has failed is not tried before its time; actor.retry allows that.
func (s *Supervisor) wakeActor(ctx context.Context, on target, _ *none) (none, error) {
	if err := s.pauses.refuse(on.addr); err != nil {
		return none{}, err
	}
	return none{}, s.ask(ctx, on, func(w *work) { w.job = waking{} })
}

// ask has an actor run work of the runtime's own, and waits for it.
func (s *Supervisor) ask(ctx context.Context, on target, what func(*work)) error {
	w := s.pool.get()
	w.ctx, w.existing, w.traceparent = ctx, true, on.traceparent
	what(w)
	if err := on.from.extend(ctx, w); err != nil {
		return err
	}
	if _, err := s.submit(ctx, on.typ, on.addr, w, on.from); err != nil {
		return err
	}
	s.pool.put(w)
	return nil
}

// The reasons that tasks learn as the cause of the end of their context.
const (
	causeSleep    = "the actor goes to sleep"
	causeMemory   = "the actor goes to sleep: memory is short"
	causeShutdown = "the node is shutting down"
	causeRestart  = "the actor was restarted"
)

// sleepActor stops an actor's tasks, runs its sleep hook and takes it out of memory.
func (s *Supervisor) sleepActor(ctx context.Context, on target, _ *none) (none, error) {
	if err := s.mustExist(on.addr); err != nil {
		return none{}, err
	}
	a := s.find(on.addr)
	if a == nil {
		return none{}, nil
	}
	if from := on.from; from != nil && from.waiter != nil && from.waiter.a == a {
		return none{}, host.Errorf(host.FailedPrecondition, "actor %s cannot put itself to sleep in its own turn", a)
	}
	if a.mail().busy() {
		return none{}, host.Errorf(host.FailedPrecondition, "actor %s has messages to other actors on their way, which keep it awake", a).
			With("why", string(host.WhySends))
	}
	if k := a.currentCrew(); k.size() > 0 {
		// From here on it sleeps, whether the caller waits or not: without its tasks it must not stay awake.
		select {
		case <-a.retire(k, causeSleep):
		case <-ctx.Done():
			return none{}, contextError(ctx)
		}
	}
	return none{}, s.ask(ctx, on, func(w *work) { w.job = sleeping(true) })
}

// mustExist returns an error with code NotFound if there is no actor at addr.
func (s *Supervisor) mustExist(addr host.Address) error {
	_, ok, err := s.store.Lookup(s.identity(addr))
	if err == nil && !ok {
		return notFound(addr)
	}
	if err != nil {
		return s.storeError(err)
	}
	return nil
}

// tellSlept ends a sleep that somebody asked for.
func (a *activation) tellSlept(c *core, w *work) {
	if c.refused {
		w.fail(unavailable("the commit of the sleep hook failed; the actor sleeps all the same"))
		return
	}
	if !c.ended {
		a.slept(c)
	}
	a.tell(w, nil)
}

// retire puts an actor with tasks to sleep: they are asked to return first. The channel is closed when they have, or their
// time is over.
func (a *activation) retire(k *crew, cause string) <-chan struct{} {
	gone := k.ask(unavailable(cause))
	k.mu.Lock()
	again := k.retired
	k.retired = true
	k.mu.Unlock()
	if again {
		return gone
	}
	a.sup.task(func() {
		select {
		case <-gone:
			if a.currentCrew() != k {
				return // it was restarted meanwhile
			}
			a.enqueue(&work{job: sleeping(true), existing: true, finish: func(*work) {}})
		case <-a.sup.life.Done():
		}
	})
	return gone
}

// restartCause is what the tasks of a core learn that is given up.
func (c *core) restartCause() *host.Error {
	switch {
	case c.a.sup.killed.Load():
		return unavailable(causeShutdown)
	case c.slept != nil:
		return unavailable(causeSleep)
	}
	return unavailable(causeRestart)
}

// retryActor forgets that an actor has failed, so that the next call, or an alarm that waits, tries it at once.
func (s *Supervisor) retryActor(ctx context.Context, on target, _ *none) (host.CountOutput, error) {
	if from := on.from; from != nil && from.turn == nil && from.task == nil {
		return host.CountOutput{}, errQueryWrites()
	}
	id, ok, err := s.store.Lookup(s.identity(on.addr))
	if err != nil {
		return host.CountOutput{}, s.storeError(err)
	}
	had := s.failures.forget(string(appendAddress(nil, on.addr)))
	s.metrics.failed.Set(float64(s.failures.count()))
	if !ok && !had {
		return host.CountOutput{}, notFound(on.addr)
	}
	s.alarms.retry(id)
	if !had {
		return host.CountOutput{}, nil
	}
	if ok {
		if err := s.retryQueues(on.typ, on.addr, id); err != nil {
			return host.CountOutput{}, s.storeError(err)
		}
	}
	s.logger.Info("an operator lets a failed actor be tried again", "actor_type", on.addr.Type, "actor_key", on.addr.Key, "at", time.Now().UTC())
	return host.CountOutput{Count: 1}, nil
}
