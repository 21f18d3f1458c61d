package kv

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"reflect"
	"slices"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
)

func pack(parts ...any) []byte {
	b, err := tuple.Tuple(parts).Pack()
	if err != nil {
		panic(err)
	}
	return b
}

// A cursor is the client's: it must not lead out of the selection.
func TestCursorsStayInTheirSelection(t *testing.T) {
	start, end := pack("b"), append(pack("b"), 0xFF)
	for _, c := range []struct {
		last []byte
		ok   bool
	}{{pack("b"), true}, {pack("b", 1), true}, {pack("a"), false}, {pack("c"), false}, {nil, false}, {end, false}} {
		_, err := after(cursorOf(7, c.last), 7, start, end)
		errorIf(t, (err == nil) != c.ok, "%x: %v", c.last, err)
	}
	_, err := after(cursorOf(7, pack("z")), 7, nil, nil)
	errorIf(t, err != nil, "%v", err)
	_, err = after(cursorOf(7, pack("b")), 8, start, end)
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}

// Nothing is below the empty key; a range that ends there must not reach the end of the store.
func TestRangesWithAnEmptyEndAreRefused(t *testing.T) {
	for _, text := range []string{`{"end":[]}`, `{"start":["a"],"end":[]}`} {
		var s kv.Selection
		must(t, json.Unmarshal([]byte(text), &s))
		_, _, err := bounds(&s)
		e, ok := err.(*host.Error)
		errorIf(t, !ok || e.Code != host.InvalidArgument || e.Metadata["field"] != "end", "%s: %v", text, err)
	}
}

func TestMutationsThatCannotBeDoneNameTheMember(t *testing.T) {
	for _, c := range []struct {
		text, field string
		code        host.Code
	}{
		{`{"op":"sum","key":["a"],"value":1,"min":"x","max":"y"}`, "min", host.InvalidArgument},
		{`{"op":"sum","key":["a"],"value":1,"min":1.5}`, "", ""}, // the stored value may be a double
		{`{"op":"sum","key":["a"],"value":1,"min":3,"max":2}`, "min", host.InvalidArgument},
		{`{"op":"sum","key":["a"],"value":1,"min":2,"max":2}`, "", ""},
		{`{"op":"sum","key":["a"],"value":"1"}`, "value", host.InvalidArgument},
		{`{"op":"min","key":["a"],"value":1,"min":1}`, "min", host.InvalidArgument},
		{`{"op":"put","key":[],"value":1}`, "key", host.InvalidArgument},
		{`{"op":"put","key":["a"]}`, "value", host.InvalidArgument},
		{`{"op":"put","key":["a"],"value":null}`, "", ""},
		{`{"op":"put","key":["a"],"value":1,"ttl_ms":-1}`, "ttl_ms", host.InvalidArgument},
		{`{"op":"touch","key":["a"]}`, "ttl_ms", host.InvalidArgument},
		{`{"op":"delete_range"}`, "prefix", host.InvalidArgument},
		{`{"op":"set","key":["a"],"value":1}`, "op", host.InvalidArgument},
	} {
		for range 20 {
			var in kv.Mutation
			must(t, json.Unmarshal([]byte(c.text), &in))
			err := parseMutation(new(kvrows.Mutation), host.JSON, &in, &resolver{now: time.Now()})
			fatalIf(t, host.CodeOf(err) != c.code, "%s: %v", c.text, err)
			e, ok := err.(*host.Error)
			fatalIf(t, ok && e.Metadata["field"] != c.field, "%s: %+v, want the field %q", c.text, e, c.field)
		}
	}
}

// rowsOf has the rows of some keys only.
type rowsOf [][]byte

func (r rowsOf) Get(key []byte) (engine.Entry, bool, error) {
	return engine.Entry{Key: key, Value: key, Encoding: uint8(host.EncodedBytes)}, keyspace.UserKV.Has(key), nil
}

func (r rowsOf) List(q engine.ListQuery) (p engine.Page, err error) {
	for _, key := range r {
		if bytes.Compare(key, q.Start) < 0 || bytes.Compare(key, q.End) >= 0 || bytes.Compare(key, q.After) <= 0 {
			continue
		}
		if len(p.Entries) == q.Limit {
			p.Next = p.Entries[q.Limit-1].Key
			break
		}
		p.Entries = append(p.Entries, engine.Entry{Key: key})
	}
	return p, nil
}

