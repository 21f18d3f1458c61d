package kv_test

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
)

var tenants = actor.NewType[struct{}]("tenant")

// open starts a node for an example, on a store that stop removes.
func open(definition actor.Definition) (node *runtime.Runtime, stop func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	node, err = runtime.Open(context.Background(), runtime.Options{
		Dir: dir, Logger: slog.New(slog.DiscardHandler), Actors: []actor.Definition{definition},
	})
	if err != nil {
		panic(err)
	}
	return node, func() {
		node.Close()
		os.RemoveAll(dir)
	}
}

func Example() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	ada, visits, log := kv.Key{"user", 7}, kv.Key{"visits"}, kv.Key{"log"}
	r, err := store.Commit(ctx, kv.Commit{
		Checks: []kv.Check{kv.Absent(ada)},
		Mutations: []kv.Mutation{
			kv.Put(ada, kv.JSON([]byte(`{"name":"Ada","age":36}`))),
			kv.Put(kv.Key{"user", 8}, kv.JSON([]byte(`{"name":"Bob","age":17}`))).For(time.Hour),
			kv.Put(kv.Key{"note"}, kv.Text("hello")).Until(time.Now().AddDate(1, 0, 0)),
			kv.Put(kv.Key{"raw"}, kv.Bytes(nil)),
			kv.Sum(visits, kv.JSON([]byte("9007199254740993"))),
			kv.Sum(visits, kv.JSON([]byte("1"))).Within(kv.Value{}, kv.JSON([]byte("9007199254740993")), true),
			kv.Min(visits, kv.JSON([]byte("5"))),
			kv.Max(visits, kv.JSON([]byte("7"))),
			kv.Append(log, kv.JSON([]byte(`["b"]`))),
			kv.Prepend(log, kv.JSON([]byte(`["a"]`))).MaxLen(100),
			kv.Touch(log, time.Minute),
			kv.Delete(kv.Key{"raw"}),
		},
	})
	fmt.Printf("%d deleted, visits %s, %v\n", r.Deleted, r.Results[7].Value.Data, err)

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

	// Nothing is done unless the entries are as the caller read them.
	r, err = store.Commit(ctx, kv.Commit{
		Checks:    []kv.Check{kv.AtVersion(ada, entry.Version), kv.Exists(kv.Key{"raw"}), kv.Equals(kv.Key{"note"}, kv.Text("hello"))},
		Mutations: []kv.Mutation{kv.DeleteRange(users), kv.DeleteWhere(users, []byte(`{"age":17}`))},
	})
	fmt.Println(r.Failed, r.Version, err)
	n, err := store.Count(ctx, users)
	fmt.Println(n, err)
	some, of, err := store.Sample(ctx, kv.SampleConfig{Selection: users, N: 1, Seed: 7, KeysOnly: true})
	fmt.Println(len(some), of, err)
	// Output:
	// 1 deleted, visits 7, <nil>
	// json ["a","b"], expires true, true, <nil>
	// hello, <nil>, <nil>
	// [user 7] {"name":"Ada","age":36} <nil>
	// [user 8] true <nil>
	// [1] 0 <nil>
	// 2 <nil>
	// 1 2 <nil>
}

func ExampleStore_SetScope() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	put := func(parts ...any) error {
		_, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key(parts), kv.Text("x"))}})
		return err
	}
	users := kv.Key{"users"}
	_, err := store.SetScope(ctx, users, kv.Policy{MaxKeys: 2, MaxGroups: 10, DefaultTTL: time.Hour, Info: []byte(`{"owner":"web"}`)})
	fmt.Println(err, put("users", "eu", 1), put("users", "us", 1))
	fmt.Println(put("users", "eu", 2))
	for sc, err := range store.Scopes(ctx, nil) {
		fmt.Println(sc.Prefix, sc.Keys, sc.Bytes, sc.Groups, string(sc.Info), sc.DefaultTTL, err)
	}
	for g, err := range store.Groups(ctx, users) {
		fmt.Println(g.Part, g.Keys, err)
	}
	fmt.Println(store.Count(ctx, kv.Selection{Prefix: users}))      // reads one row
	sc, err := store.ExtendScope(ctx, users, kv.Policy{MaxKeys: 3}) // the rest stays
	fmt.Println(sc.MaxKeys, sc.MaxGroups, err)
	fmt.Println(store.RemoveScope(ctx, users, true))
	// Output:
	// <nil> <nil> <nil>
	// quota_exceeded: mutations[0]: the scope ["users"] has room for 2 keys; 3 are needed
	// [users] 2 28 2 {"owner":"web"} 1h0m0s <nil>
	// [eu] 1 <nil>
	// [us] 1 <nil>
	// 2 <nil>
	// 3 10 <nil>
	// true 2 <nil>
}

