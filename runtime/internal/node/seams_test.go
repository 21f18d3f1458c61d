package node

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// The goroutine of a handler that was abandoned still holds the item of the mailbox, which must not
// be used again: its late answer would reach the caller of another.
func TestTurnOfATaskThatIsAbandonedAnswersNobodyElse(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{TurnTimeout: time.Second}}}, func(t *testing.T, g *stage) {
		stuck, going := make(chan struct{}), make(chan struct{})
		errs := make(chan error, 100)
		g.must("a", goes("hang", func(task host.Task) error {
			err := task.Turn(context.Background(), func(any, host.Turn) error { <-stuck; return nil })
			if host.CodeOf(err) != host.DeadlineExceeded {
				t.Errorf("the turn ended with %v", err)
			}
			for i := range cap(errs) {
				go func() {
					errs <- g.do(fmt.Sprint("b", i), func(*puppet, host.Turn) error { <-going; return nil })
				}()
			}
			return nil
		}))
		time.Sleep(options.DefaultTurnGrace + 1500*time.Millisecond)
		synctest.Wait()
		close(stuck)
		synctest.Wait()
		close(going)
		for range cap(errs) {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
	})
}

// What the runtime keeps of what is there already is not refused when the quota is used up.
func TestFullActorIsStillOperated(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", limits: host.Limits{StorageBytes: 4 << 10}}}, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.must("a", func(p *puppet, h host.Turn) error {
			n := 0
			for step := 2048; step > 0; step /= 2 {
				for h.KVPut([]byte("\x02k\x00"), make([]byte, n+step), time.Time{}) == nil {
					n += step
				}
			}
			return nil
		})
		if n := g.status("a").Bytes; n != 4<<10 {
			t.Fatalf("it has %d bytes", n)
		}
		g.mustVerb("a", host.ActorPause, &host.PauseInput{Reason: "it is full"}, nil)
		g.mustVerb("a", host.ActorResume, nil, nil)
	})
}
