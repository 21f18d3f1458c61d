package node

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/timed"
)

// A caller whose context has not made its Done waits with a timer of the kernel's, which many calls share one after the other.
func TestCallEndsAtTheDeadlineOfAContextThatHasNoChannel(t *testing.T) {
	bubble(t, nil, nil, func(t *testing.T, g *stage) {
		call := func(parent context.Context, limit, work time.Duration, asks bool) error {
			ctx := timed.Until(parent, time.Now().Add(limit))
			defer ctx.Cancel()
			start := time.Now()
			over := make(chan struct{})
			_, err := g.Call(ctx, &host.Request{Address: pAddr("a"), Method: "do", Codec: host.JSON, Input: remember(deed(func(_ *puppet, h host.Turn) error {
				defer close(over)
				if asks {
					h.Done() // which asks the caller's context
				}
				time.Sleep(work)
				return nil
			}))})
			if took := time.Since(start); took != min(limit, work) && parent.Err() == nil {
				t.Errorf("a call of %v with a limit of %v took %v", work, limit, took)
			}
			<-over
			synctest.Wait()
			return err
		}
		for _, asks := range []bool{false, true} {
			for range 20 {
				wantCode(t, call(t.Context(), time.Second, 2*time.Second, asks), host.DeadlineExceeded)
				for range 3 {
					if err := call(t.Context(), 2*time.Second, time.Second, asks); err != nil {
						t.Error(err)
					}
				}
				parent, cancel := context.WithCancel(t.Context())
				time.AfterFunc(time.Second, cancel)
				wantCode(t, call(parent, 2*time.Second, 3*time.Second, asks), host.Canceled)
			}
		}
	})
}

// An orderNotes is the order of a request that reads. Its turn comes when the turns before it have run.
type orderNotes struct {
	before func()
	calls  string
}

// Reads implements host.Order.
func (o *orderNotes) Reads(context.Context) bool {
	o.before()
	o.calls += "reads "
	return true
}

// Placed implements host.Order.
func (o *orderNotes) Placed() { o.calls += "placed " }

// Waits implements host.Order.
func (o *orderNotes) Waits() { o.calls += "waits " }

// A later request begins while the handler of a query runs, and no earlier turn is missing in what the query sees.
func TestQueryHasItsPlaceWhenTheTurnsBeforeItHaveRunAndNotWhenItIsAnswered(t *testing.T) {
	for _, awake := range []bool{true, false} {
		bubble(t, nil, nil, func(t *testing.T, g *stage) {
			if awake {
				g.must("a", add(1))
			}
			o := &orderNotes{before: func() { g.must("a", add(1)) }}
			seen, at := 0, ""
			look := glance(func(s *puppetState, _ host.Reader) error { seen, at = s.N, o.calls; return nil })
			if _, err := g.Call(t.Context(), &host.Request{Address: pAddr("a"), Method: "look", Codec: host.JSON, Input: remember(look), Order: o}); err != nil {
				t.Fatal(err)
			}
			if n := g.n("a"); seen != n || at != "reads placed " {
				t.Errorf("awake %t: the query saw %d of %d turns, and had %q when its handler ran", awake, seen, n, at)
			}
		})
	}
}
