package schedulerows

import (
	"cmp"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// A Firing is the work of a due row of the wake index.
type Firing struct {
	// Tick is the run, for the handler with Payload, in CBOR.
	Tick    host.Tick
	Payload []byte
	// Skip: no handler runs, because every passed tick must be skipped; see Book.Skip.
	Skip bool

	created int64
	next    int64 // the tick of the record that this begins with; 0 for a run besides the ticks
	upTo    int64 // ticks up to this one are dealt with
	skipped uint64
}

// Due returns the work of the row of the wake index at due; nil if the schedule has moved or is
// gone, so that the row is a leftover. able is since when the actor could have run: since the node
// started, or the actor was resumed.
func Due(rows engine.Reader, name, instance string, due int64, now, able time.Time) (*Firing, error) {
	r, found, err := read(rows, name, instance)
	if err != nil || !found || r.Wake != due {
		return nil, err
	}
	rule, err := r.rule()
	if err != nil {
		return nil, err
	}
	f := &Firing{Tick: host.Tick{Name: name, Instance: instance, Run: r.Runs + 1, Attempt: 1},
		Payload: r.Payload, created: r.Created}
	if try := r.tryAt(); len(r.Triggers) > 0 && (try == 0 || r.Triggers[0] < try) {
		f.Tick.Due = time.UnixMilli(r.Triggers[0]).UTC()
		return f, nil
	}
	f.next = r.Next
	f.Tick.Attempt += r.Attempts
	until := max(now.UnixMilli(), r.Next)
	switch r.Missed {
	case host.MissedAll:
		n, first := rule.due(r.Next, until, r.CatchUp)
		f.skipped = n - min(n, uint64(r.CatchUp))
		f.Tick.Missed = r.Passed + f.skipped
		f.run(first)
	case host.MissedNone:
		// A tick from before the actor could run is missed, but not one that was set since, for a
		// moment in the past.
		from := r.Next
		if since := able.UnixMilli(); from < since && r.Anchor < since && r.Attempts == 0 {
			before, _ := rule.due(r.Next, min(until, since-1), 1)
			f.skipped = before
			if from = rule.after(since - 1); from == 0 || from > until {
				f.Skip, f.upTo = true, min(until, since-1)
				return f, nil
			}
		}
		n, last := rule.due(from, until, 1)
		f.skipped += n - 1
		f.Tick.Missed = r.Passed + f.skipped
		f.run(last)
	default:
		n, last := rule.due(r.Next, until, 1)
		f.Tick.Missed = r.Passed + n - 1
		f.run(last)
	}
	return f, nil
}

func (f *Firing) run(tick int64) {
	f.upTo = tick
	f.Tick.Due = time.UnixMilli(tick).UTC()
}

// ofRun: a full actor goes on with its schedules; a run whose record was refused would be tried for
// ever.
var ofRun = engine.PutOptions{Exempt: true}

// Begin uses the tick up, in the handler's turn before the handler runs. The schedule is then armed
// for the tick after it, and changes by the handler come on top of that.
func (b *Book) Begin(f *Firing) error {
	r, found, err := b.firing(f)
	if err != nil || !found {
		return err
	}
	if err := r.begin(f); err != nil {
		return err
	}
	_, err = b.put(f.Tick.Name, f.Tick.Instance, &r, ofRun)
	return err
}

// firing reads the record of a firing, unless the schedule was cancelled, and perhaps set again,
// since.
func (b *Book) firing(f *Firing) (r scheduleRecord, found bool, err error) {
	r, found, err = read(b.rows, f.Tick.Name, f.Tick.Instance)
	return r, found && r.Created == f.created && r.Runs+1 == f.Tick.Run, err
}

func (r *scheduleRecord) begin(f *Firing) error {
	if f.next == 0 {
		if len(r.Triggers) > 0 {
			r.Triggers = r.Triggers[1:]
		}
		return nil
	}
	rule, err := r.rule()
	if err != nil {
		return err
	}
	r.Next, r.Retry, r.Attempts, r.Passed = rule.after(f.upTo), 0, 0, 0
	r.Skipped += f.skipped
	return nil
}

// Done records that the handler has run, in the handler's own turn, after Begin. A schedule for one
// moment is removed, unless the handler set it anew; one that the handler cancelled leaves nothing.
func (b *Book) Done(f *Firing, started, finished time.Time) error {
	r, found, err := b.firing(f)
	if err != nil || !found {
		return err
	}
	if r.Next == 0 && len(r.Triggers) == 0 {
		return b.remove(f.Tick.Name, f.Tick.Instance, &r)
	}
	r.Runs++
	return b.settle(f, &r, nil, "", started, finished)
}

// Failed records that the handler has failed, in a turn of its own, because the handler's turn,
// with Begin, was undone. A recurring schedule waits for its next tick; one for a single moment is
// tried again later.
//
// The run keeps reason, for operators; the schedule shows cause. An empty reason is the text of
// cause.
func (b *Book) Failed(f *Firing, cause *host.Error, reason string, started, finished time.Time) error {
	r, found, err := b.firing(f)
	if err != nil || !found {
		return err
	}
	switch {
	case f.next != 0 && f.next != r.Next: // it was set anew since
		r.Runs++
	case f.next != 0 && r.At != 0:
		r.Attempts++
		r.Retry = clampMS(finished) + backoff(r.Attempts)
	default:
		if err := r.begin(f); err != nil {
			return err
		}
		if r.Runs++; r.Next == 0 && len(r.Triggers) == 0 {
			return b.remove(f.Tick.Name, f.Tick.Instance, &r)
		}
	}
	return b.settle(f, &r, cause, reason, started, finished)
}

// maxError bounds the error of a run that is kept, in bytes.
const maxError = 1024

// settle writes the result of a run.
func (b *Book) settle(f *Firing, r *scheduleRecord, cause *host.Error, reason string, started,
	finished time.Time) error {
	run := runRecord{
		Due: f.Tick.Due.UnixMilli(), Started: clampMS(started), Finished: clampMS(finished), Attempt: f.Tick.Attempt, Passed: f.Tick.Missed,
	}
	r.Ran, r.Failed, r.Error = true, cause != nil, ""
	if cause != nil {
		r.Error = cut(cause.Error())
		run.Failed, run.Error = true, cut(cmp.Or(reason, cause.Error()))
	}
	if r.Missed == host.MissedNone && r.At == 0 && r.Next <= run.Finished {
		// These came during the run.
		rule, err := r.rule()
		if err != nil {
			return err
		}
		n, _ := rule.due(r.Next, run.Finished, 1)
		r.Skipped, r.Passed, r.Next = r.Skipped+n, r.Passed+n, rule.after(run.Finished)
	}
	if err := b.history(f.Tick.Name, f.Tick.Instance, r, f.Tick.Run, &run); err != nil {
		return err
	}
	_, err := b.put(f.Tick.Name, f.Tick.Instance, r, ofRun)
	return err
}

// Skip skips the ticks of a firing with Skip set.
func (b *Book) Skip(f *Firing) error {
	r, found, err := b.firing(f)
	if err != nil || !found || r.Next != f.next {
		return err
	}
	passed := r.Passed + f.skipped
	if err := r.begin(f); err != nil {
		return err
	}
	if r.Passed = passed; r.Next == 0 {
		return b.remove(f.Tick.Name, f.Tick.Instance, &r)
	}
	_, err = b.put(f.Tick.Name, f.Tick.Instance, &r, ofRun)
	return err
}

// trimMost is how many rows of the history a turn removes.
const trimMost = 100

// history keeps a run, and drops the oldest runs beyond the limit.
func (b *Book) history(name, instance string, r *scheduleRecord, number uint64, run *runRecord) error {
	if r.KeepRuns > 0 {
		value, err := record.Encode(run)
		if err != nil {
			return err
		}
		if err := b.rows.Put(keyspace.ScheduleRun.Append(nil, name, instance, number), value, ofRun); err != nil {
			return err
		}
	}
	for range trimMost {
		if number < r.First || number-r.First < uint64(r.KeepRuns) {
			break
		}
		if _, err := b.rows.Delete(keyspace.ScheduleRun.Append(nil, name, instance, r.First)); err != nil {
			return err
		}
		r.First++
	}
	return nil
}

// cut shortens an error to the part that is kept.
func cut(s string) string { return strings.ToValidUTF8(s[:min(len(s), maxError)], "") }
