package node

import (
	"context"
	"testing"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
)

// A turn may make a call with a context that never ends; then the call runs under the context of the turn.
func TestAVerbOfATurnWithoutADeadlineLeavesARecord(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.must("b", func(_ *puppet, h host.Turn) error {
		_, err := h.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: host.ActorPause, Codec: host.JSON})
		return err
	})
	if all := g.records("a"); len(all) != 1 || all[0].Channel != "actor" || all[0].Principal != "p/b" {
		t.Errorf("%+v", all)
	}
}

func TestTextThatIsNotUTF8DoesNotSpoilTheLog(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	o := operator
	o.Principal, o.Remote = "a\xffda", "\xff"
	call := func(o audit.Origin) error {
		_, err := g.Call(audit.With(t.Context(), &o), &host.Request{Address: pAddr("a"), Method: host.ActorPause, Codec: host.JSON})
		return err
	}
	if err := call(o); err != nil {
		t.Fatal(err)
	}
	if all := g.records("a"); len(all) != 1 {
		t.Errorf("%+v", all)
	}
	o.Reason = "\xff"
	if err := call(o); host.CodeOf(err) != host.InvalidArgument {
		t.Error(err)
	}
	if err := g.Destroy(audit.With(t.Context(), &o), pAddr("a")); err != nil {
		t.Fatal(err)
	}
	if all := g.records("a"); len(all) != 2 || all[0].Reason != "\uFFFD" {
		t.Errorf("%+v", all)
	}
}

// A verb may run a handler, and that may destroy the actor.
func TestAVerbWhoseHandlerDestroysTheActorLeavesItsRecord(t *testing.T) {
	in(t, puppetType{disconnect: func(_ *puppet, h host.Turn) error { h.DestroySelf(); return nil }}, host.Limits{}, func(t *testing.T, h *hotel) {
		l := h.connect(host.ConnectRequest{})
		var page audit.Page
		_, err := h.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: host.ConnectionClose, Codec: host.JSON, Input: []byte(`{"connection":"` + l.Welcome().Connection + `"}`)})
		if err == nil {
			page, err = h.Audit(t.Context(), audit.Query{})
		}
		if err != nil || len(page.Records) != 1 || page.Records[0].Verb != host.ConnectionClose || page.Records[0].Version == 0 {
			t.Errorf("%+v, %v", page.Records, err)
		}
	})
}

func TestMigrationsAndTheirRecordAreOneCommit(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.types[0].migrations = []host.Migration{{Name: "uses", SQL: "CREATE TABLE uses (n INTEGER)"}}
	g.restart()
	for range 2 { // the second finds nothing to do
		if _, err := g.operate("a", host.SQLMigrate, ``); err != nil {
			t.Fatal(err)
		}
	}
	all := g.records("a")
	if len(all) != 2 || all[1].Version == 0 || string(all[1].After) != `{"applied":["uses"]}` {
		t.Errorf("%+v", all)
	}
}

// The actors of a type that the program lacks can still be destroyed.
func TestTheDestructionOfAnActorWithoutATypeIsRecorded(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.types = []*puppetType{{name: "q"}}
	g.restart()
	if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
		t.Fatal(err)
	}
	if all := g.records("a"); len(all) != 1 || all[0].Verb != "actor.destroy" {
		t.Errorf("%+v", all)
	}
}
