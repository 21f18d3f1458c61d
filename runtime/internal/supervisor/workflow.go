package supervisor

import (
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/record"
	"github.com/cairn-run/cairn/workflow"
)

// A flow is the workflow run of an awake actor. It is used by the goroutine that runs the actor, but for what is atomic.
//
// Invariants:
//  1. Of a run that lives there is one row of kind run, from the commit that starts it to the one that ends it. It says what
//     wakes the run: until something of that happens, the run is not in memory.
//  2. The wake index has a row at the record's time. It has a row at 0 whenever the run has something to do that no other
//     row tells of: attempts that run, messages or a state that it has not looked at. That row is what a restart finds.
//  3. An attempt is started when the commit is durable that the run asked for it in, and by the activation that made it.
type flow struct {
	flowRows
	// run is the run in memory; nil until something concerns it. fresh: it has not advanced yet. mu is held while the run is
	// used, by the goroutine that runs the actor, so that one that takes the actor away can close it after that; over says
	// that this has happened.
	mu    sync.Mutex
	run   *workflow.Run
	over  atomic.Bool
	fresh bool
	// queues are those that the run waits for, as of when it last advanced.
	queues []string
	// pending: the run is to be advanced. advancing: it is.
	pending, advancing bool
	// asked: see runRecord.Asked; it is not in the record yet.
	asked bool
	// stale: the run in memory is not what is stored any more; it is given up when its attempts have returned.
	stale bool
	// refused is why a turn of the run can never be kept, until the next run in memory has recorded it.
	refused error
	// blamed: the run in memory is to record what runPart.blames has of it.
	blamed bool
	// outstanding counts the attempts that were started and whose return the run has not seen; returned those that did.
	outstanding int64
	returned    atomic.Int64
	// enter is of the next Advance of the run in memory.
	enter *entering
	// held is the queue of the run in memory; each has its own.
	held *attemptQueue
	// hurried: the run is tried at once although it is paused until later.
	hurried bool
	// armedAsOf is the version of the write set when runActor.armed was last set.
	armedAsOf engine.Version
	// retiring: queues may have messages of a run that has ended, which become dead letters before a run receives any.
	// retired is the version of the last turn that saw to it.
	retiring bool
	retired  engine.Version
}

// flowRows is what a flow knows of its rows.
type flowRows struct {
	asOf  engine.Version // of the write set, when it was last changed
	known bool           // the record was looked for
	live  bool
	size  int32 // of rec as it is stored, in bytes
	rec   runRecord
	// listed is the reason with which the node's lists have the run: that of its pause, listedFailed, or "" for not at all.
	listed string
}

// runRecord is the value of kind run.
type runRecord struct {
	_ struct{} `cbor:",toarray"`
	// Due is when the run is to advance, in Unix ms; 0 for not by itself.
	Due int64
	// Watching: the run waits for a condition of the state.
	Watching bool
	// Asked: it has received messages whose senders wait for a reply.
	Asked bool
	// Children: it waits for runs of other actors.
	Children bool
	// Listed is the reason with which the node's list of paused runs has the run, "" if it is not paused.
	Listed string
}

// runKey is the logical key of the record.
var runKey = keyspace.AppendRun(nil)

// A run that cannot advance is tried again after 1 second, doubling up to 5 minutes.
const (
	runRetryMin = time.Second
	runRetryMax = 5 * time.Minute
)

const (
	// maxAdvances is how many turns a run takes before other work of the actor gets its turn.
	maxAdvances = 64
	// maxAhead is how many commits of an actor may be on their way to the disk before its run waits for them.
	maxAhead = 32
)

// errUndone undoes a turn in which a function of the user failed; the run knows.
var errUndone = errors.New("supervisor: the turn is undone for the run")

// flow returns the actor's workflow run. It is made when something asks for it first, because most actors have none.
func (c *core) flow() *flow { return attach(&c.attached, newFlow) }

func newFlow() *flow { return new(flow) }

// flowKnown reads whether the actor has a run, once.
func (c *core) flowKnown() error {
	f := c.flow()
	if f.known || c.a.left() {
		return nil
	}
	if c.exists {
		rec, size, ok, err := readRun(c.ws)
		if err != nil {
			return err
		}
		f.live, f.rec, f.size, f.listed = ok, rec, int32(size), rec.Listed
		if !ok {
			if state, err := runState(storedRows{c.ws}); err != nil {
				return err
			} else if state == workflow.StateFailed {
				f.listed = listedFailed
			}
		}
	}
	f.known, f.asOf = true, c.ws.Version()
	return nil
}

