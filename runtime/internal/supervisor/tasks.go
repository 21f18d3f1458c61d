package supervisor

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"runtime/debug"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow/lazy"
)

// taskPart is the part of actors that is tasks.
type taskPart struct {
	// append appends items to a stream of the actor.
	append func(t *turn, stream string, items [][]byte) (last uint64, err error)
	// left counts tasks that were left behind and still run.
	left atomic.Int64

	failed, lost prometheus.Counter
	running      prometheus.Gauge
}

func newTaskPart(appendTo func(t *turn, stream string, items [][]byte) (uint64, error)) *taskPart {
	return &taskPart{
		append:  appendTo,
		failed:  prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_tasks_failed_total", Help: "Tasks that ended with an error or a panic."}),
		lost:    prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_tasks_abandoned_total", Help: "Tasks left behind because they did not return when their actor went to sleep."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_tasks_running", Help: "Tasks that run beside their actors."}),
	}
}

func (*taskPart) name() string { return "task" }

// collectors implements meter.
func (p *taskPart) collectors(*Supervisor) []prometheus.Collector {
	return []prometheus.Collector{p.failed, p.lost, p.running}
}

// leftBehind implements straggler.
func (p *taskPart) leftBehind() error {
	if n := p.left.Load(); n > 0 {
		return fmt.Errorf("supervisor: %d tasks did not return when they were told to, and are left behind", n)
	}
	return nil
}

// taskTurn is what handlers may do with tasks.
type taskTurn struct {
	t     *turn
	asked int64 // tasks to start
}

// seal implements participant.
func (*taskTurn) seal(*turn) error { return nil }

// succeeded implements finisher: the tasks count.
func (h *taskTurn) succeeded(t *turn) { crewOf(t.c).started.add(t.c, h.asked) }

// A task is one goroutine that runs beside an actor, as host.Task. As a context it ends when the actor is about to sleep;
// for a while after that it may still enter turns, to save what it has.
type task struct {
	lazy.Context
	crew    *crew
	name    string
	started time.Time
	from    caller
	over    atomic.Bool // its function has returned
	behind  atomic.Bool // it was left behind
	owner   taskOwner   // nil for a task that a handler has started
}

// A taskOwner is what another part makes of a task that it starts itself. maxTasks does not bound those.
type taskOwner interface {
	// begun is called when the task has become a member of its crew. It does not block.
	//
	// REQUIRES: crew.mu
	begun()
	// work is what the task runs.
	work()
	// lost is called when the task is about to be left behind. It may return all the same.
	lost()
}

// init makes the zero value a task, which is to begin.
func (t *task) init(k *crew, name, traceparent string, owner taskOwner) {
	t.crew, t.name, t.owner = k, name, owner
	t.from = caller{a: k.a, beside: true, traceparent: traceparent}
}

// actor returns the actor of the task.
func (t *task) actor() *activation { return t.crew.a }

// Go implements host.Turn.
func (h *taskTurn) Go(name string, f func(host.Task) error) error {
	t := h.t
	if err := t.enter(); err != nil {
		return err
	}
	defer t.leave()
	switch {
	case !isName(name):
		return host.Errorf(host.InvalidArgument, "the name of a task is 1 to 64 characters, a letter and then letters, digits, '-' and '_'; it is %q", name)
	case f == nil:
		return host.Errorf(host.InvalidArgument, "task %q has no function", name)
	}
	k := needCrew(t.c)
	if n := k.started.n + h.asked - k.finished.Load(); n >= maxTasks {
		return overloaded(maxTasks, taskRetry, "actor %s has %d tasks, which is the most it may have", t.a, n)
	}
	if h.asked == 0 {
		t.enlist(h)
	}
	h.asked++
	t.then(func() { k.start(name, t.from.traceparent, f) })
	return nil
}

// taskRetry is how long to wait for one of an actor's tasks to end.
const taskRetry = time.Second

