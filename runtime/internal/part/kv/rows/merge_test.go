package kvrows

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// mergeKey merges one key of a branch into another one.
func (r *rig) mergeKey(source, target, key string, strategy Strategy) Merge {
	r.t.Helper()
	packed := pack(key)
	return r.mergeIn(source, target, strategy, []Range{{packed, append(packed[:len(packed):len(packed)], 0)}})
}

// branch returns the stored record of a branch.
func (r *rig) branch(name string) *Branch {
	r.t.Helper()
	must(r.t, r.s.load())
	b, err := r.s.scopes.named(name)
	must(r.t, err)
	return b
}

// The last parts are known, each once. Versions that older parts needed are removed, once an hour.
func TestKnownPartsAreBounded(t *testing.T) {
	r := newRig(t)
	r.fork("b", "")
	early := r.put("b", "0", "0")
	for range 2 {
		for i := range hostkv.MaxParts + 20 {
			key := fmt.Sprint(i)
			r.put("b", key, "1")
			r.put("b", key, "2")
			r.mergeKey("b", "", key, Strict)
		}
	}
	n := len(r.branch("b").Parts)
	errorIf(t, n != hostkv.MaxParts, "%d parts are known", n)
	n = len(r.s.scopes.pins)
	errorIf(t, n > hostkv.MaxParts+1, "%d versions are kept", n)
	_, err := r.tryMerge("b", early, "", Strict, nil)
	trimmed, is := errors.AsType[*TrimmedError](err)
	errorIf(t, !is || trimmed.Earliest <= early, "a merge of a moment of which parts are forgotten: %v", err)
	r.purge()
	if at, b := r.s.scopes.purge, r.branch("b"); !b.Sweeping || at < b.SweepAt || at > b.SweepAt+time.Hour.Milliseconds() {
		t.Errorf("the next purge is at %d, and what they needed is to be removed at %d", at, b.SweepAt)
	}
	r.now += time.Hour.Milliseconds()
	r.merge("b", 0, "", Strict)
	if b := r.branch("b"); len(b.Parts) != 0 || len(b.Merged) != 1 {
		t.Errorf("after a merge of everything there are %d parts and %d merges", len(b.Parts), len(b.Merged))
	}
	r.now += time.Hour.Milliseconds()
	r.purge()
	n = r.count(&keyspace.KVVersion)
	errorIf(t, n > 1, "%d versions are left, which nothing reads", n)
	r.put("b", "x", "1")
	var many []Range
	for i := range hostkv.MaxParts {
		many = append(many, Range{pack(fmt.Sprint(i)), pack(fmt.Sprint(i), 0)})
	}
	r.mergeIn("b", "", Strict, many)
	n = len(r.s.scopes.pins)
	errorIf(t, n > 3, "%d versions are kept for one merge", n)
}

// A removal in a branch takes room of the quota like an entry. An entry of its own can always be
// removed.
func TestRemovalsOfABranchAreCharged(t *testing.T) {
	space, rows := openRows(t)
	r := &rig{t: t, s: Of(rows, new(Scopes)), now: 1_000_000}
	for i := range 50 {
		r.put("", fmt.Sprint("of the store ", i), "x")
	}
	r.fork("b", "")
	for i := range 50 {
		r.put("b", fmt.Sprint("of the branch ", i), "x")
	}
	r.put("b", "of the store 0", "")
	must(t, errOf(space.Commit(nil)))
	must(t, space.SetLimits(&engine.Limits{Quota: space.Head().Bytes + 100}))
	removed := func(name string, from int) (n int) {
		w, err := r.s.Writer("b")
		must(t, err)
		for i := from; i < 50; i++ {
			r.turn()
			if _, err := w.Delete(keyspace.UserKV.Append(nil, pack(fmt.Sprint(name, i)))); err == nil {
				n++
			} else if _, full := errors.AsType[*engine.QuotaError](err); !full {
				t.Fatal(err)
			}
		}
		return n
	}
	if n := removed("of the store ", 1); n == 0 || n > 6 {
		t.Errorf("%d entries of the store are hidden, for which there is no room", n)
	}
	must(t, space.SetLimits(&engine.Limits{Quota: rows.Size()}))
	removed("of the store ", 0)
	errorIf(t, r.get("b", "of the store 0") != "-", "what the branch has cannot be removed")
	if n := removed("of the branch ", 0); n != 50 {
		t.Errorf("%d entries of the branch are removed", n)
	}
}

// The entries that two versions share are handed out now and then.
func TestDifferingShowsWhereItIs(t *testing.T) {
	r := newRig(t)
	for i := range 1000 {
		r.put("", fmt.Sprintf("%04d", i), "x")
	}
	r.fork("b", "")
	r.put("", "1500", "x")
	a, err := Look(r.s, "b", 0, r.s.Version(), r.now)
	must(t, err)
	b, err := Look(r.s, "", 0, r.s.Version(), r.now)
	must(t, err)
	first, last := keyspace.UserKV.Range()
	for step, want := range map[int]int{0: 1, 100: 11, 300: 4} {
		n, passed := 0, 0
		for _, err := range Differing(a, b, first, last, func() (bool, error) { passed++; return step > 0 && passed%step == 0, nil }) {
			must(t, err)
			n++
		}
		errorIf(t, n != want, "with steps of %d it hands out %d keys, not %d", step, n, want)
	}
}

// A merge reads all entries that both stores share and only one has changed since. A large store
// does not hold its actor for that.
func TestUnchangedEntriesThatAMergeReadsAreBounded(t *testing.T) {
	r := newRig(t)
	for i := range 10 {
		r.put("", fmt.Sprintf("%02d", i), "x")
	}
	r.fork("b", "")
	r.put("", "05", "y")
	source, err := Look(r.s, "", 0, r.s.Version(), r.now)
	must(t, err)
	target, err := Look(r.s, "b", 0, r.s.Version(), r.now)
	must(t, err)
	base, err := Base(r.s, source, target, r.s.Version(), r.now)
	must(t, err)
	all, end := keyspace.UserKV.Range()
	for most, fits := range map[int]bool{9: true, 8: false} {
		_, err := Plan(func(key []byte) engine.Reader { return rowsIn{base.Of(key)} }, rowsIn{source}, rowsIn{target},
			base.Differing(source, all, end, most), Strict)
		if e, is := errors.AsType[*host.Error](err); fits != (err == nil) ||
			!fits && (!is || e.Code != host.TooLarge || e.Metadata["field"] != "prefix") {
			t.Errorf("up to %d of 9 unchanged entries: %v", most, err)
		}
	}
	part, rest := Bounds(pack("0"), pack("05"))
	for _, err := range base.Differing(source, part, rest, 8) {
		must(t, err)
	}
}
