package node

import (
	"encoding/json"
	"fmt"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
	"github.com/cairn-run/cairn/engine"
)

// The power fails after every write and sync while entries are put and deleted under a quota, a search index and a log. What is left
// of each tells the same entries.
func TestACommitIsWholeWithItsIndexQuotaAndLogWhateverTheCrash(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=0")
		const most = 4
		prefix := kv.Key{"d"}
		g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: prefix, ScopePolicy: kv.ScopePolicy{MaxKeys: most, Log: true}}, nil)
		g.mustVerb("a", host.KVSetIndex, kv.SetIndexInput{Prefix: prefix, Fields: []kv.IndexField{{Path: "text"}}}, nil)
		refused := 0
		change := func(i int) {
			var in kv.CommitInput
			if i%4 == 0 { // each fourth commit exceeds the quota
				in.Mutations = append(in.Mutations, kv.Mutation{Op: "delete_range", Selection: kv.Selection{Prefix: prefix}})
			}
			for _, name := range []string{fmt.Sprint(i), "last"} {
				in.Mutations = append(in.Mutations, kv.Mutation{Op: "put", Key: kv.Key{"d", name}, Value: host.Raw(fmt.Sprintf(`{"text":"apple pie %d"}`, i))})
			}
			if err := g.verb("a", host.KVCommit, in, nil); err != nil {
				wantCode(t, err, host.QuotaExceeded)
				refused++
			}
		}
		var clones []*engine.Disk
		g.cuts(func(left *engine.Disk) { clones = append(clones, left) }, func() {
			for i := range 16 {
				change(i)
			}
		})
		if refused != 4 {
			t.Errorf("%d commits were refused", refused)
		}
		states := map[string]bool{}
		for i, disk := range clones {
			m := stageOn(t, disk, nil, g.types...)
			var list kv.ListOutput
			m.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: prefix}, Limit: 1000}, &list)
			want := map[string]string{}
			for _, e := range list.Entries {
				want[keyText(e.Key)] = string(e.Value)
			}
			shown, _ := json.Marshal(want)
			states[string(shown)] = true

			f := followerFrom(0)
			for f.read(m, 0) > 0 {
			}
			if made, _ := json.Marshal(f.made); string(made) != string(shown) || len(f.gaps) > 0 {
				t.Errorf("cut %d: the log makes %s of %s, with gaps %v", i, made, shown, f.gaps)
			}

			var scopes kv.ScopesOutput
			m.mustVerb("a", host.KVScopes, kv.ScopesInput{Prefix: prefix}, &scopes)
			if len(scopes.Scopes) != 1 || scopes.Scopes[0].Keys != int64(len(want)) || len(want) > most {
				t.Errorf("cut %d: the scope has %+v, and there is %s", i, scopes.Scopes, shown)
			}

			var found kv.SearchOutput
			m.mustVerb("a", host.KVSearch, kv.SearchInput{Prefix: prefix, Query: "apple"}, &found)
			hits := map[string]string{}
			for _, e := range found.Entries {
				hits[keyText(e.Key)] = string(e.Value)
			}
			if text, _ := json.Marshal(hits); string(text) != string(shown) || found.Partial {
				t.Errorf("cut %d: the index finds %s of %s", i, text, shown)
			}
			m.stop()
		}
		if t.Logf("%d cuts, %d states", len(clones), len(states)); len(states) < 3 {
			t.Error("the cuts were not amid the changes")
		}
	})
}
