package cell_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor"
	"github.com/cairn-run/cairn/actor/actortest"
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/kv"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// The actor of the search tests. It changes entries, undoes some changes, and uses SQL in the same
// turn.
type library struct{}

// A shelving is the input of one turn.
type shelving struct {
	Put    map[int]string
	Delete []int
	Undo   bool // of the later changes in the turn
	SQL    bool
	Fail   bool
}

var (
	libraries = actor.NewType[library]("library")
	shelve    = actor.NewAction[shelving, actor.None](libraries, "shelve")
)

func bookKey(i int) kv.Key { return kv.Key{"d", int64(i % 3), int64(i)} }

func book(text string) kv.Value { return kv.JSON(fmt.Appendf(nil, `{"t":%q,"n":%d}`, text, len(text))) }

var errUndo = errors.New("undo it")

func (*library) shelve(ctx *actor.Context, in shelving) (actor.None, error) {
	change := func(store actor.KV) error {
		for i, text := range in.Put {
			if err := store.Put(tuple.Tuple(bookKey(i)), book(text).Data, actor.Encoded(host.EncodedJSON)); err != nil {
				return err
			}
		}
		for _, i := range in.Delete {
			if _, err := store.Delete(tuple.Tuple(bookKey(i))); err != nil {
				return err
			}
		}
		return nil
	}
	if in.SQL {
		if _, err := ctx.SQL().Exec("CREATE TABLE IF NOT EXISTS log (text TEXT)"); err != nil {
			return actor.None{}, err
		}
	}
	if in.Undo {
		err := ctx.KV().Update(func(tx actor.KV) error {
			if _, err := tx.DeletePrefix(tuple.Tuple{"d", int64(1)}); err != nil {
				return err
			}
			if err := change(tx); err != nil {
				return err
			}
			return errUndo
		})
		if !errors.Is(err, errUndo) {
			return actor.None{}, err
		}
	} else if err := change(ctx.KV()); err != nil {
		return actor.None{}, err
	}
	if in.SQL {
		if _, err := ctx.SQL().Exec("INSERT INTO log VALUES (?)", fmt.Sprint(len(in.Put))); err != nil {
			return actor.None{}, err
		}
	}
	if in.Fail {
		return actor.None{}, errors.New("on purpose")
	}
	return actor.None{}, nil
}

func libraryDefinition() actor.Definition {
	return actor.Define(libraries, actor.Spec[library]{OpenKV: true, OpenSQL: true}, actor.On(shelve, (*library).shelve))
}

var words = []string{"red", "green", "blue", "apple", "pear", "plum", "tree", "house"}

// found returns the keys that a search finds, page by page.
func found(t *testing.T, store kv.Store, c kv.SearchConfig) (keys []string, partial bool) {
	t.Helper()
	for {
		page, err := store.Search(t.Context(), c)
		must(t, err)
		for _, h := range page.Hits {
			keys = append(keys, fmt.Sprint(h.Key))
		}
		if c.Cursor = page.Cursor; c.Cursor == "" {
			slices.Sort(keys)
			return keys, page.Partial
		}
	}
}

// wanted returns, for each word, the keys of the entries below a prefix that have it.
func wanted(t *testing.T, store kv.Store, prefix kv.Key) map[string][]string {
	t.Helper()
	all := make(map[string][]string)
	for e, err := range store.All(t.Context(), kv.ListConfig{Selection: kv.Selection{Prefix: prefix}, Limit: 1000}) {
		must(t, err)
		var v struct{ T string }
		must(t, json.Unmarshal(e.Value.Data, &v))
		for _, word := range slices.Compact(slices.Sorted(slices.Values(strings.Fields(v.T)))) {
			all[word] = append(all[word], fmt.Sprint(e.Key))
		}
	}
	for _, keys := range all {
		slices.Sort(keys)
	}
	return all
}

// sound compares the indexes with the entries. An index that is not ready yet has no wrong rows.
func sound(t *testing.T, store kv.Store, after string) {
	t.Helper()
	list, err := store.Indexes(t.Context())
	must(t, err, after)
	for _, ix := range list {
		want := wanted(t, store, ix.Prefix)
		for _, word := range words {
			got, partial := found(t, store, kv.SearchConfig{Prefix: ix.Prefix, Query: word, Limit: 1000})
			if partial {
				got = slices.DeleteFunc(got, func(key string) bool { _, has := slices.BinarySearch(want[word], key); return has })
				want[word] = nil
			}
			if !slices.Equal(got, want[word]) {
				t.Fatalf("%s: %s in %v finds %v, want %v; partial: %t", after, word, ix.Prefix, got, want[word], partial)
			}
		}
	}
}

// TestSearchFindsWhatIsThere checks, after random changes, that the indexes match the entries
// exactly.
func TestSearchFindsWhatIsThere(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) { changeAtRandom(t, h, rand.New(rand.NewPCG(0, 0))) }, libraryDefinition())
}

