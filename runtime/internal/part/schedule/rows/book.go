package schedulerows

import (
	"bytes"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Book writes an actor's schedules in one turn.
type Book struct {
	rows engine.Writer
	now  int64
}

// New returns a Book over a turn's rows; now is the turn's time.
func New(rows engine.Writer, now time.Time) *Book { return &Book{rows: rows, now: clampMS(now)} }

// Set sets a schedule, replacing one of the same name and instance. It returns the schedule as it
// is now, and whether anything changed. If there is one with the same rule, its next tick and its
// counts stay; another rule begins anew from now, and an interval is anchored where its rule was
// set. Fields of s that the runtime sets are ignored.
//
// The error code is InvalidArgument or TooLarge for a schedule that is wrong, with the field and
// the limit, and QuotaExceeded for one too many.
func (b *Book) Set(s host.Schedule) (host.Schedule, bool, error) {
	r, clock, err := b.check(&s)
	if err != nil {
		return host.Schedule{}, false, err
	}
	old, found, err := read(b.rows, s.Name, s.Instance)
	if err != nil {
		return host.Schedule{}, false, err
	}
	r.Created, r.First = b.now, 1
	if found {
		rules := r
		r = old
		r.Cron, r.Zone, r.Every, r.At = rules.Cron, rules.Zone, rules.Every, rules.At
		r.Missed, r.CatchUp, r.KeepRuns, r.Payload = rules.Missed, rules.CatchUp, rules.KeepRuns, rules.Payload
	}
	if !found || !r.sameRule(&old) || r.Next == 0 { // 0: the handler of a one-shot sets it anew
		r.Anchor, r.Attempts, r.Retry = b.now, 0, 0
		if r.Next = r.At; r.At == 0 {
			rule := rule{clock: clock, every: r.Every, anchor: b.now}
			r.Next = rule.after(b.now)
		}
		if r.Next == 0 {
			return host.Schedule{}, false, invalid("cron", quote(s.Cron)+" never ticks")
		}
	}
	changed, err := b.put(s.Name, s.Instance, &r, engine.PutOptions{})
	if err == nil && !found {
		if err = b.count(1); err != nil {
			b.rows.Delete(keyspace.Schedule.Append(nil, s.Name, s.Instance)) // a row of this turn: it cannot fail
			b.clearWake(r.Wake, s.Name, s.Instance)
		}
	}
	if err != nil {
		return host.Schedule{}, false, err
	}
	return r.schedule(s.Name, s.Instance), changed, nil
}

func invalid(field, text string) *host.Error {
	return host.Errorf(host.InvalidArgument, "%s: %s", field, text).With("field", field)
}

// check returns the record for a caller's schedule, and its expression if it has one.
func (b *Book) check(s *host.Schedule) (r scheduleRecord, c *clock, err error) {
	r = scheduleRecord{Cron: s.Cron, Zone: s.Zone, Every: s.Every, Missed: s.Missed,
		CatchUp: s.CatchUp, KeepRuns: s.KeepRuns, Payload: s.Payload}
	var second string // the rule that is one too many
	switch {
	case s.At != nil && (s.Cron != "" || s.Every != 0):
		second = "at"
	case s.Every != 0 && s.Cron != "":
		second = "every_ms"
	}
	switch {
	case s.Name == "":
		return r, nil, invalid("name", "it is missing")
	case second != "":
		return r, nil, invalid(second, "exactly one of cron, every_ms and at is expected, and there is another one")
	case s.Cron == "" && s.Every == 0 && s.At == nil:
		return r, nil, invalid("cron", "exactly one of cron, every_ms and at is expected, and there is none")
	case len(s.Instance) > maxInstance:
		return r, nil, host.OverLimit("instance bytes", maxInstance, int64(len(s.Instance))).With("field", "instance")
	case !utf8.ValidString(s.Instance):
		return r, nil, invalid("instance", "it is not valid UTF-8")
	case s.Zone != "" && s.Cron == "":
		return r, nil, invalid("zone", "only cron is in a time zone")
	case s.Every != 0 && s.Every < host.MinScheduleEvery.Milliseconds():
		return r, nil, invalid("every_ms", "the shortest interval is 1,000")
	case s.Every > maxEvery:
		return r, nil, invalid("every_ms", "the longest interval is a hundred years")
	case s.At != nil && s.At.UTC().Year() > 9999:
		return r, nil, invalid("at", "it is after the year 9999")
	case s.CatchUp < 0 || s.CatchUp > host.MaxScheduleCatchUp:
		return r, nil, invalid("catch_up", "it is not between 0 and 10,000")
	case s.CatchUp != 0 && s.Missed != host.MissedAll:
		return r, nil, invalid("catch_up", `it goes with missed "all" only`)
	case s.KeepRuns > host.MaxScheduleRuns:
		return r, nil, invalid("keep_runs", "it is over 1,000")
	case len(s.Payload) > maxPayload:
		return r, nil, host.OverLimit("schedule payload bytes", maxPayload, int64(len(s.Payload))).
			With("field", "payload")
	}
	switch r.Missed {
	case "":
		r.Missed = host.MissedOnce
	case host.MissedAll:
		if r.CatchUp == 0 {
			r.CatchUp = host.DefaultScheduleCatchUp
		}
	case host.MissedOnce, host.MissedNone:
	default:
		return r, nil, invalid("missed", `it is not "once", "all" or "none"`)
	}
	if r.KeepRuns == 0 {
		r.KeepRuns = host.DefaultScheduleRuns
	}
	r.KeepRuns = max(r.KeepRuns, 0)
	if s.At != nil {
		r.At = clampMS(*s.At) // a moment before 1970 is overdue all the same
	}
	if s.Cron != "" {
		if err = checkCron(plain(s.Cron)); err == nil {
			c, err = parseClock(s.Cron, s.Zone)
		}
	}
	return r, c, err
}

// count adds to the number of schedules.
func (b *Book) count(by int) error {
	key := keyspace.Schedule.Append(nil, "", "")
	var c countRecord
	e, found, err := b.rows.Get(key)
	if err != nil {
		return err
	}
	if found {
		if err := record.Decode(e.Value, &c); err != nil {
			return err
		}
	}
	if by > 0 && c.N >= host.MaxSchedules {
		return host.Errorf(host.QuotaExceeded, "the actor has %d schedules, which is the limit", c.N)
	}
	c.N = max(c.N+by, 0)
	value, err := record.Encode(&c)
	if err != nil {
		return err
	}
	return b.rows.Put(key, value, engine.PutOptions{})
}

// put writes a record, moves its row in the wake index, and reports whether the record changed.
func (b *Book) put(name, instance string, r *scheduleRecord, o engine.PutOptions) (bool, error) {
	key := keyspace.Schedule.Append(nil, name, instance)
	was := r.Wake
	r.Wake = r.tryAt()
	if len(r.Triggers) > 0 && (r.Wake == 0 || r.Triggers[0] < r.Wake) {
		r.Wake = r.Triggers[0]
	}
	value, err := record.Encode(r)
	if err != nil {
		return false, err
	}
	e, found, err := b.rows.Get(key)
	if err != nil {
		return false, err
	}
	if found && bytes.Equal(e.Value, value) {
		return false, nil
	}
	if err := b.rows.Put(key, value, o); err != nil {
		return false, err
	}
	if was != r.Wake {
		b.clearWake(was, name, instance)
	}
	if r.Wake != 0 {
		// even if it stands: it may have fired, and must fire again
		b.rows.SetWake(r.Wake, keyspace.WakeSchedule, name, instance)
	}
	return true, nil
}

func (b *Book) clearWake(due int64, name, instance string) {
	if due != 0 {
		b.rows.ClearWake(due, keyspace.WakeSchedule, name, instance)
	}
}

// Cancel removes a schedule and its history, and reports whether there was one.
func (b *Book) Cancel(name, instance string) (bool, error) {
	r, found, err := read(b.rows, name, instance)
	if err != nil || !found {
		return false, err
	}
	return true, b.remove(name, instance, &r)
}

func (b *Book) remove(name, instance string, r *scheduleRecord) error {
	if runs := keyspace.ScheduleRun.Prefix(nil, name, instance); r.Ran {
		if _, err := b.rows.DeleteRange(keyspace.ScheduleRun.Append(nil, name, instance, r.First),
			keyspace.TupleEnd(runs)); err != nil {
			return err
		}
	}
	if _, err := b.rows.Delete(keyspace.Schedule.Append(nil, name, instance)); err != nil {
		return err
	}
	b.clearWake(r.Wake, name, instance)
	return b.count(-1)
}

// maxTriggers is how many runs of a schedule may wait besides its ticks.
const maxTriggers = 100

// Trigger makes a schedule run now, besides its ticks. The error code is NotFound if there is none,
// Overloaded if too many such runs wait.
func (b *Book) Trigger(name, instance string) (host.Schedule, error) {
	r, found, err := read(b.rows, name, instance)
	if err != nil {
		return host.Schedule{}, err
	}
	if !found {
		return host.Schedule{},
			host.Errorf(host.NotFound, "there is no schedule %s with instance %s", quote(name), quote(instance))
	}
	if len(r.Triggers) >= maxTriggers {
		return host.Schedule{},
			host.Errorf(host.Overloaded, "%d triggered runs of the schedule wait", len(r.Triggers)).Retry()
	}
	r.Triggers = append(r.Triggers, b.now)
	_, err = b.put(name, instance, &r, engine.PutOptions{})
	return r.schedule(name, instance), err
}
