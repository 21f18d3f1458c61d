package task

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
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/stacks"
)

// MaxTasks is how many tasks an actor may have at once.
const MaxTasks = 1000

// LastGrace is the time that tasks get to return when the node stops at once.
const LastGrace = 100 * time.Millisecond

// A crew is the tasks of one awake actor, from one waking to the next sleep, crash or end.
//
// Invariants:
//  1. A task is a member from its start until it returns or is given up.
//  2. leaving is set before over. Once it is, every task's context has ended or is about to.
//  3. Once over is set no task starts and none enters a turn; hard has ended.
type crew struct {
	part  *Part
	a     *kernel.Actor
	ident host.Identity
	// hard ends when tasks may no longer enter turns; the contexts of tasks end with it.
	hard context.Context
	kill context.CancelCauseFunc
	// finished counts tasks that have returned, were given up, or never started.
	finished atomic.Int64
	// started counts the tasks that handlers have started. The goroutine that runs the actor uses
	// it.
	started startedTasks

	mu            sync.Mutex
	members       map[*Task]struct{}
	leaving, over *host.Error   // why tasks must return, and why they may do nothing more
	retired       bool          // the actor sleeps when they have returned
	watched       bool          // a goroutine waits for the members to return
	idle          chan struct{} // closed when the last member has returned; nil without a waiter
	gone          chan struct{} // closed when over is set
}

// NeedCrew returns the tasks of an awake actor.
func NeedCrew(c *kernel.Core) *crew {
	if k := CrewOf(c); k != nil {
		return k
	}
	return attach.Make(&c.Attached, func() *crew { return newCrew(c) })
}

// CrewOf returns the tasks of an awake actor; nil if none was started.
func CrewOf(c *kernel.Core) *crew { return attach.Get[*crew](&c.Attached) }

// currentCrew returns the tasks of an actor; nil if it has none.
func currentCrew(a *kernel.Actor) *crew {
	k, _ := a.Waking().Company().(*crew)
	return k
}

func newCrew(c *kernel.Core) *crew {
	k := &crew{part: kernel.PartOf[*Part](c.Actor.Kernel), a: c.Actor, ident: c.Identity,
		members: make(map[*Task]struct{}), gone: make(chan struct{})}
	k.hard, k.kill = context.WithCancelCause(context.Background())
	return k
}

// Size implements kernel.Company. A nil crew has none.
func (k *crew) Size() int {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return len(k.members)
}

// roll returns the tasks that run, the oldest first, and whether they were told to return. A nil
// crew has none.
func (k *crew) roll() (all []*Task, leaving bool) {
	if k == nil {
		return nil, false
	}
	k.mu.Lock()
	all, leaving = k.list(), k.leaving != nil
	k.mu.Unlock()
	slices.SortFunc(all, func(x, y *Task) int {
		if c := x.Started.Compare(y.Started); c != 0 {
			return c
		}
		return strings.Compare(x.Name, y.Name)
	})
	return all, leaving
}

