package change

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/changes"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/keyspace/testutil"
)

// tell publishes an event of an actor.
func tell(f *Feed, typ, key, name, data string) {
	set := engine.ChangeSet{Identity: engine.Identity{Type: typ, Key: []string{key, "x"}}, Changes: []engine.Change{
		{Kind: engine.ChangeEvent, Name: name, Data: []byte(data)}, {Kind: engine.ChangeKV, Data: []byte(`{}`)}}}
	f.Committed([]*Pending{{set: &set}})
}

func TestFollowersAreToldWhatTheySelect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Feed
		errorIf(t, f.Wanted(), "changes are wanted by nobody")
		var told []string
		ctx, cancel := context.WithCancel(t.Context())
		follow := func(q changes.Query) {
			go f.Live.Follow(ctx, q, nil, func(r *changes.Record) error {
				for _, c := range r.Changes {
					told = append(told,
						fmt.Sprintf("%s %s/%s %s %s %s %d", q.Kinds, r.Type, strings.Join(r.Key, "/"), c.Kind, c.Name, c.Data, c.Size))
				}
				return nil
			})
			synctest.Wait()
		}
		follow(changes.Query{Type: "t", Prefix: []string{"a"}, Kinds: []string{"event"}})
		long := `"` + strings.Repeat("x", changes.MaxData) + `"`
		for _, e := range [][4]string{{"t", "a", "e1", `1`}, {"u", "a", "e2", `1`}, {"t", "b", "e3", `1`},
			{"t", "a", "e4", long}, {"t", "a", "e5", "\xff"}} {
			tell(&f, e[0], e[1], e[2], e[3])
		}
		synctest.Wait()
		want := []string{"[event] t/a/x event e1 1 0", "[event] t/a/x event e4  4098", "[event] t/a/x event e5  1"}
		errorIf(t, !slices.Equal(told, want), "%q", told)
		cancel()
		synctest.Wait()
		errorIf(t, f.Wanted(), "changes are wanted after the last follower has left")
	})
}

func TestSlowFollowerIsToldOfAGapAndHoldsNothingUp(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Feed
		goOn := make(chan struct{})
		var records, missed int
		stop := make(chan struct{})
		ended := make(chan error, 1)
		go func() {
			ended <- f.Live.Follow(t.Context(), changes.Query{}, stop, func(r *changes.Record) error {
				<-goOn
				records++
				missed += int(r.Missed)
				if r.Gap {
					records--
				}
				return nil
			})
		}()
		synctest.Wait()
		const all = 3 * maxHeld
		for range all {
			tell(&f, "t", "a", "e", `"0123456789"`)
		}
		synctest.Wait()
		close(goOn)
		synctest.Wait()
		errorIf(t, records+missed != all || missed == 0 || records < 1000, "%d records and %d missed of %d", records, missed, all)
		tell(&f, "t", "a", "e", `1`)
		synctest.Wait()
		errorIf(t, records+missed != all+1, "nothing comes after a gap")
		close(stop)
		err := <-ended
		errorIf(t, host.CodeOf(err) != host.Unavailable, "%v", err)
	})
}

func TestFollowEndsWithTheErrorOfTheFollower(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Feed
		enough := errors.New("enough")
		ended := make(chan error, 1)
		go func() {
			ended <- f.Live.Follow(t.Context(), changes.Query{}, nil, func(*changes.Record) error { return enough })
		}()
		synctest.Wait()
		tell(&f, "t", "a", "e", `1`)
		if err := <-ended; err != enough {
			t.Error(err)
		}
		for _, q := range []changes.Query{{Kinds: []string{"nonsense"}}, {Prefix: []string{"a"}}} {
			err := f.Live.Follow(t.Context(), q, nil, nil)
			errorIf(t, host.CodeOf(err) != host.InvalidArgument, "%+v: %v", q, err)
		}
	})
}

func TestTheGapStandsWhereRecordsAreMissing(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var f Feed
		begun, err := f.Live.Begin(changes.Query{}, nil)
		must(t, err)
		for _, e := range [][2]string{{"first", `1`}, {"large", strings.Repeat(" ", maxHeldBytes) + `1`}, {"small", `1`}} {
			tell(&f, "t", "a", e[0], e[1])
		}
		var told []string
		ctx, cancel := context.WithCancel(t.Context())
		begun(ctx, func(r *changes.Record) error {
			if r.Gap {
				told = append(told, fmt.Sprintf("%d missing", r.Missed))
				cancel()
				return nil
			}
			told = append(told, r.Changes[0].Name)
			return nil
		})
		want := []string{"first", "2 missing"}
		errorIf(t, !slices.Equal(told, want), "%q, want %q", told, want)
		errorIf(t, f.Wanted(), "changes are wanted after the follower has left")
	})
}

type sink struct{ sets []*engine.ChangeSet }

func (s *sink) Committed(_ uint64, cs *engine.ChangeSet) { s.sets = append(s.sets, cs) }
func (s *sink) Life(cs *engine.ChangeSet)                { s.sets = append(s.sets, cs) }
func (s *sink) Refuse() error                            { return nil }

// said returns the data of the only change of the last set.
func (s *sink) said(t *testing.T) (m map[string]any) {
	t.Helper()
	last := s.sets[len(s.sets)-1]
	fatalIf(t, len(last.Changes) != 1, "%d changes", len(last.Changes))
	must(t, json.Unmarshal(last.Changes[0].Data, &m))
	return m
}

func TestChangeCarriesItsVersionAndKind(t *testing.T) {
	f := Feed{Sink: new(sink)}
	var list []engine.Change
	f.Add(&list, engine.ChangeKV, "k", 7, func() any { return map[string]any{"op": "put"} })
	f.Add(&list, engine.ChangeQueue, "q", 8, func() any { return 5 })
	for i, want := range []string{`{"kind":"kv","op":"put","version":7}`, `{"data":5,"kind":"queue","version":8}`} {
		got := string(list[i].Data)
		errorIf(t, got != want, "%s, want %s", got, want)
	}
}

func TestNothingIsMadeThatNobodyWants(t *testing.T) {
	var f Feed
	var list []engine.Change
	f.Add(&list, engine.ChangeKV, "k", 7, func() any { t.Error("the data was asked for"); return nil })
	f.Life(engine.ChangeSet{}, "woke", "")
	f.Failed(keyspace.ActorID{}, engine.Identity{}, new(host.Failure))
	f.Committed([]*Pending{{}})
	errorIf(t, len(list) > 0, "%v", list)
}

func TestTransitionsWithoutACommitSayWhatHappened(t *testing.T) {
	s := new(sink)
	f := Feed{Sink: s}
	f.Life(engine.ChangeSet{Generation: 3, Version: 9}, "crashed", "index out of range")
	if m := s.said(t); m["transition"] != "crashed" || m["generation"] != 3. || m["version"] != 9. ||
		m["reason"] != "index out of range" || s.sets[0].TimeMS == 0 {
		t.Errorf("%v", m)
	}
	f.Life(engine.ChangeSet{}, "slept", "")
	_, ok := s.said(t)["reason"]
	errorIf(t, ok, "a reason that nobody gave")
	f.Failed(keyspace.ActorID{7}, engine.Identity{Type: "room"}, &host.Failure{Reason: "the cause", Public: "error 12"})
	if m := s.said(t); m["transition"] != "failed" || m["reason"] != "error 12" || s.sets[2].Identity.Type != "room" ||
		s.sets[2].ID != (keyspace.ActorID{7}) {
		t.Errorf("%v", m)
	}
}

var must, fatalIf, errorIf = testutil.Must, testutil.FatalIf, testutil.ErrorIf