// Expired entries that are not removed yet neither fill the pages of a search nor end it. The best
// matches come first, and of equal ones the older.
func TestPagesOfASearchPassWhatHasExpired(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, store := t.Context(), libraries.Ref(h, "one").KV()
		setIndex(t, store, "")
		var c kv.Commit
		var want []int64
		for i := range int64(40) {
			text := "apple"
			if i%3 == 0 {
				text = "apple " + strings.Repeat("tree ", 20)
			}
			put := kv.Put(kv.Key{"d", i}, book(text))
			if i < 8 || i%5 != 0 {
				put = put.For(time.Second)
			}
			c.Mutations = append(c.Mutations, put)
		}
		for _, worse := range []bool{false, true} {
			for i := int64(10); i < 40; i += 5 {
				if worse == (i%3 == 0) {
					want = append(want, i)
				}
			}
		}
		commit(t, store, c.Mutations...)
		time.Sleep(2 * time.Second)
		for _, limit := range []int{1, 2, 5, 6, 7, 39, 1000} {
			var got []int64
			for s := (kv.SearchConfig{Prefix: kv.Key{"d"}, Query: "apple", Limit: limit}); ; {
				page, err := store.Search(ctx, s)
				fatalIf(t, err != nil || len(page.Hits) > limit, "%v %v", len(page.Hits), err)
				for _, hit := range page.Hits {
					got = append(got, hit.Key[1].(int64))
				}
				if s.Cursor = page.Cursor; s.Cursor == "" {
					break
				}
			}
			errorIf(t, !slices.Equal(got, want), "pages of %d have %v, not %v", limit, got, want)
		}
	}, libraryDefinition())
}

// TestAnIndexWithoutRoomFallsBehind changes entries while the actor's quota leaves no room for the
// index. The index is built once there is room.
func TestAnIndexWithoutRoomFallsBehind(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		ctx, store := t.Context(), libraries.Ref(h, "full").KV()
		const some = 50 // entries that one turn writes
		for from := 0; from < 1000; from += some {
			var puts []kv.Mutation
			for i := range some {
				puts = append(puts, kv.Put(bookKey(from+i), book(strings.Repeat("red apple ", 60))))
			}
			commit(t, store, puts...)
		}
		setIndex(t, store, "")
		time.Sleep(time.Minute)
		list, err := store.Indexes(ctx)
		fatalIf(t, err != nil || !list[0].Building || list[0].Documents == 0 || list[0].Documents == 1000,
			"an index for which there is no room: %+v, %v", list, err)
		sound(t, store, "without room")
		for from := 0; from < 900; from += some {
			var deletes []kv.Mutation
			for i := range some {
				deletes = append(deletes, kv.Delete(bookKey(from+i)))
			}
			commit(t, store, deletes...)
		}
		page, err := store.Search(ctx, kv.SearchConfig{Prefix: kv.Key{"d"}, Query: "red"})
		errorIf(t, err != nil || !page.Partial, "%+v, %v", page, err)
		time.Sleep(5 * time.Minute)
		list, err = store.Indexes(ctx)
		fatalIf(t, err != nil || list[0].Building || list[0].Documents != 100, "the index when there is room: %+v, %v", list, err)
		sound(t, store, "with room")
	}, actor.Define(libraries, actor.Spec[library]{OpenKV: true,
		Limits: actor.Limits{StorageBytes: 1 << 20, WriteSetBytes: 128 << 10}}, actor.On(shelve, (*library).shelve)))
}

