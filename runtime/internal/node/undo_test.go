package node

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

// An actor that stays awake for its messages gains nothing if its tasks are stopped.
func TestMemoryPressureLeavesTasksOfAnActorWhoseMessagesAreOnTheirWay(t *testing.T) {
	bubble(t, func(o *Options) { o.MaxAwake = 4 }, nil, func(t *testing.T, g *stage) {
		var told, others atomic.Int32
		g.must("a", series(goes("x", func(task host.Task) error { <-task.Done(); told.Add(1); return nil }),
			sends("b", 1, func(*puppet, host.Turn) error { return errors.New("not now") })))
		time.Sleep(time.Second)
		for i := range 8 {
			g.must(fmt.Sprint("other", i), goes("x", func(task host.Task) error { <-task.Done(); others.Add(1); return nil }))
		}
		time.Sleep(20 * time.Second)
		if n := told.Load(); n != 0 || others.Load() == 0 {
			t.Errorf("%d of its tasks and %d of others were stopped", n, others.Load())
		}
	})
}

// A reply that is repeated shows a commit like the first one.
func TestRepeatedReplyWaitsForTheCommitThatItShows(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		disk := make(chan struct{})
		g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				<-disk
			}
			return nil
		})
		input := remember(add(1))
		type answer struct {
			host.Reply
			error
		}
		answers := make(chan answer, 2)
		for range 2 {
			go func() {
				r, err := g.Call(context.Background(), &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Input: input, IdempotencyKey: "k"})
				answers <- answer{r, err}
			}()
			synctest.Wait()
		}
		if n := len(answers); n != 0 {
			t.Errorf("%d callers were answered before the commit was durable", n)
		}
		g.disk.Fail(nil)
		close(disk)
		x, y := <-answers, <-answers
		if x.error != nil || y.error != nil || x.Version != y.Version || x.Replayed == y.Replayed {
			t.Errorf("the answers are %+v and %+v", x, y)
		}
		if n := g.n("a"); n != 2 {
			t.Errorf("it was called %d times", n-1)
		}
	})
}

// The store shows the commit that failed. Only the Actor knows that it may never be durable, so that it stays in memory.
func TestCommitThatWasNeverDurableIsNotReadFromTheStoreOnceItsActorWasIdle(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				return errors.New("the disk is broken")
			}
			return nil
		})
		wantCode(t, g.do("a", add(1)), host.Unavailable)
		time.Sleep(time.Hour) // others fall asleep
		seen := 0
		_, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON,
			Input: remember(glance(func(s *puppetState, _ host.Reader) error { seen = s.N; return nil }))})
		wantCode(t, err, host.Unavailable)
		g.disk.Fail(nil)
		g.crash()
		if n := g.n("a"); n != 1 {
			t.Errorf("a query saw %d turns, and %d are left", seen, n)
		}
	})
}
