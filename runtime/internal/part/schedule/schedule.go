// Package schedule is the part for schedules. Package schedulerows has the rows.
package schedule

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	schedulerows "github.com/cairn-run/cairn/runtime/internal/part/schedule/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for schedules.
type Part struct {
	lag prometheus.Histogram

	mu sync.Mutex
	// FailedRuns are runs that must be recorded as failed, by their row.
	FailedRuns map[string]*failedRun
}

var _ interface {
	survey.Explainer
	kernel.Meter
	survey.Reporter
	call.Server
	kernel.Waker
} = (*Part)(nil)

// New makes the part of schedules.
func New() *Part {
	return &Part{lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_schedule_lag_seconds", Help: "How late runs of schedules begin.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)})}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "schedule" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.lag}
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeSchedule} }

// Due implements kernel.Waker.
func (p *Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake,
	done func(*kernel.Work)) *kernel.Work {
	p.mu.Lock()
	defer p.mu.Unlock()
	f := &scheduleFiring{row: *row, failed: p.FailedRuns[string(row.Row)]}
	return &kernel.Work{Job: f, Finish: func(w *kernel.Work) {
		if !w.Paused {
			p.finished(f, w)
		}
		done(w)
	}}
}

// Wakes implements kernel.Waker.
func (*Part) Wakes(rows engine.Reader) ([]engine.Wake, error) { return schedulerows.Wakes(rows) }

// Turn is the view of handlers on schedules.
type Turn struct{ Reads[*kernel.Turn] }

// turnOf returns what handlers may do in a turn.
func turnOf(t *kernel.Turn) Turn { return Turn{Reads[*kernel.Turn]{t}} }

// Query is what handlers of queries may read of schedules.
type Query = Reads[*call.Query]

// Reads is the view of handlers of turns and queries on schedules.
type Reads[S call.Scope] struct{ K S }

// scheduleOf returns the index of the contract that a schedule's name belongs to.
func scheduleOf(t *kernel.Type, name string) (int, error) {
	at := wire.Named(len(t.Schedules), func(i int) string { return t.Schedules[i].Name }, name)
	if at < 0 {
		return -1, wire.UnknownName(t.Behavior, host.InvalidArgument, "schedule", name)
	}
	return at, nil
}

// SetSchedule implements host.Turn.
func (h Turn) SetSchedule(s host.Schedule) (host.Schedule, error) {
	t := h.K
	if _, err := scheduleOf(t.Actor.Type, s.Name); err != nil {
		return host.Schedule{}, err
	}
	if err := t.Enter(); err != nil {
		return host.Schedule{}, err
	}
	defer t.Leave()
	var out host.Schedule
	var changed bool
	err := t.Atomically(func() (err error) {
		out, changed, err = schedulerows.New(t.Core.Rows, t.Start).Set(s)
		return err
	})
	if err == nil && changed {
		scheduleChange(t, "set", s.Name, s.Instance, out.Next)
	}
	return out, err
}

// CancelSchedule implements host.Turn.
func (h Turn) CancelSchedule(name, instance string) (bool, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return false, err
	}
	defer t.Leave()
	var ok bool
	err := t.Atomically(func() (err error) {
		ok, err = schedulerows.New(t.Core.Rows, t.Start).Cancel(name, instance)
		return err
	})
	if ok && err == nil {
		scheduleChange(t, "cancel", name, instance, nil)
	}
	return ok, err
}

// scheduleChange records a change of a schedule to publish, like one of an alarm.
//
// REQUIRES: t.Mu
func scheduleChange(t *kernel.Turn, op, name, instance string, due *time.Time) {
	t.Change(engine.ChangeAlarm, name, func() any {
		m := map[string]any{"op": op, "name": name, "instance": instance, "schedule": true}
		if due != nil {
			m["due"] = due.UTC()
		}
		return m
	})
}

// A scheduleFiring is a due row of a schedule, on its way through its actor's mailbox.
type scheduleFiring struct {
	row engine.Wake
	// failed is a run that must be recorded, because its failure ended the core; nil to run the
	// handler.
	failed *failedRun
	// began is when the handler was started, in Unix ms; 0 before that.
	began atomic.Int64
	// run is what the handler was started for.
	run atomic.Pointer[schedulerows.Firing]
}

// Traits implements kernel.Job.
func (f *scheduleFiring) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "schedule", Name: f.row.Name, Code: true}
}

// Run implements kernel.Job.
func (f *scheduleFiring) Run(c *kernel.Core, w *kernel.Work) {
	c.Due(w, &f.row, func() error { return fireSchedule(c, w, f) })
}

// A failedRun describes a run whose turn was lost with its core: the handler panicked or was
// abandoned.
type failedRun struct {
	cause             *host.Error
	reason            string // for operators; "" for the text of cause
	started, finished time.Time
	// firing is what the run used up: no tick that came later.
	firing *schedulerows.Firing
}

