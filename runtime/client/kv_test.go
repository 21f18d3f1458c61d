package client_test

import (
	"bytes"
	"errors"
	"net/http"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime/client"
	"github.com/cairn-run/cairn/runtime/internal/gateway"
	"github.com/cairn-run/cairn/runtime/internal/gateway/serve"
	"github.com/cairn-run/cairn/runtime/internal/node/nodetest"
)

var drawers = actor.NewType[struct{}]("drawer")

// drawer returns the key-value store of an actor behind a gateway, and what carries the requests.
func drawer(t *testing.T) (kv.Store, *wire) {
	t.Helper()
	behavior := actor.Define(drawers, actor.Spec[struct{}]{OpenKV: true}).Behavior()
	f, err := serve.New(serve.Options{Behaviors: []*host.Behavior{behavior}})
	must(t, err)
	t.Cleanup(func() { f.Close() })
	w := &wire{t: t, handler: gateway.New(f, gateway.Options{Node: nodetest.Open(t, behavior)})}
	c, err := client.New("http://node", client.Options{HTTPClient: &http.Client{Transport: w}, Backoff: time.Microsecond})
	must(t, err)
	t.Cleanup(c.Close)
	return drawers.Ref(c, "a/b").KV(), w
}

// What actor/kv promises holds over a client.
func TestAKeyValueStoreIsUsedOverAClient(t *testing.T) {
	store, _ := drawer(t)
	ctx := t.Context()
	if _, found, err := store.Get(ctx, kv.Key{"a"}); found || err != nil {
		t.Errorf("%v, %v", found, err)
	}
	values := []kv.Value{
		kv.JSON([]byte(`{"n":12345678901234567890.10,"t":"<é>"}`)), kv.JSON([]byte("null")), kv.Text(""), kv.Bytes(nil), kv.Bytes([]byte{0, 0xFF}),
		{Encoding: host.EncodedU64, Data: bytes.Repeat([]byte{0xFF}, 8)}, {Encoding: host.EncodedInteger, Data: []byte{1, 1, 0, 0, 0, 0, 0, 0, 0, 0}},
		{Encoding: host.EncodedV8, Data: []byte{0xFF, 0x0F, 'R', 1}}, {Encoding: host.EncodedCBOR, Data: []byte{0x80}}, {Encoding: host.EncodedTyped, Data: []byte{0x80}},
	}
	var keys []kv.Key
	var puts []kv.Mutation
	for i, v := range values {
		keys = append(keys, kv.Key{"values", i, []byte{0xFF}, 1.5, true})
		puts = append(puts, kv.Put(keys[i], v).For(time.Hour))
	}
	r, err := store.Commit(ctx, kv.Commit{Checks: []kv.Check{kv.Absent(keys[0])}, Mutations: puts})
	if err != nil || r.Failed != nil || r.Version == 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	many, err := store.GetMany(ctx, keys...)
	if err != nil || len(many) != len(values) {
		t.Fatalf("%d, %v", len(many), err)
	}
	for i, e := range many {
		if e == nil || e.Value.Encoding != values[i].Encoding || !bytes.Equal(e.Value.Data, values[i].Data) || e.Expires.IsZero() || e.Version != r.Version {
			t.Errorf("%+v, want %+v", e, values[i])
		}
	}
	n := 0
	for e, err := range store.All(ctx, kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"values"}}, Limit: 3}) {
		if err != nil || !bytes.Equal(e.Value.Data, values[n].Data) {
			t.Fatalf("%+v, %v", e, err)
		}
		n++
	}
	if count, err := store.Count(ctx, kv.Selection{}); err != nil || count != int64(n) || n != len(values) {
		t.Errorf("%d, %d, %v", count, n, err)
	}
	if r, err := store.Commit(ctx, kv.Commit{Checks: []kv.Check{kv.Exists(keys[0]), kv.Absent(keys[1])}}); err != nil || len(r.Failed) != 1 || r.Failed[0] != 1 {
		t.Errorf("%+v, %v", r, err)
	}
	_, err = store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Delete(keys[0]), kv.Sum(keys[2], kv.JSON([]byte("1")))}})
	if e, is := errors.AsType[*host.Error](err); !is || e.Code != host.FailedPrecondition || !strings.HasPrefix(e.Metadata["field"], "mutations[1]") {
		t.Errorf("%v", err)
	}
	if r, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.DeleteRange(kv.Selection{Prefix: kv.Key{"values"}})}}); err != nil || r.Deleted != int64(n) {
		t.Errorf("%+v, %v", r, err)
	}
}

// A commit is larger than the gateway's usual limit.
func TestALargeCommitIsSentOverAClient(t *testing.T) {
	store, _ := drawer(t)
	var puts []kv.Mutation
	for i := range 7 {
		puts = append(puts, kv.Put(kv.Key{i}, kv.Bytes(make([]byte, 1<<20))))
	}
	must(t, errOf(store.Commit(t.Context(), kv.Commit{Mutations: puts})))
	if all, err := store.GetMany(t.Context(), kv.Key{0}, kv.Key{6}); err != nil || len(all[1].Value.Data) != 1<<20 {
		t.Error(err)
	}
}

// A commit whose answer is lost is repeated, and done once; reads are simply repeated.
func TestALostCommitIsDoneOnce(t *testing.T) {
	store, w := drawer(t)
	lost := errors.New("connection reset")
	w.after = func(attempt int) error {
		if attempt%2 == 1 {
			return lost
		}
		return nil
	}
	visits := kv.Key{"visits"}
	r, err := store.Commit(t.Context(), kv.Commit{Mutations: []kv.Mutation{kv.Sum(visits, kv.JSON([]byte("1")))}})
	if err != nil || string(r.Results[0].Value.Data) != "1" {
		t.Fatalf("%+v, %v", r, err)
	}
	if e, found, err := store.Get(t.Context(), visits); err != nil || !found || string(e.Value.Data) != "1" {
		t.Errorf("%+v, %v, %v", e, found, err)
	}
	if w.attempts != 4 || w.headers[0].Get("Idempotency-Key") == "" || w.headers[2].Get("Idempotency-Key") != "" {
		t.Errorf("%d attempts: %v", w.attempts, w.headers)
	}
}
