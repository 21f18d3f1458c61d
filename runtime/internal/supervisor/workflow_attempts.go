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
}

// begin starts an attempt, now or when there is room.
func (q *attemptQueue) begin(t *task) {
	q.mu.Lock()
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

// clear drops those that wait, which count as returned.
func (q *attemptQueue) clear() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting = nil
	q.mu.Unlock()
	for _, t := range waiting {
		t.flow.returned.Add(1)
	}
}

// launch starts the attempts that a turn asks for, when the turn is durable.
func (c *core) launch(h *turn, out *workflow.Outcome) {
	k := c.crew.Load()
	if k == nil {
		k = newCrew(c)
		c.crew.Store(k)
	}
	f, inst, traceparent, launch := &c.flow, c.inst, h.from.traceparent, out.Launch
	start := func() {
		for _, at := range launch {
			t := &task{crew: k, name: at.Name(), attempt: at, flow: f, inst: inst}
			t.from.traceparent = traceparent
			f.held.begin(t)
		}
	}
	if a := c.a; out.Deferred && !c.group.changed && a.durable.Load() == a.applied.Load() {
		h.early = append(h.early, start) // nothing that it must not overtake is on its way
		return
	}
	h.after = append(h.after, start)
}

// begin starts an attempt for which there is room.
func (t *task) begin() {
	if !t.crew.begin(t, t.from.traceparent, nil) {
		t.flow.held.end() // no task may start any more
	}
}

// runAttempt runs the attempt and lets the run know that it has returned.
func (t *task) runAttempt() {
	a := t.crew.a
	m := a.sup.metrics
	m.steps.Inc()
	defer func() {
		t.flow.returned.Add(1)
		t.next = a.postRun()
		t.flow.held.end()
	}()
	if err := t.attempt.Run(t, runTask{t}, a.onNews); err != nil {
		m.stepFailures.Inc() // the history has the error
	}
}

// cancelAttempts ends the contexts of a run's attempts.
func (k *crew) cancelAttempts(of *attemptQueue) {
	k.mu.Lock()
	members := k.list()
	k.mu.Unlock()
	for _, t := range members {
		if t.attempt != nil && &t.flow.held == of {
			t.Cancel(errRunChanged)
		}
	}
}

var errRunChanged = host.Errorf(host.Canceled, "the workflow run was changed or given up; the attempt counts no more")

// A runTask is a task that runs an attempt, as host.RunTask.
type runTask struct{ *task }

// Instance implements host.RunTask.
func (t runTask) Instance() host.Instance { return t.inst }
