package supervisor

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// farewell is a destroyer that sends a message, as the part of workflow runs does for the run of a child.
type farewell struct{ f deed }

func (x farewell) destroy(t *turn) error { return mailOf(t).send(pAddr("b"), "do", remember(x.f)) }

func TestMessageThatADestroyerIsTheFirstToSendIsOfTheRemains(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		typ := g.Supervisor.types["p"]
		typ.hooks.destroyers = append(typ.hooks.destroyers, farewell{add(1)})
		g.must("b", add(0))
		g.must("a", add(1))
		a := g.find(pAddr("a"))
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if s := a.mail(); s.part != nil && !s.closed {
			t.Errorf("the sender of the destroyed actor still sends; %d messages are pending", s.pending)
		}
		if g.find(pAddr("a")) != nil {
			t.Error("the destroyed actor is still in memory")
		}
		if n := g.n("b"); n != 1 {
			t.Errorf("%d messages were handled", n)
		}
	})
}

func TestMemoryPressureStopsAttemptsOfSteps(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxAwake = 10 }, nil, func(t *testing.T, g *stage) {
		causes := make(chan error, 100)
		for i := range 20 {
			key := fmt.Sprint("task", i)
			g.must(key, goes("x", func(task host.Task) error {
				r := runOf(g.find(pAddr(key)))
				r.attempts.Add(1)
				<-task.Done()
				r.attempts.Add(-1)
				causes <- context.Cause(task)
				return nil
			}))
		}
		time.Sleep(10 * time.Second)
		if n := g.memory.awake.Load(); n > 10 {
			t.Errorf("%d actors are awake", n)
		}
		if len(causes) == 0 {
			t.Error("no task was stopped")
		}
	})
}

type lockedBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

func (l *lockedBuffer) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(p)
}

func TestWhatIsLeftOfAnActorWhoseTypeIsGoneDoesNotCountAsFailed(t *testing.T) {
	log := new(lockedBuffer)
	bubble(t, func(o *Options) { o.Logger = slog.New(slog.NewTextHandler(log, nil)) }, []*puppetType{{name: "p"}, {name: "q"}}, func(t *testing.T, g *stage) {
		g.must("b", add(0))
		g.mustVerb("b", host.ActorPause, nil, nil)
		if err := g.doAt(host.Address{Type: "q", Key: []string{"a"}}, sends("b", 1, add(1))); err != nil {
			t.Fatal(err)
		}
		if err := g.doAt(host.Address{Type: "q", Key: []string{"kept"}}, add(1)); err != nil {
			t.Fatal(err)
		}
		if err := g.Destroy(t.Context(), host.Address{Type: "q", Key: []string{"a"}}); err != nil {
			t.Fatal(err)
		}
		g.stop()
		g.types = g.types[:1]
		g.start()
		time.Sleep(time.Minute)
		g.mustVerb("b", host.ActorResume, nil, nil)
		time.Sleep(time.Minute)
		synctest.Wait()
		if n := g.n("b"); n != 1 {
			t.Errorf("%d messages were handled", n)
		}
		if n := g.failures.count(); n != 0 {
			t.Errorf("%d actors count as failed", n)
		}
		if bytes.Contains(log.b.Bytes(), []byte("ERROR")) {
			t.Errorf("%.1500s", log.b.String())
		}
	})
}

func TestRowThatNoPartHasIsNotPosted(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		id, _, err := g.store.Lookup(g.identity(pAddr("a")))
		if err != nil {
			t.Fatal(err)
		}
		if posted, paused, err := g.alarms.post(engine.Wake{ID: id, Due: 1, Kind: keyspace.WakePaused}); posted || paused != nil || err == nil {
			t.Error(posted, paused, err)
		}
	})
}
