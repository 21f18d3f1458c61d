package supervisor

import (
	"context"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

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
	}
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
	h.then(func() { a.sup.pauses.set(a.key, pause) })
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
		h.then(c.a.duties.run.takeUp)
	}
	return host.CountOutput{Count: 1}, nil
}

// wakeActor brings an actor into memory. One that has failed is not tried before its time; actor.retry allows that.
func (s *Supervisor) wakeActor(ctx context.Context, on target, _ *none) (none, error) {
	if err := s.pauses.refuse(on.addr); err != nil {
		return none{}, err
	}
	return none{}, s.ask(ctx, on, func(w *work) { w.job = waking{} })
}

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
