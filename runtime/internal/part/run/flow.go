package run

import (
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	"github.com/cairn-run/cairn/workflow"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// A flow is the workflow run of an awake actor. The goroutine that runs the actor uses it, except
// for atomic fields.
//
// Invariants:
//  1. A live run has one row of kind run, from the commit that starts it to the commit that ends
//     it. The row says what wakes the run: until then, the run is not in memory.
//  2. The wake index has a row at the record's time. It has a row at 0 whenever the run has work
//     without another row: running attempts, or messages or a state that it has not examined. A
//     restart finds that row.
//  3. An attempt starts when the commit that requests it is durable, on the Actor that made the
//     commit.
type flow struct {
	flowRows
	fields fields
	writes uint64 // the number in known of the last write of the state
	// run is the run in memory; nil until it is needed. fresh: it has not advanced yet. The
	// goroutine that runs the actor holds mu while it uses the run, so that Abandon can close the
	// run after that; over is set then.
	mu    sync.Mutex
	run   *wfhost.Run
	over  atomic.Bool
	fresh bool
	// queues are the queues that the run waited for when it last advanced.
	queues []string
	// pending: the run must be advanced. advancing: it is being advanced.
	pending, advancing bool
	// asked: see runRecord.Asked; it is not in the record yet.
	asked bool
	// stale: the run in memory no longer matches the store; it is given up when its attempts have
	// returned.
	stale bool
	// refused is why a turn of the run can never be kept, until the next run in memory has recorded
	// it.
	refused error
	// blamed: the run in memory must record its entry of runPart.blames.
	blamed bool
	// outstanding counts the started attempts whose return the run has not seen; returned counts
	// the rest.
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
	// retiring: queues may have messages of a run that has ended, which become dead letters before
	// a run receives any. retired is the version of the last turn that did that.
	retiring bool
	retired  engine.Version
}

// flowRows caches the rows of a flow.
type flowRows struct {
	asOf  engine.Version // of the write set, when it was last changed
	known bool           // the record was looked for
	live  bool
	size  int32 // of rec as it is stored, in bytes
	rec   runRecord
	// listed is the reason under which the node's lists have the run: that of its pause,
	// listedFailed, or "" if they do not have it.
	listed string
}

// flowOf returns the actor's workflow run, and makes it on first use, because most actors have
// none.
func flowOf(c *kernel.Core) *flow { return attach.Make(&c.Attached, newFlow) }

var _ kernel.Follower = (*flow)(nil)

func newFlow() *flow { return new(flow) }

// flowKnown reads whether the actor has a run, once.
func flowKnown(c *kernel.Core) error {
	f := flowOf(c)
	if f.known || c.Actor.Left() {
		return nil
	}
	if c.Exists {
		rec, size, ok, err := readRun(c.Rows)
		if err != nil {
			return err
		}
		f.live, f.rec, f.size, f.listed = ok, rec, int32(size), rec.Listed
		if !ok {
			if state, err := runState(storedRows{c.Rows}); err != nil {
				return err
			} else if state == wfhost.StateFailed {
				f.listed = listedFailed
			}
		}
	}
	f.known, f.asOf = true, c.Rows.Version()
	return nil
}

// Forget implements kernel.Facet: it reads the rows again if turns after a version changed them.
// The next turn retires again what those turns retired.
func (f *flow) Forget(c *kernel.Core, version engine.Version) {
	if f.retired > version {
		f.retiring, f.retired = true, version
	}
	if f.armedAsOf > version {
		f.armedAsOf = version
		RunOf(c.Actor).armed.Store(c.Standing.Of(keyspace.WakeRun) == standing.Armed)
	}
	f.fields.forget(version)
	if f.asOf <= version {
		return
	}
	f.flowRows = flowRows{}
	if err := flowKnown(c); err != nil {
		c.Broken = true // as the store is
	}
}

// Close implements kernel.Facet: it ends the run in memory. Deferred functions of the user may take
// their time.
func (f *flow) Close(c *kernel.Core) {
	f.mu.Lock()
	run := f.run
	f.run = nil
	f.mu.Unlock()
	if run != nil && !c.Actor.Kernel.Go(run.Close) {
		run.Close()
	}
}

// Abandon implements kernel.Facet: it ends the run in memory of an actor that is taken away from
// the goroutine that runs it. If that goroutine is in the run, perhaps for good, it ends the run
// when it returns.
func (f *flow) Abandon(c *kernel.Core) {
	f.over.Store(true)
	if !f.mu.TryLock() {
		return
	}
	run := f.run
	f.mu.Unlock()
	if run != nil {
		c.Actor.Kernel.Go(func() {
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

// staleRun gives up the run in memory: the stored run has changed.
func staleRun(c *kernel.Core) {
	f := flowOf(c)
	if f.run == nil || f.stale {
		return
	}
	f.mu.Lock()
	f.run.Discard()
	f.leaveRun()
	f.stale = true
	f.held.clear()
	cancelAttempts(c, f.held)
}

// reopenRun makes a new run from the store.
func reopenRun(c *kernel.Core) {
	f := flowOf(c)
	if f.run != nil {
		f.Close(c)
	}
	t := c.Actor.Type
	run := wfhost.Open(wfhost.RunOptions{
		Programs:   func(name string) *wfhost.Program { return program(t, name) },
		Self:       workflow.Destination{Type: c.Actor.Address.Type, Key: c.Actor.Address.Key},
		Logger:     func() *slog.Logger { return c.Actor.Logger(c.ID, 0) },
		Coroutines: &runTypeOf(t).coroutines,
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
	if text, ok := kernel.PartOf[*Part](c.Actor.Kernel).blames.Load(c.Actor.Key); ok {
		f.blamed = true
		run.Blame(wfhost.PausedMisuse, text.(string))
	}
	f.fresh, f.stale, f.queues, f.held, f.enter = true, false, nil, new(attemptQueue), new(entering)
	f.outstanding, f.hurried = 0, false
	f.returned.Store(0)
}
