package node

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/part/mail"
)

// logs is a deed that notes that it was done, after gate is closed if there is one.
func logs(name string, gate <-chan struct{}) deed {
	return func(p *puppet, _ host.Turn) error {
		if gate != nil {
			<-gate
		}
		p.s.Log = append(p.s.Log, name)
		return nil
	}
}

// noted returns what logs has noted in an actor.
func (g *stage) noted(key string) (log []string) {
	g.t.Helper()
	_, err := g.Call(context.Background(), &host.Request{Address: pAddr(key), Method: "look", Codec: host.JSON,
		Input: remember(glance(func(s *puppetState, _ host.Reader) error { log = s.Log; return nil }))})
	if err != nil {
		g.t.Fatal(err)
	}
	return log
}

// series runs deeds one after the other.
func series(all ...deed) deed {
	return func(p *puppet, t host.Turn) error {
		for _, f := range all {
			if err := f(p, t); err != nil {
				return err
			}
		}
		return nil
	}
}

// atZero returns the rows at 0 of the wake index.
func (g *stage) atZero() []engine.Wake {
	g.t.Helper()
	rows, err := g.store.Wakes(nil, 0, 100)
	if err != nil {
		g.t.Fatal(err)
	}
	return rows
}

// The messages of an actor's first life have the numbers of those of its second: nothing of the one may be taken for the
// other's.
func TestMessagesOfADestroyedActorAndOfItsSuccessorAreHandledOnceInOrder(t *testing.T) {
	for _, end := range []string{"", "restart", "crash"} {
		t.Run(end, func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				holdA, holdB, holdC, holdD := make(chan struct{}), make(chan struct{}), make(chan struct{}), make(chan struct{})
				g.must("a", series(
					sends("b", 1, logs("1", holdB)), sends("b", 1, logs("2", nil)), sends("b", 1, logs("3", nil)),
					sends("c", 1, logs("4", holdC)),
				))
				synctest.Wait()
				old := mail.Mail(g.Find(pAddr("a")))
				errs := make(chan error, 2)
				go func() {
					errs <- g.do("a", series(
						func(*puppet, host.Turn) error { <-holdA; return nil },
						sends("b", 1, logs("5", nil)),
						func(_ *puppet, t host.Turn) error { t.DestroySelf(); return nil },
					))
				}()
				synctest.Wait()
				go func() {
					errs <- g.do("a", series(
						sends("b", 1, logs("11", nil)), sends("b", 1, logs("12", nil)), sends("b", 1, logs("13", nil)),
						sends("c", 1, logs("14", holdD)),
					))
				}()
				synctest.Wait()
				close(holdC) // its settlement waits behind the destruction, and behind the first call of the next life
				synctest.Wait()
				close(holdA)
				synctest.Wait()
				for range 2 {
					if err := <-errs; err != nil {
						t.Fatal(err)
					}
				}
				if n := g.Remains.Len(); n != 1 {
					t.Fatalf("there are the remains of %d actors", n)
				}
				if !old.Closed {
					t.Error("the sender of the first life still sends")
				}
				time.Sleep(10 * time.Second) // every retry has run
				if st := g.status("a"); st.PendingSends != 4 {
					t.Errorf("%d messages of the successor wait", st.PendingSends)
				}
				if n := len(g.atZero()); n != 2 {
					t.Errorf("%d rows stand at 0", n)
				}
				switch end {
				case "crash":
					go func() {
						time.Sleep(time.Millisecond)
						close(holdB)
						close(holdD)
					}()
					g.crash()
				case "restart":
					close(holdB)
					close(holdD)
					g.restart()
				default:
					close(holdB)
					close(holdD)
				}
				time.Sleep(time.Minute)
				first, second := g.noted("b"), []string(nil)
				for i := 0; i < len(first); {
					if len(first[i]) > 1 {
						second, first = append(second, first[i]), slices.Delete(first, i, i+1)
					} else {
						i++
					}
				}
				if fmt.Sprint(first, second) != "[1 2 3 5] [11 12 13]" {
					t.Errorf("b handled %v of the first life and %v of the second", first, second)
				}
				if log := g.noted("c"); fmt.Sprint(log) != "[4 14]" {
					t.Errorf("c handled %v", log)
				}
				if st := g.status("a"); st.PendingSends != 0 || st.FailedSends != 0 {
					t.Errorf("%+v", st)
				}
				if n, rows := g.Remains.Len(), g.atZero(); n != 0 || len(rows) != 0 {
					t.Errorf("the remains of %d actors and %d rows at 0 are left", n, len(rows))
				}
			})
		})
	}
}

func TestEachLifeOfAnActorThatIsDestroyedAgainAndAgainSendsItsMessages(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("b", add(0))
		g.mustVerb("b", host.ActorPause, nil, nil)
		for range 5 {
			g.must("a", sends("b", 3, add(1)))
			if err := g.Destroy(t.Context(), pAddr("a")); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Hour)
		if n := g.Remains.Len(); n != 5 {
			t.Fatalf("there are the remains of %d actors", n)
		}
		g.restart()
		time.Sleep(time.Minute)
		if n := g.Remains.Len(); n != 5 {
			t.Fatalf("there are the remains of %d actors after a restart", n)
		}
		g.mustVerb("b", host.ActorResume, nil, nil)
		synctest.Wait()
		if n, left := g.n("b"), g.Remains.Len(); n != 15 || left != 0 {
			t.Errorf("%d messages were handled, the remains of %d actors are left", n, left)
		}
		wantCode(t, g.verb("a", host.SendDeadList, host.SendListInput{}, nil), host.NotFound)
	})
}

