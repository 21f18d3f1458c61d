package change

import (
	"encoding/json"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

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
	if m := s.said(t); m["transition"] != "crashed" || m["generation"] != 3. || m["version"] != 9. || m["reason"] != "index out of range" || s.sets[0].TimeMS == 0 {
		t.Errorf("%v", m)
	}
	f.Life(engine.ChangeSet{}, "slept", "")
	_, ok := s.said(t)["reason"]
	errorIf(t, ok, "a reason that nobody gave")
	f.Failed(keyspace.ActorID{7}, engine.Identity{Type: "room"}, &host.Failure{Reason: "the cause", Public: "error 12"})
	if m := s.said(t); m["transition"] != "failed" || m["reason"] != "error 12" || s.sets[2].Identity.Type != "room" || s.sets[2].ID != (keyspace.ActorID{7}) {
		t.Errorf("%v", m)
	}
}
