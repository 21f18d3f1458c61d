package supervisor

import (
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// maxAttempts is how many attempts of a run are under way at once; the others wait for their turn.
const maxAttempts = 1000

// An attemptQueue holds the attempts of a run that wait because too many are under way. Safe for concurrent use.
type attemptQueue struct {
	mu      sync.Mutex
	running int
	waiting []*task
	over    bool // the run was given up: what has not begun does not begin
}

// begin starts an attempt, now or when there is room.
func (q *attemptQueue) begin(t *task) {
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
	k := c.crew.Load()
	if k == nil {
		k = newCrew(c)
		c.crew.Store(k)
	}
	f, inst, traceparent, launch := c.flow(), c.inst, h.from.traceparent, out.Launch
	held := f.held // a later run has another
	start := func() {
		for _, at := range launch {
			t := &task{crew: k, name: at.Name(), attempt: at, flow: f, held: held, inst: inst}
			t.from.traceparent = traceparent
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

// begin starts an attempt for which there is room.
func (t *task) begin() {
	if !t.crew.begin(t, t.from.traceparent, nil) {
		t.held.end() // no task may start any more
	}
}

// drop counts an attempt that does not begin as returned: the next run may wait for it.
func (t *task) drop() {
	t.flow.returned.Add(1)
	runOf(t.crew.a).ask()
}

// runAttempt runs the attempt and lets the run know that it has returned.
func (t *task) runAttempt() {
	a := t.crew.a
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
	if err := t.attempt.Run(t, runTask{t}, own.news); err != nil {
		p.stepFailures.Inc() // the history has the error
	}
}

// left counts an attempt off its activation that has returned or was given up; false if it was before.
func (t *task) left() bool {
	if t.attempt == nil || t.returned.Swap(true) {
		return false
	}
	runOf(t.crew.a).attempts.Add(-1)
	return true
}

// givenUp reports that the run was. An attempt asks when it is a member of its crew: either this tells, or its context ends.
func (q *attemptQueue) givenUp() bool {
	q.mu.Lock()
	defer q.mu.Unlock()
	return q.over
}

// cancelAttempts ends the contexts of a run's attempts.
func (k *crew) cancelAttempts(of *attemptQueue) {
	k.mu.Lock()
	members := k.list()
	k.mu.Unlock()
	for _, t := range members {
		if t.attempt != nil && t.held == of {
			t.Cancel(errRunChanged)
		}
	}
}

var errRunChanged = host.Errorf(host.Canceled, "the workflow run was changed or given up; the attempt counts no more")

// A runTask is a task that runs an attempt, as host.RunTask.
type runTask struct{ *task }

// Instance implements host.RunTask.
func (t runTask) Instance() host.Instance { return t.inst }
