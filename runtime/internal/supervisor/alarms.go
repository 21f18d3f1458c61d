package supervisor

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/prometheus/client_golang/prometheus"
)

// alarmPart is the part of actors that is alarms.
type alarmPart struct {
	lag prometheus.Histogram
}

func newAlarmPart() *alarmPart {
	return &alarmPart{lag: prometheus.NewHistogram(prometheus.HistogramOpts{Name: "cairn_alarm_lag_seconds", Help: "How late alarms fire.",
		Buckets: prometheus.ExponentialBuckets(1e-3, 4, 10)})}
}

func (*alarmPart) name() string { return "alarm" }

// collectors implements meter.
func (p *alarmPart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.lag}
}

// methods implements server.
func (*alarmPart) methods() []*builtin {
	return []*builtin{
		ask(host.AlarmList, func(r *reader, _ host.Codec, _ *none) (host.AlarmListOutput, error) {
			s, done, err := r.rows()
			if err != nil {
				return host.AlarmListOutput{}, err
			}
			defer done()
			alarms, err := listAlarms(s, "")
			out := host.AlarmListOutput{Alarms: make([]host.ListedAlarm, len(alarms))}
			for i, a := range alarms {
				out.Alarms[i] = host.ListedAlarm{Name: a.Name, Instance: a.Instance, Due: a.Due.UTC(), Attempts: a.Attempts}
			}
			return out, err
		}),
		existing(act(host.AlarmCancel, func(_ *core, h *turn, _ host.Codec, in *host.ScheduleInput) (host.CountOutput, error) {
			return counted(alarmTurn{h}.CancelAlarm(in.Name, in.Instance))
		})),
	}
}

// kinds implements waker.
func (*alarmPart) kinds() []keyspace.WakeKind { return []keyspace.WakeKind{keyspace.WakeAlarm} }

// due implements waker.
func (*alarmPart) due(_ *Supervisor, _ *actorType, _ host.Address, row *engine.Wake, _ func(*work)) *work {
	return &work{job: (*alarmDue)(row)}
}

