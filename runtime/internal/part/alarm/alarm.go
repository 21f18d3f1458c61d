// Package alarm is the part for alarms: an appointment of the actor with itself, disarmed by the
// commit of its handler.
package alarm

import (
	"slices"
	"time"
	"unicode/utf8"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/call"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// Part is the part for alarms.
type Part struct {
	lag     prometheus.Histogram
	typeLag *prometheus.HistogramVec
}

var _ interface {
	survey.Explainer
	kernel.Meter
	survey.Reporter
	call.Server
	kernel.Waker
} = (*Part)(nil)

// New makes the part of alarms.
func New() *Part {
	buckets := prometheus.ExponentialBuckets(1e-3, 4, 10)
	return &Part{
		lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_alarm_lag_seconds",
			Help: "How late alarms fire.", Buckets: buckets}),
		typeLag: prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "cairn_type_alarm_lag_seconds", Help: "How late alarms fire, by actor type.", Buckets: buckets}, []string{"type"}),
	}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "alarm" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(s *kernel.Kernel) []prometheus.Collector {
	for _, t := range s.Types {
		if len(t.Alarms) > 0 {
			p.typeLag.WithLabelValues(t.Type) // so that the first late alarm is an increase
		}
	}
	return []prometheus.Collector{p.lag, p.typeLag}
}

// Methods implements call.Server.
func (*Part) Methods() []*call.Method {
	return []*call.Method{
		call.Unwoken(call.Ask(method.AlarmList,
			func(r *call.Query, _ host.Codec, _ *method.None) (host.AlarmListOutput, error) {
				s, done, err := r.Rows()
				if err != nil {
					return host.AlarmListOutput{}, err
				}
				defer done()
				alarms, err := listAlarms(s, "")
				out := host.AlarmListOutput{Alarms: make([]host.ListedAlarm, len(alarms))}
				for i, a := range alarms {
					out.Alarms[i] = host.ListedAlarm{Name: a.Name, Instance: a.Instance,
						Due: a.Due.UTC(), Attempts: a.Attempts}
				}
				return out, err
			})),
		call.Act(method.AlarmCancel,
			func(_ *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.ScheduleInput) (host.CountOutput, error) {
				return call.Counted(Turn{h}.CancelAlarm(in.Name, in.Instance))
			}),
		call.Act(method.AlarmRun, runAlarm),
	}
}

// runAlarm implements alarm.run: the alarm is due now, and fires as any other.
func runAlarm(c *kernel.Core, h *kernel.Turn, _ host.Codec, in *host.ScheduleInput) (host.ListedAlarm, error) {
	r, ok, err := readAlarm(c, keyspace.Alarm.Append(nil, in.Name, in.Instance))
	if err != nil {
		return host.ListedAlarm{}, err
	}
	if !ok {
		return host.ListedAlarm{},
			host.Errorf(host.NotFound, "no alarm %q with the instance %q is armed", in.Name,
				in.Instance).With("alarm", in.Name)
	}
	shown := host.ListedAlarm{Name: in.Name, Instance: in.Instance, Due: clock.TimeMS(r.Due).UTC(),
		Attempts: r.Attempts}
	entry := audit.Of(h.Work.Ctx)
	entry.Before(&shown)
	r.Due = min(r.Due, max(1, h.Start.UnixMilli()))
	if err := setAlarm(c, in.Name, in.Instance, r, engine.PutOptions{Exempt: true}); err != nil {
		return host.ListedAlarm{}, err
	}
	shown.Due = clock.TimeMS(r.Due).UTC()
	h.Change(engine.ChangeAlarm, in.Name, func() any {
		return map[string]any{"op": "set", "name": in.Name, "instance": in.Instance, "due": shown.Due}
	})
	return shown, nil
}

// Kinds implements kernel.Waker.
func (*Part) Kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeAlarm} }

// Due implements kernel.Waker.
func (*Part) Due(_ *kernel.Kernel, _ *kernel.Type, _ host.Address, row *engine.Wake,
	_ func(*kernel.Work)) *kernel.Work {
	return &kernel.Work{Job: (*alarmDue)(row)}
}

