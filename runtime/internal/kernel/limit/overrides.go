package limit

import (
	"errors"
	"math"
	"strconv"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/actor/host"
)

// Overrides has the limits that operators have set for single actors. It follows the store from the
// start of the node on. The zero value has none.
//
// Invariant: a lookup costs one load of a counter while there are none.
type Overrides struct {
	n  atomic.Int64
	mu sync.RWMutex
	m  map[string]*Set // by the key of the actor's address
}

// Of returns the limits of the actor with an address key, or nil if operators have set none.
func (o *Overrides) Of(key []byte) *Set {
	if o.n.Load() == 0 {
		return nil
	}
	o.mu.RLock()
	defer o.mu.RUnlock()
	return o.m[string(key)]
}

// Put sets the limits of an actor; nil means the limits of its type.
func (o *Overrides) Put(key string, s *Set) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.m == nil {
		o.m = make(map[string]*Set)
	}
	delete(o.m, key)
	if s != nil {
		o.m[key] = s
	}
	o.n.Store(int64(len(o.m)))
}

// Len returns the number of actors with limits of their own.
func (o *Overrides) Len() int { return int(o.n.Load()) }

// Override makes the limits of an actor from what operators have set and the limits of its type. It
// returns nil if they have set nothing. The error is one for the operator.
func Override[Part interface{ CheckLimits(host.Limits) error }](base host.Limits,
	over host.ActorLimits, parts []Part) (*Set, error) {
	if over.Empty() {
		return nil, nil
	}
	for _, f := range over.Fields() {
		if f.Whole != nil && *f.Whole != nil && (**f.Whole < 1 || **f.Whole > math.MaxInt) {
			return nil, host.Errorf(host.InvalidArgument, "%s is %d; it must be 1 or more", f.Name,
				**f.Whole).With("field", f.Name)
		}
	}
	s, err := New(over.Apply(base), parts)
	if fault, ok := errors.AsType[*Error](err); ok {
		e := host.Errorf(host.InvalidArgument, "%s", fault).With("field", fault.Name)
		if fault.Limit != 0 {
			e = e.With("limit", strconv.FormatInt(fault.Limit, 10)).With("actual", strconv.FormatInt(fault.Actual, 10))
		}
		return nil, e
	}
	return s, err
}
