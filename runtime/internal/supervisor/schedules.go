package supervisor

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/schedule"
	"github.com/prometheus/client_golang/prometheus"
)

// schedulePart is the part of actors that is schedules.
type schedulePart struct {
	lag prometheus.Histogram

	mu sync.Mutex
	// failedRuns are runs that are to be recorded as failed, by their row.
	failedRuns map[string]*failedRun
}

func newSchedulePart() *schedulePart {
	return &schedulePart{lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_schedule_lag_seconds", Help: "How late runs of schedules begin.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)})}
}

func (*schedulePart) name() string { return "schedule" }

// collectors implements meter.
func (p *schedulePart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.lag}
}

// kinds implements waker.
func (*schedulePart) kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeSchedule} }

// due implements waker.
func (p *schedulePart) due(_ *Supervisor, _ *actorType, _ host.Address, row *engine.Wake, done func(*work)) *work {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &scheduleFiring{row: *row, failed: p.failedRuns[string(row.Row)]}
	return &work{job: f, finish: func(w *work) {
		if !w.paused {
			p.finished(f, w)
		}
		done(w)
	}}
}

// wakes implements waker.
func (*schedulePart) wakes(rows engine.Reader) ([]engine.Wake, error) { return schedule.Wakes(rows) }

// scheduleTurn is what handlers may do with schedules.
type scheduleTurn struct{ t *turn }

// scheduleReads is what handlers of turns and queries alike may read of schedules.
type scheduleReads struct{ of scope }

// scheduleOf returns the index of the contract that a schedule's name belongs to.
func (t *actorType) scheduleOf(name string) (int, error) {
	at := named(len(t.Schedules), func(i int) string { return t.Schedules[i].Name }, name)
	if at < 0 {
		return -1, t.unknownName(host.InvalidArgument, "schedule", name)
	}
	return at, nil
}

// SetSchedule implements host.Turn.
func (h scheduleTurn) SetSchedule(s host.Schedule) (host.Schedule, error) {
	t := h.t
	if _, err := t.a.typ.scheduleOf(s.Name); err != nil {
		return host.Schedule{}, err
	}
	if err := t.enter(); err != nil {
		return host.Schedule{}, err
	}
	defer t.leave()
	var out host.Schedule
	var changed bool
	err := t.atomically(func() (err error) {
		out, changed, err = schedule.New(t.c.ws, t.start).Set(s)
		return err
	})
	if err == nil && changed {
		t.scheduleChange("set", s.Name, s.Instance, out.Next)
	}
	return out, err
}

// CancelSchedule implements host.Turn.
func (h scheduleTurn) CancelSchedule(name, instance string) (bool, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return false, err
	}
	defer t.leave()
	var ok bool
	err := t.atomically(func() (err error) {
		ok, err = schedule.New(t.c.ws, t.start).Cancel(name, instance)
		return err
	})
	if ok && err == nil {
		t.scheduleChange("cancel", name, instance, nil)
	}
	return ok, err
}

// scheduleChange notes what happened to a schedule, as of an alarm.
//
// REQUIRES: t.mu
func (t *turn) scheduleChange(op, name, instance string, due *time.Time) {
	t.change(engine.ChangeAlarm, name, func() any {
		m := map[string]any{"op": op, "name": name, "instance": instance, "schedule": true}
		if due != nil {
			m["due"] = due.UTC()
		}
		return m
	})
}

// A scheduleFiring is a row of a schedule that is due, on its way through its actor's mailbox.
type scheduleFiring struct {
	row engine.Wake
	// failed is a run that has failed in a way that took the core with it, and is to be recorded; nil to run the handler.
	failed *failedRun
	// began is when the handler was started, in Unix ms; 0 before that.
	began atomic.Int64
}

// traits implements job.
func (f *scheduleFiring) traits(*activation) traits {
	return traits{kind: "schedule", name: f.row.Name, code: true}
}

// run implements job.
func (f *scheduleFiring) run(c *core, w *work) {
	c.due(w, &f.row, func() error { return c.fireSchedule(w, f) })
}

// A failedRun is what is known of a run whose turn was lost with its core: the handler panicked or was abandoned.
type failedRun struct {
	cause             *host.Error
	reason            string // for operators; "" for that of cause
	started, finished time.Time
}

// ableSince is since when the actor could have run its schedules: ticks before that were missed.
func (a *activation) ableSince() time.Time {
	if at := a.sup.pauses.resumedAt(a.key); at.After(a.sup.started) {
		return at
	}
	return a.sup.started
}