// Wakes implements kernel.Waker.
func (*Part) Wakes(rows engine.Reader) ([]engine.Wake, error) {
	alarms, err := listAlarms(rows, "")
	all := make([]engine.Wake, len(alarms))
	for i, al := range alarms {
		all[i] = engine.Wake{Due: al.Due.UnixMilli(), Kind: keyspace.WakeAlarm, Name: al.Name, Instance: al.Instance}
	}
	return all, err
}

// alarmRecord is the value of KindAlarms.
type alarmRecord struct {
	_        struct{} `cbor:",toarray"`
	Due      int64    // unix milliseconds
	Attempts int
	Payload  []byte
}

// alarmOf returns the index of an alarm, or -1.
func alarmOf(t *kernel.Type, name string) int {
	return slices.IndexFunc(t.Alarms, func(a host.AlarmMethod) bool { return a.Name == name })
}

// Turn is the view of handlers on alarms.
type Turn struct{ K *kernel.Turn }

// setAlarm arms an alarm, replacing one of the same name and instance.
func setAlarm(c *kernel.Core, name, instance string, r alarmRecord, o engine.PutOptions) error {
	key := keyspace.Alarm.Append(nil, name, instance)
	if old, ok, err := readAlarm(c, key); err != nil {
		return err
	} else if ok {
		c.Rows.ClearWake(old.Due, keyspace.WakeAlarm, name, instance)
	}
	rec, err := record.Encode(&r)
	if err != nil {
		return err
	}
	if err := c.Rows.Put(key, rec, o); err != nil {
		return err
	}
	c.Rows.SetWake(r.Due, keyspace.WakeAlarm, name, instance)
	return nil
}

// clearAlarm disarms an alarm and reports whether it was armed.
func clearAlarm(c *kernel.Core, name, instance string) (bool, error) {
	key := keyspace.Alarm.Append(nil, name, instance)
	old, ok, err := readAlarm(c, key)
	if err != nil || !ok {
		return false, err
	}
	c.Rows.ClearWake(old.Due, keyspace.WakeAlarm, name, instance)
	return c.Rows.Delete(key)
}

func readAlarm(c *kernel.Core, key []byte) (r alarmRecord, ok bool, err error) {
	e, ok, err := c.Rows.Get(key)
	if err != nil || !ok {
		return r, false, err
	}
	return r, true, record.Decode(e.Value, &r)
}

// listAlarms lists the armed alarms of a name, or all.
func listAlarms(l call.Lister, name string) ([]host.Alarm, error) {
	start, end := keyspace.Alarm.Range()
	if name != "" {
		start = keyspace.Alarm.Prefix(nil, name)
		end = keyspace.TupleEnd(start)
	}
	var out []host.Alarm
	var after []byte
	for {
		page, err := l.List(engine.ListQuery{Start: start, End: end, After: after})
		if err != nil {
			return nil, err
		}
		for _, e := range page.Entries {
			name, instance, err := keyspace.Alarm.Parse(e.Key)
			if err != nil {
				return nil, err
			}
			var r alarmRecord
			if err := record.Decode(e.Value, &r); err != nil {
				return nil, err
			}
			out = append(out,
				host.Alarm{Name: name, Instance: instance, Due: clock.TimeMS(r.Due),
					Payload: r.Payload, Attempts: r.Attempts})
		}
		if after = page.Next; after == nil {
			return out, nil
		}
	}
}

// alarmDue is an alarm's row that is due, on its way through its actor's mailbox.
type alarmDue engine.Wake

// Traits implements kernel.Job.
func (d *alarmDue) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "alarm", Name: d.Name, Declared: alarmOf(a.Type, d.Name) >= 0, Code: true}
}

// Run implements kernel.Job.
func (d *alarmDue) Run(c *kernel.Core, w *kernel.Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error { return fireAlarm(c, w, row) })
}

