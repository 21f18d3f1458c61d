// Package run is the part for the workflow run: package workflow writes it, turns advance it.
package run

import (
	"errors"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	"github.com/cairn-run/cairn/runtime/internal/part/queue"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
	"github.com/cairn-run/cairn/runtime/internal/record"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// runRecord is the value of kind run.
type runRecord struct {
	_ struct{} `cbor:",toarray"`
	// Due is when the run advances by itself, in Unix ms; 0 for never.
	Due int64
	// Watching: the run waits for a condition of the state.
	Watching bool
	// Asked: it has received messages whose senders wait for a reply.
	Asked bool
	// Children: it waits for runs of other actors.
	Children bool
	// Listed is the reason under which the node's list of paused runs has the run, "" if it is not
	// paused.
	Listed string
}

// runKey is the logical key of the record.
var runKey = keyspace.Run.Append(nil)

// A run that cannot advance is tried again after 1 second, doubling up to 5 minutes.
const (
	runRetryMin = time.Second
	runRetryMax = 5 * time.Minute
)

const (
	// maxAdvances is how many turns a run takes before other work of the actor.
	maxAdvances = 64
	// maxAhead is how many commits of an actor may be on their way to the disk before its run waits
	// for them.
	maxAhead = 32
)

// errUndone undoes a turn in which a function of the user failed; the run has recorded the failure.
var errUndone = errors.New("run: the turn is undone for the run")

// readRun reads the record of a live run, and its size in bytes.
func readRun(r engine.Reader) (rec runRecord, size int, ok bool, err error) {
	e, ok, err := r.Get(runKey)
	if err != nil || !ok {
		return rec, 0, false, err
	}
	err = record.Decode(e.Value, &rec)
	return rec, len(e.Value), true, err
}

// runDue is a run's row that is due, on its way through its actor's mailbox.
type runDue engine.Wake

// Traits implements kernel.Job.
func (*runDue) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "workflow due", Code: true, Quick: runPace(a.Type).Quick(1)}
}

// Run implements kernel.Job.
func (d *runDue) Run(c *kernel.Core, w *kernel.Work) {
	row := (*engine.Wake)(d)
	c.Due(w, row, func() error { return fireRun(c, w, row) })
}

// fireRun advances a run that is due.
func fireRun(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	f := flowOf(c)
	if err := flowKnown(c); err != nil {
		return err
	}
	if !f.live || f.rec.Due != row.Due {
		return kernel.ErrLeftover // the run has ended or waits for another time
	}
	kernel.PartOf[*Part](c.Actor.Kernel).lag.Observe(time.Since(clock.TimeMS(row.Due)).Seconds())
	err := advanceAll(c, w)
	if err == nil && f.live && f.rec.Due == row.Due && f.enter != nil && f.enter.asked {
		err = fault.Unavailable("the run goes on as soon as it is durable that it does")
	} else if err == nil && f.live && f.rec.Due == row.Due {
		// It waits for attempts of the run before, or for the actor's sleep. The row is tried again
		// later, not at once.
		err = fault.Unavailable("the run has not taken notice of the time")
	}
	return err
}

// A runJob advances the run.
type runJob uint8

const (
	runRecovered runJob = 1 << iota // the row at 0 stands
	runHurried                      // at once, even if paused until later
)

// workKind is the kind of a run's work, for profiles and metrics.
const workKind = "workflow"

func newRunJob(recovered bool) kernel.Job {
	if recovered {
		return runRecovered
	}
	return runJob(0)
}

// Traits implements kernel.Job.
func (runJob) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: workKind, Code: true, Quick: runPace(a.Type).Quick(1)}
}

// Run implements kernel.Job.
func (j runJob) Run(c *kernel.Core, w *kernel.Work) {
	err := flowKnown(c)
	if err == nil {
		if j&runHurried != 0 {
			hurryRun(c)
		}
		if j&runRecovered != 0 && c.Standing.Of(keyspace.WakeRun) == standing.Unsure {
			c.Standing.Note(keyspace.WakeRun, standing.Armed)
			flowOf(c).retiring = true
		}
		err = advanceAll(c, w)
	}
	c.Respond(w, nil, err)
}

