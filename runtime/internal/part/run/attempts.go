package run

import (
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/task"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// maxAttempts is how many attempts of a run are under way at once; the others wait.
const maxAttempts = 1000

// An attemptQueue holds the attempts of a run that wait because too many are under way. Safe for
// concurrent use.
type attemptQueue struct {
	mu      sync.Mutex
	running int
	waiting []*attempt
	over    bool // the run was given up: no further attempt begins
}

// begin starts an attempt, now or when there is room.
func (q *attemptQueue) begin(t *attempt) {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		t.drop()
		return
	}
	if q.running >= maxAttempts {
		q.waiting = append(q.waiting, t)
		q.mu.Unlock()
		return
	}
	q.running++
	q.mu.Unlock()
	t.begin()
}

// End makes room.
func (q *attemptQueue) End() {
	q.mu.Lock()
	if len(q.waiting) == 0 {
		q.running--
		q.mu.Unlock()
		return
	}
	next := q.waiting[0]
	q.waiting[0] = nil
	q.waiting = q.waiting[1:]
	q.mu.Unlock()
	next.begin()
}

// clear drops the waiting attempts and notifies each. It also drops attempts whose turn is not
// durable yet.
func (q *attemptQueue) clear() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.over = nil, true
	q.mu.Unlock()
	for _, t := range waiting {
		t.drop()
	}
}

// launch starts the requested attempts of a turn when it is durable.
func launch(c *kernel.Core, h *kernel.Turn, out *wfhost.Outcome) {
	k := task.NeedCrew(c)
	f, inst, span, launch := flowOf(c), c.Instance, h.From.Span.Span(), out.Launch
	held := f.held // a later run has another
	start := func() {
		for _, at := range launch {
			t := &attempt{of: at, flow: f, held: held, inst: inst}
			t.Task.Set(k, at.Name(), span, t)
			held.begin(t)
		}
	}
	if a := c.Actor; out.Deferred && !c.Group.Changed && a.Gate.Durable.Load() == a.Applied.Load() {
		own := runTurnOf(h)
		own.early = append(own.early, start) // nothing that it must not overtake is on its way
		return
	}
	h.Then(start)
}

// An attempt is an attempt of a run's step: a task that a worker runs. It does not count towards
// the tasks of handlers. It implements host.RunTask.
type attempt struct {
	task.Task
	of   *wfhost.Attempt
	flow *flow
	held *attemptQueue
	inst host.Instance
	// returned: it is no longer counted in runActor.attempts.
	returned atomic.Bool
	// next is the actor, if no goroutine runs it: the attempt's goroutine does.
	next kernel.Assignment
}

// Instance implements host.RunTask.
func (t *attempt) Instance() host.Instance { return t.inst }

// begin starts an attempt for which there is room.
func (t *attempt) begin() {
	if t.Crew.Begin(&t.Task) {
		t.Actor().Kernel.Workers.Send(t)
	} else {
		t.held.End() // tasks may no longer start
	}
}

// Begun implements task.taskOwner.
func (t *attempt) Begun() { RunOf(t.Actor()).Attempts.Add(1) }

// Run implements worker.Errand.
func (t *attempt) Run() (next kernel.Assignment, ok bool) {
	returned := false
	defer func() {
		if !returned && t.next.Actor != nil { // this goroutine is on its way out
			t.Actor().Kernel.Workers.Run(t.next)
		}
	}()
	t.Task.Run(nil)
	returned = true
	return t.next, t.next.Actor != nil
}

// drop counts an attempt that does not begin as returned: the next run may wait for that.
func (t *attempt) drop() {
	t.flow.returned.Add(1)
	RunOf(t.Actor()).Ask()
}

// Work implements task.taskOwner: it runs the attempt and posts its return to the run.
func (t *attempt) Work() {
	a := t.Actor()
	own, p := RunOf(a), kernel.PartOf[*Part](a.Kernel)
	defer func() {
		t.flow.returned.Add(1)
		t.left()
		t.next = own.Post()
		t.held.End()
	}()
	if t.held.givenUp() {
		return // between its turn and now
	}
	p.steps.Inc()
	if err := t.of.Run(t, t, own.news); err != nil {
		p.stepFailures.Inc() // the history has the error
	}
}

// Lost implements task.taskOwner.
func (t *attempt) Lost() {
	if t.left() {
		RunOf(t.Actor()).Ask() // the run may have waited for it
	}
}

// left removes a returned or given-up attempt from the count of its Actor; false if that was done
// before.
func (t *attempt) left() bool {
	if t.returned.Swap(true) {
		return false
	}
	RunOf(t.Actor()).Attempts.Add(-1)
	return true
}

// givenUp reports whether the run was given up. An attempt calls it as a member of its crew: either
// it returns true, or the attempt's context ends.
func (q *attemptQueue) givenUp() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// cancelAttempts ends the contexts of a run's attempts.
func cancelAttempts(c *kernel.Core, of *attemptQueue) {
	for _, t := range task.CrewOf(c).Tasks() {
		if at, ok := t.Owner.(*attempt); ok && at.held == of {
			t.Cancel(errRunChanged)
		}
	}
}

var errRunChanged = host.Errorf(host.Canceled, "the workflow run was changed or given up; the attempt no longer counts")
