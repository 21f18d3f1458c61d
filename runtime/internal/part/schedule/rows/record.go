package schedulerows

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// The values of this package's kinds. Times are Unix ms; 0 is none.
type (
	// scheduleRecord is the value of keyspace.Schedule.Kind.
	scheduleRecord struct {
		_          struct{} `cbor:",toarray"`
		Cron, Zone string
		Every, At  int64
		Missed     host.Missed
		CatchUp    int
		KeepRuns   int // 0 for none
		Payload    []byte
		// Created tells a schedule from an earlier one of the same name. Anchor is when the rule
		// was set.
		Created, Anchor int64
		// Next is the first unhandled tick, Retry is when a failed one-shot is tried again, Wake is
		// when the row in the wake index is due.
		Next, Retry, Wake int64
		// Triggers are the moments of runs besides the ticks, in order.
		Triggers []int64
		Runs     uint64
		Attempts int
		Skipped  uint64
		// Passed counts ticks since the last run that get none of their own, for the next run.
		Passed uint64
		// Failed: the last run or attempt failed, with Error. A schedule without a run has Ran ==
		// false.
		Ran, Failed bool
		Error       string
		// First is the first run that may have a row.
		First uint64
	}
	// runRecord is the value of keyspace.ScheduleRun.Kind.
	runRecord struct {
		_                      struct{} `cbor:",toarray"`
		Due, Started, Finished int64
		Failed                 bool
		Error                  string
		Attempt                int
		Passed                 uint64
	}
	// countRecord stands under the key without a name and has the number of schedules.
	countRecord struct {
		_ struct{} `cbor:",toarray"`
		N int
	}
)

// rule compiles the rule of the schedule.
func (r *scheduleRecord) rule() (rule, error) {
	switch {
	case r.At > 0:
		return rule{at: r.At}, nil
	case r.Every > 0:
		return rule{every: r.Every, anchor: r.Anchor}, nil
	}
	c, err := parseClock(r.Cron, r.Zone)
	return rule{clock: c}, err
}

// sameRule reports whether two records have the same ticks, except for the anchor of an interval.
func (r *scheduleRecord) sameRule(o *scheduleRecord) bool {
	return r.Cron == o.Cron && r.Zone == o.Zone && r.Every == o.Every && r.At == o.At
}

// tryAt is when the next tick runs.
func (r *scheduleRecord) tryAt() int64 {
	if r.Attempts > 0 && r.Retry != 0 {
		return r.Retry
	}
	return r.Next
}

// last is the number of the last run that may have a row.
func (r *scheduleRecord) last() uint64 {
	if r.Attempts > 0 {
		return r.Runs + 1
	}
	return r.Runs
}

func timeOf(ms int64) *time.Time {
	if ms == 0 {
		return nil
	}
	t := time.UnixMilli(ms).UTC()
	return &t
}

// schedule is the record as its users see it.
func (r *scheduleRecord) schedule(name, instance string) host.Schedule {
	s := host.Schedule{
		Name: name, Instance: instance, Cron: r.Cron, Zone: r.Zone, Every: r.Every, At: timeOf(r.At), Missed: r.Missed, CatchUp: r.CatchUp,
		KeepRuns: r.KeepRuns, Payload: host.Raw(r.Payload), Next: timeOf(r.Next), Runs: r.Runs, Attempts: r.Attempts, Skipped: r.Skipped,
	}
	if r.KeepRuns == 0 {
		s.KeepRuns = -1
	}
	switch {
	case r.Failed:
		s.LastResult, s.LastError = "error", r.Error
	case r.Ran:
		s.LastResult = "ok"
	}
	return s
}

func read(rows engine.Reader, name, instance string) (r scheduleRecord, found bool, err error) {
	e, found, err := rows.Get(keyspace.Schedule.Append(nil, name, instance))
	if err != nil || !found {
		return r, false, err
	}
	return r, true, r.decode(e.Value)
}