// fireSchedule does what a row of a schedule that is due asks for.
func (c *core) fireSchedule(w *work, on *scheduleFiring) error {
	row := on.row
	f, err := schedule.Due(c.ws, row.Name, row.Instance, row.Due, time.Now(), c.a.ableSince())
	switch {
	case err != nil:
	case f == nil:
		err = errLeftover // it has moved or is gone
	case f.Skip:
		_, err = c.internal(w, "schedule", func(h *turn) error {
			h.scheduleChange("skipped", row.Name, row.Instance, nil)
			b := schedule.New(c.ws, h.start)
			err := b.Skip(f)
			return err
		})
	case on.failed != nil:
		err = c.scheduleFailed(w, f, on.failed)
	default:
		err = c.runSchedule(w, on, f)
	}
	return err
}

// runSchedule runs the handler of a tick.
func (c *core) runSchedule(w *work, on *scheduleFiring, f *schedule.Firing) error {
	row, started := on.row, time.Now()
	i, cause := c.a.typ.scheduleOf(row.Name)
	if cause == nil {
		partOf[*schedulePart](c.a.sup).lag.Observe(time.Since(timeMS(row.Due)).Seconds())
		_, cause = c.run(w, c.a.typ.Schedules[i].Handler, func(h *turn) ([]byte, error) {
			on.began.Store(unixMS(h.start))
			return nil, c.tick(h, i, f)
		})
	}
	if cause == nil || cause == errAbandoned || c.broken {
		return cause // what is to be recorded of a run that took the core with it, finished sees to
	}
	e, reason := c.a.sup.explained(c.a, w, cause)
	return c.scheduleFailed(w, f, &failedRun{cause: e, reason: reason, started: started, finished: time.Now()})
}

// tick runs the handler between the two halves of its schedule's own writes.
func (c *core) tick(h *turn, i int, f *schedule.Firing) error {
	b := schedule.New(c.ws, h.start)
	if err := b.Begin(f); err != nil {
		return err
	}
	if err := c.inst.Schedule(h.host, i, &f.Tick, f.Payload); err != nil {
		return err
	}
	if err := h.enter(); err != nil {
		return err
	}
	defer h.leave()
	err := b.Done(f, h.start, time.Now())
	h.scheduleChange("fired", f.Tick.Name, f.Tick.Instance, &f.Tick.Due)
	return err
}

// scheduleFailed records a run that failed.
func (c *core) scheduleFailed(w *work, f *schedule.Firing, r *failedRun) error {
	_, err := c.internal(w, "schedule failed", func(h *turn) error {
		b := schedule.New(c.ws, h.start)
		if err := b.Failed(f, r.cause, r.reason, r.started, r.finished); err != nil {
			return err
		}
		return nil
	})
	return err
}

// finished is called when the work of a firing has come to its end. A handler that panicked, or was abandoned, has taken its
// core with it, so that its failure could not be recorded: it is kept here, and recorded instead of running the handler
// again when the row is tried again, as soon as the actor can run.
func (p *schedulePart) finished(f *scheduleFiring, w *work) {
	id := string(f.row.Row)
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.err == nil {
		delete(p.failedRuns, id)
	} else if began := f.began.Load(); began != 0 {
		// Unavailable is the node's and not the handler's: a commit that failed. The tick is run again.
		if e, ok := w.err.(*host.Error); ok && e.Code != host.Unavailable {
			p.keepFailed(id, &failedRun{cause: e, started: timeMS(began), finished: time.Now()})
			w.err = nil // the row is tried again at once
		}
	}
}

// keepFailed remembers a run that is to be recorded. Those of actors that were destroyed meanwhile are forgotten in time.
//
// REQUIRES: p.mu
func (p *schedulePart) keepFailed(id string, r *failedRun) {
	if p.failedRuns == nil {
		p.failedRuns = make(map[string]*failedRun)
	}
	if len(p.failedRuns) >= 1024 {
		maps.DeleteFunc(p.failedRuns, func(_ string, old *failedRun) bool { return r.finished.Sub(old.finished) > time.Hour })
	}
	p.failedRuns[id] = r
}

// scheduleInput is a Schedule of a request, whose numbers, if they are there, are not 0.
type scheduleInput struct {
	host.Schedule
	Every    *int64 `json:"every_ms,omitempty"`
	CatchUp  *int   `json:"catch_up,omitempty"`
	KeepRuns *int   `json:"keep_runs,omitempty"`
}

