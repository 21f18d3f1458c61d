package kvrows

import (
	"os"
	"testing"

	hostkv "github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// seeds is how many seeds a model has.
func seeds(short, long uint64) uint64 {
	if os.Getenv("CAIRN_LONG") != "" {
		return long
	}
	return short
}

// A rig is a store, each of whose changes is a turn of its own.
type rig struct {
	t   *testing.T
	s   *Store
	now int64
}

// newRig returns a rig with turns that may write 16 MiB. A list without a limit is short.
func newRig(t *testing.T) *rig {
	space, rows := openRows(t)
	must(t, space.SetLimits(&engine.Limits{MaxWriteSet: 16 << 20, ListEntries: 10}))
	r := &rig{t: t, s: Of(rows, new(Scopes)), now: 1_000_000}
	r.turn()
	return r
}

func (r *rig) turn() engine.Version { r.now++; return r.s.Advance(r.now) }

func (r *rig) put(branch, key, value string) engine.Version {
	r.t.Helper()
	r.turn()
	w, err := r.s.Writer(branch)
	must(r.t, err)
	must(r.t, w.Put(keyspace.UserKV.Append(nil, pack(key)), []byte(value), engine.PutOptions{}))
	return r.s.Version()
}

func (r *rig) fork(name, from string) engine.Version {
	r.t.Helper()
	r.turn()
	must(r.t, errOf(r.s.Fork(name, from, false)))
	return r.s.Version()
}

func (r *rig) remove(name string) {
	r.t.Helper()
	r.turn()
	must(r.t, r.s.RemoveBranch(name))
}

func (r *rig) purge() {
	r.t.Helper()
	for more := true; more; {
		r.turn()
		var err error
		more, err = r.s.Purge(250)
		must(r.t, err)
	}
}

func (r *rig) get(branch, key string) string {
	r.t.Helper()
	v, err := Look(r.s, branch, 0, r.s.Version(), r.now)
	must(r.t, err)
	e, there, err := v.Entry(keyspace.UserKV.Append(nil, pack(key)))
	must(r.t, err)
	if !there {
		return "-"
	}
	return string(e.Value)
}

func (r *rig) merge(source string, at engine.Version, target string, strategy Strategy) Merge {
	r.t.Helper()
	return r.mergeOf(source, at, target, strategy, nil)
}

// mergeIn merges parts.
func (r *rig) mergeIn(source, target string, strategy Strategy, parts []Range) Merge {
	r.t.Helper()
	return r.mergeOf(source, 0, target, strategy, parts)
}

func (r *rig) mergeOf(source string, at engine.Version, target string, strategy Strategy, parts []Range) Merge {
	r.t.Helper()
	m, err := r.tryMerge(source, at, target, strategy, parts)
	must(r.t, err)
	return m
}

// tryMerge merges in a turn of its own. The error is that of what the merge compares with.
func (r *rig) tryMerge(source string, at engine.Version, target string, strategy Strategy, parts []Range) (Merge, error) {
	r.turn()
	writer, err := r.s.Writer(target)
	must(r.t, err)
	v, err := Look(r.s, source, at, r.s.Version(), r.now)
	must(r.t, err)
	v.Without(r.now)
	w, err := Look(r.s, target, 0, r.s.Version(), r.now)
	must(r.t, err)
	common, err := Base(r.s, v, w, r.s.Version(), r.now)
	if err != nil {
		return Merge{}, err
	}
	ranges := parts
	if parts == nil {
		ranges = []Range{{}}
	}
	plan, err := Plan(common.rows, rowsIn{v}, writer, func(yield func([]byte, error) bool) {
		for _, part := range ranges {
			first, last := Bounds(part.Start, part.End)
			if !handOn(common.Differing(v, first, last, hostkv.MaxMergeReads), yield) {
				return
			}
		}
	}, strategy)
	must(r.t, err)
	if strategy == Strict && plan.Conflicted > 0 {
		return plan, nil
	}
	r.s.Mark()
	must(r.t, errOf(Apply(writer, &Commit{Mutations: plan.Mutations})))
	if at == 0 {
		must(r.t, r.s.NoteMerge(source, target, r.s.Version(), parts))
	}
	return plan, nil
}

func (r *rig) count(l interface{ Range() (a, b []byte) }) int {
	r.t.Helper()
	a, b := l.Range()
	n := 0
	each(r.s, engine.ListQuery{Start: a, End: b, Expired: true, KeysOnly: true}, func(e *engine.Entry, err error) bool {
		must(r.t, err)
		n++
		return true
	})
	return n
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