// Tasks returns the tasks that run. A nil crew has none.
func (k *crew) Tasks() []*Task {
	if k == nil {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list()
}

// Dismissed reports whether the tasks were told to return. A nil crew has none.
func (k *crew) Dismissed() bool {
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

// start starts a task. It does not block. If the tasks must return, the new task finds its context
// ended.
func (k *crew) start(name string, span host.Span, f func(host.Task) error) {
	t := new(Task)
	t.Set(k, name, span, nil)
	if !k.Begin(t) {
		k.finished.Add(1)
		return
	}
	go t.Run(f)
}

// Begin makes t a member, which the caller runs. It returns false if tasks may no longer start.
func (k *crew) Begin(t *Task) bool {
	sup := k.a.Kernel
	k.mu.Lock()
	if k.over != nil || !sup.Goroutines.Begin() {
		k.mu.Unlock()
		return false
	}
	t.Started = time.Now()
	t.Init(k.hard)
	k.members[t] = struct{}{}
	if t.Owner != nil {
		t.Owner.Begun()
	}
	leaving := k.leaving
	k.mu.Unlock()
	k.part.running.Inc()
	if leaving != nil {
		t.Cancel(leaving)
	}
	return true
}

// remove removes a returned or given-up task from the count; false if that was done before.
func (k *crew) remove(t *Task) bool {
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
	if t.Owner == nil {
		k.finished.Add(1)
	}
	sup := k.a.Kernel
	k.part.running.Dec()
	if empty {
		// The actor may sleep now.
		k.a.Touch(k.a.Kernel.Now())
		if k.a.Vacant.Load() {
			k.a.Vacate()
		} else {
			k.a.Idle()
		}
	}
	sup.Goroutines.Done()
	return true
}

// Ask implements kernel.Company: it ends the contexts of the tasks. Their time is the actor type's
// grace. Until then they may still enter turns.
func (k *crew) Ask(cause *host.Error) <-chan struct{} {
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
	if start && !k.a.Kernel.Go(k.watch) {
		k.End(cause)
	}
	return k.gone
}

// Retire implements kernel.Company.
func (k *crew) Retire() bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	first := !k.retired
	k.retired = true
	return first
}

// Forget implements kernel.Facet.
func (k *crew) Forget(_ *kernel.Core, version engine.Version) { k.started.forget(version) }

// Close implements kernel.Facet.
func (k *crew) Close(c *kernel.Core) { k.End(c.RestartCause()) }

// Abandon implements kernel.Facet.
func (k *crew) Abandon(c *kernel.Core) { k.End(c.RestartCause()) }

// End implements kernel.Company: the contexts of the tasks end at once, and they can no longer
// enter turns.
func (k *crew) End(cause *host.Error) {
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
		k.a.Kernel.Go(k.watch) // if the kernel has closed, it has counted the tasks already
	}
}

// list returns the members.
//
// REQUIRES: k.mu
func (k *crew) list() []*Task {
	all := make([]*Task, 0, len(k.members))
	for t := range k.members {
		all = append(all, t)
	}
	return all
}

// watch waits for the tasks to return, and gives up the late ones.
func (k *crew) watch() {
	sup := k.a.Kernel
	timer := time.NewTimer(k.a.Type.Base.TaskGrace)
	defer timer.Stop()
	life := sup.Life.Done()
	for {
		k.mu.Lock()
		if len(k.members) == 0 {
			cause := k.leaving
			k.mu.Unlock()
			k.End(cause)
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
			timer.Reset(LastGrace)
			continue
		case <-timer.C:
		}
		k.mu.Lock()
		cause, late := k.leaving, k.list()
		k.mu.Unlock()
		k.End(cause)
		for _, t := range late {
			k.giveUp(t)
		}
		return
	}
}

// giveUp leaves a task behind that does not return. Go has no way to end it.
func (k *crew) giveUp(t *Task) {
	k.part.Left.Add(1)
	t.behind.Store(true)
	if t.Owner != nil {
		t.Owner.Lost()
	}
	if !k.remove(t) {
		k.part.Left.Add(-1) // it returned after all
		return
	}
	k.part.lost.Inc()
	k.a.Kernel.Logger.LogAttrs(context.Background(), slog.LevelError,
		"task does not return; it is left behind", k.a.Attrs(
			slog.String("task", t.Name), slog.Duration("running_for", time.Since(t.Started)),
			slog.String("reason", context.Cause(t).Error()), slog.String("goroutines",
				stacks.Of(stacks.NameOf((*Task).Run))))...)
}

// startedTasks counts the tasks that turns of a core have started. The commit of the turn starts
// them. The goroutine that runs the actor uses it.
type startedTasks struct {
	n    int64
	open []startedBy // of turns that are not committed
}

type startedBy struct {
	version engine.Version
	n       int64
}

// add counts the tasks of a turn.
func (s *startedTasks) add(c *kernel.Core, n int64) {
	if n == 0 {
		return
	}
	if !c.Group.Changed {
		s.open = s.open[:0]
	}
	s.n += n
	s.open = append(s.open, startedBy{c.Rows.Version(), n})
}

// forget takes back the tasks of turns after a version.
func (s *startedTasks) forget(version engine.Version) {
	for i := len(s.open) - 1; i >= 0 && s.open[i].version > version; i-- {
		s.n -= s.open[i].n
		s.open = s.open[:i]
	}
}
