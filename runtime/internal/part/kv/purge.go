package kv

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/actor/host/method"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// A turn that purges ends after so many keys, or about so long: calls wait for it.
const (
	purgeKeys = 256
	purgeStep = 64 // keys between two looks at the clock
	purgeTime = time.Millisecond
)

// purge removes some of the keys that have expired. It returns how many were entries, and whether
// more may have expired, for which another purge is armed.
//
// REQUIRES: h.K.Mu
func (h *Turn) purge() (entries int, more bool, err error) {
	store, began := storeOf(h.K.Core), time.Now()
	more = true
	for n := 0; more && n < purgeKeys && time.Since(began) < purgeTime; n += purgeStep {
		if more, err = store.Purge(purgeStep); err != nil {
			store.TakePurged()
			return 0, false, err
		}
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
