package kernel

import (
	"hash/maphash"
	"maps"
	"slices"
	"sync"

	"github.com/cairn-run/cairn/actor/host"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel/address"
)

// shard is a part of the directory of awake actors. A closed one takes no more.
type shard struct {
	mu     sync.RWMutex
	actors map[string]*Actor
	closed bool
}

// shardOf returns the shard of an address key.
func (s *Kernel) shardOf(key []byte) *shard {
	return &s.shards[maphash.Bytes(s.seed, key)%uint64(len(s.shards))]
}

// Find returns the Actor of an address if it is in memory.
func (s *Kernel) Find(a host.Address) *Actor {
	var buf [128]byte
	key := address.Append(buf[:0], a)
	sh := s.shardOf(key)
	sh.mu.RLock()
	defer sh.mu.RUnlock()
	return sh.actors[string(key)]
}

// ActorAt returns the Actor of an address, making one that is not awake yet if there is none; nil if the
// kernel has closed.
//
// REQUIRES: the address was checked.
func (s *Kernel) ActorAt(t *Type, addr host.Address) *Actor {
	var buf [128]byte
	key := address.Append(buf[:0], addr)
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
		a = newActor(s, t, addr, string(key))
		sh.actors[a.Key] = a
	}
	return a
}

// forget removes a from the directory.
func (s *Kernel) forget(a *Actor) {
	sh := s.shardOf([]byte(a.Key))
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.actors[a.Key] == a {
		delete(sh.actors, a.Key)
	}
}

// Each calls f for every Actor in memory, with no lock held.
func (s *Kernel) Each(f func(*Actor)) {
	var all []*Actor
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
	for _, a := range s.AllRemains() {
		f(a)
	}
}

// remainsOf returns what is left of a destroyed actor; nil if the kernel has closed.
func (s *Kernel) remainsOf(t *Type, addr host.Address, id keyspace.ActorID) *Actor {
	s.remainsMu.Lock()
	defer s.remainsMu.Unlock()
	a := s.remains[id]
	if a == nil && !s.Killed.Load() { // else abandonAll might not find it
		a = newActor(s, t, addr, "")
		a.Remains = id
		s.remains[id] = a
	}
	return a
}

func (s *Kernel) dropRemains(a *Actor) {
	s.remainsMu.Lock()
	defer s.remainsMu.Unlock()
	if s.remains[a.Remains] == a {
		delete(s.remains, a.Remains)
	}
}

// AllRemains returns the remains of destroyed actors that are in memory.
func (s *Kernel) AllRemains() []*Actor {
	s.remainsMu.Lock()
	defer s.remainsMu.Unlock()
	return slices.Collect(maps.Values(s.remains))
}
