package kv

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// purge removes some of the keys that have expired. It returns how many were entries, and whether more may have expired.
//
// REQUIRES: h.K.Mu
func (h *Turn) purge() (entries int, more bool, err error) {
	most := 250
	if h.K.Actor.Kernel.Options.Changes != nil {
		most = MaxKVChanges // each is published
	}
	store := storeOf(h.K.Core)
	if more, err = store.Purge(most); err != nil {
		store.TakePurged()
		return 0, false, err
	}
	entries = h.expired(store)
	h.logged(store)
	return entries, more, nil
}

// purgeNow implements kv.purge.
func purgeNow(_ *kernel.Core, t *kernel.Turn, _ host.Codec, _ *method.None) (out kv.PurgeOutput, err error) {
	n, more, err := TurnOf(t).purge()
	return kv.PurgeOutput{Purged: int64(n), More: more}, refused(err)
}
