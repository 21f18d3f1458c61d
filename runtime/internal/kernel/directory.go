package kernel

import (
	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// Find returns the Actor of an address if it is in memory.
func (s *Kernel) Find(a host.Address) *Actor {
	var buf [128]byte
	return s.actors.Find(address.Append(buf[:0], a))
}

// ActorAt returns the Actor of an address. If the Actor is not in memory, ActorAt makes it, not
// awake. The result is nil after the kernel has closed. REQUIRES: the address was checked.
func (s *Kernel) ActorAt(t *Type, addr host.Address) *Actor {
	var buf [128]byte
	return s.actors.FindOrMake(address.Append(buf[:0], addr), func(key string) *Actor { return newActor(s, t, addr, key) })
}

// remainsOf returns the remains of a destroyed actor; nil if the kernel has closed.
func (s *Kernel) remainsOf(t *Type, addr host.Address, id keyspace.ActorID) *Actor {
	return s.Remains.FindOrMake(id[:], func(string) *Actor {
		a := newActor(s, t, addr, "")
		a.Remains = id
		return a
	})
}

// forget removes a from memory.
func (s *Kernel) forget(a *Actor) {
	if a.Left() {
		s.Remains.Remove(a.Remains[:], a)
	} else {
		s.actors.Remove([]byte(a.Key), a)
	}
}

// Each calls f for every Actor in memory, with no lock held.
func (s *Kernel) Each(f func(*Actor)) {
	s.actors.Each(f)
	s.Remains.Each(f)
}