// Follow implements kernel.Follower: it advances the run in the group of the work that made it
// necessary.
func (f *flow) Follow(c *kernel.Core) {
	a := c.Actor
	if !f.pending || c.Bare || c.Broken || c.Ended || c.Refused || c.Gone() || !c.Exists {
		return
	}
	if c.Quiet || a.Kernel.Pauses.Of(a.Key) != nil {
		RunOf(a).Ask() // it is parked in the mailbox, or wakes the actor
		return
	}
	if (c.Group.Changed || c.Holds()) && !runPace(a.Type).Quick(1) {
		if c.Commit(); c.Broken {
			return // the next core finds the row at 0
		}
	}
	w := RunOf(a).Item(false)
	c.Respond(w, nil, advanceAll(c, w))
}

// advanceAll advances the run until it has nothing to do, or other work waits.
func advanceAll(c *kernel.Core, w *kernel.Work) error {
	a, f := c.Actor, flowOf(c)
	own := RunOf(a)
	own.Begin() // news from here on asks again
	f.pending = false
	if f.retiring {
		if err := retireAll(c, w); err != nil {
			return err
		}
	}
	if !f.live || f.retiring {
		return nil
	}
	if leaving(c) && f.outstanding == 0 {
		if !a.Kernel.Draining.Load() {
			own.Retry(nil) // the actor only sleeps
		}
		return nil // the rows stand
	}
	for n := 0; ; n++ {
		if f.stale || f.run == nil {
			if f.outstanding > f.returned.Load() || own.Attempts.Load() > 0 {
				return nil // the attempts of the old one return first, or are given up; each asks anew
			}
			reopenRun(c)
		}
		if wait, err := enterRun(c, w); wait || err != nil {
			return err
		}
		again, err := advance(c, w)
		if err != nil || c.Gone() || c.Broken || c.Ended {
			return err
		}
		if f.retiring && !f.live {
			return retireAll(c, w)
		}
		if !again && !f.pending || !f.live {
			return nil
		}
		f.pending = false
		switch {
		case a.Kernel.Draining.Load() && (!again || n >= 16):
			return nil // the row at 0 stands
		case a.Pending.Load() >= maxAhead:
			c.Group.Then(own.news)
			return nil
		case n+1 >= maxAdvances, n >= 7 && a.Mailbox.Count() > 0:
			own.Ask()
			return nil
		}
		if c.Group.Full() || c.Rows.Bytes() >= kernel.MaxGroupBytes {
			c.Commit()
			if c.Broken {
				return nil // the holder of the results was notified
			}
		}
	}
}

// program finds a workflow of the type.
func program(t *kernel.Type, name string) *wfhost.Program {
	if i := workflowIndex(t, name); i >= 0 {
		return t.Workflows[i].Program
	}
	return nil
}

func workflowIndex(t *kernel.Type, name string) int {
	for i := range t.Workflows {
		if t.Workflows[i].Name == name {
			return i
		}
	}
	return -1
}

// noWorkflow returns the error for a run that the actor's type cannot have.
func noWorkflow(c *kernel.Core, name string) error {
	return host.Errorf(host.NotFound, "actor type %q has no workflow %q", c.Actor.Type.Type, name).
		With("workflow", name)
}

// advance runs one turn of the run.
func advance(c *kernel.Core, w *kernel.Work) (again bool, err error) {
	a, f := c.Actor, flowOf(c)
	p := kernel.PartOf[*Part](a.Kernel)
	leaving := leaving(c)
	seen := f.returned.Load()
	var out wfhost.Outcome
	var early []func()
	fresh, begun := f.fresh, time.Now()
	f.advancing = true
	f.mu.Lock()
	if leaving {
		f.run.Leave() // the next Actor starts what must be started
	}
	_, err = c.RunTurn(w, "workflow", true, func(h *kernel.Turn) ([]byte, error) {
		h.Untouched = true
		// A full actor must not lose the result of a step or run its body again. Writes of
		// functions in the turn are refused.
		t := &RunRows{H: h, exempt: true}
		var err error
		own := runTurnOf(h)
		own.run.Store(&advancing{Run: f.run})
		out, err = f.run.Advance(t)
		own.run.Store(nil)
		if c.Gone() {
			return nil, kernel.ErrAbandoned
		}
		if err != nil {
			return nil, err
		}
		if out.Undo {
			return nil, errUndone
		}
		if leaving {
			if err := f.run.Rest(t); err != nil {
				return nil, err
			}
		}
		defer func() { early = own.early }()
		return nil, settleRun(c, h, &out, f.outstanding-seen, leaving)
	})
	f.leaveRun()
	f.advancing = false
	if err == kernel.ErrAbandoned || c.Gone() {
		return false, kernel.ErrAbandoned
	}
	if err != nil {
		if out.Undo && errors.Is(err, errUndone) {
			p.stepFailures.Inc()
			return true, nil
		}
		staleRun(c)
		if f.refused == nil {
			f.refused = refusedForGood(a.Kernel, err)
		} else {
			f.refused = nil // the pause itself could not be written
		}
		if f.refused != nil {
			return true, nil // the run is paused and shows it, instead of trying in vain
		}
		return false, err
	}
	f.refused = nil
	if f.blamed {
		p.blames.Delete(a.Key)
		f.blamed = false
	}
	f.fresh = false
	if f.enter.asked {
		f.enter = new(entering)
	}
	runPace(a.Type).Add(time.Since(begun))
	if out.Paused {
		p.pauses.Inc()
	}
	f.outstanding -= seen
	f.returned.Add(-seen)
	if fresh {
		p.replays.Inc()
		p.replaySeconds.Observe(time.Since(begun).Seconds())
	}
	if out.Ended {
		f.Close(c)
		f.queues = nil
		return false, nil
	}
	f.queues = out.Queues
	if leaving {
		return out.Again, nil // there may be more results than one turn takes
	}
	f.outstanding += int64(len(out.Launch))
	for _, start := range early {
		start()
	}
	return out.Again, nil
}