// forget implements facet: it reads the rows again if turns after a version changed them. What those turns retired is to be retired again.
func (f *flow) forget(c *core, version engine.Version) {
	if f.retired > version {
		f.retiring, f.retired = true, version
	}
	if f.armedAsOf > version {
		f.armedAsOf = version
		runOf(c.a).armed.Store(c.standing[keyspace.WakeRun] == armed)
	}
	if f.asOf <= version {
		return
	}
	f.flowRows = flowRows{}
	if err := c.flowKnown(); err != nil {
		c.broken = true // as the store is
	}
}

// readRun reads the record of a run that lives, and how many bytes it has.
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

// traits implements job.
func (*runDue) traits(a *activation) traits {
	return traits{kind: "workflow due", code: true, quick: fast(runPace(a.typ))}
}

// run implements job.
func (d *runDue) run(c *core, w *work) {
	row := (*engine.Wake)(d)
	c.due(w, row, func() error { return c.runDue(w, row) })
}

// runDue advances a run whose time has come.
func (c *core) runDue(w *work, row *engine.Wake) error {
	f := c.flow()
	if err := c.flowKnown(); err != nil {
		return err
	}
	if !f.live || f.rec.Due != row.Due {
		return errLeftover // the run has ended or waits for another time
	}
	partOf[*runPart](c.a.sup).lag.Observe(time.Since(timeMS(row.Due)).Seconds())
	err := c.advanceAll(w)
	if err == nil && f.live && f.rec.Due == row.Due && f.enter != nil && f.enter.asked {
		err = unavailable("the run goes on as soon as it is durable that it does")
	} else if err == nil && f.live && f.rec.Due == row.Due {
		// It waits for attempts of the run that was, or for the actor's sleep. The row is tried again later, not at once.
		err = unavailable("the run has not taken notice of the time")
	}
	return err
}

// A runJob advances the run.
type runJob uint8

const (
	runRecovered runJob = 1 << iota // the row at 0 stands
	runHurried                      // at once, although it is paused until later
)

func newRunJob(recovered bool) job {
	if recovered {
		return runRecovered
	}
	return runJob(0)
}

// traits implements job.
func (runJob) traits(a *activation) traits {
	return traits{kind: "workflow", code: true, quick: fast(runPace(a.typ))}
}

// run implements job.
func (j runJob) run(c *core, w *work) {
	err := c.flowKnown()
	if err == nil {
		if j&runHurried != 0 {
			c.hurryRun()
		}
		if at := &c.standing[keyspace.WakeRun]; j&runRecovered != 0 && *at == unsure {
			*at, c.flow().retiring = armed, true
		}
		err = c.advanceAll(w)
	}
	c.respond(w, nil, err)
}

// follow implements follower: it advances the run in the group of the work that made that necessary.
func (*runPart) follow(c *core) {
	a, f := c.a, attachedTo[*flow](&c.attached)
	if f == nil || !f.pending || c.bare || c.broken || c.ended || c.refused || c.gone() || !c.exists {
		return
	}
	if c.quiet || a.sup.pauses.of(a.key) != nil {
		runOf(a).ask() // it is parked on its way, or wakes the actor
		return
	}
	if (c.group.changed || !c.held.empty()) && !fast(runPace(a.typ)) {
		if c.commit(); c.broken {
			return // the row at 0 tells the next core
		}
	}
	w := runOf(a).item(false)
	c.respond(w, nil, c.advanceAll(w))
}

