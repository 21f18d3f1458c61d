package supervisor

import (
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
)

// A group is the turns that share one commit, and what leaves the actor when that commit is durable.
type group struct {
	a       *activation
	turns   int
	took    time.Duration // what the turns took together
	results []result      // set by the commit
	// changed: at least one turn wrote something.
	changed bool
	// version is that of the last turn that wrote something.
	version engine.Version
	commit  uint64 // its number among the activation's commits, if changed
	after   []consequence
	changes []*pendingChange
	// destroyed: the actor ends with this commit.
	destroyed bool
}

// then has f run when the commit is durable. f must not block.
func (g *group) then(f func()) { g.after = append(g.after, consequenceFunc(f)) }

// full reports that the turns so far are to be committed before another one runs.
func (g *group) full() bool { return g.turns >= maxGroupTurns || g.took >= maxGroupTime }

// A result is what a turn answers, held until the gate opens.
type result struct {
	w        *work
	out      []byte
	err      error
	version  engine.Version
	replayed bool
}

// ledger holds the results of the turns that are not committed yet. It alone is shared between the goroutine that runs
// the actor and one that takes the actor away from it.
type ledger struct {
	mu      sync.Mutex
	results []result
	gone    *host.Error // why the core was abandoned
}

// add holds a result until the commit of its turn.
func (l *ledger) add(r result) {
	l.mu.Lock()
	gone := l.gone
	if gone == nil {
		l.results = append(l.results, r)
	}
	l.mu.Unlock()
	if gone != nil {
		r.w.fail(gone)
	}
}

// take hands the results over to a commit.
func (l *ledger) take() []result {
	l.mu.Lock()
	defer l.mu.Unlock()
	r := l.results
	l.results = nil
	return r
}

// give takes results back from a commit that was not made.
func (l *ledger) give(results []result) {
	l.mu.Lock()
	gone := l.gone
	if gone == nil {
		l.results = append(results, l.results...)
	}
	l.mu.Unlock()
	if gone != nil {
		failAll(results, gone)
	}
}

func (l *ledger) empty() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return len(l.results) == 0
}

// abandon answers everything that is held, and whatever comes later.
func (l *ledger) abandon(err *host.Error) {
	l.mu.Lock()
	results := l.results
	l.results, l.gone = nil, err
	l.mu.Unlock()
	failAll(results, err)
}

func failAll(results []result, err *host.Error) {
	for i := range results {
		results[i].w.fail(err)
	}
}

// pendingChange is a change set with its row in the outbox.
type pendingChange struct {
	seq uint64
	set *engine.ChangeSet
}

// mark is a point to which a core returns when a turn fails.
type mark struct {
	at              engine.Savepoint
	changes         int
	after           int
	changed, exists bool
	standing        standing
	stored          []byte
}

func (c *core) mark() mark {
	g := c.group
	m := mark{
		at: c.ws.Savepoint(), changes: len(g.changes), after: len(g.after),
		changed: g.changed, exists: c.exists, standing: c.standing, stored: c.stored,
	}
	return m
}

// undo drops everything since m, in the write set and in the group.
func (c *core) undo(m mark) {
	c.ws.Rollback(m.at)
	if d := len(m.stored) - len(c.stored); d != 0 {
		c.a.sup.memory.resized(c.a, d)
	}
	g := c.group
	g.changes = g.changes[:m.changes]
	g.after = g.after[:m.after]
	g.changed = m.changed
	c.exists, c.stored = m.exists, m.stored
	c.standing = m.standing
	c.forget()
}

// commit commits the group and begins a new one. Results leave when the commit is durable.
func (c *core) commit() {
	c.commitGroup(func(done func(error)) (bool, error) {
		_, err := c.space.Commit(done)
		return true, err
	}, c.stored)
}

// commitGroup commits what the group holds through apply, and publishes the view in which the state is stored. apply may
// decline, which leaves the group as it is.
func (c *core) commitGroup(apply func(func(error)) (ok bool, err error), stored []byte) {
	g := c.group
	g.results = c.held.take()
	if len(g.results) == 0 && !g.changed && len(g.after) == 0 {
		return
	}
	a := c.a
	c.group = &group{a: a}
	if c.refused {
		failAll(g.results, unavailable("an earlier commit of the actor failed"))
		return
	}
	a.pending.Add(1)
	if !g.changed && a.durable.Load() == a.applied.Load() {
		g.durable(nil) // nothing to write and nothing to wait for
		return
	}
	declined, wake := false, c.ws.NextWake()
	err := a.publish(func() (*view, error) {
		if g.changed {
			g.commit = a.applied.Add(1) // before apply, which may tell the gate at once
		}
		ok, err := apply(g.durable)
		declined = err == nil && !ok
		if g.changed && (err != nil || declined) {
			a.applied.Add(^uint64(0)) // nobody has seen it
		}
		if err != nil || declined || !g.changed {
			return nil, err
		}
		if g.destroyed || c.bare {
			a.view = nil // whoever learns that the actor is gone must not find it in memory
			return nil, nil
		}
		return &view{version: g.version, commit: g.commit, stored: stored, id: c.id, of: &c.attached}, nil
	})
	if declined {
		a.pending.Add(-1)
		c.group = g
		c.held.give(g.results)
		g.results = nil
		return
	}
	if err != nil {
		a.pending.Add(-1)
		c.broken, c.refused = true, true
		a.sup.metrics.refused.Inc()
		failAll(g.results, a.sup.commitError(a, err))
		return
	}
	a.sup.metrics.commits.Inc()
	a.sup.metrics.shared.Add(float64(g.turns))
	if wake != 0 {
		a.sup.alarms.poke(wake)
	}
}