func (r rowsOf) Each(q engine.ListQuery, visit func(*engine.Entry) bool) error {
	for _, key := range r {
		if bytes.Compare(key, q.Start) < 0 || bytes.Compare(key, q.End) >= 0 {
			continue
		}
		key := bytes.Clone(key)
		more := visit(&engine.Entry{Key: key})
		if clear(key); !more { // it is valid during the visit
			break
		}
	}
	return nil
}

// numbered reads rows with the keys a/0, a/1 and so on.
func numbered(n int) *reader {
	var rows rowsOf
	for i := range n {
		rows = append(rows, keyspace.UserKV.Append(nil, pack("a", i)))
	}
	return &reader{rows: rows, codec: host.JSON}
}

// A count and a sample of more entries than a call reads go on at their cursor, until each entry
// was seen once.
func TestCountsGoOnAtTheirCursor(t *testing.T) {
	r := numbered(25)
	for most := 1; most < 30; most++ {
		in, sampled := kv.CountInput{Selection: kv.Selection{Prefix: kv.Key{"a"}}},
			kv.SampleInput{Selection: kv.Selection{Prefix: kv.Key{"a"}}, N: 5}
		n, calls, chosen := int64(0), 0, map[string]bool{}
		for {
			out, err := r.count(&in, most)
			n, calls = n+out.Count, calls+1
			part, err2 := r.sample(&sampled, most)
			if err := errors.Join(err, err2); err != nil || part.Count != out.Count || part.Cursor != out.Cursor ||
				len(part.Entries) != min(5, int(part.Count)) {
				t.Fatalf("%d: %+v, %+v, %v", most, out, part, err)
			}
			for _, e := range part.Entries {
				chosen[fmt.Sprint(e.Key)] = true
			}
			if in.Cursor = out.Cursor; in.Cursor == "" {
				break
			}
			sampled.Cursor = part.Cursor
		}
		errorIf(t, n != 25 || calls > 25/most+1 || most <= 5 && len(chosen) != 25,
			"%d at a time: counted %d in %d calls, %d were chosen", most, n, calls, len(chosen))
	}
	in := kv.CountInput{Selection: kv.Selection{Prefix: kv.Key{"b"}},
		Cursor: cursorOf(listingOf(pack("a"), append(pack("a"), 0xFF)), pack("a", 1))}
	_, err := r.count(&in, 1)
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%v", err)
}

// A sample keeps no memory of the rows that it visits.
func TestASampleHoldsNoRows(t *testing.T) {
	r := numbered(20)
	out, err := r.sample(&kv.SampleInput{N: 5, KeysOnly: true}, 1000)
	errorIf(t, err != nil || len(out.Entries) != 5 || out.Count != 20, "%+v, %v", out, err)
	for _, e := range out.Entries {
		errorIf(t, e.Key[0] != "a", "the key is %v", e.Key)
	}
}

// Each entry is chosen as often as any other, and a seed always chooses the same ones.
func TestSamplesAreFairAndDecidedByTheSeed(t *testing.T) {
	r := numbered(20)
	counts := make([]int, 20)
	for seed := range uint64(2000) {
		var twice [2]kv.SampleOutput
		for i := range twice {
			var err error
			twice[i], err = r.sample(&kv.SampleInput{N: 5, Seed: seed}, 1000)
			must(t, err)
		}
		fatalIf(t, !reflect.DeepEqual(twice[0], twice[1]) || len(twice[0].Entries) != 5 || twice[0].Count != 20, "%+v", twice)
		last := int64(-1)
		for _, e := range twice[0].Entries {
			n := e.Key[1].(int64)
			fatalIf(t, n <= last, "%+v is not in order", twice[0])
			last = n
			counts[n]++
		}
	}
	for i, n := range counts { // 500 are expected
		errorIf(t, n < 400 || n > 600, "entry %d was chosen %d times", i, n)
	}
}

