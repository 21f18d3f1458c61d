package actor

import (
	"crypto/sha256"
	"encoding/hex"
	"fmt"

	"github.com/cairn-run/cairn/workflow"
)

// This file is for workflows that use other actors.

// SpawnRun starts a run of another actor's workflow as a child of the calling run: see
// workflow.Spawn. The key names the actor, which is created if it does not exist. An actor has one
// run at a time, so each child needs an actor without a run. Otherwise Result of the child returns
// the refusal. The child's workflow must not have a codec of its own.
func SpawnRun[S, In, Out any](ctx workflow.Context, name string, w *Workflow[S, In, Out],
	key []string, in In, opts ...workflow.SpawnOption) (*workflow.Child[Out], error) {
	core := w.decl.core
	// The definition that runs is the other actor type's; this one has its name and codec.
	d := workflow.NewFunction(w.decl.name, func(workflow.Context, In) (out Out, err error) {
		return out, Errorf(Internal, "%s runs in an actor", w.decl)
	}, workflow.WithCodec(runCodec{core.codec}))
	at := workflow.OnActor(workflow.Destination{Type: core.name, Key: key})
	return workflow.Spawn(ctx, name, d, in, append([]workflow.SpawnOption{at}, opts...)...)
}

// maxIdempotencyKey bounds the idempotency key of a call, in bytes.
const maxIdempotencyKey = 255

// CallFrom is Call in the body of a step, on the actor with that key. It uses the idempotency key
// of the step, so the action runs once even if the body runs again, while replies are remembered. A
// body may call each action of an actor once.
//
// A refusal of the actor, such as FailedPrecondition, is permanent: the step is not tried again,
// and nothing must be undone (workflow.Permanent). A body with an effect before the call must also
// wrap workflow.ErrOutcomeUnknown.
func (a *Action[S, In, Out]) CallFrom(sc *workflow.StepCtx, key []string, in In,
	opts ...CallOption) (out Out, err error) {
	err = a.actFrom(sc, key, &in, &out, opts)
	return out, err
}

func (m *method) actFrom(sc *workflow.StepCtx, key []string, in, out any, opts []CallOption) error {
	once := sc.IdempotencyKey() + "/" + m.decl.name
	if len(once) > maxIdempotencyKey {
		sum := sha256.Sum256([]byte(once))
		once = hex.EncodeToString(sum[:])
	}
	opts = append([]CallOption{IdempotencyKey(once)}, opts...)
	err := m.act(sc, &ref{m.decl.core, StepTask(sc), key}, in, out, opts)
	if err != nil && !worthAgain(err) {
		if CodeOf(err) == IdempotencyMismatch { // an earlier call under the key was done
			err = fmt.Errorf("%w (%w)", err, workflow.ErrOutcomeUnknown)
		}
		err = workflow.Permanent(err)
	}
	return err
}

// CallStep is a step that calls an action of another actor, as [Action.CallFrom] does.
func CallStep[S, In, Out any](ctx workflow.Context, name string, a *Action[S, In, Out],
	key []string, in In, opts ...workflow.StepOption) (Out, error) {
	return workflow.Step(ctx, name, func(sc *workflow.StepCtx) (Out, error) { return a.CallFrom(sc, key, in) }, opts...)
}
