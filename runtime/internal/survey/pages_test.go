package survey

import (
	"cmp"
	"encoding/base64"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/internal/testutil"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

// pagesSource is a store of 20 actors of type t that are all awake, with keys of none to two parts.
func pagesSource(t *testing.T) source {
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	var keys [][]string
	for i := range 20 {
		key := []string{fmt.Sprint(i % 7), fmt.Sprint(i, "\x00")}[:min(i, 1+i/7, 2)]
		sp, err := store.NewSpace(store.NewActorID(engine.Identity{Key: key}))
		must(t, err)
		w := sp.Writes()
		err = w.Create(engine.Identity{Namespace: "ns", Type: "t", Key: key})
		n := int64(i-10) << (i * 2)
		for name, value := range map[string][]byte{
			"plan": tuple.AppendString(nil, strings.Repeat("a\x00", i%4)), "n": tuple.AppendInt(nil, n),
			"at": tuple.EndNested(tuple.AppendInt(tuple.BeginNested(nil), n)),
		} {
			if err == nil {
				err = w.Put(keyspace.Attribute.Append(nil, name), value, engine.PutOptions{})
			}
		}
		if err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		sp.Close()
		keys = append(keys, key)
	}
	return source{
		store: store, namespace: "ns", known: func(string) []host.Attribute { return nil },
		state: func(_ string, _ host.State, visit func(key []string)) error {
			for _, key := range keys {
				visit(key)
			}
			return nil
		},
		present: func(st *host.Status) error { st.State = host.Awake; return nil }, report: func(*host.Status) error { return nil },
	}
}

// TestPagesAgreeWithAListByKey draws queries. The pages of each, of few actors, have what one page has, in its order, and as many
// actors as a list in the order of the keys, which no index answers. A cursor of random bytes is refused, or goes on somewhere.
func TestPagesAgreeWithAListByKey(t *testing.T) {
	src := pagesSource(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[rnd.IntN(len(all))] }
	condition := func() string {
		op := pick("=", "!=", "<", "<=", ">", ">=")
		switch rnd.IntN(8) {
		case 0:
			return pick("", "state=awake", "state!=awake", "state=asleep", "run=failed", "run!=paused", "plan", "plan!x", "\xff=1", "\x00=1", "zz=1")
		case 1:
			return pick("size", "created", "updated") + op + pick("0", "16", "40", "1KiB", "9223372036854775807", "2026-01-01", "9999-12-31", "0000-01-01")
		}
		return pick("plan", "n", "at") + op + pick("", "a", `"a\x00"`, `"a\x00a\x00"`, "0", "-1", "-8", "-9223372036854775808", "9223372036854775807", "1970-01-01", "1969-12-31T23:59:59.99Z", `"`, `"\xff"`)
	}
	keys := func(q host.ListQuery) (all string) {
		t.Helper()
		for more := true; more; more = q.Cursor != "" {
			page, err := find(src, q)
			fatalIf(t, err != nil, "%+v: %v", q, err)
			for _, st := range page.Actors {
				all += fmt.Sprintf("%q,", st.Key)
			}
			q.Cursor = page.Cursor
		}
		return all
	}
	sound := 0
	add := func(typ string, key ...string) {
		t.Helper()
		sp, err := src.store.NewSpace(src.store.NewActorID(engine.Identity{Type: typ, Key: key}))
		must(t, err)
		if err = sp.Writes().Create(engine.Identity{Namespace: "ns", Type: typ, Key: key}); err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		sp.Close()
	}
	for _, key := range []string{"a", "b", "c"} { // no actor of these has an attribute
		add("a", key)
		add("z", key)
	}
	for range 300 {
		q := host.ListQuery{Type: "t", Where: []string{condition()}, Sort: pick("", "", "key", "-key", "size", "-size", "updated", "n", "-n", "plan", "-plan", "-at", "-", "\x00"), Limit: 1 + rnd.IntN(6), Brief: true}
		if rnd.IntN(2) == 0 {
			q.Where = append(q.Where, condition())
		}
		if rnd.IntN(4) == 0 {
			q.Prefix = []string{pick("1", "6", "zz", "\x00")}
		}
		s, err := newSearch(src, q)
		fatalIf(t, err != nil, "%+v: %v", q, err)
		if s.refused != nil {
			if _, err := find(src, q); host.CodeOf(err) != host.InvalidArgument {
				t.Fatalf("%+v: %v", q, err)
			}
			continue
		}
		sound++
		hostile := q
		after := make([]byte, rnd.IntN(40))
		for i := range after {
			after[i] = byte(rnd.Uint32())
		}
		hostile.Cursor = base64.RawURLEncoding.EncodeToString(append(s.digest(), after...))
		if _, err := find(src, hostile); err != nil && host.CodeOf(err) != host.InvalidArgument {
			t.Fatalf("%+v: %v", hostile, err)
		}
		whole, byKey := q, q
		whole.Limit, byKey.Limit, byKey.Sort = 1000, 1000, "key"
		got, want := keys(q), keys(whole)
		if got != want || s.runs == "" && strings.Count(got, ",") != strings.Count(keys(byKey), ",") {
			t.Fatalf("%+v: %s, one page %s, by key %s", q, got, want, keys(byKey))
		}
	}
	errorIf(t, sound < 60, "%d sound queries", sound)
	for range 60 { // over all types
		q := host.ListQuery{Where: []string{condition()}, Limit: 1 + rnd.IntN(6), Brief: true}
		if _, err := find(src, q); err != nil {
			e := (*host.Error)(nil)
			fatalIf(t, !errors.As(err, &e) || e.Metadata["field"] != "where", "%+v: %v", q, err)
			continue
		}
		var want string
		for _, typ := range []string{"a", "t", "z"} {
			part := q
			if part.Type, part.Limit = typ, 1000; typ == "t" || !strings.ContainsAny(q.Where[0][:1], "pna") {
				want += keys(part)
			}
		}
		got := keys(q)
		fatalIf(t, got != want, "%+v: %s, want %s", q, got, want)
	}
	for cursor, code := range map[string]host.Code{".": host.InvalidArgument, "x.t": host.InvalidArgument, ".t.t": "", "x": host.InvalidArgument} {
		if _, err := find(src, host.ListQuery{Where: []string{"size>=0"}, Cursor: cursor}); host.CodeOf(err) != code {
			t.Errorf("the cursor %s: %v", cursor, err)
		}
	}
	src.state = func(_ string, _ host.State, visit func(key []string)) error {
		for i := range maxLooked / 2 {
			visit([]string{"none", strconv.Itoa(i)})
		}
		return nil
	}
	page, err := find(src, host.ListQuery{Where: []string{"state=failed"}})
	if err != nil || page.Cursor != ".z" {
		t.Errorf("a page over three types that looks at two thirds of their actors ends with %q: %v", page.Cursor, err)
	}
}

// TestAnOrderOverAllTypes compares pages of actors of three types with a sort of all of them. One type has no attribute.
func TestAnOrderOverAllTypes(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	states := map[string]host.State{}
	var last *engine.Space
	for i := range 30 {
		who := engine.Identity{Namespace: "ns", Type: "abc"[i%3 : i%3+1], Key: []string{fmt.Sprintf("%02d", i)}}
		if i == 29 {
			who.Type = "d"
		}
		sp, err := store.NewSpace(store.NewActorID(who))
		must(t, err)
		w := sp.Writes()
		w.Advance(int64(i*i%7) * 60_000)
		err = w.Create(who)
		if err == nil && who.Type != "b" {
			err = w.Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, int64(i%4)), engine.PutOptions{})
		}
		if err == nil {
			err = w.Put(keyspace.UserKV.Append(nil, []byte("value")), make([]byte, i*i%11*100), engine.PutOptions{})
		}
		if err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		if last = sp; i < 29 {
			sp.Close()
		}
		states[who.Type+who.Key[0]] = []host.State{host.Asleep, host.Awake, host.Failed, host.Paused, host.Asleep}[i%5]
	}
	src := source{
		store: store, namespace: "ns",
		known: func(typ string) []host.Attribute { // the kind of the others is that of a value
			if typ == "d" {
				return []host.Attribute{{Name: "n", Kind: host.IntegerAttribute}}
			}
			return nil
		},
		state: func(typ string, of host.State, visit func(key []string)) error {
			for who, state := range states {
				if who[:1] == typ && state == of {
					visit([]string{who[1:]})
				}
			}
			return nil
		},
		present: func(st *host.Status) error { st.State = states[st.Type+st.Key[0]]; return nil }, report: func(*host.Status) error { return nil },
	}
	number := func(st host.Status) int64 {
		i, _ := strconv.Atoi(st.Key[0])
		return int64(i % 4)
	}
	list := func(q host.ListQuery) (all []host.Status) {
		t.Helper()
		for more := true; more; more = q.Cursor != "" {
			page, err := find(src, q)
			fatalIf(t, err != nil, "%+v: %v", q, err)
			all, q.Cursor = append(all, page.Actors...), page.Cursor
		}
		return all
	}
	text := func(all []host.Status) (s string) {
		for _, st := range all {
			s += st.Type + st.Key[0] + " "
		}
		return s
	}
	for name, of := range map[string]func(st host.Status) int64{
		"key":     func(host.Status) int64 { return 0 },
		"state":   func(st host.Status) int64 { return int64(slices.Index(byState, st.State)) },
		"size":    func(st host.Status) int64 { return keyspace.SizeStep(st.Bytes) },
		"updated": func(st host.Status) int64 { return keyspace.MinuteStep(st.Updated.UnixMilli()) },
		"n":       number,
	} {
		for _, where := range [][]string{nil, {"size>300"}, {"size<900", "state!=awake"}, {"n>=1"}, {"n=3"}} {
			want := slices.DeleteFunc(list(host.ListQuery{Where: append([]string{"size>=0"}, where...)}), func(st host.Status) bool { return name == "n" && st.Type == "b" })
			slices.SortFunc(want, func(a, b host.Status) int {
				return cmp.Or(cmp.Compare(of(a), of(b)), cmp.Compare(a.Type, b.Type), slices.Compare(a.Key, b.Key))
			})
			for _, reverse := range []string{"", "-"} {
				for _, limit := range []int{1, 4, 100} {
					q := host.ListQuery{Where: where, Sort: reverse + name, Limit: limit}
					if got := text(list(q)); got != text(want) || len(want) < 5 {
						t.Errorf("%+v:\n%s, want\n%s", q, got, text(want))
					}
				}
				slices.Reverse(want)
			}
		}
	}
	one := text(list(host.ListQuery{Type: "a", Sort: "state", Limit: 3}))
	two := text(list(host.ListQuery{Type: "a", Sort: "state"}))
	errorIf(t, one != two || strings.Count(one, "a") != 10, "actors of one type by their states: %s, in one page %s", one, two)
	for _, sort := range []string{"key", "-key", "state", "-state", "size", "-n"} {
		q := host.ListQuery{Type: "a", Sort: sort, Limit: 100}
		src.after = make(map[string]string)
		all := list(q)
		after := src.after
		src.after = nil
		for i, st := range all {
			q.Cursor = after[st.ID]
			if got := text(list(q)); got != text(all[i+1:]) || q.Cursor == "" {
				t.Errorf("after %s in the order %s: %s, want %s", st.Key, sort, got, text(all[i+1:]))
			}
		}
	}

	q := host.ListQuery{Sort: "-n", Limit: 1}
	page, err := find(src, host.ListQuery{Sort: "-n", Limit: 1, Where: []string{"n<=1"}})
	if err != nil || text(page.Actors) != "d29 " {
		t.Fatalf("%s: %v", text(page.Actors), err)
	}
	rests := map[*host.ListQuery]string{} // behind the only actor of type d
	for _, sort := range []string{"-n", "size", "-size"} {
		rest := &host.ListQuery{Sort: sort, Where: []string{"n<=1"}}
		rest.Limit = 1 + slices.IndexFunc(list(*rest), func(st host.Status) bool { return st.Type == "d" })
		end, err := find(src, *rest)
		must(t, err)
		rest.Cursor = end.Cursor
		rests[rest] = text(list(*rest))
	}
	w := last.Writes()
	if err = w.Destroy(); err == nil {
		_, err = last.Commit(nil)
	}
	last.Close()
	must(t, err)
	for _, declared := range []bool{true, false} { // a type that is not has no attribute now
		if !declared {
			src.known = func(string) []host.Attribute { return nil }
		}
		for rest, want := range rests {
			if got := text(list(*rest)); got != want || want == "" {
				t.Errorf("after the last actor of a type that a page ended with was destroyed: %+v: %s, want %s", *rest, got, want)
			}
		}
	}
	for _, cursor := range []string{".", "x", ".a", "x.a", page.Cursor, strings.TrimSuffix(page.Cursor, ".d"), page.Cursor[:len(page.Cursor)-1] + "a"} {
		for _, sort := range []string{"n", "size", "state"} {
			q.Sort, q.Cursor = sort, cursor
			if page, err := find(src, q); host.CodeOf(err) != host.InvalidArgument {
				t.Errorf("the cursor %s of %s: %s, %v", cursor, sort, text(page.Actors), err)
			}
		}
	}
	for _, sort := range []string{"run", "created", "none", "-", "-state-", "\xff"} {
		if _, err := find(src, host.ListQuery{Sort: sort}); host.CodeOf(err) != host.InvalidArgument {
			t.Errorf("the order %q: %v", sort, err)
		}
	}
}

