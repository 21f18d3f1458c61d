package actor

import (
	"context"
	"log/slog"

	"github.com/cairn-run/cairn/actor/host"
)

// A Task is work beside the actor's turns, started by one with [Context.Go]: calls to slow
// services, imports, anything that would keep the actor from its other work.
//
//  1. It keeps the actor awake. It is not durable itself: after a crash it does not run again. Work
//     that must be done belongs in a [Queue], a [Schedule] or an [Alarm].
//  2. As a context.Context it ends when the actor goes to sleep for another reason, fails or is
//     destroyed, or the node shuts down; context.Cause says why. The function must then return
//     soon; for a moment it may still enter turns, to save its results.
//  3. It reads and writes the actor only in turns of its own ([Enter]) and by appending to streams
//     ([Stream.Append]). Each is durable when it returns.
//  4. Its methods may be called from any goroutine until the task's function returns.
type Task struct {
	context.Context
	Node
	task host.Task
	core *core
}

func newTask(t host.Task, c *core) *Task { return &Task{Context: t, Node: t, task: t, core: c} }

var (
	_ context.Context = (*Task)(nil)
	_ Node            = (*Task)(nil)
)

// Go starts f as a task when the turn is durable, and not if the turn fails. The name, of the form
// that [NewType] describes, appears in logs and in the actor's status. The error of f is logged.
//
// If Go fails, so does the turn, whether or not the handler looks at the error.
func (c *Context) Go(name string, f func(*Task) error) error {
	if f == nil {
		return c.fail(Errorf(InvalidArgument, "task %.80q has no function", name))
	}
	core := c.core
	return c.fail(c.turn.Go(name, func(t host.Task) error { return f(newTask(t, core)) }))
}

// Enter runs f as a turn of the task's actor, on its state, and returns when its effects are
// durable. The rules of an action's turn hold: if f returns an error, nothing is kept and Enter
// returns the error. It must not be called from within f.
//
// The error is f's own, or an [*Error] that says why the turn could not run.
func Enter[S any](t *Task, f func(*S, *Context) error) error {
	if f == nil {
		return Errorf(InvalidArgument, "Enter needs a function")
	}
	return t.task.Turn(t, func(state any, turn host.Turn) error {
		s, ok := state.(*S)
		if !ok {
			return Errorf(Internal, "Enter was given a function for the state of another type than %q", t.core.name)
		}
		ctx := newContext(turn, t.core)
		return ctx.end(f(s, ctx))
	})
}

// Type returns the name of the actor's type.
func (t *Task) Type() string { return t.task.Self().Type }

// Key returns the parts of the actor's key, which must not be changed.
func (t *Task) Key() []string { return t.task.Self().Key }

// ID returns the UUID that the actor has from creation to destruction.
func (t *Task) ID() string { return t.task.Self().ID }

// Log returns a logger with the actor's type and key and the task's name as attributes.
func (t *Task) Log() *slog.Logger { return t.task.Logger() }

func (t *Task) own(d *declared) error { return own(t.core, d) }

func (t *Task) appendItems(stream string, items [][]byte) (uint64, error) {
	return t.task.Append(t, stream, items)
}

// fail returns err: a task's turns fail one by one.
func (t *Task) fail(err error) error { return err }
