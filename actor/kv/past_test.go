package kv_test

import (
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// R11: an entry that is restored, by undoing commits or from a branch, keeps its expiry.
func TestR11WhatIsBroughtBackKeepsItsExpiry(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx := t.Context()
		key := kv.Key{"session"}
		must[kv.Scope](t)(store.SetScope(ctx, kv.Key{}, kv.Policy{KeepVersions: 4}))
		put := must[kv.Result](t)(store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(key, document(1)).For(time.Hour)}}))
		want, _, err := store.Get(ctx, key)
		fatalIf(t, err != nil || want.Expires.IsZero(), "%v %v", want, err)
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

// The last of For and Until counts, and a time without an encoding is past or too far ahead.
func TestUntilAndForReplaceEachOther(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		now := time.Now()
		put := func() kv.Mutation { return kv.Put(kv.Key{"k"}, kv.Text("new")) }
		for name, c := range map[string]struct {
			m     kv.Mutation
			lives time.Duration // 0 is for ever, -1 not at all, -2 an error
		}{
			"until, for":         {put().Until(now.Add(time.Hour)).For(time.Minute), time.Minute},
			"for, until":         {put().For(time.Minute).Until(now.Add(time.Hour)), time.Hour},
			"until, for ever":    {put().Until(now.Add(time.Hour)).For(0), 0},
			"until the zero":     {put().For(time.Hour).Until(time.Time{}), 0},
			"until the past":     {put().Until(now.Add(-time.Hour)), -1},
			"until long ago":     {put().Until(time.Date(-5, 1, 1, 0, 0, 0, 0, time.UTC)), -1},
			"until 10,000 years": {put().Until(now.AddDate(10_000, 0, 0)), -2},
		} {
			must[kv.Result](t)(store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"k"}, kv.Text("old"))}}))
			_, refused := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{c.m}})
			e, found, err := store.Get(t.Context(), kv.Key{"k"})
			got := e.Expires.Sub(now)
			switch {
			case refused != nil:
				if got = -2; host.CodeOf(refused) != host.InvalidArgument || !strings.Contains(refused.Error(), "100 years") {
					t.Errorf("%s: %v", name, refused)
				}
			case !found:
				got = -1
			case e.Expires.IsZero():
				got = 0
			}
			errorIf(t, got != c.lives || err != nil, "%s: lives %s, not %s: %v", name, got, c.lives, err)
		}
	})
}
