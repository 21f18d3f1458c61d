package kernel

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/change"
	"github.com/cairn-run/cairn/runtime/internal/kernel/clock"
	"github.com/cairn-run/cairn/runtime/internal/kernel/directory"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/memory"
	"github.com/cairn-run/cairn/runtime/internal/kernel/metrics"
	"github.com/cairn-run/cairn/runtime/internal/kernel/options"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/park"
	"github.com/cairn-run/cairn/runtime/internal/kernel/patrol"
	"github.com/cairn-run/cairn/runtime/internal/kernel/profile"
	"github.com/cairn-run/cairn/runtime/internal/kernel/retry"
	"github.com/cairn-run/cairn/runtime/internal/kernel/signal"
	"github.com/cairn-run/cairn/runtime/internal/kernel/spawn"
	"github.com/cairn-run/cairn/runtime/internal/kernel/standing"
	"github.com/cairn-run/cairn/runtime/internal/kernel/waitgraph"
	"github.com/cairn-run/cairn/runtime/internal/kernel/worker"
)

// A Kernel hosts actors over one store.
//
// Invariants:
//  1. An address has at most one live Actor, and an Actor one goroutine that runs handlers.
//  2. Replies, events, messages and changes of a turn leave when its commit is durable.
//  3. A turn that fails leaves no trace in the store, in memory, or outside.
//  4. Close waits for every goroutine of the kernel, except handlers that ignore their deadline,
//     which the log names.
type Kernel struct {
	Options options.Options
	Store   *engine.Store
	// The errors that leave the node, and the log.
	*fault.Reporter
	Types  map[string]*Type
	with   Composition
	Parts  []Part
	wakers map[keyspace.WakeKind]Waker
	// Recoverers continue, at a start, the work that rows at 0 stand for.
	Recoverers map[keyspace.WakeKind]Recoverer
	// Router carries the calls of turns and queries, and those from outside.
	Router Router
	// Signals wakes the calls that wait for something to appear in an actor.
	Signals signal.Topics
	// waits ends when calls that wait for something must come to an end.
	waits     context.Context
	endWaits  context.CancelFunc
	Pauses    park.Lot
	Overrides limit.Overrides

	// actors has the Actors in memory by address key, and Remains those of destroyed actors by id.
	actors, Remains *directory.Directory[*Actor]

	Pool    workPool
	Workers *worker.Pool[Assignment]
	// Waits has the turns that wait for the turns of other actors.
	Waits waitgraph.Graph[*Actor, *Work]

	Failures retry.Failures
	Clock    *clock.Clock
	// Memory counts what awake actors take. The sweeper puts them to sleep.
	Memory  memory.Account
	sweeper *patrol.Patrol
	// Watchdog abandons turns that do not end.
	Watchdog *patrol.Patrol
	Metrics  *metrics.Set
	Changes  *change.Feed
	Tracer   Tracer // nil if nothing is recorded

	// Destroys counts destructions. A cached incarnation is current while it does not change.
	Destroys atomic.Uint64

	Started  time.Time
	Life     context.Context // ends when the kernel closes
	end      context.CancelFunc
	Draining atomic.Bool
	Killed   atomic.Bool
	// Offline: no node runs. Messages are written and not sent; the next node sends them.
	Offline    bool
	Goroutines spawn.Group
	// Busy counts Actors that a goroutine runs.
	Busy atomic.Int64
	// WaitingBytes is the size of the work that waits in the mailboxes of all actors.
	WaitingBytes atomic.Int64
}

// A Router is the part that carries requests to actors.
type Router interface {
	// Route runs a request on its actor; from is nil if it comes from outside.
	Route(ctx context.Context, r *host.Request, from *Caller) (host.Reply, error)
}

// A Composition is the rest of a node besides its kernel.
type Composition struct {
	// Parts are asked in this order.
	Parts []Part
	// Turn makes a turn with the view of it that handlers get, as its Host.
	Turn func() *Turn
}

