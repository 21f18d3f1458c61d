package kv

import (
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace/tuple"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	kvrows "github.com/cairn-run/cairn/runtime/internal/part/kv/rows"
	"github.com/cairn-run/cairn/runtime/internal/survey"
)

// This file runs the handlers of the changes of maps. A change is logged with a row in the wake
// index, which is due at once. The commit of the handler's turn stores the handler's progress, so
// each change is handled once, and in the order of the commits.

var _ survey.Explainer = (*Part)(nil)

// changesDue is the job of a row: the handler of a map has changes to handle.
type changesDue struct {
	part *Part
	row  *engine.Wake
}

// Traits implements kernel.Job.
func (d *changesDue) Traits(a *kernel.Actor) kernel.Traits {
	return kernel.Traits{Kind: "change", Name: d.row.Name, Declared: mapOf(a.Type, d.row.Name) >= 0, Code: true}
}

// Run implements kernel.Job.
func (d *changesDue) Run(c *kernel.Core, w *kernel.Work) {
	c.Due(w, d.row, func() error { return d.part.handle(c, w, d.row) })
}

// mapOf returns the index of a map whose changes are handled, or -1.
func mapOf(t *kernel.Type, name string) int {
	return slices.IndexFunc(t.Maps, func(m host.Map) bool { return m.Name == name && m.Handler != "" })
}

// Explain implements survey.Explainer.
func (*Part) Explain(q *survey.Inquiry, rows *engine.Snapshot) error {
	return kvrows.AllHandled(rows, func(name string, h kvrows.Handled) {
		if h.Due == 0 {
			return
		}
		text := "changes of the map " + name
		if h.Attempts > 0 {
			text += ", whose handler has failed " + survey.Times(h.Attempts)
		}
		q.Appoint(clock.TimeMS(h.Due), text, "map", name)
	})
}

// maxHandled is how many changes are handled before other work of the actor.
const maxHandled = 64

// A handler that fails is tried again after 1 second, doubling up to 5 minutes, without end.
const (
	handleRetryMin = time.Second
	handleRetryMax = 5 * time.Minute
)

// handle runs the handler of a map for changes, each in its own turn. The row stands while there
// are more.
func (p *Part) handle(c *kernel.Core, w *kernel.Work, row *engine.Wake) error {
	h, err := kvrows.ReadHandled(c.Rows, row.Name)
	switch {
	case err != nil:
		return err
	case h.Due != row.Due:
		return kernel.ErrLeftover
	}
	i := mapOf(c.Actor.Type, row.Name)
	if i < 0 { // it is no longer handled
		return p.note(c, w, row.Name, kvrows.Handled{})
	}
	page, err := p.log.Read(c.Rows, h.After, maxHandled, 1<<20)
	if err != nil {
		return err
	}
	if h.Missed += page.Missed; page.Reset || len(page.Items) == 0 { // the log is gone, or everything is handled
		return p.note(c, w, row.Name, kvrows.Handled{Missed: h.Missed})
	}
	prefix := tuple.AppendString(nil, row.Name)
	for n := range page.Items {
		item := &page.Items[n]
		e, err := kvrows.ParseEvent(item.Data)
		if err != nil {
			return err
		}
		if !within(string(prefix), string(e.Key)) {
			continue
		}
		if c.Actor.Kernel.Draining.Load() {
			return nil
		}
		change := host.KVChange{
			Sequence: item.Sequence, Version: uint64(e.Version), Time: item.Time, Cause: causeWords[e.Cause], Key: e.Key, Value: e.Value, Missed: h.Missed,
		}
		if e.Expire != 0 {
			change.Expire = clock.TimeMS(e.Expire)
		}
		_, cause := c.RunTurn(w, c.Actor.Type.Maps[i].Handler, true, func(t *kernel.Turn) ([]byte, error) {
			if err := contained(c, t, i, &change); err != nil {
				return nil, err
			}
			return nil, p.passed(c, row.Name, kvrows.Handled{After: item.Sequence, Due: row.Due})
		})
		switch {
		case cause == kernel.ErrAbandoned || c.Broken || c.Ended:
			return cause
		case cause != nil:
			c.Actor.Kernel.Public(c.Actor, w, cause)
			if item.Sequence != h.After+1 {
				h.Attempts = 0 // they were of another change
			}
			due := time.Now().Add(retry.Backoff(h.Attempts+1, handleRetryMin, handleRetryMax)).UnixMilli()
			return p.note(c, w, row.Name,
				kvrows.Handled{After: item.Sequence - 1, Due: due, Attempts: h.Attempts + 1, Missed: h.Missed})
		}
		h = kvrows.Handled{After: item.Sequence}
		if c.Group.Turns >= kernel.MaxGroupTurns || c.Rows.Bytes() >= kernel.MaxGroupBytes {
			if c.Commit(); c.Broken {
				return nil
			}
		}
	}
	if last := page.Next; h.After < last { // the last changes are not of this map
		return c.System(w, "changes", func(*kernel.Turn) error {
			return p.passed(c, row.Name, kvrows.Handled{After: last, Due: row.Due, Missed: h.Missed})
		})
	}
	return nil
}

// contained runs the handler of a map. A panic is an error of the turn like any other: the actor
// goes on.
func contained(c *kernel.Core, t *kernel.Turn, i int, change *host.KVChange) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = c.Actor.Kernel.Crashed(c.Actor.Address, c.Actor.Type.Maps[i].Handler, p)
		}
	}()
	return c.Instance.Change(t.Host, i, change)
}

// passed stores the progress of a handler in a turn. At the end of the log nothing is left.
func (p *Part) passed(c *kernel.Core, name string, h kvrows.Handled) error {
	info, err := p.log.Info(c.Rows)
	if err != nil {
		return err
	}
	if info.Last == h.After {
		h = kvrows.Handled{Missed: h.Missed}
	}
	return storeOf(c).SetHandled(name, h)
}

// note stores the progress of a handler, in a turn of its own.
func (p *Part) note(c *kernel.Core, w *kernel.Work, name string, h kvrows.Handled) error {
	return c.System(w, "changes", func(*kernel.Turn) error { return storeOf(c).SetHandled(name, h) })
}
