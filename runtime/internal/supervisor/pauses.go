package supervisor

import (
	"maps"
	"sync"
	"sync/atomic"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// pauses knows which actors operators have paused: what is durable of it, from the start of the node on.
//
// A paused actor runs none of its code for others: calls, messages, alarms and turns of tasks are refused with code
// actor_paused, and whoever delivers something that must not be lost parks it until the actor is resumed or destroyed.
// What runs no code of the actor goes on: built-in methods, the settlement of messages that it sent, the purge of expired
// keys. Queries go on too; they change nothing. The turn that runs when an actor is paused is not interrupted.
type pauses struct {
	n  atomic.Int64 // how many there are, so that nobody pays for a lookup while there are none
	mu sync.Mutex
	m  map[string]*paused // by address key
	// resumed is when actors were resumed for which something was parked.
	resumed map[string]time.Time
}

type paused struct {
	host.Pause
	parked map[string]func()
}

// of returns the pause of the actor with an address key, or nil.
func (p *pauses) of(key string) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.get(key)
}

// at is of for an address.
func (p *pauses) at(addr host.Address) *host.Pause {
	if p.n.Load() == 0 {
		return nil
	}
	return p.of(string(appendAddress(nil, addr)))
}

// get returns a copy of a pause, or nil.
//
// REQUIRES: p.mu
func (p *pauses) get(key string) *host.Pause {
	x := p.m[key]
	if x == nil {
		return nil
	}
	c := x.Pause
	return &c
}

// refuse returns the error for what a paused actor does not do, or nil if it is not paused.
func (p *pauses) refuse(addr host.Address) error {
	x := p.at(addr)
	if x == nil {
		return nil
	}
	return pausedError(addr, x)
}

func pausedError(addr host.Address, p *host.Pause) *host.Error {
	e := host.Errorf(host.ActorPaused, "actor %s is paused", formatAddress(addr))
	if p.Reason != "" {
		e = host.Errorf(host.ActorPaused, "actor %s is paused: %s", formatAddress(addr), p.Reason)
	}
	return e.With("reason", p.Reason).With("since", p.Since.Format(time.RFC3339Nano)).Retry()
}

// park keeps f until the actor is resumed or destroyed; false means that it is not paused. Of those that park under one
// name the last counts. f must not block.
func (p *pauses) park(addr host.Address, name string, f func()) bool {
	if p.n.Load() == 0 {
		return false
	}
	key := string(appendAddress(nil, addr))
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.m[key]
	if x == nil {
		return false
	}
	if x.parked == nil {
		x.parked = make(map[string]func())
	}
	x.parked[name] = f
	return true
}

// set notes that an actor is paused.
func (p *pauses) set(key string, pause host.Pause) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.m == nil {
		p.m = make(map[string]*paused)
	}
	if x := p.m[key]; x != nil {
		x.Pause = pause
		return
	}
	p.m[key] = &paused{Pause: pause}
	p.n.Add(1)
}

// clear notes that an actor is not paused any more and returns what was parked.
func (p *pauses) clear(key string) map[string]func() {
	p.mu.Lock()
	defer p.mu.Unlock()
	x := p.m[key]
	if x == nil {
		return nil
	}
	delete(p.m, key)
	p.n.Add(-1)
	now := time.Now()
	maps.DeleteFunc(p.resumed, func(_ string, at time.Time) bool { return now.Sub(at) > resumedFor })
	if len(x.parked) > 0 {
		if p.resumed == nil {
			p.resumed = make(map[string]time.Time)
		}
		p.resumed[key] = now
	}
	return x.parked
}

// resumedFor is how long it is remembered when an actor was resumed: by then what was parked has been taken up.
const resumedFor = time.Hour

// resumedAt returns when an actor for which something was parked was resumed; zero if that is long ago or never was.
func (p *pauses) resumedAt(key string) time.Time {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.resumed[key]
}