// isName reports that s follows the rule of names.
func isName(s string) bool {
	if len(s) == 0 || len(s) > 64 {
		return false
	}
	for i := range len(s) {
		switch c := s[i]; {
		case c >= 'a' && c <= 'z', c >= 'A' && c <= 'Z':
		case i > 0 && (c >= '0' && c <= '9' || c == '-' || c == '_'):
		default:
			return false
		}
	}
	return true
}

// run runs f, or the work of the task's owner, and counts the task off, however it ends.
func (t *task) run(f func(host.Task) error) {
	var err error
	returned := false
	defer func() {
		p := recover()
		t.over.Store(true)
		t.report(returned, p, err)
		t.Cancel(errTaskOver)
		if !t.crew.remove(t) && t.behind.Load() {
			t.crew.part.left.Add(-1)
		}
	}()
	if t.owner != nil {
		t.owner.work()
	} else {
		err = f(t)
	}
	returned = true
}

var errTaskOver = host.Errorf(host.FailedPrecondition, "the task is over: it must not be used after its function returned")

// report logs how a task ended, if it did not end well.
func (t *task) report(returned bool, p any, err error) {
	if returned && p == nil && err == nil {
		return
	}
	sup := t.crew.a.sup
	attrs := t.crew.a.attrs(slog.String("task", t.name))
	switch {
	case p != nil:
		attrs = append(attrs, slog.String("error_id", newErrorID()), slog.Any("panic", p), slog.String("stack", string(debug.Stack())))
		sup.logger.LogAttrs(context.Background(), slog.LevelError, "task panicked", attrs...)
	case !returned:
		attrs = append(attrs, slog.String("error_id", newErrorID()))
		sup.logger.LogAttrs(context.Background(), slog.LevelError, "task ended its goroutine", attrs...)
	case t.Err() != nil && (errors.Is(err, t.Err()) || errors.Is(err, context.Cause(t))):
		return // it did as it was told
	default:
		sup.logger.LogAttrs(context.Background(), slog.LevelWarn, "task failed", append(attrs, slog.Any("error", err))...)
	}
	t.crew.part.failed.Inc()
}

// Value implements context.Context: calls with a task as context are the task's.
func (t *task) Value(key any) any {
	if key == (turnKey{}) {
		return &t.from
	}
	return t.Context.Value(key)
}

// Self implements host.Task.
func (t *task) Self() host.Identity { return t.crew.ident }

// Logger implements host.Task.
func (t *task) Logger() *slog.Logger {
	return t.crew.a.sup.logger.With(slog.String("actor_type", t.crew.ident.Type), slog.Any("actor_key", t.crew.ident.Key),
		slog.String("actor_id", t.crew.ident.ID), slog.String("task", t.name))
}

// Turn implements host.Task.
func (t *task) Turn(ctx context.Context, f func(state any, h host.Turn) error) error {
	if f == nil {
		return host.Errorf(host.InvalidArgument, "the turn of task %q has no function", t.name)
	}
	return t.enter(ctx, &entry{instance: true, do: func(c *core, h *turn) error { return f(c.inst.State(), h.host) }})
}

// Append implements host.Task.
func (t *task) Append(ctx context.Context, stream string, items [][]byte) (last uint64, err error) {
	err = t.enter(ctx, &entry{do: func(c *core, h *turn) error {
		n, err := t.crew.part.append(h, stream, items)
		last = n
		return err
	}})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Call implements host.Node.
func (t *task) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	ctx, from, err := t.caller(ctx)
	if err != nil {
		return host.Reply{}, err
	}
	return t.crew.a.sup.call(ctx, r, from)
}

// Lookup implements host.Node.
func (t *task) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return t.crew.a.sup.Lookup(ctx, a)
}

// List implements host.Node.
func (t *task) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return t.crew.a.sup.List(ctx, q)
}

