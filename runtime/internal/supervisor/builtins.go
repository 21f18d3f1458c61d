package supervisor

import (
	"maps"
	"slices"

	"github.com/cairn-run/cairn/actor/host"
)

// Methods lists the methods of an actor type that can be called by name: its own, and those that every actor has.
func (s *Supervisor) Methods(b *host.Behavior) []host.Method {
	methods := slices.Clone(b.Methods)
	for _, name := range slices.Sorted(maps.Keys(s.builtins)) {
		kind := host.Query
		if b := s.builtins[name]; b.act != nil || b.run != nil {
			kind = host.Action
		}
		methods = append(methods, host.Method{Name: name, Kind: kind})
	}
	return methods
}
