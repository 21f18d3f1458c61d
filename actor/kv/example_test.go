package kv_test

import (
	"context"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
)

var tenants = actor.NewType[struct{}]("tenant")

func Example() {
	ctx := context.Background()
	dir, _ := os.MkdirTemp("", "example")
	defer os.RemoveAll(dir)
	node, err := runtime.Open(ctx, runtime.Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler),
		Actors: []actor.Definition{actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true})},
	})
	if err != nil {
		fmt.Println(err)
		return
	}
	defer node.Close()

	store := tenants.Ref(node, "acme").KV()
	ada, visits, log := kv.Key{"user", 7}, kv.Key{"visits"}, kv.Key{"log"}
	r, err := store.Commit(ctx, kv.Commit{
		Checks: []kv.Check{kv.Absent(ada)},
		Mutations: []kv.Mutation{
			kv.Put(ada, kv.JSON([]byte(`{"name":"Ada","age":36}`))),
			kv.Put(kv.Key{"user", 8}, kv.JSON([]byte(`{"name":"Bob","age":17}`))).For(time.Hour),
			kv.Put(kv.Key{"note"}, kv.Text("hello")),
			kv.Put(kv.Key{"raw"}, kv.Bytes([]byte{0, 255})),
			kv.Sum(visits, kv.JSON([]byte("9007199254740993"))),
			kv.Sum(visits, kv.JSON([]byte("1"))).Within(kv.Value{}, kv.JSON([]byte("9007199254740993")), true),
			kv.Min(visits, kv.JSON([]byte("5"))),
			kv.Max(visits, kv.JSON([]byte("7"))),
			kv.Append(log, kv.JSON([]byte(`["b"]`))),
			kv.Prepend(log, kv.JSON([]byte(`["a"]`))),
			kv.Touch(log, time.Minute),
			kv.Delete(kv.Key{"raw"}),
		},
	})
	fmt.Printf("%d deleted, visits %s, %v\n", r.Deleted, r.Values[7].Data, err)

	entry, found, err := store.Get(ctx, log)
	fmt.Printf("%s %s, expires %v, %v, %v\n", entry.Value.Encoding, entry.Value.Data, !entry.Expires.IsZero(), found, err)
	many, err := store.GetMany(ctx, kv.Key{"note"}, kv.Key{"nothing"})
	fmt.Printf("%s, %v, %v\n", many[0].Value.Data, many[1], err)

	users := kv.Selection{Prefix: kv.Key{"user"}}
	for e, err := range store.All(ctx, kv.ListConfig{Selection: users, Where: []byte(`{"age":{"$gte":18}}`)}) {
		fmt.Printf("%v %s %v\n", e.Key, e.Value.Data, err)
	}
	page, err := store.List(ctx, kv.ListConfig{Selection: users, Limit: 1, Reverse: true, KeysOnly: true})
	fmt.Println(page.Entries[0].Key, page.Cursor != "", err)

	// What the caller read is still so, or nothing is done.
	r, err = store.Commit(ctx, kv.Commit{
		Checks:    []kv.Check{kv.AtVersion(ada, entry.Version), kv.Exists(kv.Key{"raw"})},
		Mutations: []kv.Mutation{kv.DeleteRange(users)},
	})
	fmt.Println(r.Failed, r.Version, err)
	n, err := store.Count(ctx, users)
	fmt.Println(n, err)
	// Output:
	// 1 deleted, visits 7, <nil>
	// json ["a","b"], expires true, true, <nil>
	// hello, <nil>, <nil>
	// [user 7] {"name":"Ada","age":36} <nil>
	// [user 8] true <nil>
	// [1] 0 <nil>
	// 2 <nil>
}