// ableSince is since when the actor could have run its schedules: ticks before that were missed.
func ableSince(a *kernel.Actor) time.Time {
	if at := a.Kernel.Pauses.ResumedAt(a.Key); at.After(a.Kernel.Started) {
		return at
	}
	return a.Kernel.Started
}

// fireSchedule handles the due row of a schedule.
func fireSchedule(c *kernel.Core, w *kernel.Work, on *scheduleFiring) error {
	row := on.row
	if on.failed != nil {
		return scheduleFailed(c, w, on.failed.firing, on.failed)
	}
	f, err := schedulerows.Due(c.Rows, row.Name, row.Instance, row.Due, time.Now(), ableSince(c.Actor))
	switch {
	case err != nil:
	case f == nil:
		err = kernel.ErrLeftover // it has moved or is gone
	case f.Skip:
		err = c.System(w, "schedule", func(h *kernel.Turn) error {
			scheduleChange(h, "skipped", row.Name, row.Instance, nil)
			b := schedulerows.New(c.Rows, h.Start)
			err := b.Skip(f)
			return err
		})
	default:
		err = runSchedule(c, w, on, f)
	}
	return err
}

// runSchedule runs the handler of a tick.
func runSchedule(c *kernel.Core, w *kernel.Work, on *scheduleFiring, f *schedulerows.Firing) error {
	row, started := on.row, time.Now()
	i, cause := scheduleOf(c.Actor.Type, row.Name)
	if cause == nil {
		kernel.PartOf[*Part](c.Actor.Kernel).lag.Observe(time.Since(clock.TimeMS(row.Due)).Seconds())
		c.Actor.Type.Profile.Enter("schedule", c.Actor.Type.Schedules[i].Name, true)
		_, cause = c.RunTurn(w, c.Actor.Type.Schedules[i].Handler, true, func(h *kernel.Turn) ([]byte, error) {
			on.run.Store(f)
			on.began.Store(h.Start.UnixMilli())
			return nil, tick(c, h, i, f)
		})
	}
	if cause == nil || cause == kernel.ErrAbandoned || c.Broken {
		return cause // finished records a run whose failure ended the core
	}
	e, reason := c.Actor.Kernel.Explained(c.Actor, w, cause)
	return scheduleFailed(c, w, f, &failedRun{cause: e, reason: reason, started: started, finished: time.Now()})
}

// tick runs the handler between the two halves of its schedule's own writes.
func tick(c *kernel.Core, h *kernel.Turn, i int, f *schedulerows.Firing) error {
	b := schedulerows.New(c.Rows, h.Start)
	if err := b.Begin(f); err != nil {
		return err
	}
	if err := c.Instance.Schedule(h.Host, i, &f.Tick, f.Payload); err != nil {
		return err
	}
	if err := h.Enter(); err != nil {
		return err
	}
	defer h.Leave()
	err := b.Done(f, h.Start, time.Now())
	scheduleChange(h, "fired", f.Tick.Name, f.Tick.Instance, &f.Tick.Due)
	return err
}

// scheduleFailed records a run that failed.
func scheduleFailed(c *kernel.Core, w *kernel.Work, f *schedulerows.Firing, r *failedRun) error {
	err := c.System(w, "schedule failed", func(h *kernel.Turn) error {
		b := schedulerows.New(c.Rows, h.Start)
		if err := b.Failed(f, r.cause, r.reason, r.started, r.finished); err != nil {
			return err
		}
		return nil
	})
	return err
}

// finished is called when the work of a firing has ended. A handler that panicked or was abandoned
// ended its core, so its failure could not be recorded. finished keeps the failure. When the row is
// tried again, as soon as the actor can run, the failure is recorded instead of running the
// handler.
func (p *Part) finished(f *scheduleFiring, w *kernel.Work) {
	id := string(f.row.Row)
	p.mu.Lock()
	defer p.mu.Unlock()
	if w.Err == nil {
		delete(p.FailedRuns, id)
	} else if began := f.began.Load(); began != 0 {
		// Unavailable is the node's and not the handler's: a commit that failed. The tick is run
		// again.
		if e, ok := w.Err.(*host.Error); ok && e.Code != host.Unavailable {
			p.keepFailed(id, &failedRun{cause: e, started: clock.TimeMS(began), finished: time.Now(), firing: f.run.Load()})
			w.Err = nil // the row is tried again at once
		}
	}
}

// keepFailed remembers a run that must be recorded. Runs of actors that were destroyed meanwhile
// are forgotten in time.
//
// REQUIRES: p.mu
func (p *Part) keepFailed(id string, r *failedRun) {
	if p.FailedRuns == nil {
		p.FailedRuns = make(map[string]*failedRun)
	}
	if len(p.FailedRuns) >= 1024 {
		maps.DeleteFunc(p.FailedRuns,
			func(_ string, old *failedRun) bool { return r.finished.Sub(old.finished) > time.Hour })
	}
	p.FailedRuns[id] = r
}

