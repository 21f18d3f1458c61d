package supervisor

import (
	"context"
	"errors"
	"fmt"
	"hash/maphash"
	"log/slog"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A Supervisor hosts actors over one store. It implements host.Node, host.EventSource and host.Inspector.
//
// Invariants:
//  1. Per address there is at most one live activation, and per activation at most one goroutine runs handlers.
//  2. Nothing that a turn caused leaves before the commit of that turn is durable: replies, events, messages, changes.
//  3. A turn that fails leaves no trace in the store, in memory, or outside.
//  4. Every goroutine that the supervisor starts is waited for by Close, but for handlers that ignore their deadline;
//     those are named in the log.
type Supervisor struct {
	options KernelOptions
	store   *engine.Store
	logger  *slog.Logger
	// commitLog bounds the lines about commits that fail.
	commitLog quiet
	types     map[string]*actorType
	with      composition
	parts     []part
	// translators are asked in the order of parts.
	translators []translator
	wakers      map[keyspace.WakeKind]waker
	// recoverers take up, at a start, what rows at 0 stand for.
	recoverers map[keyspace.WakeKind]recoverer
	// builtins are the methods that every actor has, by name.
	builtins map[string]*builtin
	signals  signals
	// noWaits is closed when calls that wait for something must come to an end.
	noWaits   chan struct{}
	waitsOnce sync.Once
	pauses    pauses
	overrides overrides

	seed    maphash.Seed
	shards  [64]shard
	pool    workPool
	workers workers
	queries queryRuns
	waits   waitGraph

	failures failures
	alarms   alarmClock
	memory   memory
	watchdog watchdog
	metrics  *metrics

	// destroys counts destructions, so that a cached incarnation is known to be current.
	destroys atomic.Uint64

	started  time.Time
	life     context.Context // ends when the supervisor closes
	end      context.CancelFunc
	draining atomic.Bool
	killed   atomic.Bool
	// offline: no node runs. Messages are written and not sent; the next node sends them.
	offline bool
	tasks   tasks
	// busy counts activations that a goroutine runs.
	busy atomic.Int64
	// waitingBytes is what the work takes that waits in the mailboxes of all actors.
	waitingBytes atomic.Int64
	states       buffers
}

// shard is a part of the directory of awake actors. A closed one takes no more.
type shard struct {
	mu     sync.RWMutex
	actors map[string]*activation
	closed bool
}

// tasks counts goroutines, so that Close can wait for them. Unlike a sync.WaitGroup it can be told to start no more.
type tasks struct {
	mu     sync.Mutex
	n      int
	closed bool
	idle   chan struct{} // closed when n is 0 and no more may start
}

// begin counts one goroutine, and reports whether it may start.
func (t *tasks) begin() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.closed {
		return false
	}
	t.n++
	return true
}

// done counts one goroutine off.
func (t *tasks) done() {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.n--; t.n == 0 && t.closed {
		close(t.idle)
	}
}

// close lets no more goroutines start and waits for those that did, but not longer than grace, because a handler that does
// not return cannot be ended. It returns how many are left.
func (t *tasks) close(grace time.Duration) int {
	t.mu.Lock()
	t.closed = true
	t.idle = make(chan struct{})
	idle := t.idle
	if t.n == 0 {
		close(idle)
	}
	t.mu.Unlock()
	timer := time.NewTimer(grace)
	defer timer.Stop()
	select {
	case <-idle:
		return 0
	case <-timer.C:
		t.mu.Lock()
		defer t.mu.Unlock()
		return t.n
	}
}

// An actorType is a behavior with what the supervisor derives from it once.
type actorType struct {
	*host.Behavior
	attached attached
	hooks    hooks
	// retired: the store has actors of the type, and the program does not. They do nothing; operators see, export and
	// destroy them.
	retired bool
	methods map[string]int
	base    *actorLimits  // of the type; actors may have others
	idle    time.Duration // 0 for never
	// pace holds a moving average of the time that each method takes, in nanoseconds; 0 for never run.
	pace    []atomic.Int64
	metrics typeMetrics
}

// A composition is what a node is made of besides its kernel.
type composition struct {
	// parts are asked in this order.
	parts []part
	// turn and query make a turn and a query with the view of them that handlers get, as host of each.
	turn  func() *turn
	query func() *reader
}

