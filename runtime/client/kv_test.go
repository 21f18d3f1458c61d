package client_test

import (
	"bytes"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

var drawers = actor.NewType[struct{}]("drawer")

// drawer returns the key-value store of an actor behind a gateway, and what carries the requests.
func drawer(t *testing.T) (kv.Store, *wire) {
	t.Helper()
	behavior := actor.Define(drawers, actor.Spec[struct{}]{OpenKV: true}).Behavior()
	c, w := connect(t, nodetest.Open(t, behavior), client.Options{Backoff: time.Microsecond}, behavior)
	return drawers.Ref(c, "a/b").KV(), w
}

// What actor/kv promises holds over a client.
func TestAKeyValueStoreIsUsedOverAClient(t *testing.T) {
	store, _ := drawer(t)
	ctx := t.Context()
	_, found, err := store.Get(ctx, kv.Key{"a"})
	errorIf(t, found || err != nil, "%v, %v", found, err)
	encoded := func(e host.Encoding, data ...byte) kv.Value { return kv.Value{Encoding: e, Data: data} }
	values := []kv.Value{
		kv.JSON([]byte(`{"n":12345678901234567890.10,"t":"<é>"}`)), kv.JSON([]byte("null")), kv.Text(""), kv.Bytes(nil), kv.Bytes([]byte{0, 0xFF}),
		encoded(host.EncodedU64, bytes.Repeat([]byte{0xFF}, 8)...), encoded(host.EncodedInteger, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0),
		encoded(host.EncodedV8, 0xFF, 0x0F, 'R', 1), encoded(host.EncodedCBOR, 0x80), encoded(host.EncodedTyped, 0x80),
	}
	var keys []kv.Key
	var puts []kv.Mutation
	for i, v := range values {
		keys = append(keys, kv.Key{"values", i, []byte{0xFF}, 1.5, true})
		puts = append(puts, kv.Put(keys[i], v).For(time.Hour))
	}
	commit := func(c kv.Commit) kv.Result {
		t.Helper()
		r, err := store.Commit(ctx, c)
		must(t, err)
		return r
	}
	r := commit(kv.Commit{Checks: []kv.Check{kv.Absent(keys[0])}, Mutations: puts})
	errorIf(t, r.Failed != nil || r.Version == 0, "%+v", r)
	many, err := store.GetMany(ctx, keys...)
	must(t, err)
	for i, e := range many {
		errorIf(t, e == nil || e.Value.Encoding != values[i].Encoding || !bytes.Equal(e.Value.Data, values[i].Data) || e.Expires.IsZero() ||
			e.Version != r.Version, "%+v, want %+v", e, values[i])
	}
	n := 0
	for e, err := range store.All(ctx, kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"values"}}, Limit: 3}) {
		must(t, err)
		errorIf(t, !bytes.Equal(e.Value.Data, values[n].Data), "%+v", e)
		n++
	}
	count, err := store.Count(ctx, kv.Selection{})
	errorIf(t, err != nil || count != int64(n) || n != len(values) || n != len(many), "%d, %d, %v", count, n, err)
	r = commit(kv.Commit{Checks: []kv.Check{kv.Exists(keys[0]), kv.Absent(keys[1])}})
	errorIf(t, len(r.Failed) != 1 || r.Failed[0] != 1, "%+v", r)
	_, err = store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Delete(keys[0]), kv.Sum(keys[2], kv.JSON([]byte("1")))}})
	e, is := errors.AsType[*host.Error](err)
	errorIf(t, !is || e.Code != host.FailedPrecondition || !strings.HasPrefix(e.Metadata["field"], "mutations[1]"), "%v", err)
	r = commit(kv.Commit{Mutations: []kv.Mutation{kv.DeleteRange(kv.Selection{Prefix: kv.Key{"values"}})}})
	errorIf(t, r.Deleted != int64(n), "%+v", r)

	puts = nil // a commit that is larger than the gateway's usual limit
	for i := range 7 {
		puts = append(puts, kv.Put(kv.Key{i}, kv.Bytes(make([]byte, 1<<20))))
	}
	commit(kv.Commit{Mutations: puts})
	all, err := store.GetMany(ctx, kv.Key{0}, kv.Key{6})
	errorIf(t, err != nil || len(all[1].Value.Data) != 1<<20, "%v", err)
}

// A commit whose answer is lost is repeated, and done once; reads are simply repeated.
func TestALostCommitIsDoneOnce(t *testing.T) {
	store, w := drawer(t)
	w.after = func(attempt int) error {
		if attempt%2 == 1 {
			return errors.New("connection reset")
		}
		return nil
	}
	visits := kv.Key{"visits"}
	r, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Sum(visits, kv.JSON([]byte("1")))}})
	errorIf(t, err != nil || string(r.Results[0].Value.Data) != "1", "%+v, %v", r, err)
	e, found, err := store.Get(t.Context(), visits)
	errorIf(t, err != nil || !found || string(e.Value.Data) != "1", "%+v, %v, %v", e, found, err)
	errorIf(t, w.attempts != 4 || w.headers[0].Get("Idempotency-Key") == "" || w.headers[2].Get("Idempotency-Key") != "",
		"%d attempts: %v", w.attempts, w.headers)
}
