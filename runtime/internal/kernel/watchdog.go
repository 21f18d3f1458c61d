package kernel

import (
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/stacks"
)

// watch abandons turns whose handler has not returned after its deadline and grace, or has left a
// goroutine in a session that does not end. The caller of an abandoned turn gets a reply. The
// turn's writes can no longer be committed, and the actor is rebuilt from the store for the work
// that waits. The log names the handler and where it hangs. Its goroutine is left, because Go
// cannot end it. next is when to look again.
func (s *Kernel) watch(now time.Time) (next time.Duration, running bool) {
	next = time.Second
	s.Each(func(a *Actor) {
		t := a.Turn.Load()
		if t == nil {
			return
		}
		running = true
		view, observes := t.Host.(Observer)
		if observes {
			wait, ended := view.Observe(now)
			if next = min(next, wait); ended {
				return
			}
		}
		limit := t.Start.Add(a.Type.Base.TurnTimeout).Add(s.Options.TurnGrace)
		if wait := limit.Sub(now); wait > 0 {
			next = min(next, max(wait, time.Millisecond))
			return
		}
		fault, what, where := "handler does not return", "did not return", stacks.NameOf(guard)
		if session := t.lingers(); session != nil {
			fault, what, where = session.Stuck()
		}
		s.Logger.Error(fault+"; its turn is abandoned", "actor_type", a.Address.Type, "actor_key", a.Address.Key,
			"handler", t.Handler, "running_for", now.Sub(t.Start), "goroutines", stacks.Of(where))
		s.Metrics.Stuck.Inc()
		if observes {
			view.Overdue(now, where)
		}
		a.AbandonTurn(t, host.Errorf(host.DeadlineExceeded, "the handler %s %s within %s; nothing of the turn was kept",
			t.Handler, what, a.Type.Base.TurnTimeout).With("handler", t.Handler))
	})
	return next, running
}
