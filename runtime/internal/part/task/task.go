// Package task is the part for tasks: goroutines beside the turns of an awake actor.
package task

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
	"github.com/cairn-run/cairn/runtime/internal/audit"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/wire"
	"github.com/cairn-run/cairn/runtime/internal/survey"
	"github.com/cairn-run/cairn/workflow/lazy"
)

// Part is the part for tasks.
type Part struct {
	// append appends items to a stream of the actor.
	append func(t *kernel.Turn, stream string, items [][]byte) (last uint64, err error)
	// Left counts tasks that were left behind and still run.
	Left atomic.Int64

	failed, lost prometheus.Counter
	running      prometheus.Gauge
}

var _ interface {
	survey.Explainer
	kernel.Meter
	survey.Presenter
	kernel.Straggler
} = (*Part)(nil)

// New makes the part of tasks.
func New(appendTo func(t *kernel.Turn, stream string, items [][]byte) (uint64, error)) *Part {
	return &Part{
		append: appendTo,
		failed: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_tasks_failed_total",
			Help: "Tasks that ended with an error or a panic."}),
		lost: prometheus.NewCounter(prometheus.CounterOpts{Name: "cairn_tasks_abandoned_total",
			Help: "Tasks left behind because they did not return when their actor went to sleep."}),
		running: prometheus.NewGauge(prometheus.GaugeOpts{Name: "cairn_tasks_running",
			Help: "Tasks that run beside their actors."}),
	}
}

// Name implements kernel.Part.
func (*Part) Name() string { return "task" }

// Collectors implements kernel.Meter.
func (p *Part) Collectors(*kernel.Kernel) []prometheus.Collector {
	return []prometheus.Collector{p.failed, p.lost, p.running}
}

// LeftBehind implements kernel.Straggler.
func (p *Part) LeftBehind() error {
	if n := p.Left.Load(); n > 0 {
		return fmt.Errorf("task: %d tasks did not return when they were told to, and are left behind", n)
	}
	return nil
}

// Turn is the view of handlers on tasks.
type Turn struct {
	K     *kernel.Turn
	asked int64 // tasks to start
}

// Seal implements kernel.Participant.
func (*Turn) Seal(*kernel.Turn) error { return nil }

// Succeeded implements kernel.Finisher: the tasks count.
func (h *Turn) Succeeded(t *kernel.Turn) { CrewOf(t.Core).started.add(t.Core, h.asked) }

// A Task is one goroutine that runs beside an actor, as host.Task. As a context it ends when the
// actor is about to sleep; for a while after that it may still enter turns, to save what it has.
type Task struct {
	lazy.Context
	Crew    *crew
	Name    string
	Started time.Time
	from    kernel.Caller
	op      *span.Operation // nil if it is not recorded
	over    atomic.Bool     // its function has returned
	behind  atomic.Bool     // it was left behind
	Owner   taskOwner       // nil for a task that a handler has started
}

// A taskOwner is another part's owner of a task that it starts itself. maxTasks does not bound
// these.
type taskOwner interface {
	// Begun is called when the task has become a member of its crew. It does not block.
	//
	// REQUIRES: crew.mu
	Begun()
	// Work is the function of the task.
	Work()
	// Lost is called when the task is about to be left behind. It may return all the same.
	Lost()
}

// Set makes the zero value a task that must begin.
func (t *Task) Set(k *crew, name string, of host.Span, owner taskOwner) {
	t.Crew, t.Name, t.Owner = k, name, owner
	t.op, of = span.New(k.a.Spans, t.kind(), name, of)
	t.from = kernel.Caller{Kind: kernel.FromBeside, Span: span.RefTo(of)}
}

// kind returns the kind of the task, for profiles and traces.
func (t *Task) kind() string {
	if t.Owner != nil {
		return "step"
	}
	return "task"
}

// Actor returns the actor of the task.
func (t *Task) Actor() *kernel.Actor { return t.Crew.a }

// Go implements host.Turn.
func (h *Turn) Go(name string, f func(host.Task) error) error {
	t := h.K
	if err := t.Enter(); err != nil {
		return err
	}
	defer t.Leave()
	switch {
	case !wire.ValidName(name):
		return host.Errorf(host.InvalidArgument,
			"the name of a task is 1 to 64 characters, a letter and then letters, digits, '-' and '_'; it is %q", name)
	case f == nil:
		return host.Errorf(host.InvalidArgument, "task %q has no function", name)
	}
	k := NeedCrew(t.Core)
	if n := k.started.n + h.asked - k.finished.Load(); n >= MaxTasks {
		return fault.Overloaded(MaxTasks, taskRetry, "actor %s has %d tasks, which is the most it may have", t.Actor, n)
	}
	if h.asked == 0 {
		t.Enlist(h)
	}
	h.asked++
	t.Then(func() { k.start(name, t.From.Span.Span(), f) })
	return nil
}