// givenNumbers tells a number 0 in a request from an absent one.
type givenNumbers struct {
	host.Schedule
	Every    *int64 `json:"every_ms,omitempty"`
	CatchUp  *int   `json:"catch_up,omitempty"`
	KeepRuns *int   `json:"keep_runs,omitempty"`
}

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Act(method.ScheduleSet,
			func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *host.Schedule) (host.Schedule, error) {
				var set givenNumbers
				if err := wire.Decode(host.ScheduleSet, codec, h.Work.Input, &set); err != nil {
					return host.Schedule{}, err
				}
				if set.Every != nil {
					if in.Every = *set.Every; in.Every <= 0 {
						return host.Schedule{}, wire.NotPositive("every_ms", in.Every)
					}
				}
				if set.CatchUp != nil {
					if in.CatchUp = *set.CatchUp; in.CatchUp <= 0 {
						return host.Schedule{},
							host.Errorf(host.InvalidArgument,
								"catch_up: %d is not a number from 1 to %d; leave it out for %d",
								in.CatchUp, host.MaxScheduleCatchUp, host.DefaultScheduleCatchUp).
								With("field", "catch_up")
					}
				}
				if set.KeepRuns != nil {
					if in.KeepRuns = *set.KeepRuns; in.KeepRuns == 0 {
						return host.Schedule{}, host.Errorf(host.InvalidArgument,
							"keep_runs: 0 is not a number from 1 to %d; -1 keeps none, and leave it out for %d",
							host.MaxScheduleRuns, host.DefaultScheduleRuns).With("field", "keep_runs")
					}
				}
				i, err := scheduleOf(c.Actor.Type, in.Name)
				if err != nil {
					return host.Schedule{}, err
				}
				if len(in.Payload) > 0 {
					if in.Payload, err = wire.Convert(c.Actor.Type.Behavior, host.SchedulePayload, i,
						codec, in.Payload, host.CBOR, "payload"); err != nil {
						return host.Schedule{}, err
					}
				}
				out, err := turnOf(h).SetSchedule(*in)
				if err != nil {
					return host.Schedule{}, err
				}
				return showSchedule(c.Actor.Type, out, codec), nil
			}),
		call.Act(method.ScheduleCancel,
			func(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.ScheduleInput) (host.CountOutput, error) {
				return call.Counted(turnOf(h).CancelSchedule(in.Name, in.Instance))
			}),
		call.Act(method.ScheduleTrigger,
			func(c *kernel.Core, h *kernel.Turn, codec host.Codec, in *host.ScheduleInput) (host.Schedule, error) {
				out, err := triggerSchedule(h, in.Name, in.Instance)
				if err != nil {
					return host.Schedule{}, err
				}
				return showSchedule(c.Actor.Type, out, codec), nil
			}),
		call.Unwoken(call.Ask(method.ScheduleList,
			func(r *call.Query, codec host.Codec, in *host.ScheduleListInput) (host.ScheduleListOutput, error) {
				all, err := Query{r}.Schedules(in.Name)
				if err != nil {
					return host.ScheduleListOutput{}, err
				}
				for i := range all {
					all[i] = showSchedule(r.Actor.Type, all[i], codec)
				}
				return host.ScheduleListOutput{Schedules: all}, nil
			})),
		call.Unwoken(call.Ask(method.ScheduleRuns,
			func(r *call.Query, _ host.Codec, in *host.ScheduleInput) (host.ScheduleRunsOutput, error) {
				s, done, err := r.Rows()
				if err != nil {
					return host.ScheduleRunsOutput{}, err
				}
				defer done()
				runs, err := schedulerows.Runs(s, in.Name, in.Instance)
				return host.ScheduleRunsOutput{Runs: runs}, err
			})),
	}
}

// triggerSchedule makes a schedule run now, besides its ticks.
func triggerSchedule(t *kernel.Turn, name, instance string) (host.Schedule, error) {
	if err := t.Enter(); err != nil {
		return host.Schedule{}, err
	}
	defer t.Leave()
	b := schedulerows.New(t.Core.Rows, t.Start)
	return b.Trigger(name, instance)
}

// showSchedule returns a schedule with its payload in a request's encoding. The payload of a
// schedule whose contract is no longer declared is left out.
func showSchedule(t *kernel.Type, s host.Schedule, codec host.Codec) host.Schedule {
	i, err := scheduleOf(t, s.Name)
	if err != nil || len(s.Payload) == 0 {
		s.Payload = nil
		return s
	}
	s.Payload = wire.Shown(t.Behavior, host.SchedulePayload, i, s.Payload, codec)
	return s
}

// Schedules implements host.Reader.
func (h Reads[S]) Schedules(name string) ([]host.Schedule, error) {
	r := h.K
	return call.Reading(r, func(rows engine.Reader) ([]host.Schedule, error) { return schedulerows.List(rows, name) })
}
