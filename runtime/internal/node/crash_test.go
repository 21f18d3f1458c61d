package node

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/fxamacker/cbor/v2"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/kv"
)

// stored returns the entries of actor a with a prefix.
func (g *stage) stored(prefix ...any) map[string]kv.Entry {
	g.t.Helper()
	var out kv.ListOutput
	g.mustVerb("a", host.KVList, kv.ListInput{Selection: kv.Selection{Prefix: prefix}, Limit: 1000}, &out)
	return entries(out.Entries)
}

func entries(list []kv.Entry) map[string]kv.Entry {
	all := make(map[string]kv.Entry)
	for _, e := range list {
		all[keyText(e.Key)] = e
	}
	return all
}

// values returns the values of entries.
func values(of map[string]kv.Entry) map[string]string {
	all := make(map[string]string)
	for key, e := range of {
		all[key] = string(e.Value)
	}
	return all
}

// Everything that a watcher gets is on the disk: whenever the power fails, the store has it, or a
// later state.
func TestWatchersAreToldWhatIsDurable(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("n=0")
		w := g.watch(kv.Watching{Keys: []kv.Key{{"n"}}, Initial: true})
		defer w.Close()
		afterCuts(g, func() uint64 { return w.known["n"].Version }, func() {
			var reader sync.WaitGroup
			reader.Go(func() {
				for string(w.known["n"].Value) != "20" {
					if _, err := w.next(t.Context()); err != nil {
						t.Error(err)
						return
					}
				}
			})
			for i := range 20 {
				g.kv(fmt.Sprintf("n=%d", i+1))
			}
			reader.Wait()
		}, func(m *stage, told uint64) {
			is := m.stored("n")["n"].Version
			errorIf(t, is < told, "version %d is stored, and a watcher was told %d", is, told)
		})
	})
}

// The power fails after every write and sync while entries change, and a follower goes on from its
// position at that moment, on the remaining data.
func TestFollowersReadEachEventOnceWhateverTheCrash(t *testing.T) {
	const changes = 15
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		change := func(g *stage, i int) { g.kv(fmt.Sprintf("a.%d=%d", i, i), fmt.Sprintf("b.%d=%d", i, i)) }
		g.kv("a=0")
		g.logs(kv.ScopePolicy{})
		type position struct {
			seen int
			at   uint64
			life string
		}
		var now position
		afterCuts(g, func() position { return now }, func() {
			var reader sync.WaitGroup
			reader.Go(func() {
				for f := followerFrom(0); len(f.seen) < 2*changes; {
					if err := f.read(g, time.Minute); err != nil {
						t.Error(err)
						return
					}
					now = position{len(f.seen), *f.in.After, f.in.Life}
				}
			})
			for i := range changes {
				change(g, i)
			}
			reader.Wait()
		}, func(m *stage, then position) {
			for n := len(m.stored("b")); n < changes; n++ {
				change(m, n)
			}
			f := followerFrom(then.at)
			f.in.Life = then.life
			if f.readAll(m); then.seen+len(f.seen) != 2*changes || len(f.gaps) > 0 {
				t.Errorf("%d events were seen before and %d after, with gaps %v", then.seen, len(f.seen), f.gaps)
			}
		})
	})
}

// The power fails after every write and sync while a map changes. The remaining changes are handled
// after the start, and the state has each change once.
func TestChangesAreHandledOnceWhateverTheCrash(t *testing.T) {
	const changes = 12
	handles := &puppetType{
		name: "p", maps: []host.Map{{Name: "m", Log: true, LogEvents: 50, Handler: "puppet.change"}, {Name: "n", Log: true, LogEvents: 1}},
		change: func(p *puppet, _ host.Turn) error {
			p.s.Log = append(p.s.Log, string(p.change.Value))
			return nil
		},
	}
	bubble(t, nil, []*puppetType{handles}, func(t *testing.T, g *stage) {
		change := func(g *stage, i int) { g.kv(fmt.Sprintf("m.k=%d", i), fmt.Sprintf("n.k=%d", i)) }
		var want []string
		for i := range changes {
			want = append(want, fmt.Sprint(i))
		}
		afterCuts[int](g, nil, func() {
			for i := range changes {
				change(g, i)
			}
			time.Sleep(time.Second)
		}, func(m *stage, _ int) {
			time.Sleep(time.Second)
			for n := 1 + slices.Index(want, string(m.stored("m")["m.k"].Value)); n < changes; n++ {
				change(m, n)
			}
			time.Sleep(time.Second)
			var log []string
			m.must("a", func(p *puppet, _ host.Turn) error { log = slices.Clone(p.s.Log); return nil })
			errorIf(t, !slices.Equal(log, want), "handled are the changes %q", log)
		})
	})
}

