package guides_test

import (
	"testing"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/kv"
)

var Notebooks = actor.NewType[struct{}]("notebook")

func TestSearch(t *testing.T) {
	actortest.Run(t, func(t *testing.T, node *actortest.Harness) {
		ctx := t.Context()

		notes := Notebooks.Ref(node, "ada").KV()
		_, err := notes.SetIndex(ctx, kv.IndexConfig{
			Prefix:    kv.Key{"note"},
			Fields:    []kv.Field{{Path: "title", Weight: 4}, {Path: "text"}, {Path: "tags"}},
			Tokenizer: "porter",
		})
		if err != nil {
			t.Fatal(err)
		}
		_, err = notes.Commit(ctx, kv.Commit{Mutations: []kv.Mutation{
			kv.Put(kv.Key{"note", 1}, kv.JSON([]byte(`{"title":"Apples","text":"Plum jams go well with them.","year":2024}`))),
			kv.Put(kv.Key{"note", 2}, kv.JSON([]byte(`{"title":"Apples","text":"Plum jam is better than pears.","year":2025}`))),
			kv.Put(kv.Key{"note", 3}, kv.JSON([]byte(`{"title":"Old apples","text":"Plum jam.","year":1999}`))),
		}})
		if err != nil {
			t.Fatal(err)
		}
		page, err := notes.Search(ctx, kv.SearchConfig{
			Prefix:  kv.Key{"note"},
			Query:   `apple "plum jam"* -pear`,
			Where:   []byte(`{"year":{"$gte":2024}}`),
			Snippet: 12,
		})
		if err != nil || len(page.Hits) != 1 || page.Hits[0].Snippet == nil || page.Partial {
			t.Errorf("%+v, %v", page, err)
		}
	}, actor.Define(Notebooks, actor.Spec[struct{}]{OpenKV: true}))
}