// TestAnActorThatMovesIsOnAPageOnce changes the value of an actor between two walks of one page, so that the second comes to it again.
func TestAnActorThatMovesIsOnAPageOnce(t *testing.T) {
	src := pagesSource(t)
	var first host.Status
	asked := 0
	src.present = func(st *host.Status) error {
		st.State = host.Asleep
		switch asked++; {
		case asked == 1:
			first = *st
		case asked == 2: // the walk has the third already, of three
			id, _, err := src.store.Lookup(engine.Identity{Namespace: "ns", Type: "t", Key: first.Key})
			if err != nil {
				return err
			}
			sp, err := src.store.OpenSpace(id)
			if err != nil {
				return err
			}
			defer sp.Close()
			if err = sp.Writes().Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, 1<<62), engine.PutOptions{}); err == nil {
				_, err = sp.Commit(nil)
			}
			return err
		}
		if slices.Equal(st.Key, first.Key) {
			st.State = host.Awake
		}
		return nil
	}
	src.after = make(map[string]string)
	page, err := find(src, host.ListQuery{Type: "t", Where: []string{"state!=asleep"}, Sort: "n", Limit: 3})
	must(t, err)
	errorIf(t, len(page.Actors) != 1 || asked < 21 || len(src.after) != 1, "%d asked, %d cursors, %+v", asked, len(src.after), page.Actors)
}

