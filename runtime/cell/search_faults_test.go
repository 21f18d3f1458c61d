package cell_test

import (
	"context"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/runtime"
)

// setIndex makes an index of t below d.
func setIndex(t *testing.T, store kv.Store, tokenizer string) {
	t.Helper()
	if _, err := store.SetIndex(t.Context(), kv.IndexConfig{Prefix: kv.Key{"d"}, Fields: []kv.Field{{Path: "t"}}, Tokenizer: tokenizer}); err != nil {
		t.Fatal(err)
	}
}

func commit(t *testing.T, store kv.Store, m ...kv.Mutation) {
	t.Helper()
	if _, err := store.Commit(t.Context(), kv.Commit{Mutations: m}); err != nil {
		t.Fatal(err)
	}
}

// A search of one entry is short, whatever its text and the query.
func TestSearchOfMuchThatMatchesIsShort(t *testing.T) {
	rt, err := runtime.Open(t.Context(), runtime.Options{Dir: t.TempDir(), Actors: []actor.Definition{libraryDefinition()}})
	if err != nil {
		t.Fatal(err)
	}
	defer rt.Close()
	store := libraries.Ref(rt, "one").KV()
	setIndex(t, store, "")
	commit(t, store, kv.Put(bookKey(1), book(strings.Repeat("a ", 5_000))))
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Second)
	defer cancel()
	for _, query := range []string{"a", strings.Repeat("a ", 400), strings.Repeat("(a OR b) a* ", 12)} {
		page, err := store.Search(ctx, kv.SearchConfig{Prefix: kv.Key{"d"}, Query: query, Snippet: 3})
		if err != nil || len(page.Hits) != 1 || len(page.Hits[0].Snippet) == 0 {
			t.Errorf("%.20s: %+v, %v", query, page, err)
		}
	}
}