// advanceAll advances the run until it has nothing to do, or others wait for their turn.
func (c *core) advanceAll(w *work) error {
	a, f := c.a, c.flow()
	own := runOf(a)
	own.begin() // news from here on asks again
	f.pending = false
	if f.retiring {
		if err := c.retireAll(w); err != nil {
			return err
		}
	}
	if !f.live || f.retiring {
		return nil
	}
	if c.leaving() && f.outstanding == 0 {
		if !a.sup.draining.Load() {
			own.retry(nil) // the actor only sleeps
		}
		return nil // the rows stand
	}
	for n := 0; ; n++ {
		if f.stale || f.run == nil {
			if f.outstanding > f.returned.Load() || own.attempts.Load() > 0 {
				return nil // the attempts of the old one return first, or are given up; each asks anew
			}
			c.reopenRun()
		}
		if wait, err := c.enterRun(w); wait || err != nil {
			return err
		}
		again, err := c.advance(w)
		if err != nil || c.gone() || c.broken || c.ended {
			return err
		}
		if f.retiring && !f.live {
			return c.retireAll(w)
		}
		if !again && !f.pending || !f.live {
			return nil
		}
		f.pending = false
		switch {
		case a.sup.draining.Load():
			return nil // the row at 0 stands
		case a.pending.Load() >= maxAhead:
			c.group.then(own.news)
			return nil
		case n+1 >= maxAdvances, n >= 7 && a.waiting.Load() > 0:
			own.ask()
			return nil
		}
		if c.group.full() || c.ws.Bytes() >= maxGroupBytes {
			c.commit()
			if c.broken {
				return nil // who held the results was told
			}
		}
	}
}

// reopenRun makes a new run of what is stored.
func (c *core) reopenRun() {
	f := c.flow()
	if f.run != nil {
		f.close(c)
	}
	t := c.a.typ
	run := workflow.Open(workflow.RunOptions{
		Programs: t.program, Self: workflow.Destination{Type: c.a.addr.Type, Key: c.a.addr.Key}, Logger: c.a.logger(c.id, 0),
	})
	f.mu.Lock()
	f.run = run
	f.leaveRun()
	if f.refused != nil {
		run.Refused(f.refused)
	}
	if f.hurried {
		run.TryNow()
	}
	if text, ok := partOf[*runPart](c.a.sup).blames.Load(c.a.key); ok {
		f.blamed = true
		run.Blame(workflow.PausedMisuse, text.(string))
	}
	f.fresh, f.stale, f.queues, f.held, f.enter = true, false, nil, new(attemptQueue), new(entering)
	f.outstanding, f.hurried = 0, false
	f.returned.Store(0)
}

// close implements facet: it ends the run in memory. Deferred functions of the user may take their time.
func (f *flow) close(c *core) {
	f.mu.Lock()
	run := f.run
	f.run = nil
	f.mu.Unlock()
	if run != nil && !c.a.sup.task(run.Close) {
		run.Close()
	}
}

// abandon implements facet: it ends the run in memory of an actor that is taken away from the goroutine that runs it. If that goroutine is in
// the run, which may be for good, it ends it itself when it returns.
func (f *flow) abandon(c *core) {
	f.over.Store(true)
	if !f.mu.TryLock() {
		return
	}
	run := f.run
	f.mu.Unlock()
	if run != nil {
		c.a.sup.task(func() {
			f.mu.Lock()
			defer f.mu.Unlock()
			if f.run == run { // else close has it
				run.Close()
			}
		})
	}
}

// leaveRun unlocks the run after it was used, and closes it if the actor was taken away meanwhile.
func (f *flow) leaveRun() {
	run := f.run
	f.mu.Unlock()
	if f.over.Load() && run != nil && f.mu.TryLock() {
		if f.run == run {
			run.Close()
		}
		f.mu.Unlock()
	}
}

// staleRun gives up the run in memory: what is stored has changed under it.
func (c *core) staleRun() {
	f := c.flow()
	if f.run == nil || f.stale {
		return
	}
	f.mu.Lock()
	f.run.Discard()
	f.leaveRun()
	f.stale = true
	f.held.clear()
	c.cancelAttempts(f.held)
}

// program finds a workflow of the type.
func (t *actorType) program(name string) *workflow.Program {
	if i := t.workflowIndex(name); i >= 0 {
		return t.Workflows[i].Program
	}
	return nil
}

func (t *actorType) workflowIndex(name string) int {
	for i := range t.Workflows {
		if t.Workflows[i].Name == name {
			return i
		}
	}
	return -1
}

// noWorkflow returns the error of a run that the actor's type cannot have.
func (c *core) noWorkflow(name string) error {
	return host.Errorf(host.NotFound, "actor type %q has no workflow %q", c.a.typ.Type, name).With("workflow", name)
}

