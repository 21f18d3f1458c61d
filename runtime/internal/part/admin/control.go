// Package admin is the part for operators: it pauses, wakes and puts to sleep, sets limits, and
// explains why an actor does nothing.
package admin

import (
	"context"
	"encoding/json"
	"slices"
	"strconv"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/runtime/internal/part/admin/control"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for the verbs of operators. It names no other part: they implement the
// interfaces explainer, keeper, resumer and retrier.
type Part struct{}

var _ interface {
	call.Server
	kernel.Runner
	kernel.Destroyer
	kernel.Meter
	survey.Reporter
} = (*Part)(nil)

// Name implements kernel.Part.
func (*Part) Name() string { return "admin" }

// Methods implements call.Server. None of the verbs creates an actor, and only actor.wake runs
// code of a sleeping one, so they work on failed actors.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Bare(call.Act(method.ActorPause, pauseActor)),
		call.Bare(call.Act(method.ActorResume, resumeActor)),
		call.Bare(call.Act(method.LimitsSet, setLimits)),
		call.Bare(call.Act(method.LimitsReset, resetLimits)),
		call.Serve(method.ActorWake, wakeActor),
		call.Serve(method.ActorSleep, sleepActor),
		call.Serve(method.ActorRetry, retryActor),
		call.Serve(method.ActorWhy, why),
	}
}

// pauseActor stops an actor. Pausing one that is paused changes the reason.
func pauseActor(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.PauseInput) (host.Pause, error) {
	if n := len(in.Reason); n > park.MaxReason {
		return host.Pause{}, host.OverLimit("bytes of the reason", park.MaxReason, int64(n)).With("field", "reason")
	}
	pause := host.Pause{Reason: in.Reason, Since: clock.TimeMS(h.Start.UnixMilli()).UTC()}
	rec, err := control.Read(c.Rows)
	if err != nil {
		return host.Pause{}, err
	}
	old := rec.Pause()
	if e := audit.Of(h.Work.Ctx); old != nil {
		e.Before(old)
	}
	if old != nil {
		pause.Since = old.Since
		if pause.Reason == "" {
			pause.Reason = old.Reason
		}
	}
	rec.SetPause(&pause)
	if err := put(c, &rec); err != nil {
		return host.Pause{}, err
	}
	if old == nil {
		h.LifeChange("paused", pause.Reason)
	}
	a := c.Actor
	h.Then(func() { a.Kernel.Pauses.Pause(a.Key, pause) })
	return pause, nil
}

// resumeActor ends the pause of an actor.
func resumeActor(c *kernel.Core, h *kernel.Turn, _ host.Codec, _ *method.None) (host.CountOutput, error) {
	rec, err := control.Read(c.Rows)
	if err != nil || rec.Since == 0 {
		return host.CountOutput{}, err
	}
	audit.Of(h.Work.Ctx).Before(rec.Pause())
	rec.SetPause(nil)
	if err := put(c, &rec); err != nil {
		return host.CountOutput{}, err
	}
	a := c.Actor
	h.Then(func() { a.Kernel.Unpause(a.Key) })
	h.LifeChange("resumed", "")
	for p := range attach.As[kernel.Resumer](c.Actor.Kernel.Parts) {
		if err := p.Resumed(h); err != nil {
			return host.CountOutput{}, err
		}
	}
	return host.CountOutput{Count: 1}, nil
}

