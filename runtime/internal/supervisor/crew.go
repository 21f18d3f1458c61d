package supervisor

import (
	"context"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// maxTasks is how many tasks an actor may have at once.
const maxTasks = 1000

// lastGrace is what tasks get to return when the node stops at once.
const lastGrace = 100 * time.Millisecond

// A crew is the tasks of one awake actor, from one waking to the next sleep, crash or end.
//
// Invariants:
//  1. A task is a member from its start until it returns or is given up.
//  2. leaving is set before over. Once it is, every task's context has ended or is about to.
//  3. Once over is set no task starts and none enters a turn; hard has ended.
type crew struct {
	a     *activation
	ident host.Identity
	// hard ends when tasks may enter no more turns; the contexts of tasks end with it.
	hard context.Context
	kill context.CancelCauseFunc
	// finished counts tasks that have returned, were given up, or never started.
	finished atomic.Int64

	mu            sync.Mutex
	members       map[*task]struct{}
	leaving, over *host.Error   // why tasks are to return, and why they may do nothing any more
	retired       bool          // the actor sleeps when they have returned
	watched       bool          // a goroutine waits for the members to return
	idle          chan struct{} // closed when the last member has returned; nil if nobody waits for that
	gone          chan struct{} // closed when over is set
}

func newCrew(c *core) *crew {
	k := &crew{a: c.a, ident: c.ident, members: make(map[*task]struct{}), gone: make(chan struct{})}
	k.hard, k.kill = context.WithCancelCause(context.Background())
	return k
}

// size returns how many tasks run. A nil crew has none.
func (k *crew) size() int {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.members)
}

// roll returns the tasks that run, the oldest first, and whether they were told to return. A nil crew has none.
func (k *crew) roll() (all []*task, leaving bool) {
	if k == nil {
		return nil, false
	}
	k.mu.Lock()
	all, leaving = k.list(), k.leaving != nil
	k.mu.Unlock()
	slices.SortFunc(all, func(x, y *task) int {
		if c := x.started.Compare(y.started); c != 0 {
			return c
		}
		return strings.Compare(x.name, y.name)
	})
	return all, leaving
}

// refusal returns why no task may enter a turn, or nil.
func (k *crew) refusal() *host.Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over
}

// start starts a task. It does not block. One that starts while the others are asked to return finds its context ended.
func (k *crew) start(name, traceparent string, f func(host.Task) error) {
	if !k.begin(&task{crew: k, name: name}, traceparent, f) {
		k.finished.Add(1)
	}
}

// begin makes t a member and runs f as it, or its attempt; false if no task may start any more.
func (k *crew) begin(t *task, traceparent string, f func(host.Task) error) bool {
	sup := k.a.sup
	k.mu.Lock()
	if k.over != nil || !sup.tasks.begin() {
		k.mu.Unlock()
		return false
	}
	t.started = time.Now()
	t.Init(k.hard)
	t.from = caller{a: k.a, task: t, traceparent: traceparent}
	k.members[t] = struct{}{}
	if t.attempt != nil {
		runOf(k.a).attempts.Add(1)
	}
	leaving := k.leaving
	k.mu.Unlock()
	sup.metrics.tasksRunning.Inc()
	if leaving != nil {
		t.Cancel(leaving)
	}
	if t.attempt != nil {
		sup.workers.attempt(t)
	} else {
		go t.run(f)
	}
	return true
}

// remove counts a task off that has returned, or is given up; false if it was before.
func (k *crew) remove(t *task) bool {
	k.mu.Lock()
	_, member := k.members[t]
	delete(k.members, t)
	empty := len(k.members) == 0
	if member && empty && k.idle != nil {
		close(k.idle)
		k.idle = nil
	}
	k.mu.Unlock()
	if !member {
		return false
	}
	if t.attempt == nil {
		k.finished.Add(1)
	}
	sup := k.a.sup
	sup.metrics.tasksRunning.Dec()
	if empty {
		// The actor may sleep now.
		k.a.touch()
		if k.a.vacant.Load() {
			k.a.vacate()
		} else {
			sup.memory.idle(k.a)
		}
	}
	sup.tasks.done()
	return true
}

