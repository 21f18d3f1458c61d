package kernel

import (
	"errors"
	"fmt"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/record"
)

// ActorLimits are the limits of an actor, or those of a type, with what follows from them. They are immutable.
type ActorLimits struct {
	host.Limits
	Storage *engine.Limits
	// roomy is storage for turns that run no code of the actor and must not fail for a write set that was made small: an
	// operator's verbs, and what goes on with messages that were sent. It is storage if that is as large as the default.
	roomy *engine.Limits
	rate  *rateLimit // nil for none
}

// A LimitsError says which limit of an actor, or of its type, is not possible.
type LimitsError struct {
	// Name is that of the limit in requests and in the configuration file.
	Name string
	// Reason follows the name in the text.
	Reason string
	// Limit and Actual are the bound that the limit passes and its value, if it is about that.
	Limit, Actual int64
}

// Error returns the name and the reason.
func (e *LimitsError) Error() string { return e.Name + " " + e.Reason }

// engineLimits are the names of the limits that the engine checks.
var engineLimits = map[string]string{"MaxValue": "value_bytes", "MaxWriteSet": "write_set_bytes", "Quota": "storage_bytes"}

// NewActorLimits checks limits. The error is a *LimitsError.
func NewActorLimits(l host.Limits, limiters []Limiter) (*ActorLimits, error) {
	a := &ActorLimits{Limits: l, Storage: &engine.Limits{MaxValue: l.ValueBytes, MaxWriteSet: l.WriteSetBytes, Quota: l.StorageBytes}}
	a.Storage.EnsureDefaults()
	if fault, ok := errors.AsType[*engine.RangeError](a.Storage.Validate()); ok {
		e := &LimitsError{Name: engineLimits[fault.Field], Limit: fault.High, Actual: fault.Value}
		if fault.Value < fault.Low {
			e.Limit = fault.Low
		}
		e.Reason = fmt.Sprintf("is %d; it must be from %d to %d", fault.Value, fault.Low, fault.High)
		return nil, e
	}
	if a.roomy = a.Storage; a.Storage.MaxWriteSet < engine.DefaultMaxWriteSet {
		roomy := *a.Storage
		roomy.MaxWriteSet = engine.DefaultMaxWriteSet
		a.roomy = &roomy
	}
	if err := checkRate(l); err != nil {
		return nil, err
	}
	for _, p := range limiters {
		if err := p.CheckLimits(l); err != nil {
			return nil, err
		}
	}
	for _, n := range []struct {
		name     string
		value    any
		negative bool
	}{
		{"turn_timeout", l.TurnTimeout, l.TurnTimeout < 0}, {"query_timeout", l.QueryTimeout, l.QueryTimeout < 0},
		{"mailbox_count", l.MailboxCount, l.MailboxCount < 0}, {"mailbox_bytes", l.MailboxBytes, l.MailboxBytes < 0},
		{"state_bytes", l.StateBytes, l.StateBytes < 0}, {"send_attempts", l.SendAttempts, l.SendAttempts < 0},
		{"connections", l.Connections, l.Connections < 0}, {"connection_bytes", l.ConnectionBytes, l.ConnectionBytes < 0},
		{"connection_grace", l.ConnectionGrace, l.ConnectionGrace < 0}, {"task_grace", l.TaskGrace, l.TaskGrace < 0},
	} {
		if n.negative {
			return nil, &LimitsError{Name: n.name, Reason: fmt.Sprintf("is %v; it must not be negative", n.value)}
		}
	}
	a.rate = NewRateLimit(l)
	return a, nil
}

// overrides knows the limits that operators have set for single actors: what is durable of it, from the start of the node on.
type overrides struct {
	N  atomic.Int64 // how many there are, so that nobody pays for a lookup while there are none
	mu sync.RWMutex
	m  map[string]*override // by address key
}

// An override is what operators have set for an actor, and the limits that it has so.
type override struct {
	set    host.ActorLimits
	limits *ActorLimits
}

// of returns the limits of the actor with an address key, or nil if operators have set none.
func (o *overrides) of(key []byte) *override {
	if o.N.Load() == 0 {
		return nil
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.m[string(key)]
}

// put notes the limits of an actor; nil means those of its type.
func (o *overrides) put(key string, x *override) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = make(map[string]*override)
	}
	delete(o.m, key)
	if x != nil {
		o.m[key] = x
	}
	o.N.Store(int64(len(o.m)))
}