// unpause lets an actor go on. It does not block.
func (s *Supervisor) unpause(key string) {
	if parked := s.pauses.clear(key); len(parked) > 0 {
		s.task(func() {
			for _, f := range parked {
				f()
			}
		})
	}
}

// loadPauses reads which actors are paused. It runs before anything else does.
func (s *Supervisor) loadPauses() {
	var after []byte
	for {
		rows, err := s.store.Wakes(after, 0, 1024)
		if err != nil {
			s.logger.Error("read which actors are paused", "error", err)
			return
		}
		for _, row := range rows {
			if row.Kind == keyspace.WakePaused {
				if err := s.loadPause(row); err != nil {
					s.logger.Error("read why an actor is paused", "actor_id", row.ID.String(), "error", err)
				}
			}
		}
		if len(rows) < 1024 {
			return
		}
		after = rows[len(rows)-1].Row
	}
}

func (s *Supervisor) loadPause(row engine.Wake) error {
	ident, _, ok, err := s.store.Identity(row.ID)
	if err != nil {
		return err
	}
	snap := s.store.Snapshot(row.ID)
	defer snap.Close()
	rec, err := readControl(snap)
	if err != nil {
		return err
	}
	if !ok || rec.Since == 0 && len(rec.Limits) == 0 {
		return s.store.DropWakes([][]byte{row.Row}) // nothing stands behind it
	}
	if ident.Namespace != s.options.Namespace {
		return nil
	}
	key := string(appendAddress(nil, host.Address{Type: ident.Type, Key: ident.Key}))
	if pause := rec.pause(); pause != nil {
		s.pauses.set(key, *pause)
	}
	if t := s.types[ident.Type]; t != nil {
		x, err := newOverride(t, rec.limits())
		if err != nil {
			return err
		}
		s.overrides.put(key, x)
	}
	return nil
}

// controlRecord is the value of KindControl: what operators have set. An actor has one while it is paused or has limits of its
// own.
type controlRecord struct {
	_      struct{} `cbor:",toarray"`
	Reason string
	Since  int64         // unix milliseconds; 0 if it is not paused
	Limits []limitRecord // records of earlier versions have none
}

// limitRecord is a limit of one actor.
type limitRecord struct {
	_     struct{} `cbor:",toarray"`
	Name  string
	Whole int64
	Rate  float64
}

// pause returns the pause of a record, or nil.
func (r *controlRecord) pause() *host.Pause {
	if r.Since == 0 {
		return nil
	}
	return &host.Pause{Reason: r.Reason, Since: timeMS(r.Since).UTC()}
}

// controlKey is the logical key of what operators have set.
var controlKey = keyspace.AppendControl(nil)

// readPause reads an actor's pause; nil if it has none.
func readPause(r engine.Reader) (*host.Pause, error) {
	rec, err := readControl(r)
	return rec.pause(), err
}

// staysQuiet reports that an actor is not to be woken with its hook for w, because it is paused.
func (a *activation) staysQuiet(w *work) bool {
	return !w.destroys() && a.sup.pauses.of(a.key) != nil
}

// turnedAway answers work that is not to run now, and reports that it did.
func (a *activation) turnedAway(c *core, w *work) bool {
	if j, ok := w.job.(early); ok && j.turnedAway(c, w) {
		return true
	}
	if a.sup.pauses.n.Load() == 0 || !w.job.traits(a).code {
		return false
	}
	p := a.sup.pauses.of(a.key)
	if p == nil {
		return false
	}
	w.paused = true
	w.fail(pausedError(a.addr, p))
	return true
}

// clearPause removes an actor's pause, if it has one.
func (c *core) clearPause(h *turn) (bool, error) {
	rec, err := readControl(c.ws)
	if err != nil || rec.Since == 0 {
		return false, err
	}
	rec.Reason, rec.Since = "", 0
	if err := c.putControl(h, rec); err != nil {
		return false, err
	}
	a := c.a
	h.then(func() { a.sup.unpause(a.key) })
	return true, nil
}
