package workflow

import "github.com/cairn-run/cairn/workflow/internal/replay"

// A Child is a workflow that another one has spawned.
//
//	// Result waits until the child has ended, and returns its output. If it did not complete,
//	// the error is a *ChildError. If ctx is canceled first, the error matches ErrCanceled.
//	func (c *Child[Out]) Result(ctx Context) (Out, error)
//	// Cancel requests that the child cancels itself. It does not wait for the end; Result does.
//	func (c *Child[Out]) Cancel(ctx Context, reason string) error
type Child[Out any] = replay.Child[Out]

// Spawn starts a child: a run of another workflow, concurrent to the one that spawns it. A child
// fails, and undoes its steps, on its own. Its result is recorded when it ends; a canceled child
// does not complete. The child does not outlive the scope that spawned it, unless it runs in
// another actor with OnParentClose(CloseAbandon).
//
// A child in another actor is started exactly once, when the transaction that records the Spawn is
// durable. If that actor has a run already, it refuses the child, and Result returns the error.
func Spawn[In, Out any](ctx Context, name string, d *Function[In, Out], in In,
	opts ...SpawnOption) (*Child[Out], error) {
	return replay.Spawn[In, Out](ctx, name, d, in, opts...)
}

// A SpawnOption changes how Spawn starts a child.
type SpawnOption = replay.SpawnOption

// OnActor runs the child in another actor. Without it, the child runs within the run that spawns
// it.
func OnActor(to Destination) SpawnOption {
	return replay.OnActor(to)
}

// OnParentClose sets how the child is ended if the scope that spawned it ends first.
func OnParentClose(p ParentClose) SpawnOption {
	return replay.OnParentClose(p)
}

// A ParentClose says how a child is ended if it still runs at the end of the scope that spawned
// it.
type ParentClose = replay.ParentClose

const (
	// CloseAbandon leaves the child running, and its result is not read. A child within the run
	// cannot be abandoned.
	CloseAbandon = replay.CloseAbandon
	// CloseCancel cancels the child. It is the default. The scope waits for the end of a child
	// within
	// the run. It does not wait for children in other actors.
	CloseCancel = replay.CloseCancel
	// CloseTerminate ends the child at once. A child within the run is canceled, and results of its
	// steps are dropped, except of steps that may have to be undone.
	CloseTerminate = replay.CloseTerminate
)