// LimitsOf returns the limits of an actor.
func (s *Kernel) LimitsOf(t *Type, key []byte) *ActorLimits {
	if x := s.Overrides.of(key); x != nil {
		return x.limits
	}
	return t.Base
}

// rateOf returns the rate at which an actor is called from outside, or nil if it has none.
func (s *Kernel) rateOf(t *Type, addr host.Address) *rateLimit {
	if s.Overrides.N.Load() == 0 {
		return t.Base.rate
	}
	var buf [128]byte
	return s.LimitsOf(t, address.Append(buf[:0], addr)).rate
}

// Override sets the limits of an actor, which is awake or not.
func (s *Kernel) Override(a *Actor, x *override) {
	s.Overrides.put(a.Key, x)
	a.Limits.Store(s.LimitsOf(a.Type, []byte(a.Key)))
}

// NewOverride makes the limits that operators have set for an actor of a type; nil if there are none. The error is one for
// the operator.
func NewOverride(t *Type, set host.ActorLimits) (*override, error) {
	if set.Empty() {
		return nil, nil
	}
	for _, f := range set.Fields() {
		if f.Whole != nil && *f.Whole != nil && (**f.Whole < 1 || **f.Whole > math.MaxInt) {
			return nil, host.Errorf(host.InvalidArgument, "%s is %d; it must be 1 or more", f.Name, **f.Whole).With("field", f.Name)
		}
	}
	l, err := NewActorLimits(set.Apply(t.Base.Limits), t.Hooks.Limiters)
	if fault, ok := errors.AsType[*LimitsError](err); ok {
		e := host.Errorf(host.InvalidArgument, "%s", fault).With("field", fault.Name)
		if fault.Limit != 0 {
			e = e.With("limit", strconv.FormatInt(fault.Limit, 10)).With("actual", strconv.FormatInt(fault.Actual, 10))
		}
		return nil, e
	}
	if err != nil {
		return nil, err
	}
	return &override{set: set, limits: l}, nil
}

// dropControl forgets what operators have set, when the actor is destroyed.
func (c *Core) dropControl(h *Turn) error {
	if _, err := c.ClearPause(h); err != nil {
		return err
	}
	rec, err := ReadControl(c.Rows)
	if err != nil || len(rec.Limits) == 0 {
		return err
	}
	a := c.Actor
	h.Then(func() { a.Kernel.Override(a, nil) })
	return c.PutControl(h, ControlRecord{})
}

// adoptLimits gives the space of the core the limits that the actor has now, for a turn of w.
func (c *Core) adoptLimits(w *Work) error {
	l := c.Actor.Limits.Load()
	storage := l.Storage
	if w.Job.Traits(c.Actor).Sturdy {
		storage = l.roomy
	}
	if storage != c.storage {
		if err := c.space.SetLimits(storage); err != nil {
			return err
		}
		c.storage = storage
	}
	c.Limits = l
	return nil
}

// Limited returns the limits of a record. One that this version does not know is passed over.
func (r *ControlRecord) Limited() (set host.ActorLimits) {
	for _, l := range r.Limits {
		for _, f := range set.Fields() {
			switch {
			case f.Name != l.Name:
			case f.Whole != nil:
				*f.Whole = &l.Whole
			default:
				*f.Rate = &l.Rate
			}
		}
	}
	return set
}

// ReadControl reads what operators have set; the zero record if that is nothing.
func ReadControl(r engine.Reader) (rec ControlRecord, err error) {
	e, ok, err := r.Get(controlKey)
	if err != nil || !ok {
		return rec, err
	}
	return rec, record.Decode(e.Value, &rec)
}

// PutControl writes what operators have set, or removes it if that is nothing.
func (c *Core) PutControl(h *Turn, rec ControlRecord) error {
	if rec.Since == 0 && len(rec.Limits) == 0 {
		c.Arm(keyspace.WakePaused, false)
		_, err := c.Rows.Delete(controlKey)
		return err
	}
	value, err := record.Encode(&rec)
	if err != nil {
		return err
	}
	if err := c.Rows.Put(controlKey, value, engine.PutOptions{Exempt: true}); err != nil {
		return err
	}
	c.Arm(keyspace.WakePaused, true)
	return nil
}
