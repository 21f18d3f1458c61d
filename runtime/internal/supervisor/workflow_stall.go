package supervisor

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/workflow"
)

// An advancing is a workflow run that advances in a turn, with what the watchdog knows of it.
type advancing struct {
	*workflow.Run
	stall
}

// A stall is what the watchdog has seen of a workflow function that does not move. Only the watchdog uses it.
type stall struct {
	moves   uint64
	since   time.Time // when the watchdog saw moves first
	seen    int       // how often
	flushed bool
	// How often a function of the run was found at work, and how often the node was, or the store.
	theirs, ours int
}

// stallLooks is how often the watchdog must find a function in the same place before it is said to block: on a machine that is
// so busy that the watchdog does not run either, time alone tells nothing.
const stallLooks = 4

// stalled looks at the run that advances in a turn and returns when to look again. It gives up a run whose function blocks, which
// holds the actor's goroutine for good; then blocks is true. A function that computes has the turn's whole time.
func (d *watchdog) stalled(t *turn, run *advancing, now time.Time) (next time.Duration, blocks bool) {
	s, limit := &run.stall, d.s.options.RunStall
	next = limit / (2 * stallLooks)
	moves, inside := run.Moves()
	ours := !inside || t.operates()
	if ours {
		s.ours++
	} else {
		s.theirs++
	}
	if ours || moves != s.moves {
		s.moves, s.since, s.seen = moves, now, 0
		return next, false
	}
	if s.seen++; !s.flushed {
		// The callers of the turns before this one, such as the one that started the run, do not wait for the function.
		s.flushed = true
		d.s.task(func() { run.Stalled(moves, func() { _ = t.flush() }) })
	}
	if s.seen < stallLooks || now.Sub(s.since) < limit {
		return next, false
	}
	stack, waits := run.Stack()
	if !waits {
		s.since, s.seen = now, 0
		return next, false
	}
	// Once it is claimed, the function may return, but the turn ends with nothing kept.
	given := run.Stalled(moves, func() {
		d.blame(t, run.Run, fmt.Sprintf("the workflow function has waited %s without an operation of the run. What waits for the world "+
			"(a channel, a mutex, the network, time.Sleep) belongs into the body of a step", now.Sub(s.since).Round(100*time.Millisecond)), stack)
	})
	if !given {
		return next, false
	}
	a := t.a
	d.s.logger.Error("a workflow function blocks; its run is paused, and its goroutine is left behind", "actor_type", a.addr.Type,
		"actor_key", a.addr.Key, "running_for", now.Sub(t.start), "goroutine", stack)
	d.s.metrics.stuck.Inc()
	a.abandonTurn(t, host.Errorf(host.Unavailable, "the actor's workflow function blocks; the actor goes on without it"))
	d.s.task(a.duties.run.takeUp)
	return next, true
}

// operates reports that an operation of the turn goes on. What it takes is the store's time: no function can help that.
func (t *turn) operates() bool {
	if t.mu.TryLock() {
		t.mu.Unlock()
		return false
	}
	return true
}

// blame has the next core pause the run, which only an operator resumes: each try leaves a goroutine behind.
func (d *watchdog) blame(t *turn, run *workflow.Run, text, stack string) {
	run.Abandon()
	text += "\n\n" + stack
	d.s.blames.Store(t.a.key, text)
}
