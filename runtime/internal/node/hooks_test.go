package node

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
	"github.com/cairn-run/cairn/runtime/internal/part/run"
)

// farewell is a destroyer that sends a message, as the part of workflow runs does for the run of a child.
type farewell struct{ f deed }

func (x farewell) Destroy(t *kernel.Turn) error {
	return mail.MailOf(t).Post(pAddr("b"), "do", remember(x.f))
}

func TestMessageThatADestroyerIsTheFirstToSendIsOfTheRemains(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		typ := g.Kernel.Types["p"]
		typ.Hooks.Destroyers = append(typ.Hooks.Destroyers, farewell{add(1)})
		g.must("b", add(0))
		g.must("a", add(1))
		a := g.Find(pAddr("a"))
		if err := g.Destroy(context.Background(), pAddr("a")); err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		time.Sleep(time.Minute)
		if s := mail.Mail(a); s.Part != nil && !s.Closed {
			t.Errorf("the sender of the destroyed actor still sends; %d messages are pending", s.Pending)
		}
		if g.Find(pAddr("a")) != nil {
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
				r := run.RunOf(g.Find(pAddr(key)))
				r.Attempts.Add(1)
				<-task.Done()
				r.Attempts.Add(-1)
				causes <- context.Cause(task)
				return nil
			}))
		}
		time.Sleep(10 * time.Second)
		if n := g.Memory.Awake.Load(); n > 10 {
			t.Errorf("%d actors are awake", n)
		}
		if len(causes) == 0 {
			t.Error("no task was stopped")
		}
	})
}