// The power fails after every write and sync while entries are put and deleted under a quota, a
// search index and a log. The rest of each agrees on the entries.
func TestACommitIsWholeWithItsIndexQuotaAndLogWhateverTheCrash(t *testing.T) {
	const most = 4
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.kv("a=0")
		prefix := kv.Key{"d"}
		g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{Prefix: prefix, ScopePolicy: kv.ScopePolicy{MaxKeys: most, Log: true}}, nil)
		g.mustVerb("a", host.KVSetIndex, kv.SetIndexInput{Prefix: prefix, Fields: []kv.IndexField{{Path: "text"}}}, nil)
		refused, states := 0, map[string]bool{}
		afterCuts[int](g, nil, func() {
			for i := range 16 {
				value := fmt.Sprintf(`{"text":"apple pie %d"}`, i)
				change := []string{fmt.Sprintf("d.%d=%s", i, value), "d.last=" + value}
				if i%4 == 0 { // the next three commits have room, the fourth exceeds the quota
					change = append([]string{"-d/"}, change...)
				}
				if _, err := g.commit("a", change); err != nil {
					wantCode(t, err, host.QuotaExceeded)
					refused++
				}
			}
		}, func(m *stage, _ int) {
			want := values(m.stored("d"))
			states[fmt.Sprint(want)] = true
			f := followerFrom(0)
			if f.readAll(m); !maps.Equal(f.made, want) || len(f.gaps) > 0 {
				t.Errorf("the log makes %s of %s, with gaps %v", f.made, want, f.gaps)
			}
			var scopes kv.ScopesOutput
			m.mustVerb("a", host.KVScopes, kv.ScopesInput{Prefix: prefix}, &scopes)
			errorIf(t, len(scopes.Scopes) != 1 || scopes.Scopes[0].Keys != int64(len(want)) || len(want) > most,
				"the scope has %+v, and there is %s", scopes.Scopes, want)
			var found kv.SearchOutput
			m.mustVerb("a", host.KVSearch, kv.SearchInput{Prefix: prefix, Query: "apple"}, &found)
			hits := map[string]string{}
			for _, e := range found.Entries {
				hits[keyText(e.Key)] = string(e.Value)
			}
			errorIf(t, !maps.Equal(hits, want) || found.Partial, "the index finds %s of %s", hits, want)
		})
		errorIf(t, refused != 4 || len(states) < 3, "%d commits were refused, the cuts left %d states", refused, len(states))
	})
}

// Many entries that expire at once are removed in slices. One wake-up leads from each to the next,
// with a pause for calls.
func TestManyEntriesExpireInSlices(t *testing.T) {
	const entries, most = 2000, 256
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		keys := func() (n int64) { // that are stored
			g.must("a", func(_ *puppet, t host.Turn) error { n = kernelTurn(t).Core.Rows.Keys(); return nil })
			return n
		}
		g.must("a", add(1))
		g.mustVerb("a", host.KVSetScope, kv.SetScopeInput{}, nil)
		for i := 0; i < entries; i += 500 {
			var all []string
			for j := range 500 {
				all = append(all, fmt.Sprintf("k.%d=1@5000", i+j))
			}
			g.kv(all...)
		}
		time.Sleep(5 * time.Second)
		var began, last time.Time
		slices, left := 0, keys()
		for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(time.Millisecond) {
			rows, err := g.store.Wakes(nil, 1<<60, 10)
			fatalIf(t, err != nil || len(rows) > 1, "%d wake-ups stand: %v", len(rows), err)
			now := keys()
			if now == left {
				continue
			}
			if slices++; slices == 1 {
				began = time.Now()
			} else if pause := time.Since(last); pause < 3*time.Millisecond || left-now > most {
				t.Errorf("a slice of %d keys followed another after %s", left-now, pause)
			}
			left, last = now, time.Now()
		}
		if slices < entries/most || last.Sub(began) > 200*time.Millisecond || left > 10 {
			t.Errorf("%d slices in %s, %d keys are left", slices, last.Sub(began), left)
		}
	})
}

// TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash cuts the power after every write and sync
// around ticks, and checks the remaining data. The handler records each run in the state, so state
// and history must agree, and every tick counts.
func TestTickIsNeitherLostNorRecordedTwiceWhateverTheCrash(t *testing.T) {
	fails := func(due time.Time) bool { return due.Unix()%3 == 0 }
	puppets := &puppetType{name: "p", tick: func(p *puppet, _ host.Turn) error {
		if fails(p.tick.Due) {
			return errors.New("boom")
		}
		p.s.Log = append(p.s.Log, p.tick.Due.UTC().Format("15:04:05"))
		return nil
	}}
	bubble(t, nil, []*puppetType{puppets}, func(t *testing.T, g *stage) {
		begin := time.Now()
		g.mustVerb("a", host.ScheduleSet,
			host.Schedule{Name: "tick", Every: 1000, Missed: host.MissedAll, CatchUp: 1000, KeepRuns: 1000}, nil)
		cuts := 0
		afterCuts[int](g, nil, func() { time.Sleep(20500 * time.Millisecond) }, func(m *stage, _ int) {
			cuts++
			time.Sleep(3 * time.Second)
			synctest.Wait()
			var list host.ScheduleListOutput
			m.mustVerb("a", host.ScheduleList, nil, &list)
			var history host.ScheduleRunsOutput
			m.mustVerb("a", host.ScheduleRuns, host.ScheduleInput{Name: "tick"}, &history)
			var notes, want []string
			err := m.look("a", func(s *puppetState, _ host.Reader) error { notes = s.Log; return nil })
			s, runs := list.Schedules[0], history.Runs
			ticks := int(time.Since(begin) / time.Second)
			if time.Since(begin)%time.Second == 0 {
				ticks = int(s.Runs) // the last tick is being run at this very moment
			}
			fatalIf(t, err != nil || int(s.Runs) != ticks || len(runs) != min(ticks, 1000) || s.Skipped != 0,
				"%d runs, %d in the history, %d skipped, after %d ticks; %v", s.Runs, len(runs), s.Skipped, ticks, err)
			for j := range ticks {
				due, run := begin.Add(time.Duration(j+1)*time.Second).UTC(), runs[len(runs)-1-j]
				fatalIf(t, !run.Due.Equal(due) || run.Run != uint64(j+1) || (run.Result == "error") != fails(due),
					"run %d is %+v", j+1, run)
				if !fails(due) {
					want = append(want, due.Format("15:04:05"))
				}
			}
			fatalIf(t, !slices.Equal(notes, want), "the handler noted %v", notes)
		})
		errorIf(t, cuts < 12, "there were only %d cuts", cuts)
	})
}

// cborOf encodes values as items.
func cborOf(values ...any) [][]byte {
	out := make([][]byte, len(values))
	for i, v := range values {
		out[i], _ = cbor.Marshal(v)
	}
	return out
}

func TestItemsAreReadInTheEncodingOfTheRequest(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", outside: true}}, func(t *testing.T, g *stage) {
		g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(`{"a":1}`)}}, nil)
		out := inCBOR[host.StreamReadOutput](g, host.StreamRead, host.StreamReadInput{Stream: "log", WaitMS: 1000})
		v, err := convertAny(0, 0, host.CBOR, out.Items[0].Value, host.JSON, nil)
		fatalIf(t, err != nil || string(v) != `{"a":1}`, "%v %v", string(v), err)
	})
}

// TestReaderSeesEachItemOnceWhateverTheCrash cuts the power after every write and sync while an
// actor appends. Each reader goes on from its position at that moment, on the remaining data.
func TestReaderSeesEachItemOnceWhateverTheCrash(t *testing.T) {
	const items = 20
	appends := func(g *stage, from int) {
		for v := from; v <= items; v++ {
			g.mustVerb("a", host.StreamAppend,
				host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw(fmt.Sprint(v))}, Close: v == items}, nil)
		}
	}
	read := func(g *stage, seen *int) {
		for {
			var out host.StreamReadOutput
			g.mustVerb("a", host.StreamRead, host.StreamReadInput{Stream: "log", After: uint64(*seen), WaitMS: 1000}, &out)
			for _, it := range out.Items {
				errorIf(g.t, string(it.Value) != fmt.Sprint(*seen) || int(it.Sequence) != *seen+1,
					"item %d is %s, after %d", it.Sequence, it.Value, *seen)
				*seen++
			}
			if out.Closed || out.Missed > 0 || g.t.Failed() {
				return
			}
		}
	}
	bubble(t, nil, []*puppetType{{name: "p", outside: true}}, func(t *testing.T, g *stage) {
		seen := 0
		g.mustVerb("a", host.StreamAppend, host.StreamAppendInput{Stream: "log", Items: []host.Raw{host.Raw("0")}}, nil)
		afterCuts(g, func() int { return seen }, func() {
			var reader sync.WaitGroup
			reader.Go(func() { read(g, &seen) })
			appends(g, 1)
			reader.Wait()
		}, func(m *stage, again int) {
			// The actor goes on from what it finds, as an author's code would.
			var list host.StreamListOutput
			m.mustVerb("a", host.StreamList, nil, &list)
			last := int(list.Streams[0].Last)
			errorIf(t, last < again, "a reader has seen %d items, %d are left", again, last)
			appends(m, last)
			if read(m, &again); again != items+1 {
				t.Errorf("the reader saw %d items", again)
			}
		})
	})
}
