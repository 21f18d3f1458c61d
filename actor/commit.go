package actor

import (
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// Commit checks and changes entries together, as [kv.Store.Commit] does for callers. It supports
// sums, arrays and times to live without a prior read. It sees the turn's own writes and is part of
// its commit. After an error or a failed check nothing of it is done, and the handler may go on.
func (k KV) Commit(c kv.Commit) (kv.Result, error) {
	t, ok := k.turn.(hostkv.Committer)
	if !ok {
		return kv.Result{}, Errorf(FailedPrecondition, "this turn cannot commit to the key-value store")
	}
	return kv.Run(c, t.KVCommit)
}

// Update calls f. If f returns an error, Update undoes f's writes to the key-value store, through
// tx or otherwise, and returns the error. The handler may go on. Updates may be nested.
//
// Only the store is undone. If f fails after another effect in the turn, such as a message put into
// a queue or an emitted event, the turn fails, whether or not the handler looks at the error. A
// call of another actor is not undone. A panic of f counts as an error and continues.
func (k KV) Update(f func(tx KV) error) (err error) {
	t, ok := k.turn.(hostkv.Committer)
	if !ok {
		return Errorf(FailedPrecondition, "this turn cannot commit to the key-value store")
	}
	end, err := t.KVUpdate()
	if err != nil {
		return err
	}
	err = errUpdatePanicked
	defer func() {
		var undone bool
		if undone, err = end(err); !undone {
			_ = k.ctx.fail(err)
		}
	}()
	return f(k)
}

// errUpdatePanicked is the error of an update that did not return.
var errUpdatePanicked = Errorf(Internal, "an update of the key-value store panicked")