// newSupervisor makes a Supervisor with the parts given. Start begins to fire alarms and recovers pending messages.
func newSupervisor(o KernelOptions, with composition) (*Supervisor, error) {

	o.EnsureDefaults()
	faults := []error{o.Validate()}
	for _, p := range with.parts {
		if p, ok := p.(checker); ok {
			faults = append(faults, p.check(&o))
		}
		if p, ok := p.(limiter); ok {
			if err := p.checkLimits(o.Limits); err != nil {
				faults = append(faults, fmt.Errorf("supervisor: Options.Limits: %w", err))
			}
		}
	}
	if err := errors.Join(faults...); err != nil {
		return nil, err
	}
	s := &Supervisor{options: o, store: o.Store, logger: o.Logger, types: make(map[string]*actorType), builtins: make(map[string]*builtin), noWaits: make(chan struct{}), seed: maphash.MakeSeed(), started: time.Now()}
	s.life, s.end = context.WithCancel(context.Background())
	for i := range s.shards {
		s.shards[i].actors = make(map[string]*activation)
	}
	s.with, s.parts, s.wakers, s.recoverers = with, with.parts, make(map[keyspace.WakeKind]waker), make(map[keyspace.WakeKind]recoverer)
	for _, p := range s.parts {
		if p, ok := p.(server); ok {
			for _, b := range p.methods() {
				s.builtins[b.name] = b
			}
		}
		if p, ok := p.(waker); ok {
			for _, kind := range p.kinds() {
				s.wakers[kind] = p
			}
		}
		gather(&s.translators, p)
		if p, ok := p.(recoverer); ok {
			s.recoverers[p.standsFor()] = p
		}
	}
	s.metrics = newMetrics(s)
	retired, err := s.retiredTypes()
	if err != nil {
		return nil, err
	}
	for i, b := range append(slices.Clip(o.Behaviors), retired...) {
		t := &actorType{
			retired:  i >= len(o.Behaviors),
			Behavior: b, methods: make(map[string]int),
			idle: b.IdleTimeout, pace: make([]atomic.Int64, len(b.Methods)),
			metrics: s.metrics.forType(b),
		}
		for _, p := range s.parts {
			t.hooks.add(p)
		}
		var err error
		if t.base, err = newActorLimits(resolve(o.TypeLimits[b.Type], resolve(b.Limits, o.Limits)), t.hooks.limiters); err != nil {
			return nil, fmt.Errorf("supervisor: limits of actor type %q: %w", b.Type, err)
		}
		switch {
		case t.idle == 0:
			t.idle = o.IdleTimeout
		case t.idle < 0:
			t.idle = 0
		}
		for i, m := range b.Methods {
			t.methods[m.Name] = i
		}
		for _, p := range s.parts {
			if p, ok := p.(declarer); ok {
				if err := p.declare(t); err != nil {
					return nil, fmt.Errorf("supervisor: actor type %q: %w", b.Type, err)
				}
			}
		}
		s.types[b.Type] = t
	}
	for _, p := range s.parts {
		if p, ok := p.(broadcaster); ok {
			p.begin(s)
		}
	}
	s.workers.init(s)
	s.alarms.init(s)
	s.memory.init(s)
	s.watchdog.init(s)
	for _, p := range s.parts {
		if p, ok := p.(opener); ok {
			if err := p.open(s); err != nil {
				return nil, err
			}
		}
	}
	if o.Registerer != nil {
		if err := s.metrics.register(s, o.Registerer); err != nil {
			return nil, fmt.Errorf("supervisor: register metrics: %w", err)
		}
	}
	return s, nil
}

// Start reads which actors are paused, and begins to fire alarms and to take up what was under way when the store was last
// open. No call may come before it returns.
func (s *Supervisor) Start() {
	s.eachRunner(runner.start)
	for _, t := range s.types {
		if t.retired {
			s.logger.Warn("the store has actors of a type that the program does not have; they do nothing, and operators can export and destroy them", "actor_type", t.Type)
		}
	}
	s.loadPauses()
	s.task(s.alarms.run)
	s.task(s.recover)
	for _, p := range s.parts {
		if p, ok := p.(reviver); ok {
			p.revive(s)
		}
	}
}

