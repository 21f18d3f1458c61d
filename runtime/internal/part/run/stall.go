package run

import (
	"fmt"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
	"github.com/cairn-run/cairn/runtime/internal/kernel/stacks"
	wfhost "github.com/cairn-run/cairn/workflow/host"
)

// An advancing is a workflow run that advances in a turn, with its data for the watchdog.
type advancing struct {
	*wfhost.Run
	stall
}

// A stall has the watchdog's observations of a workflow function that does not move. Only the
// watchdog uses it.
type stall struct {
	moves   uint64
	since   time.Time // when the watchdog saw moves first
	seen    int       // how often
	flushed bool
	// How often a function of the run was found at work, and how often the node or the store was.
	theirs, ours int
}

// stallLooks is how often the watchdog must find a function in the same place before it counts as
// blocked. Time alone is no proof: on a busy machine the watchdog does not run either.
const stallLooks = 4

// Observe implements kernel.Observer: it looks at the run that advances in the turn, if one does.
// It gives up a run whose function blocks, because that holds the actor's goroutine for good. A
// function that computes has the turn's whole time.
func (h *Turn) Observe(now time.Time) (next time.Duration, ended bool) {
	run := h.run.Load()
	if run == nil {
		return time.Second, false
	}
	t, sup := h.K, h.K.Actor.Kernel
	s, limit := &run.stall, sup.Options.RunStall
	next = limit / (2 * stallLooks)
	moves, inside := run.Moves()
	ours := !inside || t.Operates()
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
		// The callers of the turns before this one, such as the one that started the run, do not
		// wait for the function.
		s.flushed = true
		sup.Go(func() { run.Stalled(moves, func() { _ = t.Flush() }) })
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
		h.blame(run, fmt.Sprintf("the workflow function has waited %s without an operation of the run. What waits for the world "+
			"(a channel, a mutex, the network, time.Sleep) belongs into the body of a step", now.Sub(s.since).Round(100*time.Millisecond)), stack)
	})
	if !given {
		return next, false
	}
	a := t.Actor
	sup.Logger.Error("a workflow function blocks; its run is paused, and its goroutine is left behind", "actor_type", a.Address.Type,
		"actor_key", a.Address.Key, "running_for", now.Sub(t.Start), "goroutine", stack)
	sup.Metrics.Stuck.Inc()
	a.AbandonTurn(t, host.Errorf(host.Unavailable,
		"the actor's workflow function blocks; the actor goes on without it"))
	sup.Go(RunOf(a).TakeUp)
	return next, true
}

// Overdue implements kernel.Observer.
func (h *Turn) Overdue(now time.Time, where string) {
	if run := h.run.Load(); run != nil && run.theirs >= run.ours { // else a slow disk is the cause, which ends
		h.blame(run, fmt.Sprintf("a function of the run did not return within %s",
			now.Sub(h.K.Start).Round(time.Second)), stacks.Of(where))
	}
}

// blame makes the next core pause the run. Only an operator resumes it: each try leaves a goroutine
// behind.
func (h *Turn) blame(run *advancing, text, stack string) {
	run.Abandon()
	text += "\n\n" + stack
	a := h.K.Actor
	kernel.PartOf[*Part](a.Kernel).blames.Store(a.Key, text)
}