// refusedForGood returns an error if a turn that failed with err would fail in the same way again,
// because of the run's code.
func refusedForGood(s *kernel.Kernel, err error) error {
	e, _ := s.PublicError(err)
	switch e.Code {
	case host.TooLarge, host.QuotaExceeded, host.InvalidArgument:
		return e
	}
	return nil
}

// leaving reports whether the actor's tasks were told to return: the actor goes to sleep, or the
// node stops.
func leaving(c *kernel.Core) bool {
	return c.Actor.Kernel.Draining.Load() || task.CrewOf(c).Dismissed()
}

// settleRun writes the rows that wake the run, and starts its attempts when the turn is durable.
func settleRun(c *kernel.Core, h *kernel.Turn, out *wfhost.Outcome, running int64, leaving bool) error {
	if h.Changed() {
		runTurnOf(h).tellSteps()
	}
	if out.Ended {
		RunOf(c.Actor).known.completed(h, out.Result, flowOf(c).writes) // before its waiters are notified
		return runEnded(c, h)
	}
	rec := runRecord{Watching: out.Watching, Children: out.Children, Asked: flowOf(c).rec.Asked || flowOf(c).asked}
	if out.Pause != nil {
		rec.Listed = string(out.Pause.Reason)
	}
	if !out.Wake.IsZero() {
		rec.Due = max(1, out.Wake.Add(time.Millisecond-1).UnixMilli())
	}
	busy := running > 0 || len(out.Launch) > 0 || out.Unlaunched || out.Again || flowOf(c).pending
	if leaving && busy {
		// The rest goes on soon, if the node goes on at all.
		if soon := h.Start.UnixMilli() + runRetryMin.Milliseconds(); rec.Due == 0 || soon < rec.Due {
			rec.Due = soon
		}
	}
	if err := keepRun(c, h, rec); err != nil {
		return err
	}
	if err := listRun(c, h, rec.Listed); err != nil {
		return err
	}
	armRun(c, h, busy || flowOf(c).retiring)
	if len(out.Launch) == 0 {
		return nil
	}
	launch(c, h, out)
	return nil
}

// keepRun writes the record of a run that lives, if it changes.
func keepRun(c *kernel.Core, h *kernel.Turn, rec runRecord) error {
	f := flowOf(c)
	if f.live && f.rec == rec {
		return nil
	}
	value, err := record.Encode(&rec)
	if err != nil {
		return err
	}
	o := engine.PutOptions{Exempt: true, Known: f.known, Old: int(f.size)}
	if !f.live {
		o.Old = -1
	}
	if err := c.Rows.Put(runKey, value, o); err != nil {
		return err
	}
	if f.rec.Due != rec.Due {
		if f.live && f.rec.Due != 0 {
			c.Rows.ClearWake(f.rec.Due, keyspace.WakeRun, "", "")
		}
		if rec.Due != 0 {
			c.Rows.SetWake(rec.Due, keyspace.WakeRun, "", "")
		}
	}
	f.known, f.live, f.rec, f.size, f.asOf = true, true, rec, int32(len(value)), c.Rows.Version()
	return nil
}

