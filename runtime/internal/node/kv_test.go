package node

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// inCBOR calls a built-in method of actor a with CBOR.
func inCBOR[Out any](g *stage, method string, in any) (out Out) {
	g.t.Helper()
	g.ok(g.cbor("a", method, in, &out))
	return out
}

// The JSON answers of the methods are in testdata/kv, and in testdata/kv.txt of package cell.
func TestKVMethodsCarryStoredFormsInCBOR(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	for i, v := range []struct{ encoding, data, text string }{
		{"json", `{"n":1.50}`, `{"n":1.50}`}, {"text", "é", `"é"`}, {"bytes", "\x00\xff", `{"$bytes":"AP8="}`},
		{"bytes", "", `{"$bytes":""}`}, {"text", "", `""`},
		{"u64", "\xff\xff\xff\xff\xff\xff\xff\xff", "18446744073709551615"}, {"integer", "\x01\x05", "-5"},
		{"cbor", "\x81\x01", "[1]"}, {"typed", "\xa1\x61n\x01", `{"n":1}`}, {"v8", "\xff\x0fI\x02", "1"},
	} {
		key := kv.Key{int64(i), []byte{0, 1}, "k", 2.0, true}
		out := inCBOR[kv.CommitOutput](g, host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{
			{Op: "put", Key: key, Value: kv.ByteString([]byte(v.data)), Encoding: v.encoding},
		}})
		if !out.OK || out.Version == 0 {
			t.Errorf("%s: %+v", v.encoding, out)
		}
		e := inCBOR[kv.GetOutput](g, host.KVGet, kv.GetInput{Key: key}).Entry
		if e == nil || e.Encoding != v.encoding || string(e.Value) != string(kv.ByteString([]byte(v.data))) ||
			fmt.Sprint(e.Key) != fmt.Sprint(key) {
			t.Errorf("%s in CBOR: %+v", v.encoding, e)
		}
		var shown kv.GetOutput
		if g.mustVerb("a", host.KVGet, kv.GetInput{Key: key}, &shown); string(shown.Entry.Value) != v.text {
			t.Errorf("%s in JSON: %s", v.encoding, shown.Entry.Value)
		}
	}
	many := inCBOR[kv.GetManyOutput](g, host.KVGetMany, kv.GetManyInput{Keys: []kv.Key{{"no"}, {int64(0), []byte{0, 1}, "k", 2.0, true}}})
	errorIf(t, len(many.Entries) != 2 || many.Entries[0] != nil || many.Entries[1] == nil, "many: %+v", many)
}

// Pages of any size, together, have the entries of one page.
func TestPagesOfAListingAreTheListing(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	var in kv.CommitInput
	for i := range 40 {
		key := kv.Key{[]string{"u", "user", "users"}[i%3], int64(i - 20)}
		in.Mutations = append(in.Mutations, kv.Mutation{Op: "put", Key: key, Value: host.Raw(fmt.Sprintf(`{"n":%d}`, i%7))})
	}
	g.mustVerb("a", host.KVCommit, in, new(kv.CommitOutput))
	pages := func(list kv.ListInput) (all []string) {
		for {
			var page kv.ListOutput
			g.mustVerb("a", host.KVList, list, &page)
			for _, e := range page.Entries {
				all = append(all, fmt.Sprint(e.Key, " ", string(e.Value)))
			}
			fatalIf(t, len(page.Entries) > list.Limit, "a page of %d entries, not %d", len(page.Entries), list.Limit)
			if list.Cursor = page.Cursor; list.Cursor == "" {
				return all
			}
		}
	}
	for _, selection := range []kv.Selection{{}, {Prefix: kv.Key{"user"}}, {Start: kv.Key{"u", int64(3)}},
		{Start: kv.Key{"u"}, End: kv.Key{"users", int64(0)}}} {
		for _, where := range []string{"", `{"n":{"$lt":3}}`, `{"n":9}`} {
			list := kv.ListInput{Selection: selection, Where: host.Raw(where), Limit: 1000}
			whole := pages(list)
			for _, list.Limit = range []int{1000, 1, 2, 7} {
				for _, list.Reverse = range []bool{false, true} {
					got := pages(list)
					if list.Reverse {
						slices.Reverse(got)
					}
					errorIf(t, !slices.Equal(got, whole), "%+v: %v, not %v", list, got, whole)
				}
			}
			var n host.CountOutput
			if g.mustVerb("a", host.KVCount, kv.CountInput{Selection: selection}, &n); where == "" && n.Count != int64(len(whole)) {
				t.Errorf("%+v: counted %d of %d", selection, n.Count, len(whole))
			}
		}
	}
}