// TestTheRestOfAPageWithoutItsAttributeIsEmpty destroys the only actors that have an attribute between two pages. The first page of
// such a query is refused, and what follows an earlier page is empty.
func TestTheRestOfAPageWithoutItsAttributeIsEmpty(t *testing.T) {
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	var going []*engine.Space
	for i := range 8 {
		who := engine.Identity{Namespace: "ns", Type: "abcc"[i/2 : i/2+1], Key: []string{strconv.Itoa(i)}} // those of type c have no attribute
		sp, err := store.NewSpace(store.NewActorID(who))
		must(t, err)
		w := sp.Writes()
		err = w.Create(who)
		if err == nil && who.Type != "c" {
			err = w.Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, 1), engine.PutOptions{})
			going = append(going, sp)
		}
		if err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
		defer sp.Close()
	}
	src := source{
		store: store, namespace: "ns", known: func(string) []host.Attribute { return nil },
		state: func(typ string, _ host.State, visit func(key []string)) error {
			for i := range 8 {
				visit([]string{strconv.Itoa(i)})
			}
			return nil
		},
		present: func(st *host.Status) error { st.State = host.Failed; return nil }, report: func(*host.Status) error { return nil },
	}
	var all []host.ListQuery
	for _, typ := range []string{"", "a"} {
		for _, q := range []host.ListQuery{
			{Sort: "n"}, {Sort: "-n"}, {Sort: "n", Where: []string{"size>=0"}}, {Where: []string{"n=1"}}, {Where: []string{"n>0", "state=failed"}},
			{Sort: "-key", Where: []string{"n=1"}}, {Sort: "size", Where: []string{"n=1"}}, {Sort: "-n", Where: []string{"n=1", "n<2"}},
			{Sort: "state", Where: []string{"n=1"}}, {Sort: "-state", Where: []string{"n=1"}},
		} {
			q.Type, q.Limit = typ, 1
			page, err := find(src, q)
			fatalIf(t, err != nil || len(page.Actors) != 1 || page.Cursor == "", "%+v: %+v, %v", q, page, err)
			q.Cursor = page.Cursor
			all = append(all, q)
		}
	}
	for _, sp := range going {
		if err = sp.Writes().Destroy(); err == nil {
			_, err = sp.Commit(nil)
		}
		must(t, err)
	}
	for _, q := range all {
		page, err := find(src, q)
		errorIf(t, err != nil || page.Actors == nil || len(page.Actors) > 0 || page.Cursor != "", "the rest of %+v: %+v, %v", q, page, err)
		first, other := q, q
		first.Cursor = ""
		other.Cursor = "AAAAAAAAAAAA" + q.Cursor[12:] // of another selection
		for _, q := range []host.ListQuery{first, other} {
			_, err := find(src, q)
			errorIf(t, host.CodeOf(err) != host.InvalidArgument || q.Cursor == "" && !strings.Contains(err.Error(), `"n"`), "%+v: %v", q, err)
		}
	}
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf
