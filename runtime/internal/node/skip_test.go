package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
)

func TestSkippedMessageIsMovedAsideAndTheNextIsHandled(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		skip := host.SendSkipInput{Type: "p", Key: []string{"b"}}
		var count host.CountOutput
		g.must("a", add(0))
		g.mustVerb("a", host.SendSkip, skip, &count)
		if count.Count != 0 {
			t.Fatal(count)
		}
		g.must("b", add(0))
		g.must("a", func(p *puppet, h host.Turn) error {
			if err := sends("b", 1, func(*puppet, host.Turn) error { return errors.New("poison") })(p, h); err != nil {
				return err
			}
			return sends("b", 2, add(1))(p, h)
		})
		time.Sleep(10 * time.Second)
		if n := g.n("b"); n != 0 {
			t.Fatal(n)
		}
		g.mustVerb("a", host.SendSkip, skip, &count)
		synctest.Wait()
		if n, st := g.n("b"), g.status("a"); count.Count != 1 || n != 2 || st.PendingSends != 0 || st.FailedSends != 1 {
			t.Fatalf("count %d, n %d, %+v", count.Count, n, st)
		}
		var dead host.SendListOutput
		g.mustVerb("a", host.SendDeadList, host.SendListInput{}, &dead)
		if got := dead.Messages[0]; !strings.HasPrefix(got.Error, "skipped by an operator; the last attempt failed: poison") || got.Code != host.Canceled || got.Attempts == 0 {
			t.Errorf("%+v", got)
		}
		// One that is being handled is not touched; one for a paused actor is.
		hold := make(chan struct{})
		g.must("a", sends("b", 1, func(*puppet, host.Turn) error { <-hold; return nil }))
		synctest.Wait()
		if e := wantCode(t, g.verb("a", host.SendSkip, skip, nil), host.FailedPrecondition); !e.Retryable {
			t.Fatalf("%+v", e)
		}
		close(hold)
		synctest.Wait()
		g.mustVerb("b", host.ActorPause, nil, nil)
		g.must("a", sends("b", 2, add(100)))
		g.restart()
		g.mustVerb("a", host.SendSkip, skip, &count)
		g.mustVerb("b", host.ActorResume, nil, nil)
		synctest.Wait()
		if n, st := g.n("b"), g.status("a"); count.Count != 1 || n != 102 || st.FailedSends != 2 || st.PendingSends != 0 {
			t.Fatalf("count %d, n %d, %+v", count.Count, n, st)
		}
	})
}

func TestActorsWithMessagesToAPausedActorSleepAndAreWokenWhenItIsResumed(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(0))
		g.mustVerb("a", host.ActorPause, nil, nil)
		for i := range 10 {
			g.must(fmt.Sprint("s", i), sends("a", 3, add(1)))
		}
		time.Sleep(time.Hour)
		for range 3 {
			g.must("s7", sends("b", 1, add(0))) // loads its older messages, which wait again
			time.Sleep(time.Hour)
		}
		if n := g.Memory.Awake.Load(); n != 0 {
			t.Fatalf("%d actors are awake", n)
		}
		for _, n := range g.Pauses.Parked() {
			if n != 10 {
				t.Fatalf("%d wait for the end of the pause", n)
			}
		}
		explained(t, g.whyOf("s1"), host.WhySends, "3 messages wait for p/a, which is paused", "skip", "target", "p/a")
		g.must("s2", sends("b", 1, add(1))) // awake again, and finds its older messages
		g.must("s3", add(1))                // awake again, and does not look
		g.must("s4", sends("a", 1, add(1)))
		if err := g.Destroy(context.Background(), pAddr("s5")); err != nil {
			t.Fatal(err)
		}
		g.mustVerb("s6", host.ActorPause, nil, nil) // which does not hold its messages back
		g.mustVerb("a", host.ActorResume, nil, nil)
		synctest.Wait()
		if n := g.n("a"); n != 31 {
			t.Fatalf("%d messages were handled", n)
		}
		for i := range 10 {
			if i == 5 {
				continue
			}
			if st := g.status(fmt.Sprint("s", i)); st.PendingSends != 0 || st.FailedSends != 0 {
				t.Fatalf("%+v", st)
			}
		}
		time.Sleep(time.Hour)
		if n := g.Memory.Awake.Load(); n != 0 || g.Remains.Len() != 0 {
			t.Fatalf("%d actors are awake, %d remains", n, g.Remains.Len())
		}
	})
}

func TestMessagesToAPausedActorWaitAndGoOnInOrder(t *testing.T) {
	for _, restart := range []bool{false, true} {
		t.Run(fmt.Sprint("restart ", restart), func(t *testing.T) {
			bubble(t, nil, nil, func(t *testing.T, g *stage) {
				var mu sync.Mutex
				var got []int
				note := func(n int) deed {
					return func(p *puppet, _ host.Turn) error {
						mu.Lock()
						defer mu.Unlock()
						got = append(got, n)
						p.s.N++
						return nil
					}
				}
				g.must("a", add(0))
				g.mustVerb("a", host.ActorPause, nil, nil)
				for i := range 20 {
					g.must("s1", sends("a", 1, note(i)))
					g.must(fmt.Sprint("t", i), sends("a", 1, note(-1)))
				}
				time.Sleep(3 * time.Hour) // longer than all attempts of a message that fails
				if st := g.status("s1"); st.PendingSends != 20 || st.FailedSends != 0 || len(got) != 0 {
					t.Fatalf("%v %+v", got, st)
				}
				if restart {
					g.restart()
				}
				g.mustVerb("a", host.ActorResume, nil, nil)
				synctest.Wait()
				time.Sleep(time.Second)
				if n := g.n("a"); n != 40 {
					t.Fatalf("%d messages were handled", n)
				}
				mine := slices.DeleteFunc(got, func(n int) bool { return n < 0 })
				if !slices.IsSorted(mine) || len(mine) != 20 {
					t.Fatalf("they came as %v", mine)
				}
				if st := g.status("s1"); st.PendingSends != 0 {
					t.Fatalf("%+v", st)
				}
			})
		})
	}
}
