package main

import (
	"context"
	"encoding/json"
	"fmt"
	"strings"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
)

// The actor under test of the rows about search. Its table has what the index of its entries has.
type archive struct{}

var (
	archives = actor.NewType[archive]("archive")
	file     = actor.NewAction[filing, actor.None](archives, "file")
)

const (
	archiveSchema = "CREATE VIRTUAL TABLE document USING fts5 (c0, key UNINDEXED, version UNINDEXED, tokenize = 'unicode61 remove_diacritics 2')"
	archived      = 100_000
)

// archiveText has twenty words, of which some are in every tenth text, and some in every
// thousandth.
func archiveText(i int) string {
	var b strings.Builder
	for j := range 18 {
		fmt.Fprintf(&b, "word%d ", (i*7+j*j*31)%5000)
	}
	fmt.Fprintf(&b, "common%d rare%d", i%10, i%1000)
	return b.String()
}

func archiveKey(i int) kv.Key { return kv.Key{"k", int64(i)} }

// A filing asks an action to insert texts, from a number on.
type filing struct{ From, N int }

func (*archive) file(ctx *actor.Context, in filing) (none actor.None, err error) {
	for i := in.From; i < in.From+in.N; i++ {
		key, err := shelfKey(i).Pack()
		check(err)
		if _, err := ctx.SQL().
			Exec("INSERT INTO document VALUES (?, ?, ?)", archiveText(i), key, int64(i)); err != nil {
			return none, err
		}
	}
	return none, nil
}

func searchRows() []row {
	return []row{
		{name: "KV: indexed put, p50 / an SQL turn inserting into the same FTS5 table",
			target: "at most 1.3", latency: true,
			ours: (*bench).indexedPut, raw: (*bench).insertedText},
		{name: "KV: search 20 of 100,000, p50 / the same MATCH by sql.query", target: "at most 1.3",
			latency: true, long: true,
			ours: (*bench).searched, raw: (*bench).matched},
	}
}

// archive runs f with an actor that has texts, as entries with an index, or as rows of a table.
func (b *bench) archive(entries int, index bool, f func(*runtime.Runtime, actor.Ref[archive])) {
	spec := actor.Spec[archive]{OpenKV: true, OpenSQL: true}
	if !index {
		spec.Migrations = []actor.Migration{{Name: "001-table", SQL: archiveSchema}}
	}
	b.node(runtime.Options{Actors: []actor.Definition{actor.Define(archives, spec,
		actor.On(file, (*archive).file))}}, func(rt *runtime.Runtime) {
		ctx, ref := context.Background(), archives.Ref(rt, "one")
		if index {
			_, err := ref.KV().SetIndex(ctx, kv.IndexConfig{Prefix: kv.Key{"k"}, Fields: []kv.Field{{Path: "$value"}}})
			check(err)
		}
		for i := 0; i < entries; i += 1000 {
			if !index {
				_, err := file.Call(ctx, ref, filing{i, 1000})
				check(err)
				continue
			}
			var c kv.Commit
			for j := range 1000 {
				c.Mutations = append(c.Mutations, kv.Put(archiveKey(i+j), kv.Text(archiveText(i+j))))
			}
			_, err := ref.KV().Commit(ctx, c)
			check(err)
		}
		f(rt, ref)
	})
}

func (b *bench) indexedPut() (v float64) {
	b.archive(0, true, func(_ *runtime.Runtime, ref actor.Ref[archive]) {
		v = b.p50(func(i int) {
			commitTo(ref.KV(), kv.Commit{Mutations: []kv.Mutation{kv.Put(archiveKey(i), kv.Text(archiveText(i)))}})
		})
	})
	return v
}

func (b *bench) insertedText() (v float64) {
	b.archive(0, false, func(_ *runtime.Runtime, ref actor.Ref[archive]) {
		v = b.p50(func(i int) {
			_, err := file.Call(context.Background(), ref, filing{i, 1})
			check(err)
		})
	})
	return v
}

func (b *bench) searched() (v float64) {
	b.archive(archived, true, func(_ *runtime.Runtime, ref actor.Ref[archive]) {
		v = b.p50(func(i int) {
			page, err := ref.KV().
				Search(context.Background(),
					kv.SearchConfig{Prefix: kv.Key{"k"}, Query: fmt.Sprint("rare", i%1000), Limit: 20})
			check(err)
			if len(page.Hits) != 20 || page.Partial {
				panic(fmt.Sprint(len(page.Hits), " entries"))
			}
		})
	})
	return v
}

func (b *bench) matched() (v float64) {
	b.archive(archived, false, func(rt *runtime.Runtime, _ actor.Ref[archive]) {
		v = b.p50(func(i int) {
			out, err := rt.Call(context.Background(), &host.Request{
				Address: host.Address{Type: "archive", Key: []string{"one"}}, Method: host.SQLQuery, Codec: host.JSON,
				Input: fmt.Appendf(nil,
					`{"sql":"SELECT key, c0, rank FROM document WHERE document MATCH ? ORDER BY rank LIMIT 20","args":["rare%d"]}`, i%1000),
			})
			check(err)
			var found host.SQLOutput
			check(json.Unmarshal(out.Output, &found))
			if len(found.Rows) != 20 {
				panic(fmt.Sprint(len(found.Rows), " rows"))
			}
		})
	})
	return v
}
