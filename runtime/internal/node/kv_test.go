package node

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

// inCBOR calls a built-in method of actor a with CBOR.
func inCBOR[Out any](g *stage, method string, in any) (out Out) {
	g.t.Helper()
	if err := g.cbor("a", method, in, &out); err != nil {
		g.t.Fatal(err)
	}
	return out
}

// What the methods answer in JSON is in testdata/kv, and in testdata/kv.txt of package cell.
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
		if e == nil || e.Encoding != v.encoding || string(e.Value) != string(kv.ByteString([]byte(v.data))) || fmt.Sprint(e.Key) != fmt.Sprint(key) {
			t.Errorf("%s in CBOR: %+v", v.encoding, e)
		}
		var shown kv.GetOutput
		if g.mustVerb("a", host.KVGet, kv.GetInput{Key: key}, &shown); string(shown.Entry.Value) != v.text {
			t.Errorf("%s in JSON: %s", v.encoding, shown.Entry.Value)
		}
	}
	many := inCBOR[kv.GetManyOutput](g, host.KVGetMany, kv.GetManyInput{Keys: []kv.Key{{"no"}, {int64(0), []byte{0, 1}, "k", 2.0, true}}})
	if len(many.Entries) != 2 || many.Entries[0] != nil || many.Entries[1] == nil {
		t.Errorf("many: %+v", many)
	}
}

// Pages of any size, together, are what one page has.
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
	for _, selection := range []kv.Selection{{}, {Prefix: kv.Key{"user"}}, {Start: kv.Key{"u", int64(3)}}, {Start: kv.Key{"u"}, End: kv.Key{"users", int64(0)}}} {
		for _, where := range []string{"", `{"n":{"$lt":3}}`, `{"n":9}`} {
			var whole []string
			for _, limit := range []int{1000, 1, 2, 7} {
				for _, reverse := range []bool{false, true} {
					var got []string
					list := kv.ListInput{Selection: selection, Where: host.Raw(where), Limit: limit, Reverse: reverse}
					for {
						var page kv.ListOutput
						g.mustVerb("a", host.KVList, list, &page)
						for _, e := range page.Entries {
							got = append(got, fmt.Sprint(e.Key, " ", string(e.Value)))
						}
						if len(page.Entries) > limit {
							t.Fatalf("a page of %d entries, not %d", len(page.Entries), limit)
						}
						if list.Cursor = page.Cursor; list.Cursor == "" {
							break
						}
					}
					if reverse {
						slices.Reverse(got)
					}
					if whole == nil {
						whole = got
					}
					if !slices.Equal(got, whole) {
						t.Errorf("%+v, where %s, limit %d, reverse %v: %v, not %v", selection, where, limit, reverse, got, whole)
					}
				}
			}
			var n host.CountOutput
			if g.mustVerb("a", host.KVCount, kv.CountInput{Selection: selection}, &n); where == "" && n.Count != int64(len(whole)) {
				t.Errorf("%+v: counted %d of %d", selection, n.Count, len(whole))
			}
		}
	}
}

// A commit of a handler that fails leaves what the turn has done before, and the turn goes on.
func TestAFailedCommitOfAHandlerUndoesItselfAlone(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	put := func(key string, value string) kv.Mutation {
		return kv.Mutation{Op: "put", Key: kv.Key{key}, Value: kv.ByteString([]byte(value))}
	}
	g.must("a", func(_ *puppet, h host.Turn) error {
		c := h.(kv.Committer)
		if out, err := c.KVCommit(&kv.CommitInput{Mutations: []kv.Mutation{put("before", `"x"`)}}); err != nil || !out.OK {
			t.Error(out, err)
		}
		_, err := c.KVCommit(&kv.CommitInput{Mutations: []kv.Mutation{
			put("lost", "1"), {Op: "delete_range", Selection: kv.Selection{Prefix: kv.Key{}}}, {Op: "sum", Key: kv.Key{"lost"}, Value: kv.ByteString([]byte("1"))},
			put("text", `"x"`), {Op: "sum", Key: kv.Key{"text"}, Value: kv.ByteString([]byte("1"))},
		}})
		wantCode(t, err, host.FailedPrecondition)
		out, err := c.KVCommit(&kv.CommitInput{
			Checks: []kv.Check{{Key: kv.Key{"before"}, Exists: new(true)}, {Key: kv.Key{"lost"}, Exists: new(true)}}, Mutations: []kv.Mutation{put("no", "1")},
		})
		if err != nil || out.OK || !slices.Equal(out.Failed, []int{1}) {
			t.Error(out, err)
		}
		out, err = c.KVCommit(&kv.CommitInput{Mutations: []kv.Mutation{put("after", "2")}})
		if err != nil || !out.OK {
			t.Error(out, err)
		}
		return nil
	})
	g.crash()
	var page kv.ListOutput
	if g.mustVerb("a", host.KVList, kv.ListInput{}, &page); len(page.Entries) != 2 || page.Entries[0].Key[0] != "after" || page.Entries[1].Key[0] != "before" {
		t.Errorf("%+v", page.Entries)
	}
}

