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
	part  *taskPart
	a     *activation
	ident host.Identity
	// hard ends when tasks may enter no more turns; the contexts of tasks end with it.
	hard context.Context
	kill context.CancelCauseFunc
	// finished counts tasks that have returned, were given up, or never started.
	finished atomic.Int64
	// started counts those that handlers have started. It is used by the goroutine that runs the actor.
	started startedTasks

	mu            sync.Mutex
	members       map[*task]struct{}
	leaving, over *host.Error   // why tasks are to return, and why they may do nothing any more
	retired       bool          // the actor sleeps when they have returned
	watched       bool          // a goroutine waits for the members to return
	idle          chan struct{} // closed when the last member has returned; nil if nobody waits for that
	gone          chan struct{} // closed when over is set
}

// needCrew returns the tasks of an awake actor.
func needCrew(c *core) *crew {
	if k := crewOf(c); k != nil {
		return k
	}
	return attach(&c.attached, func() *crew { return newCrew(c) })
}

// crewOf returns the tasks of an awake actor; nil if none was started.
func crewOf(c *core) *crew { return attachedTo[*crew](&c.attached) }

// currentCrew returns the tasks of an actor; nil if it has none.
func currentCrew(a *activation) *crew {
	k, _ := a.currentCompany().(*crew)
	return k
}

func newCrew(c *core) *crew {
	k := &crew{part: partOf[*taskPart](c.a.sup), a: c.a, ident: c.ident, members: make(map[*task]struct{}), gone: make(chan struct{})}
	k.hard, k.kill = context.WithCancelCause(context.Background())
	return k
}

// size implements company. A nil crew has none.
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

// tasks returns the tasks that run. A nil crew has none.
func (k *crew) tasks() []*task {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list()
}

// dismissed reports that the tasks were told to return. A nil crew has none.
func (k *crew) dismissed() bool {
	if k == nil {
		return false
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.leaving != nil
}

// refusal returns why no task may enter a turn, or nil.
func (k *crew) refusal() *host.Error {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.over
}

// start starts a task. It does not block. One that starts while the others are asked to return finds its context ended.
func (k *crew) start(name, traceparent string, f func(host.Task) error) {
	t := new(task)
	t.init(k, name, traceparent, nil)
	if !k.begin(t) {
		k.finished.Add(1)
		return
	}
	go t.run(f)
}

// begin makes t a member, which the caller runs; false if no task may start any more.
func (k *crew) begin(t *task) bool {
	sup := k.a.sup
	k.mu.Lock()
	if k.over != nil || !sup.tasks.begin() {
		k.mu.Unlock()
		return false
	}
	t.started = time.Now()
	t.Init(k.hard)
	k.members[t] = struct{}{}
	if t.owner != nil {
		t.owner.begun()
	}
	leaving := k.leaving
	k.mu.Unlock()
	k.part.running.Inc()
	if leaving != nil {
		t.Cancel(leaving)
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
	if t.owner == nil {
		k.finished.Add(1)
	}
	sup := k.a.sup
	k.part.running.Dec()
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

// ask implements company: it ends the contexts of the tasks. Their time is the actor type's grace. Until then they may still
// enter turns.
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

// retire implements company.
func (k *crew) retire() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := !k.retired
	k.retired = true
	return first
}

// forget implements facet.
func (k *crew) forget(_ *core, version engine.Version) { k.started.forget(version) }

// close implements facet.
func (k *crew) close(c *core) { k.end(c.restartCause()) }

// abandon implements facet.
func (k *crew) abandon(c *core) { k.end(c.restartCause()) }

// end implements company: the contexts of the tasks end at once, and they enter no more turns.
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
	k.part.left.Add(1)
	t.behind.Store(true)
	if t.owner != nil {
		t.owner.lost()
	}
	if !k.remove(t) {
		k.part.left.Add(-1) // it returned after all
		return
	}
	k.part.lost.Inc()
	k.a.sup.logger.LogAttrs(context.Background(), slog.LevelError, "task does not return; it is left behind", k.a.attrs(
		slog.String("task", t.name), slog.Duration("running_for", time.Since(t.started)),
		slog.String("reason", context.Cause(t).Error()), slog.String("goroutines", stacksOf(nameOf((*task).run))))...)
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