func TestCommitsBoundWhatTheyWrite(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	const puts, key = 8, 3 // bytes of a key of one letter as it is stored
	text := kv.ByteString(make([]byte, kv.MaxCommit/puts-key))
	in := kv.CommitInput{Checks: []kv.Check{{Key: kv.Key{"none"}, Exists: new(true)}}} // it fails, so that nothing so large is written
	for i := range puts {
		in.Mutations = append(in.Mutations, kv.Mutation{Op: "put", Key: kv.Key{string(rune('a' + i))}, Value: text, Encoding: "bytes"})
	}
	over := in
	over.Mutations = append(slices.Clip(in.Mutations), kv.Mutation{Op: "delete", Key: kv.Key{"z"}})
	e := wantCode(t, g.cbor("a", host.KVCommit, over, nil), host.TooLarge)
	errorIf(t, e.Metadata["field"] != "mutations" || e.Metadata["limit"] != "8388608" || e.Metadata["actual"] != "8388611",
		"%v %v", e, e.Metadata)
	out := inCBOR[kv.CommitOutput](g, host.KVCommit, in)
	errorIf(t, out.OK || len(out.Failed) != 1, "a commit of the largest size: %+v", out)
}

// A commit reads a bounded amount for its filters and checks, and fails beyond it. Then nothing is
// done.
func TestCommitsBoundWhatTheyRead(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: time.Hour}})
	g.must("a", add(1))
	commit := func(in kv.CommitInput) (out kv.CommitOutput) {
		t.Helper()
		g.mustVerb("a", host.KVCommit, in, &out)
		return out
	}
	refused := func(in kv.CommitInput, field string, actual int) {
		t.Helper()
		e := wantCode(t, g.verb("a", host.KVCommit, in, nil), host.TooLarge)
		errorIf(t, e.Metadata["field"] != field || e.Metadata["actual"] != fmt.Sprint(actual), "%v %v", e, e.Metadata)
	}
	var fill kv.CommitInput
	for n := range int64(kv.MaxFiltered) {
		fill.Mutations = append(fill.Mutations, kv.Mutation{Op: "put", Key: kv.Key{"n", n}, Value: host.Raw("1")})
	}
	commit(fill)
	part := kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: kv.Key{"n"}}, Where: host.Raw(`{"$key[1]":{"$lt":5}}`)}
	if out := commit(kv.CommitInput{Mutations: []kv.Mutation{part}}); out.Results[0].Deleted != 5 {
		t.Errorf("%+v", out)
	}
	refused(kv.CommitInput{Mutations: []kv.Mutation{{Op: "delete", Key: kv.Key{"n", int64(9)}}, part, part}},
		"mutations[2].where", kv.MaxFiltered+1)

	// A page ends by time too, so a slow machine makes more than one.
	var pages []kv.Check
	list := kv.ListOutput{}
	for more := true; more; more = list.Cursor != "" {
		in := kv.ListInput{Where: host.Raw(`{"$size":9}`), Digest: true, Cursor: list.Cursor}
		list = kv.ListOutput{}
		if g.mustVerb("a", host.KVList, in, &list); len(list.Entries) != 0 {
			t.Fatalf("%+v", list)
		}
		pages = append(pages, kv.Check{Digest: list.Digest})
	}
	if out := commit(kv.CommitInput{Checks: pages}); !out.OK {
		t.Errorf("%+v", out)
	}
	refused(kv.CommitInput{Checks: slices.Repeat(pages, 11)}, "checks", kvrows.MaxChecked+1)

	large := host.Raw(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	commit(kv.CommitInput{Mutations: []kv.Mutation{{Op: "put", Key: kv.Key{"large"}, Value: large}}})
	refused(kv.CommitInput{
		Checks:    []kv.Check{{Key: kv.Key{"large"}, Value: large}}, // is read as well, so that 64 are not too many
		Mutations: slices.Repeat([]kv.Mutation{{Op: "touch", Key: kv.Key{"large"}, TTLMS: new(int64)}}, 64),
	}, "mutations[63]", 65<<20)
	if _, there := g.stored("n")["n.9"]; !there {
		t.Error("a commit that was refused has deleted an entry")
	}
}

// Defects K21, B20 and L4 of KeyVal: it polls every 100 ms for each key, and the smallest change
// takes a statement. Here nobody polls: in a day of a thousand watchers nothing happens, and the
// actor sleeps.
func TestL4IdleWatchersDoNothing(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k.0=0")
		ctx, stop := context.WithCancel(t.Context())
		var woken atomic.Int64
		var readers sync.WaitGroup
		for i := range 1_000 {
			w := g.watch(kv.Watching{Keys: []kv.Key{{"k", fmt.Sprint(i)}}})
			readers.Go(func() {
				defer w.Close()
				for {
					if _, err := w.Next(ctx); err != nil {
						return
					}
					woken.Add(1)
				}
			})
		}
		synctest.Wait()
		time.Sleep(24 * time.Hour)
		st := g.status("a")
		errorIf(t, st.State != host.Asleep || woken.Load() != 0, "the actor is %s, %d watchers were woken", st.State, woken.Load())
		g.kv("k.7=1", "other=1") // one of the thousand is woken
		synctest.Wait()
		same(t, woken.Load(), 1, "watchers were woken")
		stop()
		readers.Wait()
	})
}

// Defect B19 of KeyVal: its client watches prefixes under a name that the server does not know, and
// never gets a change. Here an input that names nothing is refused, and so are too many names and
// too many watchers.
func TestB19WatchersThatNameNothingAreRefused(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		many := make([]kv.Key, kv.MaxWatchedKeys+1)
		for i := range many {
			many[i] = kv.Key{int64(i)}
		}
		for _, c := range []struct {
			w     kv.Watching
			code  host.Code
			field string
		}{
			{kv.Watching{}, host.InvalidArgument, "keys"},
			{kv.Watching{Keys: []kv.Key{{"a"}, {}}}, host.InvalidArgument, "keys[1]"},
			{kv.Watching{Prefixes: []kv.Key{{"a"}, {1.5, struct{}{}}}}, host.InvalidArgument, "prefixes[1]"},
			{kv.Watching{Prefixes: []kv.Key{nil}}, host.InvalidArgument, "prefixes[0]"},
			{kv.Watching{Keys: many}, host.TooLarge, "keys"},
			{kv.Watching{Prefixes: many[:kv.MaxWatchedPrefixes+1]}, host.TooLarge, "prefixes"},
		} {
			_, err := g.WatchKV(t.Context(), pAddr("a"), c.w)
			e := wantCode(t, err, c.code)
			errorIf(t, e.Metadata["field"] != c.field, "%v names the field %q, not %q", e, e.Metadata["field"], c.field)
		}
		_, err := g.WatchKV(t.Context(), host.Address{Type: "unknown"}, kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.UnknownType)

		g.kv("k=1")
		var watches []*watcher
		for i := range kv.MaxWatchers {
			watches = append(watches, g.watch(kv.Watching{Keys: []kv.Key{{int64(i)}}}))
		}
		_, err = g.WatchKV(t.Context(), pAddr("a"), kv.Watching{Prefixes: []kv.Key{{}}})
		wantCode(t, err, host.Overloaded)
		in := kv.WatchInput{Keys: []kv.WatchedKey{{Key: kv.Key{"k"}}}}
		g.mustVerb("a", host.KVWatch, in, nil) // does not wait, so it is no watcher
		in.WaitMS = 1000
		wantCode(t, g.verb("a", host.KVWatch, in, nil), host.Overloaded)
		for _, w := range watches {
			w.Close()
			w.Close()
		}
		g.watch(kv.Watching{Prefixes: []kv.Key{{}}}).Close()

		g.must("b", func(_ *puppet, h host.Turn) error { // it must not wait
			for method, input := range map[string]string{host.KVWatch: `{"keys":[{"key":["x"]}],"wait_ms":5}`,
				host.KVFeed: `{"after":4,"wait_ms":5}`} {
				_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: method, Codec: host.JSON, Input: []byte(input)})
				wantCode(t, err, host.InvalidArgument)
			}
			return nil
		})
	})
}

// A client does not read events of any size, so their JSON is bounded.
func TestEventsOfWatchersAreBoundedAsJSON(t *testing.T) {
	const keys, values = 3000 / smaller, 7
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.divided()
		for i := range keys + values {
			key, value := kv.Key{fmt.Sprint(strings.Repeat("<", 1900), i)}, "1"
			if i >= keys {
				key, value = kv.Key{"v", int64(i)}, `"`+strings.Repeat("&", 1_000_000/smaller)+`"`
			}
			g.must("a", func(_ *puppet, h host.Turn) error {
				return h.KVPut(mustPack(t, key), []byte(value), host.EncodedJSON, time.Time{})
			})
		}
		w := g.watch(kv.Watching{Prefixes: []kv.Key{{}}, Initial: true})
		defer w.Close()
		for more := true; more; {
			out, err := w.next(t.Context())
			must(t, err)
			text, err := json.Marshal(out)
			if more = out.More; err != nil || len(text) > 40<<20/smaller || more && len(text) < 30<<20/smaller {
				t.Errorf("an event of %d bytes, %v", len(text), err)
			}
		}
		errorIf(t, len(w.known) != keys+values, "%d entries", len(w.known))
	})
}

// A large commit leaves the comparison with its keys to its many watchers.
func TestManyWatchersOfALargeCommit(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("k.0=0", "k.1=1")
		var watches []*watcher
		for i := range 300 {
			key := []kv.Key{{"k", fmt.Sprint(i)}}
			at := kv.Watching{Keys: key}
			if i%3 == 0 {
				at = kv.Watching{Prefixes: key}
			}
			watches = append(watches, g.watch(at))
			defer watches[i].Close()
		}
		told := func(i int, want string) { same(t, watches[i].told(time.Millisecond), want, "watcher", i, "is told") }
		in := []string{"-k.1/"}
		for i := range 200 {
			in = append(in, fmt.Sprintf("k.%d=%d", i+100, i))
		}
		g.kv(in...)
		told(0, "nothing")
		told(1, "-k.1")
		for i := range 200 {
			told(i+100, fmt.Sprintf("k.%d=%d", i+100, i))
		}
		for range 2 * 17 { // more than a watch holds
			g.kv(in...)
		}
		told(150, "k.150=50")
		told(5, "nothing")
	})
}