// advance runs one turn of the run.
func (c *core) advance(w *work) (again bool, err error) {
	a, f := c.a, c.flow()
	p := partOf[*runPart](a.sup)
	leaving := c.leaving()
	seen := f.returned.Load()
	var out workflow.Outcome
	var early []func()
	fresh, begun := f.fresh, time.Now()
	f.advancing = true
	f.mu.Lock()
	_, err = c.turn(w, "workflow", true, func(h *turn) ([]byte, error) {
		h.untouched = true
		// What a step has brought must not be lost, and its body not run again, because the actor is full. Functions that run
		// in the turn are refused what they want to store.
		t := &runRows{h: h, exempt: true}
		var err error
		own := runTurnOf(h)
		own.run.Store(&advancing{Run: f.run})
		out, err = f.run.Advance(t)
		own.run.Store(nil)
		if c.gone() {
			return nil, errAbandoned
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
		return nil, c.settleRun(h, &out, f.outstanding-seen, leaving)
	})
	f.leaveRun()
	f.advancing = false
	if err == errAbandoned || c.gone() {
		return false, errAbandoned
	}
	if err != nil {
		if out.Undo && errors.Is(err, errUndone) {
			p.stepFailures.Inc()
			return true, nil
		}
		c.staleRun()
		if f.refused == nil {
			f.refused = refusedForGood(a.sup, err)
		} else {
			f.refused = nil // the pause itself could not be written
		}
		if f.refused != nil {
			return true, nil // the run is paused and shows it, instead of trying in vain unseen
		}
		return false, err
	}
	f.refused = nil
	if f.blamed {
		p.blames.Delete(a.key)
		f.blamed = false
	}
	f.fresh = false
	if f.enter.asked {
		f.enter = new(entering)
	}
	updatePace(runPace(a.typ), time.Since(begun))
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
		f.close(c)
		f.queues = nil
		return false, nil
	}
	f.queues = out.Queues
	if leaving {
		return false, nil // the next activation starts what is to be started
	}
	f.outstanding += int64(len(out.Launch))
	for _, start := range early {
		start()
	}
	return out.Again, nil
}

// refusedForGood returns an error if a turn that failed with err would fail in the same way again, for what the run's code does.
func refusedForGood(s *Supervisor, err error) error {
	e, _ := s.publicError(err)
	switch e.Code {
	case host.TooLarge, host.QuotaExceeded, host.InvalidArgument:
		return e
	}
	return nil
}

// leaving reports that the actor's tasks were told to return: the actor goes to sleep, or the node stops.
func (c *core) leaving() bool {
	return c.a.sup.draining.Load() || crewOf(c).dismissed()
}

// settleRun writes the rows that say what wakes the run, and starts its attempts when the turn is durable.
func (c *core) settleRun(h *turn, out *workflow.Outcome, running int64, leaving bool) error {
	if h.changed() {
		runTurnOf(h).tellSteps()
	}
	if out.Ended {
		return c.runEnded(h)
	}
	rec := runRecord{Watching: out.Watching, Children: out.Children, Asked: c.flow().rec.Asked || c.flow().asked}
	if out.Pause != nil {
		rec.Listed = string(out.Pause.Reason)
	}
	if !out.Wake.IsZero() {
		rec.Due = max(1, unixMS(out.Wake.Add(time.Millisecond-1)))
	}
	busy := running > 0 || len(out.Launch) > 0 || out.Again || c.flow().pending
	if leaving && busy {
		// What is not done goes on soon, if the node goes on at all.
		if soon := unixMS(h.start) + runRetryMin.Milliseconds(); rec.Due == 0 || soon < rec.Due {
			rec.Due = soon
		}
	}
	if err := c.keepRun(h, rec); err != nil {
		return err
	}
	if err := c.listRun(h, rec.Listed); err != nil {
		return err
	}
	c.armRun(h, busy || c.flow().retiring)
	if len(out.Launch) == 0 || leaving {
		return nil
	}
	c.launch(h, out)
	return nil
}

// keepRun writes the record of a run that lives, if it changes.
func (c *core) keepRun(h *turn, rec runRecord) error {
	f := c.flow()
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
	if err := c.ws.Put(runKey, value, o); err != nil {
		return err
	}
	if f.rec.Due != rec.Due {
		if f.live && f.rec.Due != 0 {
			c.ws.ClearWake(f.rec.Due, keyspace.WakeRun, "", "")
		}
		if rec.Due != 0 {
			c.ws.SetWake(rec.Due, keyspace.WakeRun, "", "")
		}
	}
	f.known, f.live, f.rec, f.size, f.asOf = true, true, rec, int32(len(value)), c.ws.Version()
	return nil
}

