package kernel

import (
	"fmt"
	"slices"
	"time"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
	"github.com/cairn-run/cairn/runtime/internal/kernel/attach"
	"github.com/cairn-run/cairn/runtime/internal/kernel/fault"
	"github.com/cairn-run/cairn/runtime/internal/kernel/limit"
	"github.com/cairn-run/cairn/runtime/internal/kernel/metrics"
	"github.com/cairn-run/cairn/runtime/internal/kernel/pace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/profile"
)

// A Type is a behavior and what the kernel derives from it once.
type Type struct {
	*host.Behavior
	Attached attach.List
	Hooks    Hooks
	// Retired: the store has actors of the type, and the program does not. They do nothing;
	// operators see, export and destroy them.
	Retired bool
	ByName  map[string]int
	Base    *limit.Set    // of the type; actors may have others
	idle    time.Duration // 0 for never
	// Pace is the time that each method takes.
	Pace    []pace.Average
	Metrics metrics.Type
	Profile *profile.Labels // of the goroutines that work for the type
}

// TypeOf returns the hosted type of an address, after checking the address.
func (s *Kernel) TypeOf(addr host.Address) (*Type, error) {
	t, err := s.StoredTypeOf(addr)
	if err == nil && t.Retired {
		return nil, fault.UnknownType(addr.Type)
	}
	return t, err
}

// StoredTypeOf is TypeOf for operators: it also returns a type that only the store has.
func (s *Kernel) StoredTypeOf(addr host.Address) (*Type, error) {
	t := s.Types[addr.Type]
	if t == nil {
		return nil, fault.UnknownType(addr.Type)
	}
	if err := address.Check(addr.Key); err != nil {
		return nil, err
	}
	return t, nil
}

// hosted returns an actor type of the program by its name, or nil.
func (s *Kernel) hosted(name string) *Type {
	if t := s.Types[name]; t != nil && !t.Retired {
		return t
	}
	return nil
}

// retiredTypes returns the types that the store has actors of and the program does not have.
func (s *Kernel) retiredTypes() ([]*host.Behavior, error) {
	stored, err := s.Store.Types(s.Options.Namespace)
	if err != nil {
		return nil, fmt.Errorf("kernel: read which actor types the store has: %w", err)
	}
	var retired []*host.Behavior
	for _, name := range stored {
		if !slices.ContainsFunc(s.Options.Behaviors, func(b *host.Behavior) bool { return b.Type == name }) {
			retired = append(retired, &host.Behavior{Type: name, New: func() host.Instance { return nil }})
		}
	}
	return retired, nil
}