// A client may make any cursor.
func TestForgedCursorsAreRefused(t *testing.T) {
	prefix := pack("p")
	mark := fnv.New64a()
	mark.Write([]byte("groups"))
	mark.Write(prefix)
	for _, last := range [][]byte{{4, 0xFE}, keyspace.UserKV.Append(nil, prefix), keyspace.UserKV.Append(nil, pack("q")), {0xFF}} {
		in := kv.GroupsInput{Prefix: kv.Key{"p"}, Cursor: cursorOf(mark.Sum64(), last)}
		_, err := groups(&reader{rows: nothing{}}, &in)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%x: %v", last, err)
	}
}

// An index that SQLite refuses to change falls behind from the least key of the turn on, and one
// with a damaged table is made anew.
func TestAnIndexThatCannotBeChangedIsLate(t *testing.T) {
	list := []*kvrows.Index{
		{Prefix: []byte("a"), IndexState: kvrows.IndexState{ID: 1}},
		{Prefix: []byte("b"), IndexState: kvrows.IndexState{ID: 2, Behind: true, After: []byte("bm"), Due: 3}},
		{Prefix: []byte("c"), IndexState: kvrows.IndexState{ID: 3, Behind: true, After: []byte("cm"), Due: 3}},
	}
	state := func(ix kvrows.Index) string {
		return fmt.Sprintf("%d after %q at %d %t", ix.ID, ix.After, ix.Due, ix.Fresh)
	}
	for _, c := range []struct {
		x       indexing
		damaged bool
		want    []string
	}{
		{x: indexing{keys: map[string]bool{"ax": true, "by": true}}, want: []string{`1 after "a" at 9 false`, `2 after "" at 3 false`}},
		{x: indexing{keys: map[string]bool{"by": true}}, want: []string{`2 after "b" at 3 false`}},
		{x: indexing{ranges: []span{{"bz", ""}}}, want: []string{`2 after "b" at 3 false`, `3 after "" at 3 false`}},
		{x: indexing{all: true, from: "bz"}, want: []string{`2 after "b" at 3 false`, `3 after "" at 3 false`}},
		{x: indexing{build: 3}, want: []string{`3 after "cm" at 9 false`}},
		{x: indexing{build: 3}, damaged: true, want: []string{`3 after "" at 9 true`}},
		{x: indexing{keys: map[string]bool{"ax": true}}, damaged: true, want: []string{`1 after "" at 9 true`}},
	} {
		var got []string
		for _, ix := range c.x.late(list, c.damaged, false, 9-indexPause.Milliseconds()) {
			errorIf(t, !ix.Behind, "%d is not behind", ix.ID)
			got = append(got, state(ix))
		}
		errorIf(t, !slices.Equal(got, c.want), "%+v: %q, want %q", c.x, got, c.want)
	}
}

// All replies of a store wait for publish, regardless of how much is watched.
func TestPublishIsShort(t *testing.T) {
	const size = 1000
	h := new(hub)
	for n := range kv.MaxWatchers {
		w := &watch{hub: h, actor: "a", signal: make(chan struct{}, 1)}
		for p := range kv.MaxWatchedPrefixes {
			w.prefixes = append(w.prefixes, fmt.Sprintf("%s%02d%d", strings.Repeat("p", size+p*60+n%60), p, n))
		}
		must(t, h.join(w))
	}
	keys, ranges := &touched{version: 1}, &touched{version: 2}
	for i := range maxTouched {
		keys.keys = append(keys.keys, fmt.Sprint(strings.Repeat("p", 2000), i))
	}
	for i := range maxRanges {
		ranges.ranges = append(ranges.ranges, span{fmt.Sprintf("q%d", i), fmt.Sprintf("q%d~", i)})
	}
	for name, what := range map[string]*touched{"keys": keys, "ranges": ranges} {
		best := time.Hour
		for n := 0; n < 1000 && best > 10*time.Millisecond; n++ { // a loaded machine lets few end undisturbed
			began := time.Now()
			h.publish("a", what)
			best = min(best, time.Since(began))
		}
		errorIf(t, best > 10*time.Millisecond, "to publish %s takes %s", name, best)
	}
}

