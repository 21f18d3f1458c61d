package kv_test

import (
	"errors"
	"reflect"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
)

// Extending a policy keeps the fields that others have set, and writes nothing if it changes
// nothing.
func TestAPolicyIsExtendedInOneCommit(t *testing.T) {
	inStore(t, func(t *testing.T, store kv.Store) {
		ctx, key := t.Context(), kv.Key{"k"}
		was := kv.Policy{MaxKeys: 7, DefaultTTL: time.Hour, LogEvents: 5, Log: true, Info: []byte(`{"by":"owner"}`)}
		must[kv.Scope](t)(store.ExtendScope(ctx, key, was)) // there is none
		got := must[kv.Scope](t)(store.ExtendScope(ctx, key, kv.Policy{MaxKeys: 9, KeepVersions: 3, CountGroups: true}))
		want := was
		want.MaxKeys, want.KeepVersions, want.CountGroups = 9, 3, true
		errorIf(t, !reflect.DeepEqual(got.Policy, want), "%+v, not %+v", got.Policy, want)
		time.Sleep(time.Second)
		same := must[kv.Scope](t)(store.ExtendScope(ctx, key, kv.Policy{Log: true}))
		errorIf(t, !same.Updated.Equal(got.Updated) || !reflect.DeepEqual(same.Policy, want), "%+v was written again: %+v", got, same)
		_, err := store.ExtendScope(ctx, kv.Key{"none"}, kv.Policy{LogEvents: 1})
		e, is := errors.AsType[*actor.Error](err)
		errorIf(t, !is || e.Code != actor.InvalidArgument || e.Metadata["field"] != "log_events", "a bound of no log: %v", err)
		if got := must[kv.Scope](t)(store.SetScope(ctx, key, kv.Policy{})); !reflect.DeepEqual(got.Policy, kv.Policy{}) {
			t.Errorf("replaced by nothing: %+v", got.Policy)
		}
	})
}
