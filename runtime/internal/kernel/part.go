package kernel

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
)

// A Part is one capability of actors. There is one value of each per node. It owns some kinds of
// keys and some kinds of rows of the wake index, which no other part reads or writes. It implements
// some of the interfaces below; the kernel checks which once, when the node starts. What it
// attaches may implement others.
//
// A part attaches what it keeps with a type, an actor, an awake actor or a turn to that: see
// package attach.
type Part interface {
	Name() string
}

// A Declarer looks at each actor type when the node starts: it attaches what it derives from the
// behavior, and refuses what it cannot serve.
type Declarer interface {
	Declare(t *Type) error
}

// A Checker refuses options that it cannot serve, before anything is made of them.
type Checker interface {
	Check(o *options.Options) error
}

// A Limiter checks limits of actors that are its own. The error is a *limit.Error.
type Limiter interface {
	CheckLimits(l host.Limits) error
}

// A Runner works for the node as a whole.
type Runner interface {
	// Start is called before any actor runs, and Stop when none runs. Both return soon.
	Start(s *Kernel)
	Stop(s *Kernel)
}

// An Opener holds something open for the node as a whole.
type Opener interface {
	// Open is called when the node is made.
	Open(s *Kernel) error
	// Close is called when neither turns nor queries run, except some that do not return. It does
	// not wait longer for them than the grace of a turn. The error says what was left behind.
	Close(s *Kernel) error
}

// A Straggler has goroutines that may still run when the node has closed.
type Straggler interface {
	// LeftBehind returns an error that names them, or nil.
	LeftBehind() error
}

// A Reviver resumes work when the node starts that no row at 0 stands for.
type Reviver interface {
	// Revive is called when actors may run. It returns soon.
	Revive(s *Kernel)
}

// A Closer is called when the node has stopped in order. The store can still be written.
type Closer interface{ Stopped(s *Kernel) }

// A Broadcaster has clients that listen to actors, and keep none awake.
type Broadcaster interface {
	// Begin is called when the node is made, and End when it goes down, before actors that still
	// run are given up. It does not block.
	Begin(s *Kernel)
	End()
}

// A Meter has metrics.
type Meter interface {
	Collectors(s *Kernel) []prometheus.Collector
}

// A Waker has rows in the wake index.
type Waker interface {
	Kinds() []keyspace.WakeKind
	// Due makes the work for a due row of an actor that is not paused. The row stands until a turn
	// of that work clears it. The work calls done when it has its result: as its Finish, which is
	// the default, or at the end of another Finish. A row that stands is tried again after a while
	// if the work has an error, else at once.
	Due(s *Kernel, t *Type, addr host.Address, row *engine.Wake, done func(*Work)) *Work
	// Wakes lists the rows that an actor's records call for, except those at 0.
	Wakes(rows engine.Reader) ([]engine.Wake, error)
}

// A Purger has the rows of kind expiry with some names.
type Purger interface {
	Part
	Purges(name string) bool
	// Purge does the work of a due row. The row stands until a turn clears it.
	Purge(c *Core, w *Work, row *engine.Wake) error
}

// A Recoverer has rows at 0 in the wake index, which a start of the node finds.
type Recoverer interface {
	StandsFor() keyspace.WakeKind
	// TakeUp makes the work that continues what was under way. Its Finish gets its result.
	TakeUp(a *Actor) *Work
}

// A Retrier has work that waits until a failed actor is tried again.
type Retrier interface {
	// Retry continues that work, because an operator allows another try at once.
	Retry(s *Kernel, t *Type, addr host.Address, id keyspace.ActorID) error
}

// A Remainder has rows that outlive their actor. TakeUp is called for the remains of the actor too,
// and the turn that removes the last of the rows destroys the remains.
type Remainder interface {
	Recoverer
	// Remains returns the kinds whose rows stay when a turn destroys an actor.
	Remains(t *Turn) (kinds []keyspace.Kind, err error)
	// Bequeath writes the rows of these kinds that the turn adds. Everything else is gone.
	Bequeath(t *Turn) error
}

// A Preparer gets an actor ready before its wake hook runs, and when it is created.
type Preparer interface {
	// Stale reports whether Prepare has something to do.
	Stale(c *Core) (bool, error)
	Prepare(t *Turn) error
}

// A Riser is called when an actor has been woken.
type Riser interface{ Risen(c *Core) error }

// A Watcher is called in a turn that changes the state of an actor whose type it watches.
type Watcher interface {
	Watches(t *Type) bool
	StateChanged(t *Turn) error
}