func ExampleStore_CreateToken() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	_, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"users", 7}, kv.Text("Ada"))}})
	fmt.Println(err)
	text, t, err := store.CreateToken(ctx, kv.TokenConfig{
		Rights: kv.Rights{Read: true, Write: true}, Prefix: kv.Key{"users"}, Label: "import", TTL: time.Hour,
	})
	fmt.Println(text[:6], t.Expires.Sub(t.Created), err) // client.Options{Token: text} of a client elsewhere
	list, err := store.Tokens(ctx)
	for _, t := range list {
		fmt.Println(t.Label, t.Prefix, t.Read, t.Write, t.Watch, err)
	}
	fmt.Println(store.RevokeToken(ctx, t.ID))
	// Output:
	// <nil>
	// cairn_ 1h0m0s <nil>
	// import [users] true true false <nil>
	// true <nil>
}

func ExampleStore_Search() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	_, err := store.SetIndex(ctx, kv.IndexConfig{
		Prefix: kv.Key{"note"}, Fields: []kv.Field{{Path: "title", Weight: 4}, {Path: "text"}}, Tokenizer: "porter",
	})
	if err != nil {
		fmt.Println(err)
	}
	_, err = store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
		kv.Put(kv.Key{"note", 1}, kv.JSON([]byte(`{"title":"Trees","text":"An apple tree bears apples.","year":2024}`))),
		kv.Put(kv.Key{"note", 2}, kv.JSON([]byte(`{"title":"Apples","text":"They keep well.","year":2025}`))),
		kv.Put(kv.Key{"note", 3}, kv.JSON([]byte(`{"title":"Pears","text":"They do not.","year":2025}`))),
		kv.Put(kv.Key{"note", 4}, kv.JSON([]byte(`{"title":"Plums","text":"They make jam.","year":2025}`))),
		kv.Put(kv.Key{"note", 5}, kv.JSON([]byte(`{"title":"Nuts","text":"They are hard.","year":2025}`))),
	}})
	if err != nil {
		fmt.Println(err)
	}
	page, err := store.Search(ctx,
		kv.SearchConfig{Prefix: kv.Key{"note"}, Query: "apple OR jam -pear", Where: []byte(`{"year":{"$gte":2025}}`), Snippet: 8})
	for _, h := range page.Hits {
		fmt.Print(h.Key, " ", h.Score > 0, ": ")
		for _, part := range h.Snippet {
			if part.Match {
				part.Text = "<" + part.Text + ">"
			}
			fmt.Print(part.Text)
		}
		fmt.Println()
	}
	fmt.Println(page.Cursor == "", page.Partial, err)
	list, err := store.Indexes(ctx)
	fmt.Println(list[0].Documents, list[0].Building, err)
	removed, err := store.RemoveIndex(ctx, kv.Key{"note"})
	fmt.Println(removed, err)
	// Output:
	// [note 4] true: They make <jam>.
	// [note 2] true: <Apples>
	// true false <nil>
	// 5 false <nil>
	// true <nil>
}

func ExampleStore_Purge() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	_, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"session"}, kv.Text("open")).For(time.Millisecond)}})
	if err != nil {
		panic(err)
	}
	for there := true; there; {
		if _, there, err = store.Get(ctx, kv.Key{"session"}); err != nil {
			panic(err)
		}
	}
	fmt.Println(store.Purge(ctx))
	// Output:
	// 1 <nil>
}

