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
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/keyspace/tuple"
)

func openStore(t *testing.T) *engine.Store {
	store, err := engine.Open(t.Context(), engine.Options{Dir: "store", Disk: engine.NewDisk()})
	must(t, err)
	t.Cleanup(func() { store.Close() })
	return store
}

// create makes an actor with attributes, now or at the time clock.
func create(t *testing.T, store *engine.Store, who engine.Identity, attributes map[string][]byte, clock ...int64) {
	t.Helper()
	sp, err := store.NewSpace(store.NewActorID(who))
	must(t, err)
	defer sp.Close()
	w := sp.Writes()
	for _, at := range clock {
		w.Advance(at)
	}
	must(t, w.Create(who))
	for name, value := range attributes {
		must(t, w.Put(keyspace.Attribute.Append(nil, name), value, engine.PutOptions{}))
	}
	_, err = sp.Commit(nil)
	must(t, err)
}

// change changes an actor.
func change(t *testing.T, store *engine.Store, who engine.Identity, f func(w *engine.WriteSet) error) {
	t.Helper()
	id, _, err := store.Lookup(who)
	must(t, err)
	sp, err := store.OpenSpace(id)
	must(t, err)
	defer sp.Close()
	must(t, f(sp.Writes()))
	_, err = sp.Commit(nil)
	must(t, err)
}