// What a function of Update did in the store is undone alone if it fails; the turn goes on, and what it did elsewhere fails it.
func TestUpdateOfAHandlerUndoesTheStoreAlone(t *testing.T) {
	var log changeLog
	bubble(t, func(o *Options) { o.Changes = &log }, nil, func(t *testing.T, g *stage) { updateAlone(t, g, &log) })
}

func updateAlone(t *testing.T, g *stage, log *changeLog) {
	refused := errors.New("refused")
	put := func(h host.Turn, key string, expire time.Time) error {
		return h.KVPut([]byte{2, key[0], 0}, []byte("x"), host.EncodedText, expire)
	}
	has := func(h host.Turn) (keys string) {
		list, err := keysOf(h, host.KVQuery{})
		for _, key := range list {
			keys += string(key[1:2])
		}
		if err != nil {
			t.Error(err)
		}
		return keys
	}
	g.must("a", func(_ *puppet, h host.Turn) error {
		c := h.(kv.Committer)
		if err := put(h, "a", time.Time{}); err != nil {
			return err
		}
		undone, err := c.KVUpdate(func() error {
			if undone, err := c.KVUpdate(func() error { return put(h, "b", time.Time{}) }); undone || err != nil { // nested
				t.Error(undone, err)
			}
			if undone, err := c.KVUpdate(func() error { return errors.Join(put(h, "c", h.Now().Add(time.Hour)), refused) }); !undone || !errors.Is(err, refused) {
				t.Error(undone, err)
			}
			if is := has(h); is != "ab" {
				t.Error(is)
			}
			_, err := c.KVCommit(&kv.CommitInput{Mutations: []kv.Mutation{
				{Op: "delete_range", Selection: kv.Selection{Prefix: kv.Key{}}}, {Op: "put", Key: kv.Key{"d"}, Value: kv.ByteString([]byte("1"))},
			}})
			if is := has(h); is != "d" || err != nil {
				t.Error(is, err)
			}
			return refused
		})
		if is := has(h); !undone || !errors.Is(err, refused) || is != "a" {
			t.Error(undone, err, is)
		}
		undone, err = c.KVUpdate(func() error { return put(h, "e", h.Now().Add(time.Hour)) })
		if is := has(h); undone || err != nil || is != "ae" {
			t.Error(undone, err, is)
		}
		return nil
	})
	if lines := log.take("kv"); !slices.Equal(lines, []string{"kv  op=put key=[a]", "kv  op=put key=[e]"}) {
		t.Errorf("published is %q", lines)
	}
	g.must("a", func(_ *puppet, h host.Turn) error {
		undone, err := h.(kv.Committer).KVUpdate(func() error {
			return errors.Join(put(h, "f", time.Time{}), h.SetAlarm(host.Alarm{Name: "ring", Due: h.Now().Add(time.Hour)}), refused)
		})
		if undone || !errors.Is(err, refused) {
			t.Error(undone, err)
		}
		_, err = h.KVDelete([]byte{2, 'f', 0})
		return err
	})
	g.crash()
	g.must("a", func(_ *puppet, h host.Turn) error {
		if is := has(h); is != "ae" {
			t.Error(is)
		}
		return nil
	})
}

func TestCommitsBoundWhatTheyWrite(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p"})
	g.must("a", add(1))
	const puts, key = 8, 3 // bytes of a key of one letter as it is stored
	text, exists := kv.ByteString(make([]byte, kv.MaxCommit/puts-key)), true
	in := kv.CommitInput{Checks: []kv.Check{{Key: kv.Key{"none"}, Exists: &exists}}} // which fails, so that nothing so large is written
	for i := range puts {
		in.Mutations = append(in.Mutations, kv.Mutation{Op: "put", Key: kv.Key{string(rune('a' + i))}, Value: text, Encoding: "bytes"})
	}
	over := in
	over.Mutations = append(slices.Clip(in.Mutations), kv.Mutation{Op: "delete", Key: kv.Key{"z"}})
	e := wantCode(t, g.cbor("a", host.KVCommit, over, nil), host.TooLarge)
	if e.Metadata["field"] != "mutations" || e.Metadata["limit"] != "8388608" || e.Metadata["actual"] != "8388611" {
		t.Errorf("%v %v", e, e.Metadata)
	}
	var out kv.CommitOutput
	if err := g.cbor("a", host.KVCommit, in, &out); err != nil || out.OK || len(out.Failed) != 1 {
		t.Errorf("a commit of the largest size: %+v, %v", out, err)
	}
}

// A commit reads so much for its filters and checks, and says so if that is not enough. Then nothing is done.
func TestCommitsBoundWhatTheyRead(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil, &puppetType{name: "p", limits: host.Limits{TurnTimeout: time.Hour}})
	g.must("a", add(1))
	n := 0
	fill := func(to int) {
		var in kv.CommitInput
		for ; n < to; n++ {
			in.Mutations = append(in.Mutations, kv.Mutation{Op: "put", Key: kv.Key{"n", int64(n)}, Value: host.Raw("1")})
		}
		g.mustVerb("a", host.KVCommit, in, new(kv.CommitOutput))
	}
	refused := func(in kv.CommitInput, field string, actual int) {
		t.Helper()
		if e := wantCode(t, g.verb("a", host.KVCommit, in, new(kv.CommitOutput)), host.TooLarge); e.Metadata["field"] != field || e.Metadata["actual"] != fmt.Sprint(actual) {
			t.Errorf("%v %v", e, e.Metadata)
		}
	}
	fill(kv.MaxFiltered)
	part := kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: kv.Key{"n"}}, Where: host.Raw(`{"$key[1]":{"$lt":5}}`)}
	var out kv.CommitOutput
	if g.mustVerb("a", host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{part}}, &out); out.Results[0].Deleted != 5 {
		t.Errorf("%+v", out)
	}
	refused(kv.CommitInput{Mutations: []kv.Mutation{{Op: "delete", Key: kv.Key{"n", int64(9)}}, part, part}}, "mutations[2].where", kv.MaxFiltered+1)

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
	if g.mustVerb("a", host.KVCommit, kv.CommitInput{Checks: pages}, &out); !out.OK {
		t.Errorf("%+v", out)
	}
	refused(kv.CommitInput{Checks: slices.Repeat(pages, 11)}, "checks", kvrows.MaxChecked+1)

	large := host.Raw(`"` + strings.Repeat("x", 1<<20-2) + `"`)
	g.mustVerb("a", host.KVCommit, kv.CommitInput{Mutations: []kv.Mutation{{Op: "put", Key: kv.Key{"large"}, Value: large}}}, &out)
	forever := int64(0)
	refused(kv.CommitInput{
		Checks:    []kv.Check{{Key: kv.Key{"large"}, Value: large}}, // is read as well, so that 64 are not too many
		Mutations: slices.Repeat([]kv.Mutation{{Op: "touch", Key: kv.Key{"large"}, TTLMS: &forever}}, 64),
	}, "mutations[63]", 65<<20)
	if e := g.verb("a", host.KVGet, kv.GetInput{Key: kv.Key{"n", int64(9)}}, new(kv.GetOutput)); e != nil {
		t.Error(e)
	}
}
