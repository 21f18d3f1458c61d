package node

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/audit"
	"github.com/cairn-run/cairn/engine"
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

// Verbs without a commit are recorded before they begin, so that the record is there however the call ends.
func TestAVerbWhoseCallerLeavesIsRecorded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		slow := func(*puppet, host.Turn) error { time.Sleep(time.Second); return nil }
		g := newStage(t, nil, &puppetType{name: "p", wake: slow, sleep: slow})
		g.must("a", add(1))
		for i, name := range []string{host.ActorSleep, host.ActorWake} {
			ctx, cancel := context.WithTimeout(t.Context(), time.Millisecond)
			_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: name, Codec: host.JSON})
			cancel()
			wantCode(t, err, host.DeadlineExceeded)
			if all := g.records("a"); len(all) != i+1 || all[0].Verb != name {
				t.Errorf("%s: %+v", name, all)
			}
			time.Sleep(2 * time.Second)
			if st := g.status("a"); (st.State == host.Awake) != (name == host.ActorWake) {
				t.Errorf("%s: %s", name, st.State)
			}
		}
	})
}

func TestAVerbThatCannotBeRecordedHasNoEffect(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		fails := false
		g := newStage(t, nil, &puppetType{name: "p", wake: func(*puppet, host.Turn) error {
			if fails {
				return errors.New("not now")
			}
			return nil
		}})
		g.must("b", add(1))
		g.must("a", add(1))
		g.mustVerb("a", host.ActorSleep, nil, nil)
		fails = true
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		refused := func(key, name string) {
			t.Helper()
			wantCode(t, g.verb(key, name, nil, nil), host.Unavailable)
		}
		g.disk.SetFree(0)
		time.Sleep(2 * time.Second)
		refused("a", host.ActorRetry)
		refused("a", host.ActorWake)
		refused("b", host.ActorSleep)
		if a, b := g.status("a"), g.status("b"); a.State != host.Failed || b.State != host.Awake {
			t.Errorf("%+v, %+v", a, b)
		}
		g.disk.SetFree(1 << 40)
		time.Sleep(2 * time.Second)
		fails = false
		g.mustVerb("a", host.ActorRetry, nil, nil)
		g.mustVerb("a", host.ActorWake, nil, nil)
		if a, all := g.status("a"), g.records("a"); a.State != host.Awake || len(all) != 3 {
			t.Errorf("%+v, %+v", a, all)
		}
		for _, name := range []string{host.ActorRetry, host.ActorWake, host.ActorSleep} {
			wantCode(t, g.verb("c", name, nil, nil), host.NotFound)
		}
		if all := g.records("c"); len(all) != 0 {
			t.Errorf("refused verbs have left %+v", all)
		}
	})
}

// A record of a time to come shows the time that the clock had. It hides no later record, is not shown as if it were new, and is removed
// when the records after it are.
func TestAClockThatWasAheadSpoilsNoRecord(t *testing.T) {
	disk := engine.NewDisk()
	const day = 24 * time.Hour
	life := func(later time.Duration, f func(t *testing.T, g *stage)) {
		synctest.Test(t, func(t *testing.T) {
			time.Sleep(later)
			f(t, stageOn(t, disk, nil, &puppetType{name: "p"}))
		})
	}
	life(30*365*day, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.mustVerb("a", host.ActorPause, nil, nil)
	})
	life(day, func(t *testing.T, g *stage) {
		began := time.Now()
		followed := make(chan audit.Record)
		go g.FollowAudit(t.Context(), audit.Query{}, func(r *audit.Record) error { followed <- *r; return errors.New("enough") })
		synctest.Wait()
		time.Sleep(time.Hour)
		g.mustVerb("a", host.ActorResume, nil, nil)
		if r := <-followed; r.Verb != host.ActorResume || !r.Time.Equal(began.Add(time.Hour)) {
			t.Errorf("%+v", r)
		}
		all := g.records("a")
		if len(all) != 2 || all[1].ID >= all[0].ID || all[1].Time.Year() < 2029 {
			t.Errorf("%+v", all)
		}
		for q, want := range map[*audit.Query]int{{Since: began}: 1, {Until: began.Add(time.Hour)}: 1, {Until: began.Add(day)}: 2, {Since: began, Until: began.Add(time.Minute)}: 0} {
			if page, err := g.Audit(t.Context(), *q); err != nil || len(page.Records) != want {
				t.Errorf("%+v: %+v, %v", q, page, err)
			}
		}
		time.Sleep(91 * day)
		if all := g.records("a"); len(all) != 0 {
			t.Errorf("%+v", all)
		}
	})
}