// task runs f in a goroutine that Close waits for; false means that the supervisor has closed.
func (s *Supervisor) task(f func()) bool {
	if !s.tasks.begin() {
		return false
	}
	go func() {
		defer s.tasks.done()
		f()
	}()
	return true
}

// Close drains: calls from outside are refused, turns that run and wait are finished until ctx ends, awake actors run
// their sleep hooks, and every goroutine is waited for. What did not finish is not acknowledged. The error says what was
// left behind. It does not close the store.
func (s *Supervisor) Close(ctx context.Context) error {
	if s.draining.Swap(true) {
		return nil
	}
	s.alarms.stop()
	s.memory.stop()
	err := s.memory.sleepAll(ctx)
	s.killed.Store(true)
	s.end()
	s.watchdog.stop()
	s.endBroadcasts()
	if stuck := s.abandonAll(); len(stuck) > 0 {
		err = errors.Join(err, fmt.Errorf("supervisor: handlers did not return: %v", stuck))
	}
	s.workers.close()
	s.queries.close()
	if n := s.tasks.close(s.options.TurnGrace); n > 0 {
		err = errors.Join(err, fmt.Errorf("supervisor: %d goroutines of handlers that ignore their deadline are left behind", n))
	}
	err = errors.Join(err, s.closeParts())
	for _, p := range s.parts {
		if p, ok := p.(straggler); ok {
			err = errors.Join(err, p.leftBehind())
		}
	}
	for _, p := range s.parts {
		if p, ok := p.(closer); ok {
			p.stopped(s)
		}
	}
	s.eachRunner(runner.stop)
	return err
}

// eachRunner calls f for the parts that have something to do for the node as a whole.
func (s *Supervisor) eachRunner(f func(runner, *Supervisor)) {
	for _, p := range s.parts {
		if p, ok := p.(runner); ok {
			f(p, s)
		}
	}
}

// endBroadcasts ends what clients listen to beside the actors.
func (s *Supervisor) endBroadcasts() {
	for _, p := range s.parts {
		if p, ok := p.(broadcaster); ok {
			p.end()
		}
	}
}

// Halt lets nothing be acknowledged any more: what is not durable by now has no taker. Kill must follow.
func (s *Supervisor) Halt() {
	s.EndWaits()
	s.draining.Store(true)
	s.killed.Store(true)
}

// Kill stops without draining, as a crash would: nothing that is not durable yet is acknowledged, no hook runs.
func (s *Supervisor) Kill() {
	s.Halt()
	s.end()
	s.alarms.stop()
	s.memory.stop()
	s.watchdog.stop()
	s.endBroadcasts()
	s.abandonAll()
	s.workers.close()
	s.queries.close()
	s.tasks.close(s.options.TurnGrace)
	s.closeParts()
	s.eachRunner(runner.stop)
}

// closeParts closes what parts hold open for the node.
func (s *Supervisor) closeParts() error {
	var faults []error
	for _, p := range s.parts {
		if p, ok := p.(opener); ok {
			faults = append(faults, p.close(s))
		}
	}
	return errors.Join(faults...)
}

// abandonAll gives up every activation and returns the handlers that are still running.
func (s *Supervisor) abandonAll() []string {
	for i := range s.shards {
		sh := &s.shards[i]
		sh.mu.Lock()
		sh.closed = true
		sh.mu.Unlock()
	}
	var stuck []string
	s.each(func(a *activation) {
		if h := a.abandon(unavailable("the node is shutting down")); h != "" {
			stuck = append(stuck, h)
		}
	})
	return stuck
}

// shardOf returns the shard of an address key.
func (s *Supervisor) shardOf(key []byte) *shard {
	return &s.shards[maphash.Bytes(s.seed, key)%uint64(len(s.shards))]
}

// find returns the activation of an address if it is in memory.
func (s *Supervisor) find(a host.Address) *activation {
	var buf [128]byte
	key := appendAddress(buf[:0], a)
	sh := s.shardOf(key)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.actors[string(key)]
}

