package kernel

import (
	"log/slog"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/change"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/span"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	"github.com/cairn-run/cairn/runtime/internal/kernel/view"
)

// These are the most turns, bytes and running time that share a commit, about. They bound how long
// the first reply waits for the last turn.
const (
	MaxGroupTurns = 256
	MaxGroupBytes = 1 << 20
	MaxGroupTime  = 5 * time.Millisecond
)

// A Group is the turns that share one commit, and what leaves the actor when it is durable.
type Group struct {
	a       *Actor
	Turns   int
	took    time.Duration // of all its turns
	results []result      // set by the commit
	// Changed: at least one turn wrote something.
	Changed bool
	traced  bool // one of the results is of work that is sampled
	// destroyed: the actor ends with this commit.
	destroyed bool
	// version is that of the last turn that wrote something.
	version engine.Version
	Commit  uint64 // its number among the Actor's commits, if changed
	After   []Consequence
	changes []*change.Pending
	began   time.Time    // the commit, if traced
	applied atomic.Int64 // how long it took to be applied, in ns, if traced
}

// Then runs f when the commit is durable. f must not block.
func (g *Group) Then(f func()) { g.After = append(g.After, consequenceFunc(f)) }

// Full reports whether the turns so far must be committed before another one runs.
func (g *Group) Full() bool { return g.Turns >= MaxGroupTurns || g.took >= MaxGroupTime }

// A result is the answer of a turn, held until the gate opens.
type result struct {
	w        *Work
	out      []byte
	err      error
	version  engine.Version
	replayed bool
}

// Holds reports whether a result waits for the next commit.
func (c *Core) Holds() bool { return !c.held.Empty() }

// hold holds a result until the commit of its turn.
func (c *Core) hold(r result) {
	c.Actor.Tally.Answer(r.w.Job == Job(&r.w.Call), len(r.out))
	c.Group.traced = c.Group.traced || r.w.Span.Sampled()
	if gone := c.held.Add(r); gone != nil {
		r.w.Fail(gone)
	}
}

func failAll(results []result, err *host.Error) {
	for i := range results {
		results[i].w.Fail(err)
	}
}

// mark is a point to which a core returns when a turn fails.
type mark struct {
	at                     engine.Savepoint
	stored                 []byte
	changes, after         int32
	standing               standing.Set
	changed, exists, ended bool
}

func (c *Core) mark() mark {
	g := c.Group
	return mark{
		at: c.Rows.Savepoint(), changes: int32(len(g.changes)), after: int32(len(g.After)),
		changed: g.Changed, exists: c.Exists, ended: c.Ended, standing: c.Standing, stored: c.stored,
	}
}

// undo drops everything since m, in the write set and in the group.
func (c *Core) undo(m *mark) {
	c.Rows.Rollback(m.at)
	if d := len(m.stored) - len(c.stored); d != 0 {
		c.Actor.Weight.Grow(&c.Actor.Kernel.Memory, d)
	}
	g := c.Group
	g.changes = g.changes[:m.changes]
	g.After = g.After[:m.after]
	g.Changed = m.changed
	c.Ended, g.destroyed = m.ended, m.ended
	c.Exists, c.stored = m.exists, m.stored
	c.Standing = m.standing
	c.forget()
}

// forget calls Forget of all facets, which drops what they remember of undone rows. If one panics,
// it may remember wrong rows: the actor is rebuilt.
func (c *Core) forget() {
	now := c.Rows.Version()
	attach.Each(&c.Attached, func(f Facet) {
		if c.Actor.contain("Forget", f, func() { f.Forget(c, now) }) != nil {
			c.Broken = true
		}
	})
}

// Commit commits the group and begins a new one. Results leave when the commit is durable.
func (c *Core) Commit() { c.commitGroup(nil) }

// commitGroup commits the group: all of it if open is nil, else what it held at open, which becomes
// a mark of the new group. The store may decline to divide the write set there; then the group
// stays as it is.
func (c *Core) commitGroup(open *mark) {
	g := c.Group
	g.results = c.held.Take()
	if len(g.results) == 0 && !g.Changed && len(g.After) == 0 {
		return
	}
	a := c.Actor
	c.Group = &Group{a: a}
	if c.Refused {
		failAll(g.results, fault.Unavailable("an earlier commit of the actor failed"))
		return
	}
	a.Pending.Add(1)
	if !g.Changed && a.Gate.Durable.Load() == a.Applied.Load() {
		g.durable(nil) // nothing to write and nothing to wait for
		return
	}
	g.began = span.Now(g.traced)
	wake, bytes := c.Rows.NextWake(), c.Rows.Bytes()
	ok, err := c.apply(g, open)
	if err == nil && !ok {
		a.Pending.Add(-1)
		c.Group = g
		if gone := c.held.Give(g.results); gone != nil {
			failAll(g.results, gone)
		}
		g.results = nil
		return
	}
	if err != nil {
		a.Pending.Add(-1)
		c.Broken, c.Refused = true, true
		a.Kernel.Metrics.Refused.Inc()
		failAll(g.results, a.Kernel.CommitError(a.Address, err))
		return
	}
	g.applied.Store(int64(span.Since(g.began)))
	a.Type.Metrics.Committed(g.Turns)
	a.Tally.Commit(bytes-c.Rows.Bytes(), c.Rows.Size())
	if wake != 0 {
		a.Kernel.Clock.Poke(wake)
	}
}