// taskRetry is how long to wait for one of an actor's tasks to end.
const taskRetry = time.Second

// Run runs f, or the work of the task's owner, and counts the task off, regardless of how it ends.
func (t *Task) Run(f func(host.Task) error) {
	var err error
	returned := false
	span.Start(t.Crew.a.Spans, t.op)
	labels := t.Crew.a.Type.Profile
	labels.Enter(t.kind(), t.Name, false)
	defer func() {
		p := recover()
		labels.Leave()
		t.over.Store(true)
		t.report(returned, p, err)
		if !returned && err == nil {
			err = errTaskBroke
		}
		span.End(t.Crew.a.Spans, t.op, err)
		t.Cancel(errTaskOver)
		if !t.Crew.remove(t) && t.behind.Load() {
			t.Crew.part.Left.Add(-1)
		}
	}()
	if t.Owner != nil {
		t.Owner.Work()
	} else {
		err = f(t)
	}
	returned = true
}

// errTaskBroke is the recorded error of a task that panicked or ended its goroutine.
var errTaskBroke = host.Errorf(host.Crashed, "the task panicked or ended its goroutine")

var errTaskOver = host.Errorf(host.FailedPrecondition,
	"the task is over: it must not be used after its function returned")

// report logs how a task ended, if it did not end well.
func (t *Task) report(returned bool, p any, err error) {
	if returned && p == nil && err == nil {
		return
	}
	sup := t.Crew.a.Kernel
	attrs := t.Crew.a.Attrs(slog.String("task", t.Name))
	switch {
	case p != nil:
		attrs = append(attrs, slog.String("error_id", fault.NewID()), slog.Any("panic", p),
			slog.String("stack", string(debug.Stack())))
		sup.Logger.LogAttrs(context.Background(), slog.LevelError, "task panicked", attrs...)
	case !returned:
		attrs = append(attrs, slog.String("error_id", fault.NewID()))
		sup.Logger.LogAttrs(context.Background(), slog.LevelError, "task ended its goroutine", attrs...)
	case t.Err() != nil && (errors.Is(err, t.Err()) || errors.Is(err, context.Cause(t))):
		return // it did as it was told
	default:
		sup.Logger.LogAttrs(context.Background(), slog.LevelWarn, "task failed",
			append(attrs, slog.Any("error", err))...)
	}
	t.Crew.part.failed.Inc()
}

// Value implements context.Context: calls with a task as context are the task's.
func (t *Task) Value(key any) any {
	switch key {
	case kernel.TurnKey{}:
		return &t.from
	case audit.BesideKey{}:
		return t.Crew.a
	}
	if v := span.Value(t.Crew.a.Spans, t.from.Span.Span(), t.op, key); v != nil {
		return v
	}
	return t.Context.Value(key)
}

// Self implements host.Task.
func (t *Task) Self() host.Identity { return t.Crew.ident }

// Logger implements host.Task.
func (t *Task) Logger() *slog.Logger {
	attrs := t.Crew.a.Attrs(slog.String("actor_id", t.Crew.ident.ID), slog.String("task", t.Name))
	return slog.New(t.Crew.a.Kernel.Logger.Handler().WithAttrs(append(attrs, t.from.Span.Span().Attrs()...)))
}

// Turn implements host.Task.
func (t *Task) Turn(ctx context.Context, f func(state any, h host.Turn) error) error {
	if f == nil {
		return host.Errorf(host.InvalidArgument, "the turn of task %q has no function", t.Name)
	}
	return t.enter(ctx, &entry{instance: true,
		do: func(c *kernel.Core, h *kernel.Turn) error { return f(c.Instance.State(), h.Host) }})
}

// Append implements host.Task.
func (t *Task) Append(ctx context.Context, stream string, items [][]byte) (last uint64, err error) {
	err = t.enter(ctx, &entry{do: func(c *kernel.Core, h *kernel.Turn) error {
		n, err := t.Crew.part.append(h, stream, items)
		last = n
		return err
	}})
	if err != nil {
		return 0, err
	}
	return last, nil
}

// Call implements host.Node.
func (t *Task) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	ctx, from, err := t.caller(ctx)
	if err != nil {
		return host.Reply{}, err
	}
	return t.Crew.a.Kernel.CallFrom(ctx, r, from)
}

// Lookup implements host.Node.
func (t *Task) Lookup(ctx context.Context, a host.Address) (host.Status, error) {
	return survey.Lookup(t.Crew.a.Kernel, ctx, a)
}

