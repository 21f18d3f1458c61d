package run

import (
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// cautionTime is how long runs are counted before they go on, after a start that follows an unclean
// end. It bounds the cost of counting. A run that ends the process does that soon after a start,
// because its next work is due by then.
const cautionTime = 10 * time.Minute

// An entering is the count of a run before it goes on: see wfhost.Run.Enter.
type entering struct {
	asked bool        // the count was written
	known atomic.Bool // it is durable
}

// markRunning records in the store that the node runs, and reads whether the one before ended
// without notice.
func (p *Part) markRunning(s *kernel.Kernel) {
	unclean, err := s.Store.MarkRunning()
	if err != nil {
		s.Logger.Error("note in the store that the node runs", "error", err)
		return
	}
	p.marked = true
	if unclean {
		p.cautious = time.Now().Add(cautionTime)
	}
}

// markStopped records in the store that the node stops in order.
func (p *Part) markStopped(s *kernel.Kernel) {
	if !p.marked || s.Store.Err() != nil {
		return // it is not marked, or the store takes no writes
	}
	if err := s.Store.MarkStopped(); err != nil {
		s.Logger.Error("note in the store that the node stops", "error", err)
	}
}

// enterRun counts an attempt of the run to go on, if the node's last process ended without notice.
// It reports whether the run must wait: the duty is requested when the count is durable.
func enterRun(c *kernel.Core, w *kernel.Work) (wait bool, err error) {
	a, f := c.Actor, flowOf(c)
	p := kernel.PartOf[*Part](a.Kernel)
	if p.cautious.IsZero() || time.Now().After(p.cautious) || f.enter.known.Load() {
		return false, nil
	}
	if f.enter.asked {
		return true, nil
	}
	counted := false
	f.mu.Lock()
	err = c.System(w, "workflow", func(h *kernel.Turn) (err error) {
		counted, err = f.run.Enter(&RunRows{H: h, exempt: true}, p.process)
		return err
	})
	f.leaveRun()
	if err != nil || !counted {
		return false, err
	}
	f.enter.asked = true
	enter := f.enter
	c.Group.Then(func() {
		enter.known.Store(true)
		RunOf(a).Ask()
	})
	return true, nil
}