// wakes implements waker.
func (*alarmPart) wakes(rows engine.Reader) ([]engine.Wake, error) {
	alarms, err := listAlarms(rows, "")
	all := make([]engine.Wake, len(alarms))
	for i, al := range alarms {
		all[i] = engine.Wake{Due: unixMS(al.Due), Kind: keyspace.WakeAlarm, Name: al.Name, Instance: al.Instance}
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
func (t *actorType) alarmOf(name string) int {
	return slices.IndexFunc(t.Alarms, func(a host.AlarmMethod) bool { return a.Name == name })
}

// alarmTurn is what handlers may do with alarms.
type alarmTurn struct{ t *turn }

// setAlarm arms an alarm, replacing one of the same name and instance.
func (c *core) setAlarm(name, instance string, r alarmRecord, o engine.PutOptions) error {
	key := keyspace.AppendAlarm(nil, name, instance)
	if old, ok, err := c.readAlarm(key); err != nil {
		return err
	} else if ok {
		c.ws.ClearWake(old.Due, keyspace.WakeAlarm, name, instance)
	}
	rec, err := record.Encode(&r)
	if err != nil {
		return err
	}
	if err := c.ws.Put(key, rec, o); err != nil {
		return err
	}
	c.ws.SetWake(r.Due, keyspace.WakeAlarm, name, instance)
	return nil
}

// clearAlarm disarms an alarm and reports whether it was armed.
func (c *core) clearAlarm(name, instance string) (bool, error) {
	key := keyspace.AppendAlarm(nil, name, instance)
	old, ok, err := c.readAlarm(key)
	if err != nil || !ok {
		return false, err
	}
	c.ws.ClearWake(old.Due, keyspace.WakeAlarm, name, instance)
	return c.ws.Delete(key)
}

func (c *core) readAlarm(key []byte) (r alarmRecord, ok bool, err error) {
	e, ok, err := c.ws.Get(key)
	if err != nil || !ok {
		return r, false, err
	}
	return r, true, record.Decode(e.Value, &r)
}

// listAlarms lists the armed alarms of a name, or all.
func listAlarms(l lister, name string) ([]host.Alarm, error) {
	start, end := keyspace.KindRange(keyspace.KindAlarms)
	if name != "" {
		start = keyspace.AppendAlarmName(nil, name)
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
			k, err := keyspace.ParseAlarm(e.Key)
			if err != nil {
				return nil, err
			}
			var r alarmRecord
			if err := record.Decode(e.Value, &r); err != nil {
				return nil, err
			}
			out = append(out, host.Alarm{Name: k.Name, Instance: k.Instance, Due: timeMS(r.Due), Payload: r.Payload, Attempts: r.Attempts})
		}
		if after = page.Next; after == nil {
			return out, nil
		}
	}
}

// alarmDue is an alarm's row that is due, on its way through its actor's mailbox.
type alarmDue engine.Wake

// traits implements job.
func (d *alarmDue) traits(*activation) traits { return traits{kind: "alarm", name: d.Name, code: true} }

// run implements job.
func (d *alarmDue) run(c *core, w *work) {
	row := (*engine.Wake)(d)
	c.due(w, row, func() error { return c.fireAlarm(w, row) })
}

// fireAlarm runs the handler of an alarm that is due. The alarm is disarmed by the commit of its own handler and by
// nothing else; if the handler fails, the alarm is put off.
func (c *core) fireAlarm(w *work, row *engine.Wake) error {
	var cause error
	rec, ok, err := c.readAlarm(keyspace.AppendAlarm(nil, row.Name, row.Instance))
	switch {
	case err != nil:
		return err
	case !ok || rec.Due != row.Due:
		return errLeftover // it was moved or cancelled
	}
	i := c.a.typ.alarmOf(row.Name)
	if i < 0 {
		cause = host.Errorf(host.UnknownMethod, "actor type %q has no alarm %q", c.a.addr.Type, row.Name)
	} else {
		partOf[*alarmPart](c.a.sup).lag.Observe(time.Since(timeMS(row.Due)).Seconds())
		_, cause = c.run(w, c.a.typ.Alarms[i].Handler, func(h *turn) ([]byte, error) {
			if _, err := c.clearAlarm(row.Name, row.Instance); err != nil {
				return nil, err
			}
			return nil, c.inst.Alarm(h.host, i, row.Instance, rec.Payload)
		})
	}
	if cause == nil || cause == errAbandoned || c.broken {
		return cause
	}
	c.a.sup.public(c.a, w, cause)
	rec.Attempts++
	_, err = c.internal(w, "alarm retry", func(h *turn) error {
		rec.Due = unixMS(time.Now().Add(backoff(rec.Attempts, alarmRetryMin, alarmRetryMax)))
		return c.setAlarm(row.Name, row.Instance, rec, engine.PutOptions{Exempt: true})
	})
	return err
}

// A failed alarm is tried again after 1 second, doubling up to 5 minutes, for as long as it takes.
const (
	alarmRetryMin = time.Second
	alarmRetryMax = 5 * time.Minute
)

// SetAlarm implements host.Turn.
func (h alarmTurn) SetAlarm(al host.Alarm) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	if t.a.typ.alarmOf(al.Name) < 0 {
		return host.Errorf(host.InvalidArgument, "actor type %q has no alarm %q", t.a.addr.Type, al.Name)
	}
	due := unixMS(al.Due)
	if due < 1 {
		due = 1 // rows due at 0 mean something else, and a moment before 1970 is overdue all the same
	}
	if err := t.atomically(func() error {
		return t.c.setAlarm(al.Name, al.Instance, alarmRecord{Due: due, Payload: al.Payload}, engine.PutOptions{})
	}); err != nil {
		return err
	}
	t.change(engine.ChangeAlarm, al.Name, func() any {
		return map[string]any{"op": "set", "name": al.Name, "instance": al.Instance, "due": timeMS(due).UTC()}
	})
	return nil
}

// CancelAlarm implements host.Turn.
func (h alarmTurn) CancelAlarm(name, instance string) (bool, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return false, err
	}
	defer t.leave()
	var ok bool
	err := t.atomically(func() (err error) {
		ok, err = t.c.clearAlarm(name, instance)
		return err
	})
	if ok && err == nil {
		t.change(engine.ChangeAlarm, name, func() any {
			return map[string]any{"op": "cancel", "name": name, "instance": instance}
		})
	}
	return ok, err
}

// Alarms implements host.Turn.
func (h alarmTurn) Alarms(name string) ([]host.Alarm, error) {
	t := h.t
	if err := t.enter(); err != nil {
		return nil, err
	}
	defer t.leave()
	return listAlarms(t.c.ws, name)
}