// flush commits the turns before the open one, which began at m, and returns the mark to undo the open turn from now on.
// Turns collect what they emit and send in themselves until they succeed, so the group holds nothing of the open one.
// The turn that creates an actor has no turns before it, and must stay undoable together with the call that caused it; so
// has and must the one that migrates it, together with its wake hook.
func (c *core) flush(m mark) mark {
	if c.creating || c.rising || c.held.empty() && !m.changed {
		return m
	}
	open := c.group
	c.commitGroup(func(done func(error)) (ok bool, err error) {
		m.at, ok, err = c.space.CommitBefore(m.at, done)
		return ok, err
	}, m.stored)
	if c.group != open {
		m.changes, m.after, m.changed = 0, 0, false
	}
	return m
}

// durable is the gate callback: the commit is on disk, or never will be.
func (g *group) durable(err error) {
	a := g.a
	if err != nil || a.sup.killed.Load() {
		if err != nil {
			a.sup.commitError(a, err)
		}
		// The batch may or may not be on disk, so nobody may be told that nothing was done.
		e := host.Errorf(host.Unavailable, "the node failed before the commit was durable; whether it was kept is unknown")
		if err != nil {
			a.failWaiters(uncertain(a.addr))
		} else {
			a.failWaiters(e)
		}
		a.settled()
		failAll(g.results, e)
		return
	}
	if g.changed {
		a.advanceGate(g.commit)
	}
	if g.destroyed {
		a.sup.destroys.Add(1) // before anybody learns of it, and could send to the successor
	}
	if sink := a.sup.options.Changes; sink != nil {
		for _, c := range g.changes {
			sink.Committed(c.seq, c.set)
		}
	}
	for _, f := range g.after {
		f.durable()
	}
	if g.destroyed {
		a.sup.signals.end(a.key)
	}
	a.settled()
	for i := range g.results {
		r := &g.results[i]
		if r.w.claim() {
			r.w.out, r.w.err, r.w.version, r.w.replayed = r.out, r.err, r.version, r.replayed
			r.w.release()
		}
	}
}

// commitError makes the error for callers of a commit that failed, and logs the cause, once a second.
func (s *Supervisor) commitError(a *activation, err error) *host.Error {
	e, _ := s.publicError(err)
	if errors.Is(err, engine.ErrUncertain) {
		e = host.Errorf(host.Unavailable, "the disk failed during the commit; whether it was kept is unknown")
	} else if e.Code == host.Internal {
		e = unavailable("the commit failed; nothing of it was kept")
	}
	if !errors.Is(err, engine.ErrClosed) && !errors.Is(err, engine.ErrFenced) {
		id := e.Metadata["error_id"]
		if left, ok := s.commitLog.pass(err.Error()); ok || id != "" {
			s.logger.LogAttrs(s.life, slog.LevelError, "commit failed", a.attrs(slog.String("error_id", id), slog.Any("error", err), slog.Int("left_out", left))...)
		}
	}
	return e
}

func (a *activation) attrs(more ...slog.Attr) []slog.Attr {
	return append([]slog.Attr{slog.String("actor_type", a.addr.Type), slog.Any("actor_key", a.addr.Key)}, more...)
}

// public makes the error that may leave the actor, and logs what may not.
func (s *Supervisor) public(a *activation, w *work, err error) *host.Error {
	e, _ := s.explained(a, w, err)
	return e
}

// explained is public that also returns what operators read: the error itself, where callers are told its id only.
func (s *Supervisor) explained(a *activation, w *work, err error) (e *host.Error, reason string) {
	e, id := s.publicError(err)
	if id != "" {
		reason = fmt.Sprintf("%s (error %s)", err, id)
		t := w.job.traits(a)
		s.logger.LogAttrs(s.life, slog.LevelError, "turn failed",
			a.attrs(slog.String("error_id", id), slog.String("work", t.kind), slog.String("method", t.name), slog.Any("error", err))...)
	} else if e != nil {
		reason = e.Message
	}
	return e, reason
}

// publicQuery is public for a query.
func (s *Supervisor) publicQuery(a *activation, name string, err error) *host.Error {
	e, id := s.publicError(err)
	if id != "" {
		s.logger.LogAttrs(s.life, slog.LevelError, "query failed",
			a.attrs(slog.String("error_id", id), slog.String("method", name), slog.Any("error", err))...)
	}
	return e
}

func unixMS(t time.Time) int64 { return t.UnixMilli() }
func timeMS(ms int64) time.Time {
	if ms == 0 {
		return time.Time{}
	}
	return time.UnixMilli(ms)
}