// Readers mark the changes that publish leaves to them as publish marks them. Too many changes mark
// everything.
func TestReadersMarkWhatTheyAreHanded(t *testing.T) {
	h := new(hub)
	w := &watch{hub: h, actor: "a", signal: make(chan struct{}, 1), keys: []string{"b"}, prefixes: []string{"k"}}
	must(t, h.join(w))
	what := &touched{version: 5, keys: []string{"a", "b", "k1", "k\xff"}, ranges: []span{
		{"", "b"}, {"", "c"}, {"k", "k\xff"}, {"k7", ""}, {"k\xff", ""}, {"j", "k"}, {"j", "k0"}, {"l", "m"},
	}}
	for _, handed := range []bool{false, true} {
		if w.dirty = (dirt{}); handed {
			w.hand(what)
			w.touch("k1", 6) // a later one, marked before
		} else {
			h.publish("a", what)
		}
		d := w.take(0)
		want := map[string]engine.Version{"b": 5, "k1": 5}
		if handed {
			want["k1"] = 6
		}
		got := fmt.Sprint(d.keys)
		errorIf(t, got != fmt.Sprint(want) || len(d.ranges) != 4 || d.all, "handed %v: marked %v %v", handed, got, d.ranges)
	}
	w.dirty = dirt{}
	many := &touched{version: 7}
	for i := range maxTouched {
		many.keys = append(many.keys, fmt.Sprint("other", i))
	}
	for n, all := range []bool{false, false, true} {
		w.hand(many)
		errorIf(t, w.dirty.all != all, "%d keys: all %v", (n+1)*maxTouched, w.dirty.all)
	}
	errorIf(t, len(w.handed) != 0, "they are kept")
}

// shown writes the pieces of a snippet as text, with brackets around matches.
func shown(marked string, most int) string {
	parts, _ := excerpt(marked, most)
	var b strings.Builder
	for _, p := range parts {
		if p.Match {
			b.WriteString("[" + p.Text + "]")
		} else {
			b.WriteString(p.Text)
		}
	}
	return b.String()
}

var marks = strings.NewReplacer("[", matchOpen, "]", matchClose)

func TestExcerpt(t *testing.T) {
	for _, c := range []struct {
		text string
		most int
		want string
	}{
		{"no match", 5, ""},
		{"", 5, ""},
		{"a [red] apple", 5, "a [red] apple"},
		{"(a [red] apple)!", 3, "(a [red] apple)!"},
		{"one two three four [five] six seven eight", 3, "…four [five] six…"},
		{"one [two] three four five", 3, "one [two] three…"},
		{"one two three [four]", 2, "…three [four]"},
		{"[one] two three [four] [five] six", 2, "…[four] [five]…"},
		{"[a] [a] [a] x [a] [b]", 3, "…x [a] [b]"},
		{"a p[pl]e tree", 1, "…p[pl]e…"},
		{"[red apple] pie", 1, "[red]…"},
		{strings.Repeat("字", 40) + "[字]" + strings.Repeat("字", 40), 1,
			"…" + strings.Repeat("字", 8) + "[字]" + strings.Repeat("字", 23) + "…"},
	} {
		got := shown(marks.Replace(c.text), c.most)
		errorIf(t, got != c.want, "%s: %q, want %q", c.text, got, c.want)
	}
}

// The time of a snippet grows with its text alone.
func TestExcerptOfMuchThatMatches(t *testing.T) {
	begin := time.Now()
	got := shown(strings.Repeat(matchOpen+"a"+matchClose+" ", 100_000), 3)
	errorIf(t, got != "[a] [a] [a]…", "%v", got)
	d := time.Since(begin)
	errorIf(t, d > 30*time.Second, "it took %s", d)
}

func FuzzExcerpt(f *testing.F) {
	f.Add("a "+matchOpen+"b"+matchClose+" c", 2)
	f.Add(matchClose+matchOpen+"é", 1)
	f.Fuzz(func(t *testing.T, marked string, most int) {
		if most < 1 || most > 64 || !utf8.ValidString(marked) {
			return
		}
		text, _ := unmark(marked)
		parts, score := excerpt(marked, most)
		var b strings.Builder
		for _, p := range parts {
			b.WriteString(p.Text)
		}
		got := strings.TrimSuffix(strings.TrimPrefix(b.String(), "…"), "…")
		errorIf(t, !strings.Contains(text, got) || (score == 0) != (len(parts) == 0), "%q is not of %q, %d", got, text, score)
	})
}
