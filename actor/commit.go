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
