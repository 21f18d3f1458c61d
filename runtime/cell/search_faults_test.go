package cell_test

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
)

// setIndex makes an index of t below d.
func setIndex(t *testing.T, store kv.Store, tokenizer string) {
	t.Helper()
	must(t, errOf(store.SetIndex(t.Context(), kv.IndexConfig{Prefix: kv.Key{"d"}, Fields: []kv.Field{{Path: "t"}}, Tokenizer: tokenizer})))
}

func commit(t *testing.T, store kv.Store, m ...kv.Mutation) {
	t.Helper()
	must(t, errOf(store.Commit(t.Context(), kv.Commit{Mutations: m})))
}

// An entry that has expired, and that a handler deletes before the purge comes to it, leaves nothing in the index.
func TestDeletedByAHandlerAfterExpiryLeavesNothingInTheIndex(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ref := libraries.Ref(h, "one")
		setIndex(t, ref.KV(), "")
		commit(t, ref.KV(), kv.Put(bookKey(1), book("red apple")).For(time.Second))
		time.Sleep(2 * time.Second)
		must(t, errOf(shelve.Call(t.Context(), ref, shelving{Delete: []int{1}})))
		list, err := ref.KV().Indexes(t.Context())
		errorIf(t, err != nil || list[0].Documents != 0 || list[0].Building, "%+v, %v", list, err)
	}, libraryDefinition())
}

// What has the name of an index in a database that is imported does not keep the index from being built.
func TestImportOfReservedNamesLeavesAnIndex(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		store, addr := libraries.Ref(h, "one").KV(), host.Address{Type: "library", Key: []string{"one"}}
		commit(t, store, kv.Put(bookKey(1), book("red apple")))
		for _, text := range []string{
			"CREATE TABLE t (a)", "CREATE VIEW cairn_xx_1_map AS SELECT 1", "CREATE INDEX cairn_xx_1 ON t (a)", `CREATE TABLE "cairn_xx_""1" (a)`,
			"CREATE TRIGGER cairn_xx_1_t AFTER INSERT ON t BEGIN SELECT 1; END", "CREATE TABLE cairn_xx_1_data (a)", "CREATE VIEW kept AS SELECT 1",
		} {
			must(t, errOf(h.Call(t.Context(), &host.Request{Address: addr, Method: host.SQLExec, Codec: host.JSON, Input: fmt.Appendf(nil, `{"sql":%q}`, text)})))
		}
		var b bytes.Buffer
		must(t, h.Runtime().ExportSQL(t.Context(), addr, &b))
		setIndex(t, store, "")
		file := bytes.ReplaceAll(b.Bytes(), []byte("cairn_xx_"), []byte("cairn_kv_"))
		must(t, errOf(h.Runtime().ImportSQL(t.Context(), addr, bytes.NewReader(file), "test")))
		time.Sleep(time.Minute)
		list, err := store.Indexes(t.Context())
		errorIf(t, err != nil || list[0].Building, "after a minute: %+v, %v", list, err)
		if keys, partial := found(t, store, kv.SearchConfig{Prefix: kv.Key{"d"}, Query: "apple"}); len(keys) != 1 || partial {
			t.Errorf("it finds %v, partial: %t", keys, partial)
		}
	}, libraryDefinition())
}

// An entry that alone is too much for a turn does not keep the others out of an index.
func TestAnEntryThatIsTooLargeDoesNotStopAnIndex(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var large strings.Builder
	for large.Len() < 75<<10 {
		fmt.Fprintf(&large, "%x ", rnd.Uint32())
	}
	definition := actor.Define(libraries, actor.Spec[library]{OpenKV: true, Limits: actor.Limits{WriteSetBytes: 128 << 10}}, actor.On(shelve, (*library).shelve))
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		store := libraries.Ref(h, "one").KV()
		for _, i := range []int{0, 3, 6, 9} {
			commit(t, store, kv.Put(bookKey(i), book("red apple")))
		}
		commit(t, store, kv.Put(bookKey(3), book(large.String())))
		ready := func(when string, want int) {
			t.Helper()
			time.Sleep(30 * time.Minute)
			list, err := store.Indexes(t.Context())
			keys, partial := found(t, store, kv.SearchConfig{Prefix: kv.Key{"d"}, Query: "apple"})
			errorIf(t, err != nil || list[0].Building || len(keys) != want || partial,
				"%s: it finds %v, partial: %t, %+v, %v", when, keys, partial, list, err)
		}
		setIndex(t, store, "trigram")
		ready("built", 3)
		commit(t, store, kv.Put(bookKey(6), book(large.String())))
		ready("another one", 2)
		commit(t, store, kv.Put(bookKey(3), book("green apple")))
		ready("it is small again", 3)
	}, definition)
}