func ExampleReader_Render() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	_, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
		kv.Put(kv.Key{"miner", "pool"}, kv.Text("pool.lthn.io:3333")),
		kv.Put(kv.Key{"miner", "limits"}, kv.JSON([]byte(`{"threads":4}`))),
	}})
	if err != nil {
		panic(err)
	}
	fmt.Println(store.Render(ctx, kv.RenderConfig{
		Template: `{{.pool}} {{.limits.threads}} {{default "none" .wallet}}`, Prefix: kv.Key{"miner"},
	}))
	_, err = store.Render(ctx, kv.RenderConfig{Template: `{{.wallet}}`, Prefix: kv.Key{"miner"}, Strict: true})
	fmt.Println(err)
	// Output:
	// pool.lthn.io:3333 4 none <nil>
	// failed_precondition: template:1:2: executing "template" at <.wallet>: map has no entry for key "wallet"
}

func ExampleStore_At() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store, plan := tenants.Ref(node, "acme").KV(), kv.Key{"settings", "plan"}
	commit := func(m kv.Mutation) uint64 {
		r, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{m}})
		if err != nil {
			fmt.Println(err)
		}
		return r.Version
	}
	_, err := store.SetScope(ctx, kv.Key{"settings"}, kv.Policy{KeepVersions: 16, KeepFor: 24 * time.Hour})
	free := commit(kv.Put(plan, kv.Text("free")))
	commit(kv.Put(plan, kv.Text("pro")))
	commit(kv.Delete(plan))
	then, found, err2 := store.At(free).Get(ctx, plan)
	fmt.Println(string(then.Value.Data), found, err, err2)
	for v, err := range store.History(ctx, plan) {
		fmt.Println(v.Op, string(v.Value.Data), v.Version-free, v.Expires.IsZero(), !v.Time.IsZero(), err)
	}

	_, found, err2 = store.AtTime(time.Now()).Get(ctx, plan)
	fmt.Println(found, err2)

	snapshot, err := store.Pin(ctx, time.Minute) // all pages from one state, also outside of such scopes
	commit(kv.Put(kv.Key{"new"}, kv.Text("x")))
	n, err2 := snapshot.Count(ctx, kv.Selection{})
	fmt.Println(n, snapshot.Version-free, time.Until(snapshot.Expires) > 50*time.Second, err, err2)
	fmt.Println(snapshot.Release(ctx))
	// Output:
	// free true <nil> <nil>
	// delete  2 true true <nil>
	// put pro 1 true true <nil>
	// put free 0 true true <nil>
	// false <nil>
	// 0 3 true <nil> <nil>
	// <nil>
}

func ExampleStore_Merge() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store, plan, seats := tenants.Ref(node, "acme").KV(), kv.Key{"plan"}, kv.Key{"seats"}
	put := func(commit func(context.Context, kv.Commit) (kv.Result, error), key kv.Key, text string) uint64 {
		r, err := commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(key, kv.Text(text))}})
		if err != nil {
			fmt.Println(err)
		}
		return r.Version
	}
	put(store.Commit, plan, "free")
	v1, err := store.Tag(ctx, "v1") // stays readable under its name
	draft, err2 := store.Fork(ctx, "draft")
	fmt.Println(v1.Name(), err, err2)
	put(draft.Commit, plan, "pro")
	put(draft.Commit, seats, "5")
	for d, err := range store.Diff(ctx, kv.Point{}, kv.Point{Branch: "draft"}, kv.Selection{}) {
		fmt.Println(d.Key, d.From != nil, string(d.To.Value.Data), err)
	}

	put(store.Commit, plan, "basic") // meanwhile
	m, err := store.Merge(ctx, kv.MergeConfig{Source: kv.Point{Branch: "draft"}, Strategy: kv.Strict})
	fmt.Println(m.OK, m.Conflicted, m.Conflicts[0].Key, err)
	m, err = store.Merge(ctx, kv.MergeConfig{Source: kv.Point{Branch: "draft"}, Strategy: kv.Ours, DryRun: true}) // would leave "basic"
	fmt.Println(m.OK, m.Put, err)
	m, err = store.Merge(ctx, kv.MergeConfig{Source: kv.Point{Branch: "draft"}, Strategy: kv.Theirs})
	now, _, err2 := store.Get(ctx, plan)
	fmt.Println(m.OK, m.Put, string(now.Value.Data), err, err2)
	now, _, err = store.Branch("v1").Get(ctx, plan)
	fmt.Println(string(now.Value.Data), err)

	list, err := store.Branches(ctx)
	fmt.Println(list[0].Name, list[1].ReadOnly, err)
	fmt.Println(draft.Remove(ctx))
	// Output:
	// v1 <nil> <nil>
	// [plan] true pro <nil>
	// [seats] false 5 <nil>
	// false 1 [plan] <nil>
	// true 1 <nil>
	// true 2 pro <nil> <nil>
	// free <nil>
	// draft true <nil>
	// true <nil>
}

