package kernel

import (
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/deadline"
	"github.com/cairn-run/cairn/runtime/internal/kernel/ledger"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
)

// Core is what an awake actor consists of.
type Core struct {
	Actor *Actor
	epoch uint64
	ID    keyspace.ActorID
	space *engine.Space
	// Limits are the actor's, and storage those of them that space has.
	Limits   *limit.Set
	storage  *engine.Limits
	Rows     *engine.WriteSet
	Instance host.Instance
	// stored is the state's value as of the last turn that succeeded; nil for an actor without one.
	stored []byte
	// Standing has the known states of the actor's rows at 0 of the wake index.
	Standing standing.Set
	Attached attach.List // facets
	Group    *Group
	held     ledger.Ledger[result, *host.Error]
	Identity host.Identity
	// Exists: the actor is in the directory, or will be by the commit under way.
	Exists bool
	// joint says which turns stand or fall with the one under way.
	joint joint
	// Broken: the core must not be used; the actor is rebuilt from the store.
	Broken bool
	// Refused: a commit failed. The write set was answered as undone: it must not be committed.
	Refused bool
	// Ended: the actor is destroyed by the commit under way.
	Ended bool
	// Bare: the core has no state and no code. It serves operators.
	Bare bool
	// Quiet: the actor is paused and was loaded for queries; its wake hook has not run.
	Quiet  bool
	asleep atomic.Bool // the actor has left memory in order, and not in a crash
	// streak counts the work since the actor last rested for a while, or gave way to others.
	streak int
	// timer ends the contexts of turns.
	timer deadline.Timer
	// slept is the order to sleep even if work waits; nil if there is none.
	slept *Work
}

// Aside writes beside the actor's turns, as [engine.Space.Aside] does.
func (c *Core) Aside(write func(*engine.Aside) error) error { return c.space.Aside(write) }

// Company returns what runs beside the actor; nil if there is none, or no core.
func (c *Core) Company() Company {
	if c == nil {
		return nil
	}
	return attach.Get[Company](&c.Attached)
}

// close gives up what the core holds, once: by the actor's goroutine or while none runs.
func (c *Core) close() {
	c.Attached.Ended.Store(true)
	attach.Each(&c.Attached, func(f Facet) { _ = c.Actor.contain("Close", f, func() { f.Close(c) }) }) // what panics is logged
	c.space.Close()
}

// joint says which turns stand or fall together.
type joint uint8

const (
	// single: each turn is undone alone.
	single joint = iota
	// creating: the turn under way makes the actor, and stays or goes with the call behind it.
	creating
	// rising: the actor is being prepared and woken, in turns that are undone together.
	rising
)