// setLimits sets limits of one actor, and leaves its others as they are.
func setLimits(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.ActorLimits) (host.ActorLimits, error) {
	if in.Empty() {
		return host.ActorLimits{}, host.Errorf(host.InvalidArgument, "no limit is given")
	}
	rec, err := control.Read(c.Rows)
	if err != nil {
		return host.ActorLimits{}, err
	}
	set, given := rec.Override(), in.Fields()
	noteLimits(h, set)
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

// resetLimits resets limits of one actor to those of its type.
func resetLimits(c *kernel.Core, h *kernel.Turn, _ host.Codec,
	in *host.LimitsResetInput) (out host.CountOutput, err error) {
	rec, err := control.Read(c.Rows)
	if err != nil {
		return out, err
	}
	set := rec.Override()
	noteLimits(h, set)
	fields := set.Fields()
	for i, name := range in.Names {
		if !slices.ContainsFunc(fields, func(f host.ActorLimit) bool { return f.Name == name }) {
			return out, host.Errorf(host.InvalidArgument, "an actor has no limit %q", name).
				With("field", "names["+strconv.Itoa(i)+"]")
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

// noteLimits puts the limits of an actor into the audit log, before they change.
func noteLimits(h *kernel.Turn, set host.ActorLimits) {
	if b, err := json.Marshal(&set); err == nil && !set.Empty() {
		audit.Of(h.Work.Ctx).Before(json.RawMessage(b))
	}
}

// storeLimits writes the limits of an actor.
func storeLimits(c *kernel.Core, h *kernel.Turn, rec control.Record, set host.ActorLimits) error {
	a := c.Actor
	l, err := limit.Override(a.Type.Base.Limits, set, a.Type.Hooks.Limiters)
	if err != nil {
		return err
	}
	rec.SetOverride(&set)
	audit.Of(h.Work.Ctx).After(&set)
	if err := put(c, &rec); err != nil {
		return err
	}
	h.Then(func() { a.Kernel.Override(a, l) })
	return nil
}

// wakeActor brings an actor into memory. A failed actor is not tried before its time; actor.retry
// allows that.
func wakeActor(s *kernel.Kernel, ctx context.Context, on kernel.Target, _ *method.None) (method.None, error) {
	if err := s.Pauses.Refuse(on.Addr); err != nil {
		return method.None{}, err
	}
	if err := mustExist(s, on.Addr); err != nil {
		return method.None{}, err
	}
	if err := begin(ctx, on); err != nil {
		return method.None{}, err
	}
	return method.None{}, s.Ask(ctx, on, kernel.Waking{})
}

// sleepActor stops an actor's tasks, runs its sleep hook and takes it out of memory.
func sleepActor(s *kernel.Kernel, ctx context.Context, on kernel.Target, _ *method.None) (method.None, error) {
	if err := mustExist(s, on.Addr); err != nil {
		return method.None{}, err
	}
	a := s.Find(on.Addr)
	if a == nil {
		return method.None{}, nil
	}
	if from := on.From; from != nil && from.Waiter != nil && from.Waiter.Actor == a {
		return method.None{},
			host.Errorf(host.FailedPrecondition, "actor %s cannot put itself to sleep in its own turn", a)
	}
	if err := s.Kept(a); err != nil {
		return method.None{}, err
	}
	if err := begin(ctx, on); err != nil {
		return method.None{}, err
	}
	c := a.Waking()
	if kernel.SizeOf(c.Company()) > 0 {
		// From here on it sleeps, even if the caller does not wait: without its tasks it must not
		// stay awake.
		select {
		case <-a.Retire(c, kernel.CauseSleep):
		case <-ctx.Done():
			return method.None{}, fault.Ended(ctx)
		}
	}
	return method.None{}, s.Ask(ctx, on, kernel.Sleeping{Force: true, Waking: c})
}

// retryActor forgets that an actor has failed, so that the next call, or an alarm that waits, tries
// it at once.
func retryActor(s *kernel.Kernel, ctx context.Context, on kernel.Target, _ *method.None) (host.CountOutput, error) {
	id, ok, err := s.Store.Lookup(s.Identity(on.Addr))
	if err != nil {
		return host.CountOutput{}, s.StoreError(err)
	}
	key := address.Append(nil, on.Addr)
	if !ok && s.Failures.Of(key) == nil {
		return host.CountOutput{}, fault.NotFound(on.Addr)
	}
	if err := begin(ctx, on); err != nil {
		return host.CountOutput{}, err
	}
	had := s.Recovered(string(key))
	s.Clock.Retry(id)
	if !had {
		return host.CountOutput{}, nil
	}
	if ok {
		for p := range attach.As[kernel.Retrier](s.Parts) {
			if err := p.Retry(s, on.Typ, on.Addr, id); err != nil {
				return host.CountOutput{}, s.StoreError(err)
			}
		}
	}
	s.Logger.Info("an operator lets a failed actor be tried again", "actor_type", on.Addr.Type,
		"actor_key", on.Addr.Key, "at", time.Now().UTC())
	return host.CountOutput{Count: 1}, nil
}

// begin begins a verb that has no commit: it returns when the record of the verb is durable. So a
// verb that cannot be recorded has no effect, and one whose caller leaves meanwhile is recorded.
// The record remains if the verb fails then.
func begin(ctx context.Context, on kernel.Target) error {
	if from := on.From; from != nil && from.Kind == kernel.FromQuery {
		return fault.QueryWrites()
	}
	return audit.Of(ctx).Append(on.Addr)
}

// mustExist returns an error with code NotFound if there is no actor at addr.
func mustExist(s *kernel.Kernel, addr host.Address) error {
	_, ok, err := s.Store.Lookup(s.Identity(addr))
	if err == nil && !ok {
		return fault.NotFound(addr)
	}
	if err != nil {
		return s.StoreError(err)
	}
	return nil
}
