package supervisor

import (
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// maxAttempts is how many attempts of a run are under way at once; the others wait for their turn.
const maxAttempts = 1000

// An attemptQueue holds the attempts of a run that wait because too many are under way. Safe for concurrent use.
type attemptQueue struct {
	mu      sync.Mutex
	running int
	waiting []*attempt
	over    bool // the run was given up: what has not begun does not begin
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

// end makes room.
func (q *attemptQueue) end() {
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

// clear drops those that wait, each of which is told, and those whose turn is not durable yet.
func (q *attemptQueue) clear() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.over = nil, true
	q.mu.Unlock()
	for _, t := range waiting {
		t.drop()
	}
}

// launch starts the attempts that a turn asks for, when the turn is durable.
func (c *core) launch(h *turn, out *workflow.Outcome) {
	k := needCrew(c)
	f, inst, traceparent, launch := c.flow(), c.inst, h.from.traceparent, out.Launch
	held := f.held // a later run has another
	start := func() {
		for _, at := range launch {
			t := &attempt{of: at, flow: f, held: held, inst: inst}
			t.task.init(k, at.Name(), traceparent, t)
			held.begin(t)
		}
	}
	if a := c.a; out.Deferred && !c.group.changed && a.durable.Load() == a.applied.Load() {
		own := runTurnOf(h)
		own.early = append(own.early, start) // nothing that it must not overtake is on its way
		return
	}
	h.then(start)
}

// An attempt is an attempt of a run's step: a task, which a worker runs, and which takes no place of the tasks that
// handlers start. It implements host.RunTask.
type attempt struct {
	task
	of   *workflow.Attempt
	flow *flow
	held *attemptQueue
	inst host.Instance
	// returned: it is no longer counted in runActor.attempts.
	returned atomic.Bool
	// next is the actor, if the attempt has found nobody who runs it: the attempt's goroutine does.
	next assignment
}

// Instance implements host.RunTask.
func (t *attempt) Instance() host.Instance { return t.inst }

// begin starts an attempt for which there is room.
func (t *attempt) begin() {
	if t.crew.begin(&t.task) {
		t.actor().sup.workers.send(t)
	} else {
		t.held.end() // no task may start any more
	}
}

// begun implements taskOwner.
func (t *attempt) begun() { runOf(t.actor()).attempts.Add(1) }

// run implements errand.
func (t *attempt) run() (next assignment) {
	returned := false
	defer func() {
		if !returned && t.next.a != nil { // this goroutine is on its way out
			t.actor().sup.workers.run(t.next.a, t.next.epoch)
		}
	}()
	t.task.run(nil)
	returned = true
	return t.next
}

// drop counts an attempt that does not begin as returned: the next run may wait for it.
func (t *attempt) drop() {
	t.flow.returned.Add(1)
	runOf(t.actor()).ask()
}

// work implements taskOwner: it runs the attempt and lets the run know that it has returned.
func (t *attempt) work() {
	a := t.actor()
	own, p := runOf(a), partOf[*runPart](a.sup)
	defer func() {
		t.flow.returned.Add(1)
		t.left()
		t.next = own.post()
		t.held.end()
	}()
	if t.held.givenUp() {
		return // between its turn and now
	}
	p.steps.Inc()
	if err := t.of.Run(t, t, own.news); err != nil {
		p.stepFailures.Inc() // the history has the error
	}
}

// lost implements taskOwner.
func (t *attempt) lost() {
	if t.left() {
		runOf(t.actor()).ask() // the run may have waited for it
	}
}

// left counts an attempt off its activation that has returned or was given up; false if it was before.
func (t *attempt) left() bool {
	if t.returned.Swap(true) {
		return false
	}
	runOf(t.actor()).attempts.Add(-1)
	return true
}

// givenUp reports that the run was. An attempt asks when it is a member of its crew: either this tells, or its context ends.
func (q *attemptQueue) givenUp() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// cancelAttempts ends the contexts of a run's attempts.
func (c *core) cancelAttempts(of *attemptQueue) {
	for _, t := range crewOf(c).tasks() {
		if at, ok := t.owner.(*attempt); ok && at.held == of {
			t.Cancel(errRunChanged)
		}
	}
}

var errRunChanged = host.Errorf(host.Canceled, "the workflow run was changed or given up; the attempt counts no more")