// A shop sells its stock.
var (
	shops = actor.NewType[shop]("shop")
	sell  = actor.NewAction[int, string](shops, "sell")
)

type shop struct{}

func (*shop) sell(ctx *actor.Context, n int) (string, error) {
	stock := kv.Key{"stock"}
	r, err := ctx.KV().Commit(kv.Commit{
		Checks: []kv.Check{kv.Exists(stock)},
		Mutations: []kv.Mutation{
			kv.Append(kv.Key{"sold"}, kv.JSON(fmt.Appendf(nil, "[%d]", n))),
			kv.Sum(stock, kv.JSON(fmt.Appendf(nil, "%d", -n))).Within(kv.JSON([]byte("0")), kv.Value{}, false),
		},
	})
	switch {
	case actor.CodeOf(err) == actor.FailedPrecondition:
		return "there is too little", nil // nothing was sold, and the turn goes on
	case err != nil:
		return "", err
	case r.Failed != nil:
		return "there is nothing", nil
	}
	return string(r.Results[1].Value.Data) + " left", nil
}

func ExampleCommit() {
	ctx := context.Background()
	node, stop := open(actor.Define(shops, actor.Spec[shop]{}, actor.On(sell, (*shop).sell)))
	defer stop()
	corner := shops.Ref(node, "corner")
	fmt.Println(sell.Call(ctx, corner, 1))
	if _, err := corner.KV().Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"stock"}, kv.JSON([]byte("5")))}}); err != nil {
		fmt.Println(err)
	}
	fmt.Println(sell.Call(ctx, corner, 3))
	fmt.Println(sell.Call(ctx, corner, 3))
	sold, _, err := corner.KV().Get(ctx, kv.Key{"sold"})
	fmt.Println(string(sold.Value.Data), err)
	// Output:
	// there is nothing <nil>
	// 2 left <nil>
	// there is too little <nil>
	// [3] <nil>
}

func ExampleStore_Update() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()
	store := tenants.Ref(node, "acme").KV()
	seats := kv.ListConfig{Selection: kv.Selection{Prefix: kv.Key{"seat"}}, KeysOnly: true}
	book := func(tx *kv.Tx, name string) error {
		taken := 0
		for _, err := range tx.All(ctx, seats) { // a seat that another takes meanwhile is a conflict
			if err != nil {
				return err
			}
			taken++
		}
		if taken == 2 {
			return errors.New("there is no seat")
		}
		return tx.Do(kv.Put(kv.Key{"seat", name}, kv.JSON([]byte("true"))))
	}
	for _, name := range []string{"Ada", "Bob", "Cy"} {
		r, err := store.Update(ctx, func(tx *kv.Tx) error { return book(tx, name) })
		fmt.Println(len(r.Results), err)
	}

	// A transaction that spans other work has one try.
	tx := store.Begin()
	ada, _, err := tx.Get(ctx, kv.Key{"seat", "Ada"})
	both, err2 := tx.GetMany(ctx, kv.Key{"seat", "Ada"}, kv.Key{"seat", "Cy"})
	fmt.Println(ada.Key, both[1], err, err2, tx.Do(kv.Delete(ada.Key)))
	page, err := store.List(ctx, kv.ListConfig{Digest: true})
	fmt.Println(len(page.Entries), err)
	_, err = store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(ada.Key, kv.JSON([]byte("false")))}})
	fmt.Println(err)
	_, err = tx.Commit(ctx)
	conflict, _ := errors.AsType[*kv.ConflictError](err)
	fmt.Println(conflict.Keys, conflict.Selections, actor.CodeOf(conflict.Unwrap()))
	tx.Rollback()
	_, _, err = tx.Get(ctx, ada.Key)
	fmt.Println(errors.Is(err, kv.ErrEnded))

	// A check of a page does the same by hand.
	r, err := store.Commit(ctx, kv.Commit{Checks: []kv.Check{kv.Unchanged(page.Digest)}})
	fmt.Println(r.Failed, err)
	// Output:
	// 1 <nil>
	// 1 <nil>
	// 0 there is no seat
	// [seat Ada] <nil> <nil> <nil> <nil>
	// 2 <nil>
	// <nil>
	// [[seat Ada]] [] failed_precondition
	// true
	// [0] <nil>
}