// decode decodes a record and refuses values that Set never writes.
func (r *scheduleRecord) decode(value []byte) error {
	if err := record.Decode(value, r); err != nil {
		return err
	}
	for _, ms := range []int64{r.Every, r.At, r.Created, r.Anchor, r.Next, r.Retry, r.Wake} {
		if ms < 0 || ms > 2*maxTime {
			return &engine.CorruptError{Reason: "a time of a schedule is out of range"}
		}
	}
	if r.Missed == host.MissedAll && r.CatchUp == 0 || r.KeepRuns < 0 ||
		r.KeepRuns > host.MaxScheduleRuns || r.CatchUp < 0 || r.CatchUp > host.MaxScheduleCatchUp || r.Attempts < 0 {
		return &engine.CorruptError{Reason: "a count of a schedule is out of range"}
	}
	return nil
}

// each visits the schedules of a name, or all, in the order of name and instance.
func each(rows engine.Reader, name string, visit func(name, instance string, r *scheduleRecord)) error {
	start, end := keyspace.Schedule.Range()
	if name != "" {
		start = keyspace.Schedule.Prefix(nil, name)
		end = keyspace.TupleEnd(start)
	}
	q := engine.ListQuery{Start: start, End: end}
	for {
		page, err := rows.List(q)
		if err != nil {
			return err
		}
		for _, e := range page.Entries {
			of, instance, err := keyspace.Schedule.Parse(e.Key)
			if err != nil {
				return err
			}
			if of == "" {
				continue // the count
			}
			var r scheduleRecord
			if err := r.decode(e.Value); err != nil {
				return err
			}
			visit(of, instance, &r)
		}
		if q.After = page.Next; q.After == nil {
			return nil
		}
	}
}

// Get returns one schedule.
func Get(rows engine.Reader, name, instance string) (host.Schedule, bool, error) {
	r, found, err := read(rows, name, instance)
	if err != nil || !found {
		return host.Schedule{}, false, err
	}
	return r.schedule(name, instance), true, nil
}

// List returns the schedules of a name, or all if name is "", in the order of name and instance.
func List(rows engine.Reader, name string) ([]host.Schedule, error) {
	all := []host.Schedule{}
	err := each(rows, name,
		func(name, instance string, r *scheduleRecord) { all = append(all, r.schedule(name, instance)) })
	return all, err
}

// Wakes returns the rows of the wake index that the schedules have, without the actor's id and Row.
func Wakes(rows engine.Reader) ([]engine.Wake, error) {
	var all []engine.Wake
	err := each(rows, "", func(name, instance string, r *scheduleRecord) {
		if r.Wake != 0 {
			all = append(all, engine.Wake{Due: r.Wake, Kind: keyspace.WakeSchedule, Name: name, Instance: instance})
		}
	})
	return all, err
}

// Runs returns the kept history of a schedule, the latest run first.
func Runs(rows engine.Reader, name, instance string) ([]host.ScheduleRun, error) {
	r, found, err := read(rows, name, instance)
	if err != nil {
		return nil, err
	}
	runs := []host.ScheduleRun{}
	if !found || r.KeepRuns == 0 {
		return runs, nil
	}
	first := max(r.First, 1)
	if last := r.last(); last >= uint64(r.KeepRuns) {
		first = max(first, last-uint64(r.KeepRuns)+1)
	}
	prefix := keyspace.ScheduleRun.Prefix(nil, name, instance)
	page, err := rows.List(engine.ListQuery{
		Start: keyspace.ScheduleRun.Append(nil, name, instance,
			first), End: keyspace.TupleEnd(prefix), Reverse: true, Limit: r.KeepRuns,
	})
	if err != nil {
		return nil, err
	}
	for _, e := range page.Entries {
		_, _, number, err := keyspace.ScheduleRun.Parse(e.Key)
		if err != nil {
			return nil, err
		}
		var run runRecord
		if err := record.Decode(e.Value, &run); err != nil {
			return nil, err
		}
		h := host.ScheduleRun{
			Run: number, Due: time.UnixMilli(run.Due).UTC(), Started: time.UnixMilli(run.Started).
				UTC(), Finished: time.UnixMilli(run.Finished).UTC(),
			Result: "ok", Error: run.Error, Attempt: run.Attempt, Missed: run.Passed,
		}
		if run.Failed {
			h.Result = "error"
		}
		runs = append(runs, h)
	}
	return runs, nil
}
