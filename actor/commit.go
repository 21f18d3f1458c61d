package actor

import (
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/kv"
)

// Commit checks and changes entries together, as [kv.Store.Commit] does for callers: sums, arrays
// and times to live without a read before. It sees the turn's own writes and is part of its commit.
// After an error, or if a check failed, nothing of it is done, and the handler may go on.
func (k KV) Commit(c kv.Commit) (kv.Result, error) {
	t, ok := k.turn.(hostkv.Committer)
	if !ok {
		return kv.Result{}, Errorf(FailedPrecondition, "this turn cannot commit to the key-value store")
	}
	return kv.Run(c, t.KVCommit)
}

// Update calls f, and if it returns an error undoes what it did in the key-value store, through tx
// or otherwise. Then Update returns the error, and the handler may go on. It may be nested.
//
// Only the store is undone. If f fails after it did something else in the turn, such as to put a
// message into a queue or to emit an event, then the turn fails, whether or not the handler looks
// at the error. A call of another actor stands, as ever. A panic of f counts as an error, and goes
// on.
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
