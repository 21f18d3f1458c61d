package node

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/actor/host/method"
)

// unwell is a type of puppets that do not wake while broken is set.
func unwell(broken *atomic.Bool) *puppetType {
	return &puppetType{name: "p", alarm: add(1), queues: []host.Queue{{Name: "jobs"}}, wake: func(*puppet, host.Turn) error {
		if broken.Load() {
			return errors.New("does not wake")
		}
		return nil
	}}
}

func TestAFailedActorSaysWhenToTryAgain(t *testing.T) {
	var broken atomic.Bool
	bubble(t, nil, []*puppetType{unwell(&broken)}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		broken.Store(true)
		g.restart()
		e := wantCode(t, g.do("a", add(1)), host.ActorFailed)
		at, err := time.Parse(time.RFC3339Nano, e.Metadata["retry_at"])
		if err != nil || !e.Retryable {
			t.Fatalf("%+v: %v", e, err)
		}
		broken.Store(false)
		time.Sleep(time.Until(at))
		g.must("a", add(1))
		if n := g.n("a"); n != 2 {
			t.Fatal(n)
		}
	})
}

// TestOperatorsVerbsWorkOnAFailedActor calls every built-in method of an actor that does not wake.
func TestOperatorsVerbsWorkOnAFailedActor(t *testing.T) {
	wakes := map[string]bool{host.ActorWake: true, host.SQLMigrate: true} // to be woken is what they ask for
	var broken atomic.Bool
	bubble(t, nil, []*puppetType{unwell(&broken)}, func(t *testing.T, g *stage) {
		for _, r := range method.All() {
			g.must(r.Name, add(1))
		}
		broken.Store(true)
		g.restart()
		for _, r := range method.All() {
			name := r.Name
			err := g.verb(name, name, nil, nil)
			if refused := host.CodeOf(err) == host.ActorFailed; refused && !wakes[name] && (r.Kind == host.Query || r.By(false) == method.Operators) {
				t.Errorf("%s: %v", name, err)
			}
			if code := host.CodeOf(err); code == host.Internal || code == host.Crashed {
				t.Errorf("%s: %v", name, err)
			}
		}
	})
}

func TestWhatAnOperatorDoesToAFailedActorIsThereWhenItWakes(t *testing.T) {
	var broken atomic.Bool
	bubble(t, nil, []*puppetType{unwell(&broken)}, func(t *testing.T, g *stage) {
		g.must("a", rings("", time.Hour))
		g.must("a", func(_ *puppet, h host.Turn) error {
			_, err := h.Enqueue("jobs", []host.Enqueue{{Body: []byte{1}}, {Body: []byte{2}}})
			return err
		})
		broken.Store(true)
		g.restart()
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		var alarms host.AlarmListOutput
		g.mustVerb("a", host.AlarmList, nil, &alarms)
		if len(alarms.Alarms) != 1 {
			t.Fatalf("%+v", alarms)
		}
		g.mustVerb("a", host.AlarmCancel, host.ScheduleInput{Name: "ring"}, nil)
		var gone host.CountOutput
		g.mustVerb("a", host.QueuePurge, host.QueueInput{Queue: "jobs"}, &gone)
		if gone.Count != 2 {
			t.Fatalf("%+v", gone)
		}
		g.mustVerb("a", host.AlarmList, nil, &alarms)
		if len(alarms.Alarms) != 0 {
			t.Fatalf("%+v is armed", alarms)
		}
		if st := g.status("a"); st.State != host.Failed {
			t.Fatalf("a verb left it %s", st.State)
		}
		broken.Store(false)
		g.crash() // what was answered is durable
		if n := g.n("a"); n != 0 {
			t.Fatal(n)
		}
		if st := g.status("a"); st.Alarms != 0 || st.State != host.Awake {
			t.Fatalf("%+v", st)
		}
		time.Sleep(2 * time.Hour)
		if n := g.n("a"); n != 0 {
			t.Fatal("an alarm that was cancelled rang")
		}
	})
}

func TestTheDatabaseOfAFailedActorIsRead(t *testing.T) {
	var broken atomic.Bool
	typ := unwell(&broken)
	typ.migrations = []host.Migration{{Name: "1", SQL: "CREATE TABLE t (a)"}}
	bubble(t, nil, []*puppetType{typ}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		broken.Store(true)
		g.restart()
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		var out host.SQLOutput
		if g.mustVerb("a", host.SQLQuery, host.SQLInput{SQL: "SELECT count(*) FROM t"}, &out); len(out.Rows) != 1 {
			t.Fatalf("%+v", out)
		}
	})
}

func TestAMessageDoesNotWaitForAYearThatAHandlerNames(t *testing.T) {
	types := []*puppetType{{name: "p", limits: host.Limits{SendAttempts: 3}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		input := remember(deed(func(*puppet, host.Turn) error {
			return host.Errorf(host.FailedPrecondition, "later").With("retry_at", "2999-01-01T00:00:00Z")
		}))
		g.must("a", func(_ *puppet, h host.Turn) error {
			return h.Send(&host.Message{Type: "p", Key: []string{"shut"}, Method: "do", Input: input})
		})
		time.Sleep(time.Hour)
		if st := g.status("a"); st.FailedSends != 1 || st.PendingSends != 0 {
			t.Fatalf("%+v", st)
		}
	})
}

func TestMessagesOfAFailedActorGoOnAndCanBeSkipped(t *testing.T) {
	var broken atomic.Bool
	sender := unwell(&broken)
	sender.name = "sender"
	bubble(t, nil, []*puppetType{sender, {name: "p"}}, func(t *testing.T, g *stage) {
		from := host.Address{Type: "sender"}
		g.must("held", add(1))
		g.mustVerb("held", host.ActorPause, nil, nil)
		if err := g.doAt(from, func(_ *puppet, h host.Turn) error {
			for _, to := range []string{"held", "held", "b"} {
				if err := h.Send(&host.Message{Type: "p", Key: []string{to}, Method: "do", Input: remember(add(1))}); err != nil {
					return err
				}
			}
			return nil
		}); err != nil {
			t.Fatal(err)
		}
		broken.Store(true)
		g.crash()
		wantCode(t, g.doAt(from, add(1)), host.ActorFailed)
		_, err := g.Call(context.Background(), &host.Request{Address: from, Method: host.SendSkip, Codec: host.JSON, Input: []byte(`{"type":"p","key":["held"]}`)})
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		st, err := g.Lookup(context.Background(), from)
		if err != nil || st.State != host.Failed || st.FailedSends != 1 || st.PendingSends != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
		g.mustVerb("held", host.ActorResume, nil, nil)
		time.Sleep(time.Minute)
		if st, _ = g.Lookup(context.Background(), from); st.PendingSends != 0 || g.n("held") != 2 || g.n("b") != 1 {
			t.Fatalf("%+v; held has %d, b has %d", st, g.n("held"), g.n("b"))
		}
	})
}