// ask ends the contexts of the tasks and returns a channel that is closed when all have returned or the actor type's grace
// is over. Until then they may still enter turns.
func (k *crew) ask(cause *host.Error) <-chan struct{} {
	k.mu.Lock()
	if k.leaving != nil {
		k.mu.Unlock()
		return k.gone
	}
	k.leaving = cause
	members := k.list()
	start := !k.watched
	k.watched = true
	k.mu.Unlock()
	for _, t := range members {
		t.Cancel(cause)
	}
	if start && !k.a.sup.task(k.watch) {
		k.end(cause)
	}
	return k.gone
}

// end takes the actor away from the tasks at once: their contexts end, and they enter no more turns.
func (k *crew) end(cause *host.Error) {
	k.mu.Lock()
	if k.over != nil {
		k.mu.Unlock()
		return
	}
	k.over = cause
	if k.leaving == nil {
		k.leaving = cause
	}
	close(k.gone)
	start := len(k.members) > 0 && !k.watched
	k.watched = k.watched || start
	k.mu.Unlock()
	k.kill(cause)
	if start {
		k.a.sup.task(k.watch) // if the supervisor has closed, it has counted the tasks already
	}
}

// list returns the members.
//
// REQUIRES: k.mu
func (k *crew) list() []*task {
	all := make([]*task, 0, len(k.members))
	for t := range k.members {
		all = append(all, t)
	}
	return all
}

// watch waits for the tasks to return, and gives those up that do not in time.
func (k *crew) watch() {
	sup := k.a.sup
	timer := time.NewTimer(k.a.typ.base.TaskGrace)
	defer timer.Stop()
	life := sup.life.Done()
	for {
		k.mu.Lock()
		if len(k.members) == 0 {
			cause := k.leaving
			k.mu.Unlock()
			k.end(cause)
			return
		}
		if k.idle == nil {
			k.idle = make(chan struct{})
		}
		idle := k.idle
		k.mu.Unlock()
		select {
		case <-idle:
			continue
		case <-life:
			life = nil
			timer.Reset(lastGrace)
			continue
		case <-timer.C:
		}
		k.mu.Lock()
		cause, late := k.leaving, k.list()
		k.mu.Unlock()
		k.end(cause)
		for _, t := range late {
			k.giveUp(t)
		}
		return
	}
}

// giveUp leaves a task behind that does not return. Go has no way to end it.
func (k *crew) giveUp(t *task) {
	sup := k.a.sup
	sup.lost.Add(1)
	t.lost.Store(true)
	awaited := t.left()
	if !k.remove(t) {
		sup.lost.Add(-1) // it returned after all
		return
	}
	if awaited {
		runOf(k.a).ask() // the run may have waited for it
	}
	sup.metrics.tasksLost.Inc()
	sup.logger.LogAttrs(context.Background(), slog.LevelError, "task does not return; it is left behind", k.a.attrs(
		slog.String("task", t.name), slog.Duration("running_for", time.Since(t.started)),
		slog.String("reason", context.Cause(t).Error()), slog.String("goroutines", stacksOf("supervisor.(*task).run(")))...)
}

// crew returns the tasks of the actor as it is awake; nil if it has none.
//
// REQUIRES: a.mu
func (a *activation) crew() *crew {
	if a.core == nil {
		return nil
	}
	return a.core.crew.Load()
}

// currentCrew is crew for those who do not hold mu.
func (a *activation) currentCrew() *crew {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.crew()
}

// endCrew takes the actor away from its tasks.
func (c *core) endCrew(cause *host.Error) {
	if k := c.crew.Load(); k != nil {
		k.end(cause)
	}
}

// startedTasks counts the tasks that turns of a core have started, which the commit of the turn does. It is used by the
// goroutine that runs the actor.
type startedTasks struct {
	n    int64
	open []startedBy // of turns that are not committed
}

type startedBy struct {
	version engine.Version
	n       int64
}

// add counts the tasks of a turn.
func (s *startedTasks) add(c *core, n int64) {
	if n == 0 {
		return
	}
	if !c.group.changed {
		s.open = s.open[:0]
	}
	s.n += n
	s.open = append(s.open, startedBy{c.ws.Version(), n})
}

// forget takes back the tasks of turns after a version.
func (s *startedTasks) forget(version engine.Version) {
	for i := len(s.open) - 1; i >= 0 && s.open[i].version > version; i-- {
		s.n -= s.open[i].n
		s.open = s.open[:i]
	}
}