// List implements host.Node.
func (t *Task) List(ctx context.Context, q host.ListQuery) (host.ListPage, error) {
	return survey.List(t.Crew.a.Kernel, ctx, q)
}

// Destroy implements host.Node.
func (t *Task) Destroy(ctx context.Context, a host.Address) error {
	ctx, from, err := t.caller(ctx)
	if err != nil {
		return err
	}
	return t.Crew.a.Kernel.DestroyFrom(ctx, a, from)
}

// caller returns the caller for ctx: the turn or query that ctx belongs to, or the task. A context
// that never ends ends with the task.
func (t *Task) caller(ctx context.Context) (context.Context, *kernel.Caller, error) {
	if t.over.Load() {
		return ctx, nil, errTaskOver
	}
	from := kernel.CallerOf(ctx)
	if from == nil {
		from = &t.from
	}
	switch {
	case ctx.Done() == nil:
		ctx = t
	case from == &t.from && ctx.Value(audit.BesideKey{}) == nil:
		ctx = context.WithValue(ctx, audit.BesideKey{}, t.Crew.a)
	}
	return ctx, from, nil
}

// An entry is a task's way into a turn of its actor.
type entry struct {
	task *Task
	// instance: the turn may change the actor's state.
	instance bool
	do       func(*kernel.Core, *kernel.Turn) error
	// begun is 1 when the turn has begun and 2 when the task has given up before that. Once the
	// turn has begun, the task always waits for its end, because the running function is the task's
	// own and shares its memory.
	begun atomic.Int32
	err   error // what the function returned
}

// enter runs an entry as a turn of the actor and returns when it is durable.
func (t *Task) enter(ctx context.Context, e *entry) error {
	if t.over.Load() {
		return errTaskOver
	}
	a := t.Crew.a
	e.task = t
	from := kernel.CallerOf(ctx)
	if done := ctx.Done(); done == nil || done == t.Done() {
		ctx = t.Crew.hard
	}
	w := a.Kernel.Pool.Get()
	w.Job, w.Ctx, w.Existing = e, ctx, true
	w.Chain, w.Span = 1, t.from.Span.Span()
	if from != nil && from.Kind != kernel.FromBeside {
		if err := from.Extend(ctx, w); err != nil {
			return err
		}
		if err := w.Wait(from.Waiter.Actor, a); err != nil {
			return err
		}
	}
	if err := t.Crew.refusal(); err != nil {
		w.Leave()
		return err
	}
	if err := a.Enqueue(w); err != nil {
		w.Leave()
		return t.stale()
	}
	select {
	case <-w.Done:
	case <-ctx.Done():
		if e.begun.CompareAndSwap(0, 2) {
			w.Leave()
			if w.Claim() {
				return t.ended(ctx)
			}
		}
		<-w.Done
	}
	err := w.Err
	if err == nil {
		a.Kernel.Pool.Put(w) // else not: if the turn was abandoned, the function that still runs has it
	}
	if e.err != nil {
		err = e.err // as the function made it: it never left the actor
	}
	return err
}

// stale returns why a turn cannot be entered although the task runs.
func (t *Task) stale() error {
	if err := t.Crew.refusal(); err != nil {
		return err
	}
	return fault.Unavailable("the actor was restarted since the task " + strconv.Quote(t.Name) + " began")
}

// ended is the error for a turn that was not entered before ctx ended.
func (t *Task) ended(ctx context.Context) error {
	if err := t.Crew.refusal(); err != nil {
		return err
	}
	return fault.Ended(ctx)
}

// Traits implements kernel.Job.
func (e *entry) Traits(*kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "task", Name: e.task.Name, Code: true, Quick: !e.instance}
}

// TurnedAway implements kernel.early: the turn is for the core that the task was started by.
func (e *entry) TurnedAway(c *kernel.Core, w *kernel.Work) bool {
	if c != nil && CrewOf(c) == e.task.Crew {
		return false
	}
	w.Fail(e.task.stale())
	return true
}

// Run implements kernel.Job: it runs a turn for a task.
func (e *entry) Run(c *kernel.Core, w *kernel.Work) {
	if !e.begun.CompareAndSwap(0, 1) {
		return // the task has given up
	}
	if err := e.task.Crew.refusal(); err != nil {
		c.Respond(w, nil, err)
		return
	}
	var failed error
	_, err := c.RunTurn(w, "task "+e.task.Name, e.instance, func(h *kernel.Turn) ([]byte, error) {
		failed = e.do(c, h)
		return nil, failed
	})
	if failed != nil && err != kernel.ErrAbandoned {
		e.err, err = failed, nil // the task gets it from the entry, once the turns before it are durable
	}
	c.Respond(w, nil, err)
}