// methods implements server.
func (*schedulePart) methods() []*builtin {
	return []*builtin{
		act(host.ScheduleSet, func(c *core, h *turn, codec host.Codec, set *scheduleInput) (host.Schedule, error) {
			in := &set.Schedule
			if set.Every != nil {
				if in.Every = *set.Every; in.Every <= 0 {
					return host.Schedule{}, notPositive("every_ms", in.Every)
				}
			}
			if set.CatchUp != nil {
				if in.CatchUp = *set.CatchUp; in.CatchUp <= 0 {
					return host.Schedule{}, host.Errorf(host.InvalidArgument, "catch_up: %d is not a number from 1 to %d; leave it out for %d",
						in.CatchUp, host.MaxScheduleCatchUp, host.DefaultScheduleCatchUp).With("field", "catch_up")
				}
			}
			if set.KeepRuns != nil {
				if in.KeepRuns = *set.KeepRuns; in.KeepRuns == 0 {
					return host.Schedule{}, host.Errorf(host.InvalidArgument,
						"keep_runs: 0 is not a number from 1 to %d; -1 keeps none, and leave it out for %d",
						host.MaxScheduleRuns, host.DefaultScheduleRuns).With("field", "keep_runs")
				}
			}
			i, err := c.a.typ.scheduleOf(in.Name)
			if err != nil {
				return host.Schedule{}, err
			}
			if len(in.Payload) > 0 {
				if in.Payload, err = c.a.typ.convert(host.SchedulePayload, i, codec, in.Payload, host.CBOR, "payload"); err != nil {
					return host.Schedule{}, err
				}
			}
			out, err := scheduleTurn{h}.SetSchedule(*in)
			if err != nil {
				return host.Schedule{}, err
			}
			return c.a.typ.showSchedule(out, codec)
		}),
		existing(act(host.ScheduleCancel, func(c *core, h *turn, _ host.Codec, in *host.ScheduleInput) (host.CountOutput, error) {
			return counted(scheduleTurn{h}.CancelSchedule(in.Name, in.Instance))
		})),
		existing(act(host.ScheduleTrigger, func(c *core, h *turn, codec host.Codec, in *host.ScheduleInput) (host.Schedule, error) {
			out, err := h.triggerSchedule(in.Name, in.Instance)
			if err != nil {
				return host.Schedule{}, err
			}
			return c.a.typ.showSchedule(out, codec)
		})),
		ask(host.ScheduleList, func(r *reader, codec host.Codec, in *host.ScheduleListInput) (host.ScheduleListOutput, error) {
			all, err := scheduleReads{r}.Schedules(in.Name)
			if err != nil {
				return host.ScheduleListOutput{}, err
			}
			for i := range all {
				if all[i], err = r.a.typ.showSchedule(all[i], codec); err != nil {
					return host.ScheduleListOutput{}, err
				}
			}
			return host.ScheduleListOutput{Schedules: all}, nil
		}),
		ask(host.ScheduleRuns, func(r *reader, _ host.Codec, in *host.ScheduleInput) (host.ScheduleRunsOutput, error) {
			s, done, err := r.rows()
			if err != nil {
				return host.ScheduleRunsOutput{}, err
			}
			defer done()
			runs, err := schedule.Runs(s, in.Name, in.Instance)
			return host.ScheduleRunsOutput{Runs: runs}, err
		}),
	}
}

// triggerSchedule has a schedule run now, besides its ticks.
func (t *turn) triggerSchedule(name, instance string) (host.Schedule, error) {
	if err := t.enter(); err != nil {
		return host.Schedule{}, err
	}
	defer t.leave()
	b := schedule.New(t.c.ws, t.start)
	return b.Trigger(name, instance)
}

// showSchedule returns a schedule with its payload in a request's encoding. The payload of a schedule whose contract is no
// longer declared is left out.
func (t *actorType) showSchedule(s host.Schedule, codec host.Codec) (host.Schedule, error) {
	i, err := t.scheduleOf(s.Name)
	if err != nil || len(s.Payload) == 0 {
		s.Payload = nil
		return s, nil
	}
	s.Payload, err = t.convert(host.SchedulePayload, i, host.CBOR, s.Payload, codec, "payload")
	return s, err
}

// Schedules implements host.Reader.
func (h scheduleReads) Schedules(name string) ([]host.Schedule, error) {
	r := h.of
	return reading(r, func(rows engine.Reader) ([]host.Schedule, error) { return schedule.List(rows, name) })
}
