package actor

import (
	"context"
	"log/slog"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// This file is the access of workflow functions to their actor.

// inRun returns the state of a run's actor and its Context, for a function of the run.
func inRun[S any](of any) (*S, *Context, error) {
	t, ok := of.(host.RunTurn)
	if !ok {
		return nil, nil, Errorf(Internal, "the workflow does not run in an actor")
	}
	if a, ok := t.Instance().(*awake); ok {
		if s, ok := a.State().(*S); ok {
			return s, newContext(t, a.program.core), nil
		}
	}
	return nil, nil, Errorf(Internal,
		"the workflow runs in an actor of type %q, whose state is another type", t.Self().Type)
}

// UpdateState runs f as a turn of the actor, with everything that an action's turn has: the state,
// SQL, the key-value store, queues, alarms, events, messages. The changes, the result and the entry
// of the history are one commit, so it happens exactly once. If f fails or panics, nothing that it
// did is kept, and the history has the error instead.
func UpdateState[S, T any](ctx workflow.Context, name string, f func(*S, *Context) (T, error)) (T, error) {
	return workflow.Update(ctx, name, func(tx *workflow.Tx) (T, error) {
		var none T
		s, c, err := inRun[S](tx.Host())
		if err != nil {
			return none, err
		}
		v, err := f(s, c)
		if err = c.end(err); err != nil {
			return none, err
		}
		return v, nil
	})
}

// AwaitState waits until probe returns true for the actor's state, and returns probe's other
// result. The probe runs after turns that changed the state. It gets a copy, as queries do. It must
// not change anything that the copy points to, and must depend on nothing else.
func AwaitState[S, T any](ctx workflow.Context, name string, probe func(S) (T, bool),
	opts ...workflow.WaitOption) (T, error) {
	return workflow.Await(ctx, name, func(t host.RunTurn) (T, bool) {
		if a, ok := t.View().(*awake); ok {
			if s, ok := a.State().(*S); ok {
				return probe(*s)
			}
		}
		return *new(T), false
	}, opts...)
}

// OnCommit runs f in the turn that records the result of a step, so both are one commit. f runs
// only if the step succeeds; if f fails, that attempt of the step fails.
func OnCommit[S any](sc *workflow.StepCtx, f func(*S, *Context) error) {
	sc.OnCommit(func(tx *workflow.Tx) error {
		s, c, err := inRun[S](tx.Host())
		if err != nil {
			return err
		}
		return c.end(f(s, c))
	})
}

// StepTask returns the actor's Task for the body of a step. It calls other actors, appends to
// streams and runs turns ([Enter]), all of which end with the attempt. Their effects are durable
// when they return, even if the step then fails, and happen again if the body runs again.
func StepTask(sc *workflow.StepCtx) *Task {
	t, ok := sc.Host().(host.RunTask)
	if !ok {
		return newTask(stepTask{noTask{}, sc}, newCore(""))
	}
	a, ok := t.Instance().(*awake)
	if !ok {
		return newTask(stepTask{t, sc}, newCore(t.Self().Type))
	}
	return newTask(stepTask{t, sc}, a.program.core)
}

// A stepTask is a task with the context of an attempt.
type stepTask struct {
	host.Task
	sc *workflow.StepCtx
}

func (t stepTask) Deadline() (time.Time, bool) { return t.sc.Deadline() }
func (t stepTask) Done() <-chan struct{}       { return t.sc.Done() }
func (t stepTask) Err() error                  { return t.sc.Err() }
func (t stepTask) Value(key any) any           { return t.sc.Value(key) }

// Turn implements host.Task. A turn does not begin after the attempt's end.
func (t stepTask) Turn(ctx context.Context, f func(state any, h host.Turn) error) error {
	return t.Task.Turn(ctx, func(state any, h host.Turn) error {
		if err := t.sc.Err(); err != nil {
			return Errorf(CodeOf(err), "the attempt of the step is over: %s", err)
		}
		return f(state, h)
	})
}

// Call implements host.Node. A call whose context never ends is ended with the attempt.
func (t stepTask) Call(ctx context.Context, r *host.Request) (host.Reply, error) {
	if ctx.Done() == nil {
		ctx = t.sc
	}
	return t.Task.Call(ctx, r)
}

// noTask is the task of a workflow that does not run in an actor.
type noTask struct{ host.Task }

func (noTask) Self() host.Identity  { return host.Identity{} }
func (noTask) Logger() *slog.Logger { return slog.Default() }

func (noTask) Turn(context.Context, func(any, host.Turn) error) error { return errNoActor() }

func (noTask) Append(context.Context, string, [][]byte) (uint64, error) { return 0, errNoActor() }

func (noTask) Call(context.Context, *host.Request) (host.Reply, error) {
	return host.Reply{}, errNoActor()
}

func (noTask) Lookup(context.Context, host.Address) (Status, error) { return Status{}, errNoActor() }

func (noTask) List(context.Context, host.ListQuery) (host.ListPage, error) {
	return host.ListPage{}, errNoActor()
}

func (noTask) Destroy(context.Context, host.Address) error { return errNoActor() }

func errNoActor() error { return Errorf(FailedPrecondition, "the workflow does not run in an actor") }
