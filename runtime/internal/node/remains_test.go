package node

import (
	"context"
	"fmt"
	"slices"
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
