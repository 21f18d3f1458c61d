package supervisor

// Messages that wait when a run ends were sent to that run. They become dead letters, so that the actor's next run does not
// receive them, and senders that wait for a reply are told at once. The commit that ends the run marks them all; those that do not
// fit into it follow in turns of their own, and until the last of them no run receives anything from the queue.

// retire marks the messages that wait in the queues of a run that a turn ends, and makes dead letters of the first.
func (c *core) retire(h *turn) error {
	for i := range c.a.typ.Queues {
		if q := &c.a.typ.Queues[i]; q.ByRun {
			if err := h.queueSet().Retire(q.Name); err != nil {
				return err
			}
		}
	}
	return c.buryRetired(h)
}

// readmit removes the marks of retire: the run goes on after all.
func (c *core) readmit(h *turn) error {
	for i := range c.a.typ.Queues {
		if q := &c.a.typ.Queues[i]; q.ByRun {
			if err := h.queueSet().Readmit(q.Name); err != nil {
				return err
			}
		}
	}
	f := c.flow()
	f.retiring, f.retired = false, c.ws.Version()
	return nil
}

// buryRetired makes dead letters of marked messages, as many as fit into a turn, and keeps the row that a restart finds if
// there are more.
func (c *core) buryRetired(h *turn) error {
	f := c.flow()
	f.retiring, f.retired = false, c.ws.Version()
	for i := range c.a.typ.Queues {
		q := &c.a.typ.Queues[i]
		if !q.ByRun {
			continue
		}
		n, more, err := h.queueSet().BuryRetired(q.Name)
		if err != nil {
			return err
		}
		if n > 0 {
			h.queueChange("dead", q.Name, func(d map[string]any) { d["count"] = n })
		}
		if more {
			f.retiring = true
			break // the turn is full
		}
	}
	f.pending = f.pending || f.retiring
	c.armRun(h, f.live || f.retiring) // the turn of a run that lives clears the row
	return nil
}

// retireAll makes dead letters of the marked messages that are left, a turn at a time.
func (c *core) retireAll(w *work) error {
	f := c.flow()
	for n := 0; f.retiring; n++ {
		if c.gone() || c.broken || c.ended {
			return nil
		}
		if c.a.sup.draining.Load() {
			return nil // the row at 0 stands
		}
		if n >= maxAdvances {
			runOf(c.a).ask()
			return nil
		}
		if _, err := c.internal(w, "workflow", func(h *turn) error { return c.buryRetired(h) }); err != nil {
			return err
		}
		if c.group.full() || c.ws.Bytes() >= maxGroupBytes {
			c.commit()
		}
	}
	f.pending = false
	return nil
}