func ExamplePlaceholder() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()
	store := tenants.Ref(node, "acme").KV()
	id, stamp := kv.UUIDv7(""), kv.Versionstamp()
	r, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
		kv.Put(kv.Key{"order", id}, kv.JSON(fmt.Appendf(nil, `{"id":%s,"item":%s}`, id, kv.UUIDv7("item")))).Resolve(),
		kv.Put(kv.Key{"at", stamp}, kv.JSON([]byte(id.String()))), // what it is: an object
	}})
	order, _, err2 := store.Get(ctx, kv.Key{"order", r.Resolved[id]})
	fmt.Println(string(order.Value.Data) == fmt.Sprintf(`{"id":%q,"item":%q}`, r.Resolved[id], r.Resolved[kv.UUIDv7("item")]), err, err2)
	at, _, err := store.Get(ctx, kv.Key{"at", r.Resolved[stamp]})
	fmt.Println(r.Resolved[stamp], string(at.Value.Data), err)
	// Output:
	// true <nil> <nil>
	// 00000000000000020000 {"$uuidv7":true} <nil>
}

func ExampleStore_Watch() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	write := func(m ...kv.Mutation) {
		if _, err := store.Commit(ctx, kv.Commit{Mutations: m}); err != nil {
			fmt.Println(err)
		}
	}
	ada, bob := kv.Key{"user", 7}, kv.Key{"user", 8}
	write(kv.Put(ada, kv.Text("Ada")))
	told := 0
	for changes, err := range store.Watch(ctx, kv.WatchConfig{Prefixes: []kv.Key{{"user"}}, Keys: []kv.Key{{"visits"}}, Initial: true}) {
		if err != nil {
			fmt.Println(err)
			break
		}
		for _, c := range changes.Changes {
			if c.Entry == nil {
				fmt.Println(c.Key, "is absent")
			} else {
				fmt.Println(c.Key, string(c.Entry.Value.Data))
			}
		}
		fmt.Println("version", changes.Version)
		if told++; told == 2 {
			break
		}
		write(kv.Put(bob, kv.Text("Bob")), kv.Delete(ada))
	}
	// Output:
	// [user 7] Ada
	// [visits] is absent
	// version 2
	// [user 7] is absent
	// [user 8] Bob
	// version 3
}

func ExampleStore_Feed() {
	ctx := context.Background()
	node, stop := open(actor.Define(tenants, actor.Spec[struct{}]{OpenKV: true}))
	defer stop()

	store := tenants.Ref(node, "acme").KV()
	if _, err := store.SetScope(ctx, kv.Key{"user"}, kv.Policy{Log: true, LogEvents: 3}); err != nil {
		fmt.Println(err)
	}
	for _, name := range []string{"Ada", "Bob", "Cid", "Dan"} {
		if _, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.Put(kv.Key{"user", name}, kv.Text(name))}}); err != nil {
			fmt.Println(err)
		}
	}
	if _, err := store.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{kv.DeleteRange(kv.Selection{Prefix: kv.Key{"user"}})}}); err != nil {
		fmt.Println(err)
	}
	var last kv.Position // to go on from
	for e, err := range store.Feed(ctx, kv.FeedConfig{Prefixes: []kv.Key{{"user"}}, From: last}) {
		if gap, ok := errors.AsType[*kv.GapError](err); ok {
			fmt.Println(gap)
			continue
		}
		if err != nil {
			fmt.Println(err)
			break
		}
		last = e.Position()
		fmt.Println(e.Sequence, e.Cause, e.Key)
		if e.Sequence == 8 {
			break
		}
	}
	end, err := store.LastPosition(ctx)
	fmt.Println(end == last, err)
	// Output:
	// 5 events are no longer kept
	// 6 delete_range [user Bob]
	// 7 delete_range [user Cid]
	// 8 delete_range [user Dan]
	// true <nil>
}
