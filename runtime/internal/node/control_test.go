package node

import (
	"context"
	"sync"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/actor/host"
)

// sends is a deed that sends messages to another puppet, each of which runs a closure.
func sends(to string, n int, f deed) deed {
	input := remember(f)
	return func(_ *puppet, t host.Turn) error {
		for range n {
			if err := t.Send(&host.Message{Type: "p", Key: []string{to}, Method: "do", Input: input}); err != nil {
				return err
			}
		}
		return nil
	}
}

func TestSleepUnderLoadEndsAndNothingIsLost(t *testing.T) {
	bubble(t, nil, []*puppetType{{name: "p", wake: goes("x", untilTold)}}, func(t *testing.T, g *stage) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 100 {
					if err := g.do("a", add(1)); err != nil {
						t.Error(err)
					}
				}
			})
		}
		for range 20 {
			if err := g.verb("a", host.ActorSleep, nil, nil); err != nil && host.CodeOf(err) != host.NotFound {
				t.Error(err)
			}
		}
		wg.Wait()
		if n := g.n("a"); n != 800 {
			t.Fatal(n)
		}
		synctest.Wait()
		if st := g.status("a"); st.Tasks != 1 {
			t.Fatalf("an awake actor has %d tasks", st.Tasks)
		}
	})
}

func TestVerbsOfOperatorsAreActionsAndNotForQueries(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		g.must("a", add(1))
		inputs := map[string][]byte{host.SendSkip: []byte(`{"type":"puppet","key":["c"]}`)}
		for _, verb := range []string{host.ActorPause, host.ActorResume, host.ActorWake, host.ActorSleep, host.ActorRetry, host.SendSkip} {
			_, err := g.Call(context.Background(), &host.Request{Address: pAddr("b"), Method: "look", Codec: host.JSON,
				Input: remember(glance(func(_ *puppetState, r host.Reader) error {
					_, err := r.Call(r, &host.Request{Address: pAddr("a"), Method: verb, Codec: host.JSON, Input: inputs[verb]})
					return err
				}))})
			if host.CodeOf(err) != host.ReadOnly {
				t.Errorf("%s in a query: %v", verb, err)
			}
		}
		wantCode(t, g.do("a", func(_ *puppet, h host.Turn) error {
			_, err := h.Call(h, &host.Request{Address: pAddr("a"), Method: host.ActorSleep, Codec: host.JSON})
			return err
		}), host.FailedPrecondition)
	})
}
