package supervisor

import (
	"context"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// adminPart is the part of actors that is the verbs of operators. It names no other part: what it knows of one the part says
// by the interfaces explainer, keeper, resumer and retrier.
type adminPart struct{}

func (*adminPart) name() string { return "admin" }

// methods implements server. None of the verbs creates an actor, and none but actor.wake runs code of one that sleeps, so
// that they work on actors that have failed.
func (*adminPart) methods() []*builtin {
	return []*builtin{
		bare(act(host.ActorPause, pauseActor)),
		bare(act(host.ActorResume, resumeActor)),
		bare(act(host.LimitsSet, setLimits)),
		bare(act(host.LimitsReset, resetLimits)),
		serve(host.ActorWake, wakeActor),
		serve(host.ActorSleep, sleepActor),
		serve(host.ActorRetry, retryActor),
		serve(host.ActorWhy, why),
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
	for p := range partsAs[resumer](c.a.sup.parts) {
		if err := p.resumed(h); err != nil {
			return host.CountOutput{}, err
		}
	}
	return host.CountOutput{Count: 1}, nil
}

// setLimits sets limits of one actor, and leaves its others as they are.
func setLimits(c *core, h *turn, _ host.Codec, in *host.ActorLimits) (host.ActorLimits, error) {
	if in.Empty() {
		return host.ActorLimits{}, host.Errorf(host.InvalidArgument, "no limit is given")
	}
	rec, err := readControl(c.ws)
	if err != nil {
		return host.ActorLimits{}, err
	}
	set, given := rec.limits(), in.Fields()
	for i, f := range set.Fields() {
		if f.Whole != nil && *given[i].Whole != nil {
			*f.Whole = *given[i].Whole
		}
		if f.Rate != nil && *given[i].Rate != nil {
			*f.Rate = *given[i].Rate
		}
	}
	return set, storeLimits(c, h, rec, set)
}

// resetLimits makes limits of one actor those of its type.
func resetLimits(c *core, h *turn, _ host.Codec, in *host.LimitsResetInput) (out host.CountOutput, err error) {
	rec, err := readControl(c.ws)
	if err != nil {
		return out, err
	}
	set := rec.limits()
	fields := set.Fields()
	for i, name := range in.Names {
		if !slices.ContainsFunc(fields, func(f host.ActorLimit) bool { return f.Name == name }) {
			return out, host.Errorf(host.InvalidArgument, "there is no limit %q that can be set for an actor", name).With("field", "names["+strconv.Itoa(i)+"]")
		}
	}
	for _, f := range fields {
		if len(in.Names) > 0 && !slices.Contains(in.Names, f.Name) {
			continue
		}
		if f.Whole != nil && *f.Whole != nil {
			*f.Whole = nil
			out.Count++
		}
		if f.Rate != nil && *f.Rate != nil {
			*f.Rate = nil
			out.Count++
		}
	}
	if out.Count == 0 {
		return out, nil
	}
	return out, storeLimits(c, h, rec, set)
}

// storeLimits writes the limits of an actor.
func storeLimits(c *core, h *turn, rec controlRecord, set host.ActorLimits) error {
	x, err := newOverride(c.a.typ, set)
	if err != nil {
		return err
	}
	rec.Limits = nil
	for _, f := range set.Fields() {
		switch {
		case f.Whole != nil && *f.Whole != nil:
			rec.Limits = append(rec.Limits, limitRecord{Name: f.Name, Whole: **f.Whole})
		case f.Rate != nil && *f.Rate != nil:
			rec.Limits = append(rec.Limits, limitRecord{Name: f.Name, Rate: **f.Rate})
		}
	}
	if err := c.putControl(h, rec); err != nil {
		return err
	}
	a := c.a
	h.then(func() { a.sup.override(a, x) })
	return nil
}

// wakeActor brings an actor into memory. One that has failed is not tried before its time; actor.retry allows that.
func wakeActor(s *Supervisor, ctx context.Context, on target, _ *none) (none, error) {
	if err := s.pauses.refuse(on.addr); err != nil {
		return none{}, err
	}
	return none{}, s.ask(ctx, on, func(w *work) { w.job = waking{} })
}

// sleepActor stops an actor's tasks, runs its sleep hook and takes it out of memory.
func sleepActor(s *Supervisor, ctx context.Context, on target, _ *none) (none, error) {
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
	if err := s.kept(a); err != nil {
		return none{}, err
	}
	if k := a.currentCompany(); sizeOf(k) > 0 {
		// From here on it sleeps, whether the caller waits or not: without its tasks it must not stay awake.
		select {
		case <-a.retire(k, causeSleep):
		case <-ctx.Done():
			return none{}, contextError(ctx)
		}
	}
	return none{}, s.ask(ctx, on, func(w *work) { w.job = sleeping(true) })
}

// retryActor forgets that an actor has failed, so that the next call, or an alarm that waits, tries it at once.
func retryActor(s *Supervisor, ctx context.Context, on target, _ *none) (host.CountOutput, error) {
	if from := on.from; from != nil && from.turn == nil && !from.beside {
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
		for p := range partsAs[retrier](s.parts) {
			if err := p.retry(s, on.typ, on.addr, id); err != nil {
				return host.CountOutput{}, s.storeError(err)
			}
		}
	}
	s.logger.Info("an operator lets a failed actor be tried again", "actor_type", on.addr.Type, "actor_key", on.addr.Key, "at", time.Now().UTC())
	return host.CountOutput{Count: 1}, nil
}