// A Destroyer acts in the turn that destroys an actor. Its rows are removed without it.
type Destroyer interface{ Destroy(t *Turn) error }

// A Keeper returns why an awake actor cannot be put to sleep now, by an operator or because memory
// is short, even if its company would leave it; nil if it can.
type Keeper interface{ Keeps(a *Actor) error }

// A Resumer is called in the turn in which an operator resumes a paused actor.
type Resumer interface{ Resumed(t *Turn) error }

// A Facet caches rows of an awake actor for a part, for the goroutine that runs the actor.
type Facet interface {
	// Forget drops what it read since a version, to which the write set was rolled back.
	Forget(c *Core, version engine.Version)
	// Close gives up what the facet holds. It is called once, by the goroutine that runs the actor
	// or while none does.
	Close(c *Core)
	// Abandon is Close while a stuck goroutine may use the facet. It does not block.
	Abandon(c *Core)
}

// A Follower is a facet that continues work that earlier work made necessary, in the same commit if
// it can.
type Follower interface {
	Facet
	Follow(c *Core)
}

// A Company is a facet with goroutines beside the actor, which keep it awake. An actor has one at
// most. All methods but the facet's are safe for concurrent use.
type Company interface {
	Facet
	// Size is the number of goroutines.
	Size() int
	// Ask asks them to return. The channel is closed when they have, or when their time is over.
	Ask(cause *host.Error) <-chan struct{}
	// End takes the actor away from them.
	End(cause *host.Error)
	// Retire claims, once, the right to put the actor to sleep when they have returned.
	Retire() bool
}

// A Resident is attached to an actor, and keeps it in memory while it has something under way.
// REQUIRES: for all methods, Actor.Mu
type Resident interface {
	// Busy reports whether the actor must not fall asleep.
	Busy() bool
	// Leave lets the actor leave memory; false if it must not.
	Leave() bool
}

// A Survivor is attached to an actor, and continues what was under way when the core crashed.
type Survivor interface{ Lost() }

// A Participant holds what a part collects in a turn.
type Participant interface {
	// Seal turns it into writes, after the handler has returned.
	Seal(t *Turn) error
}

// A Finisher is called when its turn has succeeded, unless the turn destroys its actor.
type Finisher interface {
	Participant
	// Succeeded is called when nothing of the turn can fail. The write set has the version that the
	// turn leaves, to which the turn may still be undone together with those around it.
	Succeeded(t *Turn)
}

// An Observer is the Host of a turn, if a part has something in turns that the watchdog must check.
// Only the watchdog calls it, while the turn may be in use.
type Observer interface {
	// Observe returns when to look again. ended: it has abandoned the turn.
	Observe(now time.Time) (next time.Duration, ended bool)
	// Overdue is called when the turn has run for too long and is about to be abandoned. where is
	// the function that its goroutine is in.
	Overdue(now time.Time, where string)
}

// A Session may still be used by goroutines of a handler when the handler has returned.
type Session interface {
	// After Shut no use begins. Wait waits until all uses that have begun are over. Drop undoes
	// what they did.
	Shut()
	Wait()
	Drop()
	// Stuck describes a use that does not end: for the log, for the caller, and its function.
	Stuck() (fault, what, where string)
}

// A Consequence leaves the actor when the turn that caused it is durable.
type Consequence interface {
	// Durable carries it out. It does not block.
	Durable()
}

// A consequenceFunc is a consequence that is a function.
type consequenceFunc func()

// Durable implements Consequence.
func (f consequenceFunc) Durable() { f() }

// Hooks are the parts that have something to do with the actors of a type.
type Hooks struct {
	preparers  []Preparer
	risers     []Riser
	watchers   []Watcher
	Destroyers []Destroyer
	remainders []Remainder
	Limiters   []Limiter
}

// Add adds a part's hooks for actors of a type.
func (h *Hooks) Add(p Part, t *Type) {
	attach.Gather(&h.preparers, p)
	attach.Gather(&h.risers, p)
	if w, ok := p.(Watcher); ok && w.Watches(t) {
		h.watchers = append(h.watchers, w)
	}
	attach.Gather(&h.Destroyers, p)
	attach.Gather(&h.remainders, p)
	attach.Gather(&h.Limiters, p)
}

// PartOf returns the part of a type; nil if the node does not have it.
func PartOf[P Part](s *Kernel) (found P) {
	for _, p := range s.Parts {
		if x, ok := p.(P); ok {
			return x
		}
	}
	return found
}