func TestSleepHookDoesNotRunForADestroyedActor(t *testing.T) {
	var slept atomic.Int32
	types := []*puppetType{{name: "p"}, {name: "q", sleep: func(*puppet, host.Turn) error { slept.Add(1); return nil }}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		a := host.Address{Type: "q", Key: []string{"a"}}
		g.must("b", add(0))
		g.mustVerb("b", host.ActorPause, nil, nil)
		if err := g.doAt(a, sends("b", 1, add(1))); err != nil {
			t.Fatal(err)
		}
		if err := g.Destroy(t.Context(), a); err != nil {
			t.Fatal(err)
		}
		g.restart()
		time.Sleep(time.Second)
		g.restart()
		if n := slept.Load(); n != 0 {
			t.Errorf("the sleep hook ran %d times", n)
		}
		g.mustVerb("b", host.ActorResume, nil, nil)
		synctest.Wait()
		if n := g.n("b"); n != 1 {
			t.Errorf("%d messages were handled", n)
		}
	})
}

func TestMessagesOfADestroyedActorAreSentThoughItsTypeIsGone(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p"}, {name: "q"}}, func(t *testing.T, g *stage) {
		g.must("b", add(0))
		g.mustVerb("b", host.ActorPause, nil, nil)
		for _, key := range []string{"a", "kept"} {
			if err := g.doAt(host.Address{Type: "q", Key: []string{key}}, sends("b", 1, add(1))); err != nil {
				t.Fatal(err)
			}
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
		if n, rows := g.n("b"), g.atZero(); n != 1 || len(rows) != 1 {
			t.Errorf("%d messages were handled, %d rows stand at 0", n, len(rows))
		}
	})
}

// A result that comes back while the destruction waits for the disk is for neither life: the first
// can no longer take it.
func TestWhatBecomesOfMessagesWhileTheDestructionWaitsForTheDisk(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		hold := make(chan struct{})
		g.must("b", add(0))
		g.must("a", series(sends("b", 1, logs("1", hold)), sends("b", 1, logs("2", nil)), sends("new", 1, logs("3", hold))))
		synctest.Wait()
		disk := make(chan struct{})
		g.disk.Fail(func(op, path string) error {
			if op == "sync" && strings.HasSuffix(path, ".log") {
				<-disk
			}
			return nil
		})
		errs := make(chan error, 2)
		go func() { errs <- g.Destroy(context.Background(), pAddr("a")) }()
		synctest.Wait()
		go func() {
			errs <- g.do("a", series(sends("b", 1, logs("11", nil)), sends("b", 1, logs("12", nil)), sends("new", 1, logs("13", nil))))
		}()
		synctest.Wait()
		close(hold)
		time.Sleep(3 * time.Second) // settlements are tried again
		g.disk.Fail(nil)
		close(disk)
		synctest.Wait()
		for range 2 {
			if err := <-errs; err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(time.Minute)
		if b, c := g.noted("b"), g.noted("new"); fmt.Sprint(b, c) != "[1 2 11 12] [3 13]" {
			t.Errorf("handled were %v and %v", b, c)
		}
		if st, n, rows := g.status("a"), g.Remains.Len(), g.atZero(); st.PendingSends != 0 || n != 0 || len(rows) != 0 {
			t.Errorf("%d messages wait, the remains of %d actors and %d rows at 0 are left", st.PendingSends, n, len(rows))
		}
	})
}

func TestActorWhoseDestructionFailsGoesOnSending(t *testing.T) {
	// A message that is too large fails the turn when all else of the actor is gone.
	types := []*puppetType{{name: "p", onDestroy: func(_ *puppet, t host.Turn) error {
		return t.Send(&host.Message{Type: "p", Key: []string{"b"}, Method: "do", Input: make([]byte, mail.MaxMessageBytes+1)})
	}}}
	bubble(t, nil, types, func(t *testing.T, g *stage) {
		hold := make(chan struct{})
		g.must("a", series(sends("b", 1, logs("1", hold)), sends("b", 1, logs("2", nil))))
		synctest.Wait()
		err := g.Destroy(t.Context(), pAddr("a"))
		g.must("a", sends("b", 1, logs("3", nil)))
		left := g.Remains.Len()
		close(hold)
		time.Sleep(time.Second)
		if err == nil || left != 0 {
			t.Errorf("it is destroyed: %v, there are the remains of %d actors", err, left)
		}
		if b, st, rows := g.noted("b"), g.status("a"), g.atZero(); fmt.Sprint(b) != "[1 2 3]" || st.PendingSends != 0 || len(rows) != 0 {
			t.Errorf("%v were handled, %d messages wait, %d rows stand at 0", b, st.PendingSends, len(rows))
		}
	})
}
