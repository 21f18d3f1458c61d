package actor_test

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// A shelf keeps its books in a map, and notes about them as bytes in its key-value store.
var (
	shelves = actor.NewType[shelf]("shelf")
	fill    = actor.NewAction[[]string, actor.None](shelves, "fill")
	empty   = actor.NewAction[actor.None, string](shelves, "empty")
	titles  = actor.NewQuery[actor.None, string](shelves, "titles")
	books   = actor.NewMap[string, int](shelves, "books",
		actor.MapConfig{MaxKeys: 1_000, MaxBytes: 1 << 20, DefaultTTL: 365 * 24 * time.Hour, Counted: true})
)

type shelf struct{}

func (*shelf) fill(ctx *actor.Context, names []string) (actor.None, error) {
	for i, name := range names {
		if err := books.Put(ctx, name, i+1); err != nil {
			return actor.None{}, err
		}
		if err := ctx.KV().
			Put(tuple.Tuple{"note", name}, []byte("new"), actor.Encoded(host.EncodedText), actor.TTL(24*time.Hour)); err != nil {
			return actor.None{}, err
		}
	}
	return actor.None{}, ctx.KV().Put(tuple.Tuple{"sale"}, []byte("10 %"), actor.ExpireAt(ctx.Now().Add(time.Hour)))
}

func (shelf) titles(ctx *actor.ReadContext, _ actor.None) (string, error) {
	var out []string
	var failed error
	add := func(text string, err error) {
		out, failed = append(out, text), errors.Join(failed, err)
	}
	for e, err := range books.All(ctx, actor.Reverse(), actor.Limit(2)) {
		add(fmt.Sprint("all:", e.Key, e.Value), err)
	}
	for e, err := range books.Range(ctx, "b", "d") { // "b" <= key < "d"
		add("range:"+e.Key, err)
	}
	for e, err := range books.From(ctx, "c") {
		add("from:"+e.Key, err)
	}
	for e, err := range books.Prefix(ctx, "a") { // the key "a"; of a struct key, its first fields
		add("prefix:"+e.Key, err)
	}
	for e, err := range ctx.KV().List(tuple.Tuple{"note"}, actor.KeysOnly()) {
		key, kerr := e.Key.Unpack()
		add(fmt.Sprint("list:", key), errors.Join(err, kerr))
	}
	for e, err := range ctx.KV().Range(tuple.Tuple{"sale"}, nil, actor.Borrowed()) { // no entry is kept
		key, kerr := e.Key.Unpack()
		add(fmt.Sprintf("%s %s", key, e.Value), errors.Join(err, kerr))
	}
	all, err := books.Len(ctx) // one read, because of the config
	add(fmt.Sprint(all, " books"), err)
	notes, err := ctx.KV().Count(tuple.Tuple{"note"})
	add(fmt.Sprint(notes, " notes"), err)
	first, _, err := books.Entry(ctx, "a")
	if err != nil {
		return "", err
	}
	note, found, err := ctx.KV().Get(tuple.Tuple{"note", "a"})
	if err != nil {
		return "", err
	}
	sale, _, err := ctx.KV().Entry(tuple.Tuple{"sale"})
	add(fmt.Sprintf("%s %v since version %d, for %s", note, found, first.Version, sale.Expire().Sub(sale.Updated())), err)
	return strings.Join(out, "\n"), failed
}

func (*shelf) empty(ctx *actor.Context, _ actor.None) (string, error) {
	kept := ctx.KV().Update(func(tx actor.KV) error {
		n, err := tx.DeletePrefix(nil)
		if err != nil {
			return err
		}
		return fmt.Errorf("%d entries are too many", n) // and so they stay
	})
	one, err := books.Delete(ctx, "a")
	if err != nil {
		return "", err
	}
	some, err := books.DeleteRange(ctx, "b", "d")
	if err != nil {
		return "", err
	}
	rest, err := books.Clear(ctx)
	if err != nil {
		return "", err
	}
	note, err := ctx.KV().Delete(tuple.Tuple{"note", "a"})
	if err != nil {
		return "", err
	}
	notes, err := ctx.KV().DeletePrefix(tuple.Tuple{"note"})
	if err != nil {
		return "", err
	}
	all, err := ctx.KV().DeleteRange(nil, nil)
	return fmt.Sprintln(one, some, rest, note, notes, all, kept), err
}

func Example_store() {
	node, stop := open(actor.Define(shelves, actor.Spec[shelf]{},
		actor.On(fill, (*shelf).fill), actor.On(empty, (*shelf).empty), actor.OnQuery(titles, shelf.titles)))
	defer stop()
	ctx, mine := context.Background(), shelves.Ref(node, "mine")
	must(fill.Call(ctx, mine, []string{"a", "b", "c", "d"}))
	fmt.Println("books", must(titles.Call(ctx, mine, actor.None{})))
	fmt.Print(must(empty.Call(ctx, mine, actor.None{})))
	// Output:
	// books all:d4
	// all:c3
	// range:b
	// range:c
	// from:c
	// from:d
	// prefix:a
	// list:("note", "a")
	// list:("note", "b")
	// list:("note", "c")
	// list:("note", "d")
	// ("sale") 10 %
	// 4 books
	// 4 notes
	// new true since version 2, for 1h0m0s
	// true 2 1 true 3 1 9 entries are too many
}