func TestADamagedRecordIsNamedAndSkipped(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", add(1))
	g.mustVerb("a", host.ActorPause, nil, nil)
	if err := g.store.AppendAudit(g.Identity(pAddr("a")), []byte{1, 0xFF}); err != nil {
		t.Fatal(err)
	}
	if err := g.store.AppendAudit(g.Identity(pAddr("b")), nil); err != nil {
		t.Fatal(err)
	}
	g.mustVerb("a", host.ActorResume, nil, nil)
	text := func(all []audit.Record) (s string) {
		for _, r := range all {
			s += fmt.Sprintf("%s/%s %s%v ", r.Type, r.Key, r.Verb, r.Damaged)
		}
		return s
	}
	for q, want := range map[*audit.Query]string{
		{}: "p/[a] actor.resumefalse p/[b] true p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"a"}, Exact: true}:                        "p/[a] actor.resumefalse p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"a"}, Verb: host.ActorPause}:              "p/[a] true p/[a] actor.pausefalse ",
		{Type: "p", Prefix: []string{"c"}}:                                     "",
		{Type: "p", Prefix: []string{"b"}, Exact: true, Verb: "actor.destroy"}: "p/[b] true ",
	} {
		page, err := g.Audit(t.Context(), *q)
		if got := text(page.Records); err != nil || got != want {
			t.Errorf("%+v: %s, %v; want %s", q, got, err, want)
		}
	}
	var followed []audit.Record
	err := g.FollowAudit(t.Context(), audit.Query{After: 1}, func(r *audit.Record) error {
		if followed = append(followed, *r); len(followed) == 4 {
			return errors.New("enough")
		}
		return nil
	})
	if got := text(followed); got != "p/[a] actor.pausefalse p/[a] true p/[b] true p/[a] actor.resumefalse " {
		t.Errorf("%s, %v", got, err)
	}
}

// An actor that destroys another one is named, in a turn or a task, with whatever context.
func TestADestructionNamesTheActorThatMakesIt(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	for _, c := range []func(h host.Turn) context.Context{
		func(host.Turn) context.Context { return context.Background() },
		func(host.Turn) context.Context { return ctx },
		func(host.Turn) context.Context { return audit.WithReason(ctx, "why") },
		func(h host.Turn) context.Context { return h },
	} {
		g.must("a", add(1))
		g.must("b", func(_ *puppet, h host.Turn) error { return h.Destroy(c(h), pAddr("a")) })
	}
	done := make(chan error)
	for _, under := range []context.Context{context.Background(), ctx} {
		g.must("a", add(1))
		g.must("b", goes("task", func(task host.Task) error { done <- task.Destroy(under, pAddr("a")); return nil }))
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	all := g.records("a")
	if len(all) != 6 || all[3].Reason != "why" {
		t.Errorf("%+v", all)
	}
	for _, r := range all {
		if r.Verb != "actor.destroy" || r.Channel != "actor" || r.Principal != "p/b" {
			t.Errorf("%+v", r)
		}
	}
}

// A message is moved aside by a turn that settles it, after the turn of the verb.
func TestASkippedMessageLeavesOneRecord(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g := newStage(t, nil)
		g.must("b", add(1))
		g.mustVerb("b", host.ActorPause, nil, nil)
		g.must("a", sends("b", 1, add(1)))
		synctest.Wait()
		reply, err := g.operate("a", host.SendSkip, `{"type":"p","key":["b"]}`)
		if err != nil || string(reply.Output) != `{"count":1}` {
			t.Fatalf("%s, %v", reply.Output, err)
		}
		if all := g.records("a"); len(all) != 1 || all[0].Verb != host.SendSkip || all[0].Version == 0 || all[0].Reason != "to see" {
			t.Errorf("%+v", all)
		}
	})
}

func TestTheImportOfADatabaseLeavesARecord(t *testing.T) {
	t.Parallel()
	g := newStage(t, nil)
	g.must("a", func(_ *puppet, h host.Turn) error { return exec(h, "CREATE TABLE a (n)") })
	var file bytes.Buffer
	if err := g.ExportSQL(t.Context(), pAddr("a"), &file); err != nil {
		t.Fatal(err)
	}
	o := operator
	ctx := audit.With(t.Context(), &o)
	if _, err := g.ImportSQL(ctx, pAddr("a"), strings.NewReader("no database"), "why"); err == nil {
		t.Error("no database is imported")
	}
	if _, err := g.ImportSQL(ctx, pAddr("a"), &file, "why"); err != nil {
		t.Fatal(err)
	}
	all := g.records("a")
	if len(all) != 1 || all[0].Verb != "sql.import" || all[0].Version == 0 || all[0].Principal != "ada" || !strings.Contains(string(all[0].Input), `"reason":"why"`) {
		t.Errorf("%+v", all)
	}
}