// fireAlarm runs the handler of an alarm that is due. The alarm is disarmed by the commit of its
// own handler and by nothing else; if the handler fails, the alarm is put off.
func fireAlarm(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	var cause error
	rec, ok, err := readAlarm(c, keyspace.Alarm.Append(nil, row.Name, row.Instance))
	switch {
	case err != nil:
		return err
	case !ok || rec.Due != row.Due:
		return kernel.ErrLeftover // it was moved or cancelled
	}
	i := alarmOf(c.Actor.Type, row.Name)
	if i < 0 {
		cause = host.Errorf(host.UnknownMethod, "actor type %q has no alarm %q", c.Actor.Address.Type, row.Name)
	} else {
		p, late := kernel.PartOf[*Part](c.Actor.Kernel), time.Since(clock.TimeMS(row.Due)).Seconds()
		p.lag.Observe(late)
		p.typeLag.WithLabelValues(c.Actor.Address.Type).Observe(late)
		_, cause = c.RunTurn(w, c.Actor.Type.Alarms[i].Handler, true, func(h *kernel.Turn) ([]byte, error) {
			if _, err := clearAlarm(c, row.Name, row.Instance); err != nil {
				return nil, err
			}
			return nil, c.Instance.Alarm(h.Host, i, row.Instance, rec.Payload)
		})
	}
	if cause == nil || cause == kernel.ErrAbandoned || c.Broken {
		return cause
	}
	c.Actor.Kernel.Public(c.Actor, w, cause)
	rec.Attempts++
	err = c.System(w, "alarm retry", func(h *kernel.Turn) error {
		rec.Due = time.Now().Add(retry.Backoff(rec.Attempts, alarmRetryMin, alarmRetryMax)).UnixMilli()
		return setAlarm(c, row.Name, row.Instance, rec, engine.PutOptions{Exempt: true})
	})
	return err
}

// A failed alarm is tried again after 1 second, doubling up to 5 minutes, without end.
const (
	alarmRetryMin = time.Second
	alarmRetryMax = 5 * time.Minute
)

// SetAlarm implements host.Turn.
func (h Turn) SetAlarm(al host.Alarm) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	if alarmOf(t.Actor.Type, al.Name) < 0 {
		return host.Errorf(host.InvalidArgument, "actor type %q has no alarm %q", t.Actor.Address.Type, al.Name)
	}
	if !utf8.ValidString(al.Instance) { // operators could not name it
		return host.Errorf(host.InvalidArgument, "alarm %q: its instance is not valid UTF-8", al.Name).With("field", "instance")
	}
	if al.Due.UTC().Year() > 9999 { // which JSON cannot hold
		return host.Errorf(host.InvalidArgument, "alarm %q: its time is after the year 9999", al.Name).With("field", "due")
	}
	due := al.Due.UnixMilli()
	if due < 1 {
		due = 1 // rows due at 0 mean something else, and a moment before 1970 is overdue all the same
	}
	if err := t.Atomically(func() error {
		return setAlarm(t.Core, al.Name, al.Instance, alarmRecord{Due: due, Payload: al.Payload}, engine.PutOptions{})
	}); err != nil {
		return err
	}
	t.Change(engine.ChangeAlarm, al.Name, func() any {
		return map[string]any{"op": "set", "name": al.Name, "instance": al.Instance, "due": clock.TimeMS(due).UTC()}
	})
	return nil
}

// CancelAlarm implements host.Turn.
func (h Turn) CancelAlarm(name, instance string) (bool, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return false, err
	}
	defer t.Leave()
	var ok bool
	err := t.Atomically(func() (err error) {
		ok, err = clearAlarm(t.Core, name, instance)
		return err
	})
	if ok && err == nil {
		t.Change(engine.ChangeAlarm, name, func() any {
			return map[string]any{"op": "cancel", "name": name, "instance": instance}
		})
	}
	return ok, err
}

// Alarms implements host.Turn.
func (h Turn) Alarms(name string) ([]host.Alarm, error) {
	t := h.K
	if err := t.Enter(); err != nil {
		return nil, err
	}
	defer t.Leave()
	return listAlarms(t.Core.Rows, name)
}