// sourceOf is a source of a store with types that declare nothing, and with actors of some keys
// that are awake.
func sourceOf(store *engine.Store, keys ...[]string) source {
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

// pagesSource is a store of 20 actors of type t that are all awake, with keys of none to two parts.
func pagesSource(t *testing.T) source {
	store := openStore(t)
	var keys [][]string
	for i := range 20 {
		key := []string{fmt.Sprint(i % 7), fmt.Sprint(i, "\x00")}[:min(i, 1+i/7, 2)]
		n := int64(i-10) << (i * 2)
		create(t, store, engine.Identity{Namespace: "ns", Type: "t", Key: key}, map[string][]byte{
			"plan": tuple.AppendString(nil, strings.Repeat("a\x00", i%4)), "n": tuple.AppendInt(nil, n),
			"at": tuple.EndNested(tuple.AppendInt(tuple.BeginNested(nil), n)),
		})
		keys = append(keys, key)
	}
	return sourceOf(store, keys...)
}

// refused checks the error of a query, or of a cursor, that is not valid.
func refused(t *testing.T, src source, q host.ListQuery) {
	t.Helper()
	page, err := find(src, q)
	errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%+v: %+v, %v", q, page.Actors, err)
}

// all reads all pages.
func all(t *testing.T, src source, q host.ListQuery) (all []host.Status) {
	t.Helper()
	for more := true; more; more = q.Cursor != "" {
		page, err := find(src, q)
		fatalIf(t, err != nil, "%+v: %v", q, err)
		all, q.Cursor = append(all, page.Actors...), page.Cursor
	}
	return all
}

func text(all []host.Status) (s string) {
	for _, st := range all {
		s += st.Type + strings.Join(st.Key, "/") + " "
	}
	return s
}

// TestPagesAgreeWithAListByKey draws queries. The pages of each, of few actors, have the actors of
// one page, in its order, and as many actors as a list in the order of the keys, which no index
// answers. A cursor of random bytes is refused, or goes on somewhere.
func TestPagesAgreeWithAListByKey(t *testing.T) {
	src := pagesSource(t)
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(all ...string) string { return all[rnd.IntN(len(all))] }
	condition := func() string {
		op := pick("=", "!=", "<", "<=", ">", ">=")
		switch rnd.IntN(8) {
		case 0:
			return pick("", "state=awake", "state!=awake", "state=asleep", "run=failed", "run!=paused", "plan",
				"plan!x", "\xff=1", "\x00=1", "zz=1")
		case 1:
			return pick("size", "created", "updated") + op + pick("0", "16", "40", "1KiB", "9223372036854775807",
				"2026-01-01", "9999-12-31", "0000-01-01")
		}
		return pick("plan", "n", "at") + op + pick(
			"", "a", `"a\x00"`, `"a\x00a\x00"`, "0", "-1", "-8", "-9223372036854775808", "9223372036854775807", "1970-01-01",
			"1969-12-31T23:59:59.99Z", `"`, `"\xff"`)
	}
	keys := func(q host.ListQuery) string {
		t.Helper()
		return text(all(t, src, q))
	}
	sound := 0
	for _, key := range []string{"a", "b", "c"} { // no actor of these has an attribute
		create(t, src.store, engine.Identity{Namespace: "ns", Type: "a", Key: []string{key}}, nil)
		create(t, src.store, engine.Identity{Namespace: "ns", Type: "z", Key: []string{key}}, nil)
	}
	for range 300 {
		q := host.ListQuery{Type: "t", Where: []string{condition()}, Limit: 1 + rnd.IntN(6), Brief: true}
		q.Sort = pick("", "", "key", "-key", "size", "-size", "updated", "n", "-n", "plan", "-plan", "-at", "-", "\x00")
		if rnd.IntN(2) == 0 {
			q.Where = append(q.Where, condition())
		}
		if rnd.IntN(4) == 0 {
			q.Prefix = []string{pick("1", "6", "zz", "\x00")}
		}
		s, err := newSearch(src, q)
		fatalIf(t, err != nil, "%+v: %v", q, err)
		if s.refused != nil {
			refused(t, src, q)
			continue
		}
		sound++
		hostile := q
		after := make([]byte, rnd.IntN(40))
		for i := range after {
			after[i] = byte(rnd.Uint32())
		}
		hostile.Cursor = base64.RawURLEncoding.EncodeToString(append(s.digest(), after...))
		_, err = find(src, hostile)
		fatalIf(t, err != nil && host.CodeOf(err) != host.InvalidArgument, "%+v: %v", hostile, err)
		whole, byKey := q, q
		whole.Limit, byKey.Limit, byKey.Sort = 1000, 1000, "key"
		got, want := keys(q), keys(whole)
		if got != want || s.runs == "" && strings.Count(got, " ") != strings.Count(keys(byKey), " ") {
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
	for _, cursor := range []string{".", "x.t", "x"} {
		refused(t, src, host.ListQuery{Where: []string{"size>=0"}, Cursor: cursor})
	}
	_, err := find(src, host.ListQuery{Where: []string{"size>=0"}, Cursor: ".t.t"})
	check(t, err)
	var none [][]string
	for i := range maxLooked / 2 {
		none = append(none, []string{"none", strconv.Itoa(i)})
	}
	page, err := find(sourceOf(src.store, none...), host.ListQuery{Where: []string{"state=failed"}})
	errorIf(t, err != nil ||
		page.Cursor != ".z", "a page over three types that looks at two thirds of their actors ends with %q: %v", page.Cursor, err)
}

// TestAnOrderOverAllTypes compares pages of actors of three types with a sort of all of them. One
// type has no attribute.
func TestAnOrderOverAllTypes(t *testing.T) {
	store := openStore(t)
	states := map[string]host.State{}
	var last engine.Identity
	for i := range 30 {
		who := engine.Identity{Namespace: "ns", Type: "abc"[i%3 : i%3+1], Key: []string{fmt.Sprintf("%02d", i)}}
		if i == 29 {
			who.Type = "d"
			last = who
		}
		clock, attributes := int64(i*i%7)*60_000, map[string][]byte{"n": tuple.AppendInt(nil, int64(i%4))}
		if who.Type == "b" {
			attributes = nil
		}
		create(t, store, who, attributes, clock)
		change(t, store, who, func(w *engine.WriteSet) error {
			w.Advance(clock)
			return w.Put(keyspace.UserKV.Append(nil, []byte("value")), make([]byte, i*i%11*100), engine.PutOptions{})
		})
		states[who.Type+who.Key[0]] = []host.State{host.Asleep, host.Awake, host.Failed, host.Paused, host.Asleep}[i%5]
	}
	src := sourceOf(store)
	src.known = func(typ string) []host.Attribute { // the kind of the others is that of a value
		if typ == "d" {
			return []host.Attribute{{Name: "n", Kind: host.IntegerAttribute}}
		}
		return nil
	}
	src.state = func(typ string, of host.State, visit func(key []string)) error {
		for who, state := range states {
			if who[:1] == typ && state == of {
				visit([]string{who[1:]})
			}
		}
		return nil
	}
	src.present = func(st *host.Status) error { st.State = states[st.Type+st.Key[0]]; return nil }
	number := func(st host.Status) int64 {
		i, _ := strconv.Atoi(st.Key[0])
		return int64(i % 4)
	}
	list := func(q host.ListQuery) []host.Status {
		t.Helper()
		return all(t, src, q)
	}
	for name, of := range map[string]func(st host.Status) int64{
		"key":     func(host.Status) int64 { return 0 },
		"state":   func(st host.Status) int64 { return int64(slices.Index(byState, st.State)) },
		"size":    func(st host.Status) int64 { return keyspace.SizeStep(st.Bytes) },
		"updated": func(st host.Status) int64 { return keyspace.MinuteStep(st.Updated.UnixMilli()) },
		"n":       number,
	} {
		for _, where := range [][]string{nil, {"size>300"}, {"size<900", "state!=awake"}, {"n>=1"}, {"n=3"}} {
			want := slices.DeleteFunc(list(host.ListQuery{Where: append([]string{"size>=0"}, where...)}), func(st host.Status) bool {
				return name == "n" && st.Type == "b"
			})
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
		listed := list(q)
		after := src.after
		src.after = nil
		for i, st := range listed {
			q.Cursor = after[st.ID]
			got, want := text(list(q)), text(listed[i+1:])
			errorIf(t, got != want || q.Cursor == "", "after %s in the order %s: %s, want %s", st.Key, sort, got, want)
		}
	}

	q := host.ListQuery{Sort: "-n", Limit: 1}
	page, err := find(src, host.ListQuery{Sort: "-n", Limit: 1, Where: []string{"n<=1"}})
	fatalIf(t, err != nil || text(page.Actors) != "d29 ", "%+v: %v", page.Actors, err)
	rests := map[*host.ListQuery]string{} // behind the only actor of type d
	for _, sort := range []string{"-n", "size", "-size"} {
		rest := &host.ListQuery{Sort: sort, Where: []string{"n<=1"}}
		rest.Limit = 1 + slices.IndexFunc(list(*rest), func(st host.Status) bool { return st.Type == "d" })
		end, err := find(src, *rest)
		must(t, err)
		rest.Cursor = end.Cursor
		rests[rest] = text(list(*rest))
	}
	change(t, store, last, func(w *engine.WriteSet) error { return w.Destroy() })
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
	for _, cursor := range []string{".", "x", ".a", "x.a", page.Cursor, strings.TrimSuffix(page.Cursor, ".d"),
		page.Cursor[:len(page.Cursor)-1] + "a"} {
		for _, sort := range []string{"n", "size", "state"} {
			q.Sort, q.Cursor = sort, cursor
			refused(t, src, q)
		}
	}
	for _, sort := range []string{"run", "created", "none", "-", "-state-", "\xff"} {
		refused(t, src, host.ListQuery{Sort: sort})
	}
}

// TestAnActorThatMovesIsOnAPageOnce changes the value of an actor between two walks of one page, so
// that the second reaches it again.
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
			change(t, src.store, engine.Identity{Namespace: "ns", Type: "t", Key: first.Key}, func(w *engine.WriteSet) error {
				return w.Put(keyspace.Attribute.Append(nil, "n"), tuple.AppendInt(nil, 1<<62), engine.PutOptions{})
			})
			return nil
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

// TestTheRestOfAPageWithoutItsAttributeIsEmpty destroys the only actors that have an attribute
// between two pages. The first page of such a query is refused, and the rest after an earlier page
// is empty.
func TestTheRestOfAPageWithoutItsAttributeIsEmpty(t *testing.T) {
	store := openStore(t)
	var going []engine.Identity
	var keys [][]string
	for i := range 8 {
		who := engine.Identity{Namespace: "ns", Type: "abcc"[i/2 : i/2+1], Key: []string{strconv.Itoa(i)}}
		if who.Type == "c" {
			create(t, store, who, nil)
		} else {
			create(t, store, who, map[string][]byte{"n": tuple.AppendInt(nil, 1)})
			going = append(going, who)
		}
		keys = append(keys, who.Key)
	}
	src := sourceOf(store, keys...)
	src.present = func(st *host.Status) error { st.State = host.Failed; return nil }
	var rests []host.ListQuery
	for _, typ := range []string{"", "a"} {
		for _, q := range []host.ListQuery{
			{Sort: "n"}, {Sort: "-n"}, {Sort: "n",
				Where: []string{"size>=0"}}, {Where: []string{"n=1"}}, {Where: []string{"n>0", "state=failed"}},
			{Sort: "-key", Where: []string{"n=1"}}, {Sort: "size", Where: []string{"n=1"}}, {Sort: "-n", Where: []string{"n=1", "n<2"}},
			{Sort: "state", Where: []string{"n=1"}}, {Sort: "-state", Where: []string{"n=1"}},
		} {
			q.Type, q.Limit = typ, 1
			page, err := find(src, q)
			fatalIf(t, err != nil || len(page.Actors) != 1 || page.Cursor == "", "%+v: %+v, %v", q, page, err)
			q.Cursor = page.Cursor
			rests = append(rests, q)
		}
	}
	for _, who := range going {
		change(t, store, who, func(w *engine.WriteSet) error { return w.Destroy() })
	}
	for _, q := range rests {
		page, err := find(src, q)
		errorIf(t, err != nil || page.Actors == nil || len(page.Actors) > 0 || page.Cursor != "", "the rest of %+v: %+v, %v", q, page, err)
		first, other := q, q
		first.Cursor = ""
		other.Cursor = "AAAAAAAAAAAA" + q.Cursor[12:] // of another selection
		for _, q := range []host.ListQuery{first, other} {
			_, err := find(src, q)
			errorIf(t, host.CodeOf(err) != host.InvalidArgument ||
				q.Cursor == "" && !strings.Contains(err.Error(), `"n"`), "%+v: %v", q, err)
		}
	}
}

// A cursor says where in the wake index a list of runs goes on, and nothing before or behind the
// list.
func TestACursorThatWasMadeUpIsRefused(t *testing.T) {
	cursor := func(q host.ListQuery, after []byte) error {
		t.Helper()
		s, err := newSearch(source{}, q)
		must(t, err)
		q.Cursor = base64.RawURLEncoding.EncodeToString(append(s.digest(), after...))
		_, err = newSearch(source{}, q)
		return err
	}
	failed := host.ListQuery{Type: "t", Where: []string{"run=failed"}}
	row := func(due int64) []byte {
		return keyspace.AppendWakeRow(nil, due, keyspace.ActorID{}, keyspace.WakeListed, "t", "failed")
	}
	for _, after := range [][]byte{
		nil, {0}, {0xff}, keyspace.AppendWakeTime(nil,
			keyspace.FailedRunsDue), row(keyspace.PausedRunsDue), row(0), append(row(keyspace.FailedRunsDue), 0),
	} {
		err := cursor(failed, after)
		errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%x: %v", after, err)
	}
	check(t, cursor(failed, row(keyspace.FailedRunsDue)))
	if err := cursor(host.ListQuery{Type: "t", Where: []string{"state=awake"}}, nil); err != nil {
		t.Error(err) // after the actor whose key has no parts
	}
}

// Without any type an order is refused as it is with one.
func TestAnOrderIsCheckedWithoutTypes(t *testing.T) {
	src := sourceOf(openStore(t))
	for _, sort := range []string{"bogus", "run", "-", "created"} {
		refused(t, src, host.ListQuery{Sort: sort})
	}
	for _, sort := range []string{"size", "-updated"} {
		all(t, src, host.ListQuery{Sort: sort})
	}
}

func TestTheTextOfARefusedConditionIsShort(t *testing.T) {
	none := source{known: func(string) []host.Attribute {
		return []host.Attribute{{Name: strings.Repeat("n", 1000), Kind: host.BoolAttribute}}
	}}
	name, bytes := strings.Repeat("n", 1000), strings.Repeat("\xff", 1000)
	for _, text := range []string{name + "=" + bytes, bytes, name + "!"} {
		_, err := find(none, host.ListQuery{Type: "t", Where: []string{text}})
		errorIf(t, host.CodeOf(err) != host.InvalidArgument || len(err.Error()) > 1200, "%d bytes: %v", len(err.Error()), err)
	}
	unknown := func(string) (host.AttributeKind, bool, error) { return 0, false, nil }
	_, err := parseCondition(strings.Repeat("n", 1000)+"=1", unknown)
	e := (*host.Error)(nil)
	errorIf(t, !errors.As(err, &e) || len(e.Metadata["attribute"]) != 100, "the name of an unknown attribute: %v", err)
}

var must, check, fatalIf, errorIf = testutil.Must, testutil.Check, testutil.FatalIf, testutil.ErrorIf