// Destroy implements host.Node.
func (t *task) Destroy(ctx context.Context, a host.Address) error {
	ctx, from, err := t.caller(ctx)
	if err != nil {
		return err
	}
	return t.crew.a.sup.destroy(ctx, a, from)
}

// caller returns who makes a call with ctx: the turn or query that ctx belongs to, or the task. A context that never ends
// ends with the task.
func (t *task) caller(ctx context.Context) (context.Context, *caller, error) {
	if t.over.Load() {
		return ctx, nil, errTaskOver
	}
	from := callerOf(ctx)
	if from == nil {
		from = &t.from
	}
	if ctx.Done() == nil {
		ctx = t
	}
	return ctx, from, nil
}

// An entry is a task's way into a turn of its actor.
type entry struct {
	task *task
	// instance: the turn may change the actor's state.
	instance bool
	do       func(*core, *turn) error
	// begun is 1 when the turn has begun and 2 when the task has given up before that. From the first on, the task waits for
	// the end of the turn whatever happens, because the function that runs is the task's own and shares its memory.
	begun atomic.Int32
	err   error // what the function returned
}

// enter runs an entry as a turn of the actor and returns when it is durable.
func (t *task) enter(ctx context.Context, e *entry) error {
	if t.over.Load() {
		return errTaskOver
	}
	a := t.crew.a
	e.task = t
	from := callerOf(ctx)
	if done := ctx.Done(); done == nil || done == t.Done() {
		ctx = t.crew.hard
	}
	w := a.sup.pool.get()
	w.job, w.ctx, w.existing = e, ctx, true
	w.chain, w.traceparent = 1, t.from.traceparent
	if from != nil && !from.beside {
		if err := from.extend(ctx, w); err != nil {
			return err
		}
		w.waits = &a.sup.waits
		if err := w.waits.enter(from.waiter.a, a, w); err != nil {
			return err
		}
	}
	if err := t.crew.refusal(); err != nil {
		w.leave()
		return err
	}
	if err := a.enqueue(w); err != nil {
		w.leave()
		return t.stale()
	}
	select {
	case <-w.done:
	case <-ctx.Done():
		if e.begun.CompareAndSwap(0, 2) {
			w.leave()
			if w.claim() {
				return t.ended(ctx)
			}
		}
		<-w.done
	}
	err := w.err
	if err == nil {
		a.sup.pool.put(w) // else not: if the turn was abandoned, the function that still runs has it
	}
	if e.err != nil {
		err = e.err // as the function made it: it never left the actor
	}
	return err
}

// stale returns why a turn cannot be entered although the task runs.
func (t *task) stale() error {
	if err := t.crew.refusal(); err != nil {
		return err
	}
	return unavailable("the actor was restarted since the task " + strconv.Quote(t.name) + " began")
}

// ended is the error for a turn that was not entered before ctx ended.
func (t *task) ended(ctx context.Context) error {
	if err := t.crew.refusal(); err != nil {
		return err
	}
	return contextError(ctx)
}

// traits implements job.
func (e *entry) traits(*activation) traits {
	return traits{kind: "task", name: e.task.name, code: true, quick: !e.instance}
}

// turnedAway implements early: the turn is for the core that the task was started by.
func (e *entry) turnedAway(c *core, w *work) bool {
	if c != nil && crewOf(c) == e.task.crew {
		return false
	}
	w.fail(e.task.stale())
	return true
}

// run implements job: a turn that a task asks for.
func (e *entry) run(c *core, w *work) {
	if !e.begun.CompareAndSwap(0, 1) {
		return // the task has given up
	}
	if err := e.task.crew.refusal(); err != nil {
		c.respond(w, nil, err)
		return
	}
	var failed error
	_, err := c.turn(w, "task "+e.task.name, e.instance, func(h *turn) ([]byte, error) {
		failed = e.do(c, h)
		return nil, failed
	})
	if failed != nil && err != errAbandoned {
		e.err, err = failed, nil // the task gets it from the entry, once the turns before it are durable
	}
	c.respond(w, nil, err)
}
