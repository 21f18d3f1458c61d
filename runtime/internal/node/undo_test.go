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

// The core that ran the call that failed runs the next one, too. It must not take the row at 0 that was undone for one that stands.
func TestMessageOfACreationAfterOneThatWasUndoneSurvivesACrash(t *testing.T) {
	var hold chan struct{}
	types := []*puppetType{{name: "p"}, {name: "q", create: sends("b", 1, func(p *puppet, _ host.Turn) error { <-hold; p.s.N++; return nil })}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		a := host.Address{Type: "q", Key: []string{"a"}}
		hold = make(chan struct{})
		fail := make(chan struct{})
		first, second := make(chan error, 1), make(chan error, 1)
		go func() {
			first <- g.doAt(a, func(*puppet, host.Turn) error { <-fail; return host.Errorf(host.FailedPrecondition, "no") })
		}()
		synctest.Wait()
		go func() { second <- g.doAt(a, add(1)) }()
		synctest.Wait()
		close(fail)
		wantCode(t, <-first, host.FailedPrecondition)
		if err := <-second; err != nil {
			t.Fatal(err)
		}
		synctest.Wait() // the message is with its target
		go func() {
			time.Sleep(time.Millisecond)
			close(hold)
		}()
		g.crash()
		time.Sleep(time.Minute)
		if n, rows := g.n("b"), g.atZero(); n != 1 || len(rows) != 0 {
			t.Errorf("%d messages were handled after the crash, %d rows stand at 0", n, len(rows))
		}
	})
}

// A turn that waits has the turns before it committed. It is undone to its own beginning, in a group that holds nothing of them.
func TestTurnThatWaitsAndFailsKeepsTheMessagesOfTheTurnsBeforeIt(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		hold := make(chan struct{})
		errs := make([]chan error, 4)
		for i, f := range []deed{
			func(*puppet, host.Turn) error { <-hold; return nil },
			series(sends("b", 1, logs("1", nil)), sends("c", 1, logs("2", nil))),
			series(sends("b", 1, logs("3", nil)), func(_ *puppet, h host.Turn) error { h.Done(); return nil },
				sends("b", 1, logs("4", nil)), func(*puppet, host.Turn) error { return errors.New("no") }),
			sends("b", 1, logs("5", nil)),
		} {
			errs[i] = make(chan error, 1)
			go func() { errs[i] <- g.do("a", f) }()
			synctest.Wait()
		}
		close(hold)
		for i, c := range errs {
			if err := <-c; (err != nil) != (i == 2) {
				t.Errorf("turn %d: %v", i, err)
			}
		}
		synctest.Wait()
		if b, c := g.noted("b"), g.noted("c"); fmt.Sprint(b, c) != "[1 5] [2]" {
			t.Errorf("handled were %v and %v", b, c)
		}
	})
}

func TestRetryOfAFailedActorHandlesItsQueuesAtOnce(t *testing.T) {
	var broken atomic.Bool
	var hold chan struct{}
	d := &puppetType{
		name: "p", queues: []host.Queue{{Name: "work", Handler: "puppet.work"}},
		message: func(p *puppet, _ host.Turn) error { <-hold; p.s.N++; return nil },
		wake: func(*puppet, host.Turn) error {
			if broken.Load() {
				return errors.New("does not wake")
			}
			return nil
		},
	}
	bubble(t, nil, []*puppetType{d}, func(t *testing.T, g *stage) {
		hold = make(chan struct{})
		g.must("a", func(_ *puppet, h host.Turn) error {
			_, err := h.Enqueue("work", []host.Enqueue{{Body: []byte("1")}})
			return err
		})
		synctest.Wait()
		broken.Store(true)
		go func() {
			time.Sleep(time.Millisecond)
			close(hold)
		}()
		g.crash()
		time.Sleep(10 * time.Minute) // it has failed many times, and is tried again every few minutes only
		wantCode(t, g.do("a", add(1)), host.ActorFailed)
		broken.Store(false)
		g.mustVerb("a", host.ActorRetry, nil, nil)
		synctest.Wait()
		if n := g.n("a"); n != 1 {
			t.Errorf("%d messages were handled", n)
		}
	})
}

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
