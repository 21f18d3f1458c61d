package kernel

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
)

// memory bounds what awake actors take: it puts actors to sleep that were idle for their type's time, and the least
// recently used idle ones first when there are too many or they are too large.
//
// It is one goroutine that runs only while an actor is awake that may fall asleep, and looks again when the next one may.
type memory struct {
	s      *Kernel
	Awake  atomic.Int64
	Bytes  atomic.Int64
	wake   chan struct{}
	quit   chan struct{}
	once   sync.Once
	mu     sync.Mutex
	active bool
	// remains are what is left of destroyed actors, by their ids.
	remains map[keyspace.ActorID]*Actor
}

// awakeOverhead is what an awake actor counts for beside its state.
const awakeOverhead = 2 << 10

func (m *memory) init(s *Kernel) {
	m.s, m.wake, m.quit, m.remains = s, make(chan struct{}, 1), make(chan struct{}), make(map[keyspace.ActorID]*Actor)
}

func (m *memory) stop() { m.once.Do(func() { close(m.quit) }) }

func (m *memory) woke(a *Actor, state int) {
	m.Awake.Add(1)
	m.Bytes.Add(int64(state) + awakeOverhead)
	a.weight.Store(int64(state) + awakeOverhead)
	m.s.Metrics.wakes.Inc()
	if m.over() {
		m.look()
	}
}

// Asleep takes an actor's core off the account.
func (m *memory) Asleep(a *Actor) {
	m.Awake.Add(-1)
	m.Bytes.Add(-a.weight.Swap(0))
}

func (m *memory) resized(a *Actor, by int) {
	m.Bytes.Add(int64(by))
	a.weight.Add(int64(by))
}

func (m *memory) over() bool {
	o := &m.s.Options
	return m.Awake.Load() > int64(o.MaxAwake) || m.Bytes.Load() > o.MaxAwakeBytes
}

// Idle notes that an actor has nothing to do; the sweeper is started if it does not run.
func (m *memory) Idle(a *Actor) {
	if a.Type.idle == 0 && !m.over() {
		return
	}
	m.mu.Lock()
	start := !m.active
	if start {
		m.active = true
	}
	m.mu.Unlock()
	if start && !m.s.Go(m.run) {
		m.mu.Lock()
		m.active = false
		m.mu.Unlock()
	}
}

func (m *memory) look() {
	select {
	case m.wake <- struct{}{}:
	default:
	}
}

func (m *memory) run() {
	timer := time.NewTimer(time.Hour)
	defer timer.Stop()
	for {
		begun := time.Now()
		next := m.sweep()
		took := time.Since(begun)
		if next.IsZero() {
			// Nobody is left who may fall asleep. idle starts a sweeper when somebody may; one that came between the
			// sweep and now is found by sweeping once more.
			m.mu.Lock()
			m.active = false
			m.mu.Unlock()
			if next = m.sweep(); next.IsZero() {
				return
			}
			m.mu.Lock()
			if m.active { // another sweeper has started
				m.mu.Unlock()
				return
			}
			m.active = true
			m.mu.Unlock()
		}
		timer.Reset(max(time.Until(next), time.Millisecond, 20*took)) // at most a twentieth of one core, however many actors
		select {
		case <-timer.C:
		case <-m.wake:
		case <-m.quit:
			return
		}
	}
}

// candidate is an idle actor that may be put to sleep.
type candidate struct {
	a    *Actor
	used int64
}

// sweep asks the actors to sleep whose time has come, and returns when the next one's comes; zero if there is none.
func (m *memory) sweep() time.Time {
	now := time.Now().UnixMilli()
	var next int64
	var all, working []candidate
	over := m.over()
	m.s.Each(func(a *Actor) {
		rests, k := a.rests()
		if a.Left() || !rests {
			return
		}
		used := a.lastUsed.Load()
		if SizeOf(k) > 0 { // its last task says when it may sleep
			if over {
				working = append(working, candidate{a, used})
			}
			return
		}
		if over {
			all = append(all, candidate{a, used})
		}
		if a.Type.idle == 0 {
			return
		}
		if due := used + a.Type.idle.Milliseconds(); due > now {
			if next == 0 || due < next {
				next = due
			}
			return
		}
		if !a.askToSleep() {
			retry := now + 100
			if next == 0 || retry < next {
				next = retry
			}
		}
	})
	if over {
		for _, c := range leastUsed(all) {
			if m.enough() {
				break
			}
			c.a.askToSleep()
		}
		if len(all) > 0 {
			working = nil // there are others, though some of them may need a moment
		}
		for _, c := range leastUsed(working) {
			if m.enough() {
				break
			}
			if k := c.a.CurrentCompany(); k != nil && m.s.Kept(c.a) == nil {
				c.a.Retire(k, causeMemory)
			}
		}
		if retry := now + 100; m.over() && (next == 0 || retry < next) {
			next = retry
		}
	}
	if next == 0 {
		return time.Time{}
	}
	return time.UnixMilli(next)
}

// enough reports that memory is short no more.
func (m *memory) enough() bool {
	o := &m.s.Options
	return m.Awake.Load() <= int64(o.MaxAwake)*9/10 && m.Bytes.Load() <= o.MaxAwakeBytes*9/10
}