// armRun sets or clears the row that a restart finds.
func armRun(c *kernel.Core, h *kernel.Turn, on bool) {
	// a turn that changes nothing else is not made for a row that is probably absent
	if on || c.Standing.Of(keyspace.WakeRun) == standing.Armed || h.Changed() {
		c.Arm(keyspace.WakeRun, on)
	}
	flowOf(c).armedAsOf = c.Rows.Version()
	RunOf(c.Actor).armed.Store(c.Standing.Of(keyspace.WakeRun) == standing.Armed)
}

// runEnded removes the rows of a run that is over.
func runEnded(c *kernel.Core, h *kernel.Turn) error {
	f := flowOf(c)
	if f.rec.Asked || f.asked {
		// The remaining waiters will get no answer.
		if err := queue.SetOf(h).
			AnswerRest(host.Errorf(host.FailedPrecondition,
				"the workflow run that received the message has ended without an answer")); err != nil {
			return err
		}
	}
	f.asked = false
	p := kernel.PartOf[*Part](c.Actor.Kernel)
	p.blames.Delete(c.Actor.Key)
	if f.live {
		if _, err := c.Rows.DeleteKnown(runKey, int(f.size)); err != nil {
			return err
		}
		if f.rec.Due != 0 {
			c.Rows.ClearWake(f.rec.Due, keyspace.WakeRun, "", "")
		}
	}
	f.known, f.live, f.rec, f.size, f.asOf = true, false, runRecord{}, 0, c.Rows.Version()
	if err := retire(c, h); err != nil {
		return err
	}
	h.Notify(runTopic)
	h.Notify(runEndedTopic)
	state, err := runState(&RunRows{H: h})
	if err != nil {
		return err
	}
	h.Then(func() { p.ended.WithLabelValues(c.Actor.Type.Type, string(state)).Inc() })
	if state == wfhost.StateFailed {
		return listRun(c, h, listedFailed)
	}
	return listRun(c, h, "")
}

// The topics of watchers of a run, and of waiters for its end.
const (
	runTopic      = "workflow"
	runEndedTopic = "workflow ended"
)

// runNews records, at the end of a turn, that the run has something to examine.
func runNews(c *kernel.Core, h *kernel.Turn) {
	f := flowOf(c)
	if f.live {
		armRun(c, h, true)
		f.pending = true
	}
}

// Watches implements kernel.Watcher.
func (*Part) Watches(t *kernel.Type) bool { return len(t.Workflows) > 0 }

// StateChanged implements kernel.Watcher: it calls runNews for a changed state.
func (*Part) StateChanged(h *kernel.Turn) error {
	c := h.Core
	if flowOf(c).advancing {
		return nil
	}
	if err := flowKnown(c); err != nil {
		return err
	}
	if flowOf(c).rec.Watching {
		runNews(c, h)
	}
	return nil
}

// runState reads the stored state of a run; "" if there is none.
func runState(r wfhost.Reader) (wfhost.State, error) {
	value, _, err := r.Get(runStateKey)
	return wfhost.State(value), err
}

var runStateKey = keyspace.WorkflowField.Append(nil, keyspace.FieldState)

// Destroy implements kernel.Destroyer: it notifies waiters for the run of the destroyed actor.
func (*Part) Destroy(t *kernel.Turn) error {
	c := t.Core
	RunOf(c.Actor).known.forget()
	if err := flowKnown(c); err != nil {
		return err
	}
	if err := listRun(c, t, ""); err != nil {
		return err
	}
	if !flowOf(c).live {
		return nil
	}
	t.Notify(runTopic)
	t.Notify(runEndedTopic)
	return tolerate(c, wfhost.Destroyed(&RunRows{H: t, sealed: true}))
}

// tolerate logs that a run's rows cannot be read, where this must not stop the actor.
func tolerate(c *kernel.Core, err error) error {
	if _, ok := errors.AsType[*wfhost.CorruptError](err); !ok && !errors.Is(err, wfhost.ErrLetter) {
		return err
	}
	c.Actor.Kernel.Logger.Error("a workflow run cannot be read", "actor_type", c.Actor.Address.Type,
		"actor_key", c.Actor.Address.Key, "error", err)
	return nil
}

// Risen implements kernel.Riser: it advances the run of a woken actor if the run waits for runs of
// other actors: it asks them for results that were lost.
func (*Part) Risen(c *kernel.Core) error {
	if len(c.Actor.Type.Workflows) == 0 {
		return nil
	}
	if err := flowKnown(c); err != nil {
		return err
	}
	if flowOf(c).live && flowOf(c).rec.Children {
		RunOf(c.Actor).Ask()
	}
	return nil
}
