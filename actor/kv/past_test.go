package kv_test

import (
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/kv"
)

// R11: an entry that is brought back, by undoing commits or from a branch, expires when it would have.
func TestR11WhatIsBroughtBackKeepsItsExpiry(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx := t.Context()
		key := kv.Key{"session"}
		must[kv.Scope](t)(store.SetScope(ctx, kv.Key{}, kv.Policy{KeepVersions: 4}))
		put := must[kv.Result](t)(store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(key, document(1)).For(time.Hour)}}))
		want, _, err := store.Get(ctx, key)
		if err != nil || want.Expires.IsZero() {
			t.Fatal(want, err)
		}
		must[kv.Branch](t)(store.Tag(ctx, "kept"))
		for _, from := range []kv.Point{{Version: put.Version}, {Branch: "kept"}} {
			time.Sleep(time.Minute) // in virtual time
			gone := must[kv.Result](t)(store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Delete(key)}}))
			must[kv.Merged](t)(store.Merge(ctx, kv.MergeConfig{Source: from, Base: &kv.Point{Version: gone.Version}}))
			got, found, err := store.Get(ctx, key)
			if err != nil || !found || !got.Expires.Equal(want.Expires) {
				t.Errorf("from %+v: %v, expires %v, not %v: %v", from, found, got.Expires, want.Expires, err)
			}
		}
		time.Sleep(time.Until(want.Expires))
		if _, found, err := store.Get(ctx, key); found || err != nil {
			t.Error(found, err)
		}
	})
}