// armRun sets or clears the row that a restart finds.
func (c *core) armRun(h *turn, on bool) {
	at := &c.standing[keyspace.WakeRun]
	if on || *at == armed || h.changed() { // a turn that changes nothing else is not made for a row that is hardly there
		c.arm(keyspace.WakeRun, on)
	}
	c.flow().armedAsOf = c.ws.Version()
	runOf(c.a).armed.Store(*at == armed)
}

// runEnded removes the rows of a run that is over.
func (c *core) runEnded(h *turn) error {
	f := c.flow()
	if f.rec.Asked || f.asked {
		// Nobody will answer any more those who still wait.
		if err := h.queueSet().AnswerRest(host.Errorf(host.FailedPrecondition, "the workflow run that received the message has ended without an answer")); err != nil {
			return err
		}
	}
	f.asked = false
	p := partOf[*runPart](c.a.sup)
	p.blames.Delete(c.a.key)
	if _, err := c.ws.Delete(runKey); err != nil {
		return err
	}
	if f.live && f.rec.Due != 0 {
		c.ws.ClearWake(f.rec.Due, keyspace.WakeRun, "", "")
	}
	f.known, f.live, f.rec, f.size, f.asOf = true, false, runRecord{}, 0, c.ws.Version()
	if err := c.retire(h); err != nil {
		return err
	}
	h.notify(runTopic)
	h.notify(runEndedTopic)
	state, err := runState(&runRows{h: h})
	if err != nil {
		return err
	}
	h.then(func() { p.ended.WithLabelValues(c.a.typ.Type, string(state)).Inc() })
	if state == workflow.StateFailed {
		return c.listRun(h, listedFailed)
	}
	return c.listRun(h, "")
}

// What those wait for who watch a run, and who wait for its end.
const (
	runTopic      = "workflow"
	runEndedTopic = "workflow ended"
)

// runNews notes, at the end of a turn, that there is something for the run to look at.
func (c *core) runNews(h *turn) {
	f := c.flow()
	if f.live {
		c.armRun(h, true)
		f.pending = true
	}
}

// stateChanged implements watcher: it is runNews for a state that has changed.
func (*runPart) stateChanged(h *turn) error {
	c := h.c
	if len(c.a.typ.Workflows) == 0 || c.flow().advancing {
		return nil
	}
	if err := c.flowKnown(); err != nil {
		return err
	}
	if c.flow().rec.Watching {
		c.runNews(h)
	}
	return nil
}

// startRun starts a run in a turn.
func (c *core) startRun(h *turn, s host.RunStart) (host.RunStarted, error) {
	i := c.a.typ.workflowIndex(s.Workflow)
	if i < 0 {
		return host.RunStarted{}, c.noWorkflow(s.Workflow)
	}
	if err := c.flowKnown(); err != nil {
		return host.RunStarted{}, err
	}
	flow := &c.a.typ.Workflows[i]
	input, err := flow.Input(s.Codec, s.Input)
	if err != nil {
		return host.RunStarted{}, err
	}
	out, err := workflow.Start(&runRows{h: h}, flow.Program, input, workflow.StartOptions{Replace: s.Replace})
	if err != nil {
		return host.RunStarted{}, runError(err)
	}
	started := host.RunStarted{Run: out.ID, Started: out.Started}
	if !out.Started {
		return started, nil
	}
	return started, c.runBegun(h)
}

// runBegun takes note of a run that a turn has written.
func (c *core) runBegun(h *turn) error {
	c.staleRun()
	p := partOf[*runPart](c.a.sup)
	p.blames.Delete(c.a.key)
	if err := c.keepRun(h, runRecord{}); err != nil {
		return err
	}
	if err := c.listRun(h, ""); err != nil {
		return err
	}
	c.runNews(h)
	h.notify(runTopic)
	h.then(p.started.WithLabelValues(c.a.typ.Type).Inc)
	return nil
}