func changeAtRandom(t *testing.T, h *actortest.Harness, rnd *rand.Rand) {
	ctx := t.Context()
	ref := libraries.Ref(h, "one")
	text := func() string {
		var list []string
		for range 1 + rnd.IntN(4) {
			list = append(list, words[rnd.IntN(len(words))])
		}
		return strings.Join(list, " ")
	}
	number := func() int { return rnd.IntN(40) }
	mutation := func() kv.Mutation {
		switch rnd.IntN(8) {
		case 0:
			return kv.Delete(bookKey(number()))
		case 1:
			return kv.DeleteRange(kv.Selection{Prefix: kv.Key{"d", int64(rnd.IntN(3))}})
		case 2:
			return kv.Put(bookKey(number()), book(text())).For(time.Duration(1+rnd.IntN(7200)) * time.Second)
		case 3:
			return kv.Touch(bookKey(number()), time.Duration(1+rnd.IntN(7200))*time.Second)
		case 4:
			return kv.DeleteWhere(kv.Selection{Prefix: kv.Key{"d"}}, []byte(`{"n":{"$lt":8}}`))
		default:
			return kv.Put(bookKey(number()), book(text()))
		}
	}
	index := func() {
		c := kv.IndexConfig{Prefix: kv.Key{"d"}, Fields: []kv.Field{{Path: "t", Weight: float64(1 + rnd.IntN(2))}}}
		if rnd.IntN(2) == 0 {
			c.Prefix = kv.Key{"d", int64(1)}
		}
		must(t, errOf(ref.KV().SetIndex(ctx, c)))
	}
	index()
	var file []byte
	large := 0 // steps since a large commit; each of those takes long to check
	for step := range 40 {
		what := ""
		n := rnd.IntN(20)
		if large > 0 {
			large++
		}
		if large > 2 {
			n = 17
		}
		switch {
		case n < 8:
			what = "a commit"
			var all []kv.Mutation
			for range 1 + rnd.IntN(6) {
				all = append(all, mutation())
			}
			commit(t, ref.KV(), all...)
		case n < 12:
			in := shelving{Put: map[int]string{number(): text(), number(): text()}, Delete: []int{number()},
				Undo: rnd.IntN(2) == 0, SQL: rnd.IntN(2) == 0, Fail: rnd.IntN(4) == 0}
			what = fmt.Sprintf("a turn %+v", in)
			if _, err := shelve.Call(ctx, ref, in); (err != nil) != in.Fail && !(in.Undo && in.SQL) {
				t.Fatal(err)
			}
		case n < 14:
			d := time.Duration(rnd.IntN(7200)) * time.Second
			what = "after " + d.String()
			time.Sleep(d)
		case n == 14:
			what = "a crash"
			h.Crash()
		case n == 15:
			what = "an index"
			index()
		case n == 16:
			what = "a large commit"
			large = 1
			var all []kv.Mutation
			for i := range 1001 { // more than a turn indexes
				all = append(all, kv.Put(bookKey(i), book(text())))
			}
			commit(t, ref.KV(), all...)
			sound(t, ref.KV(), what+", at once")
		case n == 17:
			what = "a range that is gone"
			large = 0
			commit(t, ref.KV(), kv.DeleteRange(kv.Selection{Prefix: kv.Key{"d"}}), mutation())
			sound(t, ref.KV(), what+", at once")
		case n == 18:
			what = "an export"
			var b bytes.Buffer
			must(t, h.Runtime().ExportSQL(ctx, host.Address{Type: "library", Key: []string{"one"}}, &b))
			file = b.Bytes()
		case file != nil:
			what = "an import"
			must(t, errOf(h.Runtime().ImportSQL(ctx, host.Address{Type: "library", Key: []string{"one"}}, bytes.NewReader(file), "test")))
			sound(t, ref.KV(), what+", at once")
		}
		if rnd.IntN(3) > 0 {
			time.Sleep(time.Second) // the built indexes are ready
			list, err := ref.KV().Indexes(ctx)
			fatalIf(t, err != nil || slices.ContainsFunc(list, func(ix kv.Index) bool { return ix.Building }),
				"step %d, %s: %+v, %v", step, what, list, err)
		}
		sound(t, ref.KV(), fmt.Sprintf("step %d, %s", step, what))
	}
	time.Sleep(4 * time.Hour) // expired entries are removed
	list, err := ref.KV().Indexes(ctx)
	must(t, err)
	for _, ix := range list {
		n, err := ref.KV().Count(ctx, kv.Selection{Prefix: ix.Prefix})
		errorIf(t, ix.Building || ix.Documents != n || err != nil,
			"at the end %v has %d documents, want %d, %v; building: %t", ix.Prefix, ix.Documents, n, err, ix.Building)
	}
}

// setIndex makes an index of t below d.
func setIndex(t *testing.T, store kv.Store, tokenizer string) {
	t.Helper()
	must(t, errOf(store.SetIndex(t.Context(), kv.IndexConfig{Prefix: kv.Key{"d"}, Fields: []kv.Field{{Path: "t"}}, Tokenizer: tokenizer})))
}

func commit(t *testing.T, store kv.Store, m ...kv.Mutation) {
	t.Helper()
	must(t, errOf(store.Commit(t.Context(), kv.Commit{Mutations: m})))
}

// An expired entry that a handler deletes before the purge leaves nothing in the index.
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

// The index is built even if an imported database uses its name.
func TestImportOfReservedNamesLeavesAnIndex(t *testing.T) {
	actortest.Run(t, func(t *testing.T, h *actortest.Harness) {
		store, addr := libraries.Ref(h, "one").KV(), host.Address{Type: "library", Key: []string{"one"}}
		commit(t, store, kv.Put(bookKey(1), book("red apple")))
		for _, text := range []string{
			"CREATE TABLE t (a)", "CREATE VIEW cairn_xx_1_map AS SELECT 1", "CREATE INDEX cairn_xx_1 ON t (a)", `CREATE TABLE "cairn_xx_""1" (a)`,
			"CREATE TRIGGER cairn_xx_1_t AFTER INSERT ON t BEGIN SELECT 1; END", "CREATE TABLE cairn_xx_1_data (a)", "CREATE VIEW kept AS SELECT 1",
		} {
			must(t, errOf(h.Call(t.Context(),
				&host.Request{Address: addr, Method: host.SQLExec, Codec: host.JSON, Input: fmt.Appendf(nil, `{"sql":%q}`, text)})))
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

// An entry that is too large for a turn does not keep other entries out of an index.
func TestAnEntryThatIsTooLargeDoesNotStopAnIndex(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	var large strings.Builder
	for large.Len() < 75<<10 {
		fmt.Fprintf(&large, "%x ", rnd.Uint32())
	}
	definition := actor.Define(libraries,
		actor.Spec[library]{OpenKV: true, Limits: actor.Limits{WriteSetBytes: 128 << 10}}, actor.On(shelve, (*library).shelve))
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