// New makes a Kernel with some parts. Start begins to fire alarms and recovers pending messages.
func New(o options.Options, with Composition) (*Kernel, error) {
	o.EnsureDefaults()
	faults := []error{o.Validate()}
	for _, p := range with.Parts {
		if p, ok := p.(Checker); ok {
			faults = append(faults, p.Check(&o))
		}
		if p, ok := p.(Limiter); ok {
			if err := p.CheckLimits(o.Limits); err != nil {
				faults = append(faults, fmt.Errorf("kernel: Options.Limits: %w", err))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s := &Kernel{Options: o, Store: o.Store, Reporter: &fault.Reporter{Logger: o.Logger}, Types: make(map[string]*Type), actors: directory.New[*Actor](), Remains: directory.New[*Actor](), Changes: &change.Feed{Sink: o.Changes}, Started: time.Now()}
	s.Life, s.end = context.WithCancel(context.Background())
	s.waits, s.endWaits = context.WithCancel(s.Life)
	s.with, s.Parts, s.wakers, s.Recoverers = with, with.Parts, make(map[keyspace.WakeKind]Waker), make(map[keyspace.WakeKind]Recoverer)
	for _, p := range s.Parts {
		if p, ok := p.(Waker); ok {
			for _, kind := range p.Kinds() {
				if kind >= standing.Kinds || s.wakers[kind] != nil {
					return nil, fmt.Errorf("kernel: the wake kind %d of part %s is not below %d, or another part has it", kind, p.(Part).Name(), standing.Kinds)
				}
				s.wakers[kind] = p
			}
		}
		attach.Gather(&s.Translators, p)
		if p, ok := p.(Recoverer); ok {
			kind := p.StandsFor()
			if kind >= standing.Kinds || s.Recoverers[kind] != nil {
				return nil, fmt.Errorf("kernel: the wake kind %d of part %s is not below %d, or another part has it", kind, p.(Part).Name(), standing.Kinds)
			}
			s.Recoverers[kind] = p
		}
	}
	s.Metrics = metrics.New(s.Memory.Awake.Load, s.Memory.Bytes.Load, func() int64 { return int64(s.Pauses.Len()) }, s.Busy.Load)
	retired, err := s.retiredTypes()
	if err != nil {
		return nil, err
	}
	for i, b := range append(slices.Clip(o.Behaviors), retired...) {
		t := &Type{
			Retired:  i >= len(o.Behaviors),
			Behavior: b, ByName: make(map[string]int),
			idle: max(cmp.Or(b.IdleTimeout, o.IdleTimeout), 0), Pace: make([]pace.Average, len(b.Methods)),
			Metrics: s.Metrics.Of(b.Type), Profile: profile.Of(o.Profile, b.Type),
		}
		for _, p := range s.Parts {
			t.Hooks.Add(p, t)
		}
		if t.Base, err = limit.New(limit.Resolve(o.TypeLimits[b.Type], limit.Resolve(b.Limits, o.Limits)), t.Hooks.Limiters); err != nil {
			return nil, fmt.Errorf("kernel: limits of actor type %q: %w", b.Type, err)
		}
		for i, m := range b.Methods {
			t.ByName[m.Name] = i
		}
		for p := range attach.As[Declarer](s.Parts) {
			if err := p.Declare(t); err != nil {
				return nil, fmt.Errorf("kernel: actor type %q: %w", b.Type, err)
			}
		}
		s.Types[b.Type] = t
	}
	for p := range attach.As[Tracer](s.Parts) {
		s.Tracer = p
	}
	for p := range attach.As[Broadcaster](s.Parts) {
		p.Begin(s)
	}
	s.Workers = worker.New(&s.Goroutines, profile.Worker(o.Profile, Assignment.run))
	s.Clock = clock.New(clock.Options{Index: s.Store, Post: s.fire, Paused: &s.Pauses, Most: o.AlarmConcurrency, Logger: s.Logger})
	s.Memory.Limit(o.MaxAwake, o.MaxAwakeBytes)
	s.sweeper = s.newSweeper()
	s.Watchdog = patrol.New(s.Go, s.watch, 3)
	for p := range attach.As[Opener](s.Parts) {
		if err := p.Open(s); err != nil {
			return nil, err
		}
	}
	if o.Registerer != nil {
		all := s.Metrics.Collectors()
		for p := range attach.As[Meter](s.Parts) {
			all = append(all, p.Collectors(s)...)
		}
		for _, c := range all {
			faults = append(faults, o.Registerer.Register(c))
		}
		if err := errors.Join(faults...); err != nil {
			return nil, fmt.Errorf("kernel: register metrics: %w", err)
		}
	}
	return s, nil
}

// Start begins to fire alarms. No call may come before it returns.
func (s *Kernel) Start() {
	s.eachRunner(Runner.Start)
	for _, t := range s.Types {
		if t.Retired {
			s.Logger.Warn("the store has actors of a type that the program does not have; they do nothing, and operators can export and destroy them", "actor_type", t.Type)
		}
	}
	s.Go(s.Clock.Run)
	for p := range attach.As[Reviver](s.Parts) {
		p.Revive(s)
	}
}

// Close drains: calls from outside are refused, turns that run and wait are finished until ctx
// ends, awake actors run their sleep hooks, and every goroutine is waited for. What did not finish
// is not acknowledged. The error says what was left behind. It does not close the store.
func (s *Kernel) Close(ctx context.Context) error {
	if s.Draining.Swap(true) {
		return nil
	}
	s.Clock.Stop()
	s.sweeper.Stop()
	err := s.sleepAll(ctx)
	s.Killed.Store(true)
	s.end()
	s.Watchdog.Stop()
	s.endBroadcasts()
	if stuck := s.abandonAll(); len(stuck) > 0 {
		err = errors.Join(err, fmt.Errorf("kernel: handlers did not return: %v", stuck))
	}
	s.Workers.Close()
	if n := s.Goroutines.Close(s.Options.TurnGrace); n > 0 {
		err = errors.Join(err, fmt.Errorf("kernel: %d goroutines of handlers that ignore their deadline are left behind", n))
	}
	err = errors.Join(err, s.closeParts())
	for p := range attach.As[Straggler](s.Parts) {
		err = errors.Join(err, p.LeftBehind())
	}
	for p := range attach.As[Closer](s.Parts) {
		p.Stopped(s)
	}
	s.eachRunner(Runner.Stop)
	return err
}

// eachRunner calls f for the parts that have something to do for the node as a whole.
func (s *Kernel) eachRunner(f func(Runner, *Kernel)) {
	for p := range attach.As[Runner](s.Parts) {
		f(p, s)
	}
}

// endBroadcasts ends what clients listen to beside the actors.
func (s *Kernel) endBroadcasts() {
	for p := range attach.As[Broadcaster](s.Parts) {
		p.End()
	}
}

// EndWaits ends the calls that wait for a message, a reply or an item; later calls do not wait. It
// is the first thing to do before the gateways are closed, which wait for their calls.
func (s *Kernel) EndWaits() { s.endWaits() }

// NoWaits is closed when calls must not wait.
func (s *Kernel) NoWaits() <-chan struct{} { return s.waits.Done() }

// Halt ends acknowledgements: results that are not durable by now get lost. Kill must follow.
func (s *Kernel) Halt() {
	s.EndWaits()
	s.Draining.Store(true)
	s.Killed.Store(true)
}

// Kill stops as a crash would: it acknowledges nothing that is not durable, and runs no hook.
func (s *Kernel) Kill() {
	s.Halt()
	s.end()
	s.Clock.Stop()
	s.sweeper.Stop()
	s.Watchdog.Stop()
	s.endBroadcasts()
	s.abandonAll()
	s.Workers.Close()
	s.Goroutines.Close(s.Options.TurnGrace)
	s.closeParts()
	s.eachRunner(Runner.Stop)
}

// closeParts closes what parts hold open for the node.
func (s *Kernel) closeParts() error {
	var faults []error
	for p := range attach.As[Opener](s.Parts) {
		faults = append(faults, p.Close(s))
	}
	return errors.Join(faults...)
}

// abandonAll gives up every Actor and returns the handlers that are still running.
func (s *Kernel) abandonAll() []string {
	s.actors.Close()
	s.Remains.Close()
	var stuck []string
	s.Each(func(a *Actor) {
		if h := a.AbandonTurn(nil, fault.Unavailable("the node is shutting down")); h != "" {
			stuck = append(stuck, h)
		}
	})
	return stuck
}

// Identity returns the identity under which the store has the actor at addr.
func (s *Kernel) Identity(addr host.Address) engine.Identity {
	return engine.Identity{Namespace: s.Options.Namespace, Type: addr.Type, Key: addr.Key}
}

// Err returns why no turn can be committed now, as a *host.Error that callers may see, or nil.
func (s *Kernel) Err() error {
	if s.Draining.Load() {
		return fault.Unavailable("the node is shutting down")
	}
	if err := s.Store.Writable(); err != nil {
		e, _ := s.PublicError(err)
		return e
	}
	return nil
}

// Now returns the time since the start. It is cheap to read, and does not follow the wall clock.
func (s *Kernel) Now() time.Duration { return time.Since(s.Started) }

// NewID makes the id of a new incarnation.
func (s *Kernel) NewID(addr host.Address) keyspace.ActorID {
	return s.Store.NewActorID(s.Identity(addr))
}

// Go runs f in a goroutine that Close waits for; false means that the kernel has closed.
func (s *Kernel) Go(f func()) bool { return s.Goroutines.Go(profile.Unlabelled(s.Options.Profile, f)) }

// Later runs f after d unless the node stops first.
func (s *Kernel) Later(d time.Duration, f func()) { s.Go(func() { spawn.After(s.Life, d, f) }) }