// activation returns the activation of an address, making one that is not awake yet if there is none; nil if the
// supervisor has closed.
//
// REQUIRES: the address was checked.
func (s *Supervisor) activation(t *actorType, addr host.Address) *activation {
	var buf [128]byte
	key := appendAddress(buf[:0], addr)
	sh := s.shardOf(key)
	sh.mu.RLock()
	a := sh.actors[string(key)]
	sh.mu.RUnlock()
	if a != nil {
		return a
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if a = sh.actors[string(key)]; a == nil && !sh.closed {
		a = newActivation(s, t, addr, string(key))
		sh.actors[a.key] = a
	}
	return a
}

// forget removes a from the directory.
func (s *Supervisor) forget(a *activation) {
	sh := s.shardOf([]byte(a.key))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.actors[a.key] == a {
		delete(sh.actors, a.key)
	}
}

// each calls f for every activation in memory, with no lock held.
func (s *Supervisor) each(f func(*activation)) {
	var all []*activation
	for i := range s.shards {
		sh := &s.shards[i]
		all = all[:0]
		sh.mu.RLock()
		for _, a := range sh.actors {
			all = append(all, a)
		}
		sh.mu.RUnlock()
		for _, a := range all {
			f(a)
		}
	}
	for _, a := range s.memory.allRemains() {
		f(a)
	}
}

// post puts work into an actor's mailbox, making the activation if needed.
func (s *Supervisor) post(t *actorType, addr host.Address, w *work) (*activation, error) {
	for {
		a := s.activation(t, addr)
		if a == nil {
			return nil, unavailable("the node is shutting down")
		}
		switch err := a.enqueue(w); {
		case err == nil:
			return a, nil
		case errors.Is(err, errGone):
			continue // it left memory between the look-up and now
		default:
			return nil, err
		}
	}
}

func (s *Supervisor) identity(addr host.Address) engine.Identity {
	return engine.Identity{Namespace: s.options.Namespace, Type: addr.Type, Key: addr.Key}
}

// typeOf returns the hosted type of an address, after checking the address.
func (s *Supervisor) typeOf(addr host.Address) (*actorType, error) {
	t, err := s.storedTypeOf(addr)
	if err == nil && t.retired {
		return nil, unknownType(addr.Type)
	}
	return t, err
}

// storedTypeOf is typeOf for operators: it also returns a type of which the store alone has actors.
func (s *Supervisor) storedTypeOf(addr host.Address) (*actorType, error) {
	t := s.types[addr.Type]
	if t == nil {
		return nil, unknownType(addr.Type)
	}
	if err := checkKey(addr.Key); err != nil {
		return nil, err
	}
	return t, nil
}

// hosted returns an actor type of the program by its name, or nil.
func (s *Supervisor) hosted(name string) *actorType {
	if t := s.types[name]; t != nil && !t.retired {
		return t
	}
	return nil
}

func unknownType(name string) *host.Error {
	return host.Errorf(host.UnknownType, "this node hosts no actor type %q", name).With("type", name)
}

// retiredTypes makes the types of which the store has actors and the program knows nothing.
func (s *Supervisor) retiredTypes() ([]*host.Behavior, error) {
	stored, err := s.store.Types(s.options.Namespace)
	if err != nil {
		return nil, fmt.Errorf("supervisor: read which actor types the store has: %w", err)
	}
	var retired []*host.Behavior
	for _, name := range stored {
		if !slices.ContainsFunc(s.options.Behaviors, func(b *host.Behavior) bool { return b.Type == name }) {
			retired = append(retired, &host.Behavior{Type: name, New: func() host.Instance { return nil }})
		}
	}
	return retired, nil
}

// Err returns why no turn can be committed now, as an *host.Error that may be shown to anyone, or nil.
func (s *Supervisor) Err() error {
	if s.draining.Load() {
		return unavailable("the node is shutting down")
	}
	if err := s.store.Writable(); err != nil {
		e, _ := s.publicError(err)
		return e
	}
	return nil
}

// newID makes the id of a new incarnation.
func (s *Supervisor) newID(addr host.Address) keyspace.ActorID {
	return s.store.NewActorID(s.identity(addr))
}

// later runs f after d unless the node stops first.
func (s *Supervisor) later(d time.Duration, f func()) {
	s.task(func() {
		timer := time.NewTimer(d)
		defer timer.Stop()
		select {
		case <-timer.C:
			f()
		case <-s.life.Done():
		}
	})
}