// controlRun does something to the run in a turn.
func (c *core) controlRun(h *turn, in host.RunControl) error {
	if n := len(in.Reason); n > maxReason {
		return host.OverLimit("bytes of the reason", maxReason, int64(n)).With("field", "reason")
	}
	if err := c.flowKnown(); err != nil {
		return err
	}
	if c.flow().advancing {
		return host.Errorf(host.FailedPrecondition, "a run cannot do %s to itself", in.Verb)
	}
	t := &runRows{h: h, exempt: true}
	if in.Run != "" {
		if st, err := workflow.ReadOutcome(t); err != nil {
			return runError(err)
		} else if st.ID != in.Run {
			return host.Errorf(host.FailedPrecondition, "the actor's run is %s, not %s", st.ID, in.Run)
		}
	}
	var err error
	anew := false
	switch in.Verb {
	case host.WorkflowCancel:
		err = workflow.Cancel(t, in.Reason)
	case host.WorkflowTerminate:
		err, anew = workflow.Terminate(t, in.Reason), true
	case host.WorkflowPause:
		err = workflow.Hold(t, in.Reason)
	case host.WorkflowResume:
		err = workflow.Resume(t)
	case host.WorkflowRetry:
		err, anew = workflow.RetryEntry(t, workflow.EntryID(in.Entry)), true
	case host.WorkflowRewind:
		err, anew = workflow.Rewind(t, workflow.EntryID(in.Entry)), true
	default:
		return host.Errorf(host.InvalidArgument, "a run knows no %q", in.Verb)
	}
	if err != nil {
		return runError(err)
	}
	return c.runControlled(h, anew)
}

// runControlled takes note of what a turn has written about a run. anew: the run in memory is not what is stored any more.
func (c *core) runControlled(h *turn, anew bool) error {
	h.notify(runTopic)
	f := c.flow()
	st, err := workflow.ReadOutcome(&runRows{h: h})
	if err != nil {
		return err
	}
	if anew {
		c.staleRun()
	} else if f.run != nil {
		f.run.ControlChanged()
	}
	if st.State.Over() {
		if f.live {
			return c.runEnded(h)
		}
		return nil
	}
	if !f.live {
		if err := c.readmit(h); err != nil {
			return err
		}
	}
	rec := f.rec // empty if the run was over
	if rec.Listed = ""; st.Pause != nil {
		rec.Listed = string(st.Pause.Reason)
	}
	if err := c.keepRun(h, rec); err != nil {
		return err
	}
	if err := c.listRun(h, rec.Listed); err != nil {
		return err
	}
	c.runNews(h)
	return nil
}

// runError makes an error of package workflow public.
func runError(err error) error {
	switch {
	case errors.Is(err, workflow.ErrNoRun):
		return host.Errorf(host.NotFound, "the actor has no workflow run")
	case errors.Is(err, workflow.ErrExists):
		return host.Errorf(host.AlreadyExists, "%s", err)
	}
	if e, ok := errors.AsType[*workflow.ControlError](err); ok {
		return host.Errorf(host.FailedPrecondition, "%s", e.Error())
	}
	if e, ok := errors.AsType[*workflow.ValueError](err); ok {
		return host.Errorf(host.InvalidArgument, "%s", e.Error())
	}
	return err
}

// runState reads the stored state of a run; "" if there is none.
func runState(r workflow.Reader) (workflow.State, error) {
	value, _, err := r.Get(runStateKey)
	return workflow.State(value), err
}

var runStateKey = keyspace.AppendWorkflowField(nil, keyspace.FieldState)

// destroy implements destroyer: it lets those know that wait for the run of an actor that a turn destroys.
func (*runPart) destroy(t *turn) error {
	c := t.c
	if err := c.flowKnown(); err != nil {
		return err
	}
	if err := c.listRun(t, ""); err != nil {
		return err
	}
	if !c.flow().live {
		return nil
	}
	t.notify(runTopic)
	t.notify(runEndedTopic)
	return c.tolerate(workflow.Destroyed(&runRows{h: t, sealed: true}))
}

// tolerate logs an error that says that what a run has stored cannot be read, where that must not stop the actor.
func (c *core) tolerate(err error) error {
	if _, ok := errors.AsType[*workflow.CorruptError](err); !ok && !errors.Is(err, workflow.ErrLetter) {
		return err
	}
	c.a.sup.logger.Error("a workflow run cannot be read", "actor_type", c.a.addr.Type, "actor_key", c.a.addr.Key, "error", err)
	return nil
}

// risen implements riser: it advances the run of an actor that has just been woken, if the run waits for runs of other actors: it asks
// them for results that were lost.
func (*runPart) risen(c *core) error {
	if len(c.a.typ.Workflows) == 0 {
		return nil
	}
	if err := c.flowKnown(); err != nil {
		return err
	}
	if c.flow().live && c.flow().rec.Children {
		runOf(c.a).ask()
	}
	return nil
}