// apply commits a group and publishes the view of it. ok is false if the store declined.
func (c *Core) apply(g *Group, open *mark) (ok bool, err error) {
	c.Actor.Apply(g.Changed, func(number uint64) (next *view.View, made bool) {
		g.Commit = number // before the commit, which may call the gate at once
		stored := c.stored
		if open == nil {
			ok = true
			_, err = c.space.Commit(g.durable)
		} else {
			stored = open.stored
			open.at, ok, err = c.space.CommitBefore(open.at, g.durable)
		}
		made = ok && err == nil
		if made && g.Changed && !g.destroyed && !c.Bare { // once a caller may know that the actor is gone, no query may find it in memory
			next = c.view(g.version, number, stored)
		}
		return next, made
	})
	return ok, err
}

// view returns the view of a commit that leaves a version.
func (c *Core) view(version engine.Version, commit uint64, stored []byte) *view.View {
	return &view.View{Version: version, Commit: commit, Stored: stored, ID: c.ID, Of: &c.Attached, Store: c.Actor.Kernel.Store}
}

// ensureView gives queries a view of an awake actor that an earlier goroutine gave up.
func (c *Core) ensureView() { c.Actor.EnsureView(c.view(c.space.Head().Version, 0, c.stored)) }

// flush commits the turns before the open one, which began at open. Turns keep what they emit and
// send until they succeed, so the group holds nothing of the open one. A turn that creates the
// actor has no turns before it, and must stay undoable together with the call that caused it. The
// same holds for a turn that migrates the actor, together with its wake hook.
func (c *Core) flush(open *mark) {
	if c.joint != single || !c.Holds() && !open.changed {
		return
	}
	before := c.Group
	c.commitGroup(open)
	if c.Group != before {
		open.changes, open.after, open.changed = 0, 0, false
	}
}

// durable is the gate callback: the commit is on disk, or never will be.
func (g *Group) durable(err error) {
	a := g.a
	if err != nil || a.Kernel.Killed.Load() {
		if err != nil {
			a.Kernel.CommitError(a.Address, err)
		}
		// The batch may or may not be on disk, so no caller may be told that nothing was done.
		e := host.Errorf(host.Unavailable, "the node failed before the commit was durable; whether it was kept is unknown")
		if err != nil {
			a.fail(fault.Uncertain(a.Address))
		} else {
			a.fail(e)
		}
		a.settled()
		failAll(g.results, e)
		return
	}
	if g.Changed {
		a.Gate.Advance(g.Commit)
	}
	if g.destroyed {
		a.Kernel.Destroys.Add(1) // before the callers know, which could send to the successor
	}
	a.Kernel.Changes.Committed(g.changes)
	for _, f := range g.After {
		_ = a.contain("Durable", f, f.Durable) // a panic stops only this one
	}
	if g.destroyed {
		a.Kernel.Signals.End(a.Key)
	}
	if g.Changed {
		a.Told.Advance(g.Commit)
	}
	a.settled()
	for i := range g.results {
		r := &g.results[i]
		if g.traced && g.Changed && !g.destroyed { // a successor may have begun
			span.Caused(a.Spans, r.w.Span, "commit", "", g.began, nil)
			span.Caused(a.Spans, r.w.Span, "gate", "", g.began.Add(time.Duration(g.applied.Load())), nil)
		}
		if r.w.Claim() {
			r.w.out, r.w.Err, r.w.version, r.w.replayed = r.out, r.err, r.version, r.replayed
			r.w.release()
		}
	}
}

// Attrs returns the log attributes that name the actor, and more.
func (a *Actor) Attrs(more ...slog.Attr) []slog.Attr {
	return append(fault.Attrs(a.Address), more...)
}

// Public returns the error that may leave the actor, and logs the rest.
func (s *Kernel) Public(a *Actor, w *Work, err error) *host.Error {
	e, _ := s.Explained(a, w, err)
	return e
}

// Explained is Public that also returns the error for operators; callers get only its id.
func (s *Kernel) Explained(a *Actor, w *Work, err error) (e *host.Error, reason string) {
	t := w.Job.Traits(a)
	return s.TurnError(a.Address, t.Kind, t.Name, err, w.Span.Attrs()...)
}
