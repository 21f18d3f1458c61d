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
	waiting []func(slot bool)
	over    bool // the run was given up: what has not begun does not begin
}

// begin runs start, now or when there is room.
func (q *attemptQueue) begin(start func(bool)) {
	q.mu.Lock()
	if q.over {
		q.mu.Unlock()
		start(false)
		return
	}
	if q.running >= maxAttempts {
		q.waiting = append(q.waiting, start)
		q.mu.Unlock()
		return
	}
	q.running++
	q.mu.Unlock()
	start(true)
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
	next(true)
}

// clear drops those that wait, each of which is told, and those whose turn is not durable yet.
func (q *attemptQueue) clear() {
	q.mu.Lock()
	waiting := q.waiting
	q.waiting, q.over = nil, true
	q.mu.Unlock()
	for _, start := range waiting {
		start(false)
	}
}

// launch starts the attempts that a turn asks for, when the turn is durable.
func (c *core) launch(h *turn, out *workflow.Outcome) {
	k := c.crew.Load()
	if k == nil {
		k = newCrew(c)
		c.crew.Store(k)
	}
	f, a, inst := &c.flow, c.a, c.inst
	held, traceparent := f.held, h.from.traceparent
	start := func() {
		for _, at := range out.Launch {
			held.begin(func(run bool) {
				if !run {
					f.returned.Add(1)
					a.pumpRun() // the next run may wait for it
					return
				}
				if !k.startAttempt(at.Name(), traceparent, held, func(t host.Task) error { return a.attempt(f, held, inst, t, at) }) {
					held.end()
				}
			})
		}
	}
	if out.Deferred && !c.group.changed && a.durable.Load() == a.applied.Load() {
		h.early = append(h.early, start) // nothing that it must not overtake is on its way
		return
	}
	h.after = append(h.after, start)
}

// attempt runs an attempt and lets the run know that it has returned.
func (a *activation) attempt(f *flow, held *attemptQueue, inst host.Instance, t host.Task, at *workflow.Attempt) (err error) {
	m := a.sup.metrics
	defer func() {
		f.returned.Add(1)
		a.pumpRun()
		held.end()
	}()
	if held.givenUp() {
		return nil // between its turn and now
	}
	m.steps.Inc()
	if err := at.Run(t, runTask{t, inst}, a.pumpRun); err != nil {
		m.stepFailures.Inc()
	}
	return nil // the history has the error
}

// startAttempt starts an attempt of a run as a task; false if no task may start any more.
func (k *crew) startAttempt(name, traceparent string, of *attemptQueue, f func(host.Task) error) bool {
	return k.begin(&task{crew: k, name: name, attempt: of}, traceparent, f)
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
		if t.attempt == of {
			t.cancel(errRunChanged)
		}
	}
}

var errRunChanged = host.Errorf(host.Canceled, "the workflow run was changed or given up; the attempt counts no more")

// A runTask is a task that runs an attempt, as host.RunTask.
type runTask struct {
	host.Task
	inst host.Instance
}

// Instance implements host.RunTask.
func (t runTask) Instance() host.Instance { return t.inst }
