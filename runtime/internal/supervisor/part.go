package supervisor

import (
	"iter"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A part is one capability of actors. There is one value of each per node. It owns some kinds of keys and some kinds of
// rows of the wake index, which no other part reads or writes. What it does besides, it says by implementing some of the
// interfaces below; the kernel asks for them once, when the node starts.
//
// What a part keeps with a type, an actor, an awake actor or a turn it attaches to that: see [attach].
type part interface {
	name() string
}

// A declarer looks at each actor type when the node starts: it attaches what it derives from the behavior, and refuses
// what it cannot serve.
type declarer interface {
	declare(t *actorType) error
}

// A checker refuses options that it cannot serve, before anything is made of them.
type checker interface {
	check(o *KernelOptions) error
}

// A limiter checks limits of actors that are its own. The error is a *LimitsError.
type limiter interface {
	checkLimits(l host.Limits) error
}

// A server has built-in methods.
type server interface {
	methods() []*builtin
}

// A runner has something to do for the node as a whole.
type runner interface {
	// start is called before any actor runs, and stop when none does any more. Both return soon.
	start(s *Supervisor)
	stop(s *Supervisor)
}

// An opener holds something open for the node as a whole.
type opener interface {
	// open is called when the node is made.
	open(s *Supervisor) error
	// close is called when neither turns nor queries run any more, but for those that do not return. It does not wait
	// longer for them than the grace of a turn. The error says what was left behind.
	close(s *Supervisor) error
}

// A straggler has goroutines that may still run when the node has closed.
type straggler interface {
	// leftBehind returns the error that says so, or nil.
	leftBehind() error
}

// A reviver has something to take up when the node starts that no row at 0 stands for.
type reviver interface {
	// revive is called when actors may run. It returns soon.
	revive(s *Supervisor)
}

// A closer is told that the node has stopped in order, and not as in a crash. The store can still be written.
type closer interface{ stopped(s *Supervisor) }

// A broadcaster has clients that listen to actors, and keep none awake.
type broadcaster interface {
	// begin is called when the node is made, and end when it goes down, before actors that still run are given up. It does
	// not block.
	begin(s *Supervisor)
	end()
}

// A meter has metrics.
type meter interface {
	collectors(s *Supervisor) []prometheus.Collector
}

// A waker has rows in the wake index.
type waker interface {
	kinds() []keyspace.WakeKind
	// due makes the work for a row whose time has come, of an actor that is not paused. The row stands until a turn of that
	// work clears it. The work tells done what became of it, as its finish, which is the default, or at the end of its
	// finish. A row that stands is tried again after a while if the work has an error, and else at once.
	due(s *Supervisor, t *actorType, addr host.Address, row *engine.Wake, done func(*work)) *work
	// wakes lists the rows that an actor's records call for, but those at 0.
	wakes(rows engine.Reader) ([]engine.Wake, error)
}

// A purger has the rows of kind expiry that have a name. There is one.
type purger interface {
	part
	// purge does what a row asks for whose time has come. The row stands until a turn clears it.
	purge(c *core, w *work, row *engine.Wake) error
}

// A recoverer has rows at 0 in the wake index, which a start of the node finds.
type recoverer interface {
	standsFor() keyspace.WakeKind
	// takeUp makes the work that goes on with what was under way. Its finish is called with what became of it.
	takeUp(a *activation) *work
}

// A retrier has work that waits until a failed actor is tried again.
type retrier interface {
	// retry goes on with it, because an operator lets the actor be tried at once.
	retry(s *Supervisor, t *actorType, addr host.Address, id keyspace.ActorID) error
}

// A remainder has rows that outlive their actor. takeUp is called for what is left of the actor, too, and the turn that
// removes the last of the rows destroys that.
type remainder interface {
	recoverer
	// remains returns the kinds that stay when a turn destroys an actor; none if it has no such rows.
	remains(t *turn) (kinds []keyspace.Kind, err error)
	// bequeath writes the rows of these kinds that the turn adds. Everything else is gone.
	bequeath(t *turn) error
}

// A preparer gets an actor ready before its wake hook runs, and when it is created.
type preparer interface {
	// stale reports that prepare has something to do.
	stale(c *core) (bool, error)
	prepare(t *turn) error
}

// A riser is told of an actor that has been woken.
type riser interface{ risen(c *core) error }

// A watcher is told, in the turn, that the state changes.
type watcher interface{ stateChanged(t *turn) error }

// A follower goes on, in the same commit if it can, with what the work before it has made necessary.
type follower interface{ follow(c *core) }

// A destroyer has something to do in the turn that destroys an actor. Its rows go without it.
type destroyer interface{ destroy(t *turn) error }

// A reporter adds to what is said of an actor what its rows say, on a node and without one.
type reporter interface {
	report(rows *engine.Snapshot, st *host.Status) error
}

// A listReporter is a reporter whose report is in lists of actors, too: of actors of the types that it lists.
type listReporter interface {
	reporter
	lists(t *actorType) bool
}

// A presenter adds to what is said of an actor what only its node knows. a is nil if the actor is not in memory.
type presenter interface {
	present(s *Supervisor, a *activation, st *host.Status)
}

// An explainer says what an actor may wait for, and when it will have something to do. rows are what the store has of it.
type explainer interface {
	explain(q *inquiry, rows *engine.Snapshot) error
}

// A keeper says why an actor that is awake cannot be put to sleep now, by an operator or because memory is short, though its
// company would leave it; nil if it can.
type keeper interface{ keeps(a *activation) error }

// A resumer is told, in the turn, that an operator resumes an actor that was paused.
type resumer interface{ resumed(t *turn) error }

// A storeServer has built-in methods that work on a store without a node, and without the code of its actors.
type storeServer interface{ storeMethods() []*builtin }

// A facet is what a part remembers of an awake actor. The rows are the truth. It is used by the goroutine that runs the
// actor.
type facet interface {
	// forget drops what was remembered of rows since a version, to which the write set was rolled back.
	forget(c *core, version engine.Version)
	// close gives up what the facet holds: the core is used no more. It is called once, by the goroutine that runs the actor
	// or while none does.
	close(c *core)
	// abandon is close while a goroutine that will not return may be using the facet. It does not block.
	abandon(c *core)
}

// A company is a facet with goroutines beside the actor, which keep it awake. An actor has one at most. All methods but
// the facet's are safe for concurrent use.
type company interface {
	facet
	// size is how many there are.
	size() int
	// ask tells them to return. The channel is closed when they have, or their time is over.
	ask(cause *host.Error) <-chan struct{}
	// end takes the actor away from them.
	end(cause *host.Error)
	// retire claims, once, the right to put the actor to sleep when they have returned.
	retire() bool
}

// A resident is attached to an actor, and keeps it in memory while it has something under way.
//
// REQUIRES: for all methods, activation.mu
type resident interface {
	// busy reports that the actor must not fall asleep.
	busy() bool
	// leave lets the actor leave memory; false if it must not.
	leave() bool
}

// A survivor is attached to an actor, and goes on with what was under way when the core was lost in a crash.
type survivor interface{ lost() }

// A participant is what a part has collected in a turn.
type participant interface {
	// seal turns it into writes, after the handler has returned.
	seal(t *turn) error
}

// A finisher is a participant that is told that its turn has succeeded. A turn that destroys its actor does not tell.
type finisher interface {
	participant
	// succeeded is called when nothing of the turn can fail any more. The write set has the version that the turn leaves,
	// to which the turn may still be undone together with those around it.
	succeeded(t *turn)
}

// An observer is what a handler is handed, if a part has something in turns that the watchdog must look at. Only the watchdog
// calls it, while the turn may be in use.
type observer interface {
	// observe returns when to look again. ended: it has abandoned the turn.
	observe(now time.Time) (next time.Duration, ended bool)
	// overdue is told that the turn has run for too long and is about to be abandoned, and in which function its goroutine is.
	overdue(now time.Time, where string)
}

// A session is what goroutines of a handler may still use when the handler has returned.
type session interface {
	// shut lets no more of them begin. wait waits for those that have begun. drop undoes what they did.
	shut()
	wait()
	drop()
	// stuck describes one that does not end: for the log, for the caller, and a function that it is in.
	stuck() (fault, what, where string)
}

// A querySession is what goroutines of a query may still use when its handler has returned. end waits for them.
type querySession interface{ end() }

// A translator makes the public form of the part's own errors; nil for others. id is that under which the cause must be
// logged, or "".
type translator interface {
	translate(err error) (e *host.Error, id string)
}

// A consequence leaves the actor when the turn that caused it is durable.
type consequence interface {
	// durable lets it out. It does not block.
	durable()
}

// A consequenceFunc is a consequence that is a function.
type consequenceFunc func()

func (f consequenceFunc) durable() { f() }

// hooks are the parts that have something to do with the actors of a type.
type hooks struct {
	preparers  []preparer
	risers     []riser
	watchers   []watcher
	followers  []follower
	destroyers []destroyer
	remainders []remainder
	limiters   []limiter
}

// add notes what a part does.
func (h *hooks) add(p part) {
	gather(&h.preparers, p)
	gather(&h.risers, p)
	gather(&h.watchers, p)
	gather(&h.followers, p)
	gather(&h.destroyers, p)
	gather(&h.remainders, p)
	gather(&h.limiters, p)
}

func gather[T any](list *[]T, p part) {
	if x, ok := p.(T); ok {
		*list = append(*list, x)
	}
}

// partsAs ranges over the parts that do something.
func partsAs[T any](parts []part) iter.Seq[T] {
	return func(yield func(T) bool) {
		for _, p := range parts {
			if x, ok := p.(T); ok && !yield(x) {
				return
			}
		}
	}
}

// partOf returns the part of a type; nil if the node does not have it.
func partOf[P part](s *Supervisor) (found P) {
	for _, p := range s.parts {
		if x, ok := p.(P); ok {
			return x
		}
	}
	return found
}

// attached is what parts keep with something of the kernel's. Safe for concurrent use.
type attached struct {
	first atomic.Pointer[attachment]
	ended atomic.Bool // its owner is used no more: what is attached from now on is closed by nobody
}

type attachment struct {
	value any
	next  *attachment
}

// attachedTo returns what is attached of a type; the zero value if there is nothing.
func attachedTo[T comparable](l *attached) (found T) {
	for at := l.first.Load(); at != nil; at = at.next {
		if v, ok := at.value.(T); ok {
			return v
		}
	}
	return found
}

// attach returns what is attached of a type. If there is nothing, it is made.
func attach[T comparable](l *attached, make func() T) T {
	var zero T
	for {
		first := l.first.Load()
		if v := attachedTo[T](l); v != zero {
			return v
		}
		v := make()
		if l.first.CompareAndSwap(first, &attachment{value: v, next: first}) {
			return v
		}
	}
}

// eachAttached calls f for everything attached that is a T.
func eachAttached[T any](l *attached, f func(T)) {
	for at := l.first.Load(); at != nil; at = at.next {
		if v, ok := at.value.(T); ok {
			f(v)
		}
	}
}
