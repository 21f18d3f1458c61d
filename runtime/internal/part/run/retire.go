package run

import (
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/part/queue"
)

// Messages that wait when a run ends were sent to that run. They become dead letters, so that the
// actor's next run does not receive them, and senders that wait for a reply are notified at once.
// The commit that ends the run marks them all. Messages that do not fit into it follow in turns of
// their own, and until the last of them no run receives anything from the queue.

// retire marks the messages that wait in the queues of a run that a turn ends, and makes dead
// letters of the first.
func retire(c *kernel.Core, h *kernel.Turn) error {
	for i := range c.Actor.Type.Queues {
		if q := &c.Actor.Type.Queues[i]; q.ByRun {
			if err := queue.SetOf(h).Retire(q.Name); err != nil {
				return err
			}
		}
	}
	return buryRetired(c, h)
}

// readmit removes the marks of retire: the run goes on after all.
func readmit(c *kernel.Core, h *kernel.Turn) error {
	for i := range c.Actor.Type.Queues {
		if q := &c.Actor.Type.Queues[i]; q.ByRun {
			if err := queue.SetOf(h).Readmit(q.Name); err != nil {
				return err
			}
		}
	}
	f := flowOf(c)
	f.retiring, f.retired = false, c.Rows.Version()
	return nil
}

// buryRetired makes dead letters of marked messages, as many as fit into a turn, and keeps the row
// that a restart finds if there are more.
func buryRetired(c *kernel.Core, h *kernel.Turn) error {
	f := flowOf(c)
	f.retiring, f.retired = false, c.Rows.Version()
	for i := range c.Actor.Type.Queues {
		q := &c.Actor.Type.Queues[i]
		if !q.ByRun {
			continue
		}
		n, more, err := queue.SetOf(h).BuryRetired(q.Name)
		if err != nil {
			return err
		}
		if n > 0 {
			queue.QueueChange(h, "dead", q.Name, func(d map[string]any) { d["count"] = n })
		}
		if more {
			f.retiring = true
			break // the turn is full
		}
	}
	f.pending = f.pending || f.retiring
	armRun(c, h, f.live || f.retiring) // the turn of a run that lives clears the row
	return nil
}

// retireAll makes dead letters of the marked messages that are left, a turn at a time.
func retireAll(c *kernel.Core, w *kernel.Work) error {
	f := flowOf(c)
	for n := 0; f.retiring; n++ {
		if c.Gone() || c.Broken || c.Ended {
			return nil
		}
		if c.Actor.Kernel.Draining.Load() {
			return nil // the row at 0 stands
		}
		if n >= maxAdvances {
			RunOf(c.Actor).Ask()
			return nil
		}
		if err := c.System(w, "workflow", func(h *kernel.Turn) error { return buryRetired(c, h) }); err != nil {
			return err
		}
		if c.Group.Full() || c.Rows.Bytes() >= kernel.MaxGroupBytes {
			c.Commit()
		}
	}
	f.pending = false
	return nil
}