// leastUsed sorts candidates by the time of their last use.
func leastUsed(all []candidate) []candidate {
	slices.SortFunc(all, func(x, y candidate) int { return int(min(max(x.used-y.used, -1), 1)) })
	return all
}

// rests reports that the actor is awake and nobody runs it, and returns its company.
func (a *Actor) rests() (bool, Company) {
	a.Mu.Lock()
	defer a.Mu.Unlock()
	return !a.Running && !a.gone && a.Core != nil, a.company()
}

// Kept returns why an actor that is awake cannot be put to sleep though its company would leave it; nil if it can.
func (s *Kernel) Kept(a *Actor) error {
	for p := range PartsAs[Keeper](s.Parts) {
		if err := a.keeps(p); err != nil {
			return err
		}
	}
	return nil
}

// askToSleep puts an actor that rests to sleep: at once, or through its hook. It returns false if the actor must stay
// awake a little longer.
func (a *Actor) askToSleep() bool {
	a.Mu.Lock()
	if a.Running || a.gone || a.Core == nil {
		a.Mu.Unlock()
		return true // it is in use, or asleep already
	}
	if a.Pending.Load() > 0 || a.Busy() || SizeOf(a.company()) > 0 {
		a.Mu.Unlock()
		return false
	}
	if !a.hooked() {
		c := a.Core
		ok := a.Leave()
		a.Mu.Unlock()
		if ok {
			a.slept(c)
		}
		return ok
	}
	a.Mu.Unlock()
	a.askHook()
	return true
}

// hooked reports that the actor has a sleep hook. What is left of a destroyed one has none.
func (a *Actor) hooked() bool { return a.Type.HasSleep && !a.Left() }

// askHook has an actor run its sleep hook, and leave memory if it can.
func (a *Actor) askHook() {
	a.Enqueue(&Work{Job: Sleeping(false), Existing: true, Finish: func(*Work) {}})
}

// Retire puts an actor with a company to sleep: it is asked to return first. The channel is closed when it has, or its time
// is over.
func (a *Actor) Retire(k Company, cause string) <-chan struct{} {
	gone := k.Ask(Unavailable(cause))
	if !k.Retire() {
		return gone
	}
	a.Kernel.Go(func() {
		select {
		case <-gone:
			if a.CurrentCompany() != k {
				return // it was restarted meanwhile
			}
			a.Enqueue(&Work{Job: Sleeping(true), Existing: true, Finish: func(*Work) {}})
		case <-a.Kernel.Life.Done():
		}
	})
	return gone
}

func (a *Actor) slept(c *Core) {
	a.Kernel.Metrics.sleeps.Inc()
	a.Kernel.publishLife(a, c, "slept", "")
}

// Touch notes that the actor was used.
func (a *Actor) Touch() { a.lastUsed.Store(time.Now().UnixMilli()) }

// sleepAll waits until nothing runs and nothing waits, and puts every actor to sleep, hooks included, until ctx ends.
func (m *memory) sleepAll(ctx context.Context) error {
	tick := time.NewTicker(2 * time.Millisecond)
	defer tick.Stop()
	asked := make(map[*Actor]bool)
	for {
		left, sample := 0, ""
		m.s.Each(func(a *Actor) {
			a.Mu.Lock()
			gone, resting := a.gone, !a.Running
			a.Mu.Unlock()
			if gone {
				return
			}
			left++
			sample = a.String()
			if k := a.CurrentCompany(); SizeOf(k) > 0 {
				k.Ask(Unavailable(CauseShutdown))
				return
			}
			if !resting {
				return
			}
			if rests, _ := a.rests(); rests && a.hooked() && !asked[a] {
				asked[a] = true
				a.askHook()
				return
			}
			if !a.hooked() {
				a.askToSleep()
			}
			if a.Pending.Load() == 0 {
				// It is asleep, or stays because messages of it wait for a target that does not take them; they are in the
				// store.
				left--
			}
		})
		if left == 0 && m.s.Busy.Load() == 0 {
			return nil
		}
		select {
		case <-tick.C:
		case <-ctx.Done():
			return fmt.Errorf("kernel: %d actors were still at work at the deadline, %s among them: %w", left, sample, ctx.Err())
		}
	}
}

// remainsOf returns what is left of a destroyed actor; nil if the kernel has closed.
func (m *memory) remainsOf(t *Type, addr host.Address, id keyspace.ActorID) *Actor {
	m.mu.Lock()
	defer m.mu.Unlock()
	a := m.remains[id]
	if a == nil && !m.s.Killed.Load() { // else abandonAll might not find it
		a = newActor(m.s, t, addr, "")
		a.Remains = id
		m.remains[id] = a
	}
	return a
}

func (m *memory) dropRemains(a *Actor) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.remains[a.Remains] == a {
		delete(m.remains, a.Remains)
	}
}

// AllRemains returns the remains of destroyed actors that are in memory.
func (m *memory) AllRemains() []*Actor {
	m.mu.Lock()
	defer m.mu.Unlock()
	return slices.Collect(maps.Values(m.remains))
}
