package engine

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/keyspace"
)

// Space is the keyspace of one awake actor: the way to read and to write its
// keys. Its claims:
//
//  1. It is the only space of the actor that can commit, until the actor is
//     opened again; then its commits return ErrFenced.
//  2. head, state and written are what the last commits wrote; nothing else changes
//     the actor's rows, so they are right until the space is fenced.
//  3. Idle, it holds no buffers: those of a write set are given back with its
//     commit. Only written stays, if keys were written again and again.
//
// The methods of a Space and of its WriteSet are called by one goroutine at a
// time. Snapshot, ID and Durable may be called by any.
type Space struct {
	store      *Store
	id         keyspace.ActorID
	generation Generation
	limits     *Limits // never changed through this pointer

	mu      sync.Mutex // held during a commit; guards the fields below
	fenced  bool
	closed  bool
	oldHead bool   // the store has the head in a row of its own
	asides  asides // what Aside wrote

	head    head
	state   stateCache
	written written
	durable atomic.Uint64
	listing *listingName // of an actor whose attributes were written; nil if not known. As head, of the last commit
	set     WriteSet
}

// stateCache is what the store has under the key of the state, so that neither waking an actor nor
// a turn that rewrites the state reads anything else.
type stateCache struct {
	exists bool
	meta   metadata
	value  []byte // if it has no data rows
}

// OpenSpace opens the space of an actor, which may not exist yet. A space of the
// same actor that is open is fenced. The generation is one more than that of the
// last activation; it becomes durable with the first commit.
//
// It returns ErrDestroyed for an actor of which only a tombstone is left; one
// that was destroyed but kept keys can be opened. A CorruptError says that the
// head was lost, with accepted damage, or cannot be read.
func (s *Store) OpenSpace(id keyspace.ActorID) (*Space, error) {
	return s.openSpace(id, (*Space).load)
}

// NewSpace opens the space of an actor that the store has nothing of, as OpenSpace does, and reads
// nothing. The id must come from NewActorID: if the store has rows of it, its counts are wrong from
// then on. The exception is an actor that its caller destroys: its rows may be damaged.
func (s *Store) NewSpace(id keyspace.ActorID) (*Space, error) {
	return s.openSpace(id, (*Space).begin)
}

func (s *Store) openSpace(id keyspace.ActorID, load func(*Space) error) (*Space, error) {
	if err := s.enter(); err != nil {
		return nil, err
	}
	defer s.leave()
	sp := &Space{store: s, id: id, limits: &s.opts.Limits}
	sp.set.space = sp
	// Held until the space is loaded: a later OpenSpace waits to fence it. So a
	// third space cannot read the head while the first can still commit.
	sp.mu.Lock()
	defer sp.mu.Unlock()

	s.spaces.mu.Lock()
	before := s.spaces.byID[id]
	s.spaces.byID[id] = sp
	s.spaces.most = max(s.spaces.most, len(s.spaces.byID))
	s.spaces.mu.Unlock()
	if before != nil {
		// Waits for a commit of the old space that is being applied, so that the
		// head read below has it.
		before.mu.Lock()
		before.fence()
		sp.generation = before.generation
		before.mu.Unlock()
	}
	if err := load(sp); err != nil {
		s.forget(sp)
		return nil, err
	}
	return sp, nil
}

// load reads the root. REQUIRES: sp.mu.
func (sp *Space) load() error {
	a, ok, err := readRoot(databaseOf(sp.store).DB, sp.id, true)
	if err != nil {
		return err
	}
	if !ok {
		if _, dead, err := sp.store.tombstone(sp.id); err != nil {
			return err
		} else if dead {
			return ErrDestroyed
		}
		if _, _, named, err := sp.store.identity(sp.id); err != nil {
			return err
		} else if named || a.state.exists { // what else it has must not be taken for that of a new one
			return &CorruptError{Row: keyspace.AppendMetadataRow(nil, sp.id, stateKey()),
				Reason: "the actor has no head"}
		}
	}
	sp.head, sp.oldHead, sp.state = a.head, a.old, a.state
	return sp.begin()
}

// begin counts the activation. REQUIRES: sp.mu.
func (sp *Space) begin() error {
	sp.generation = max(sp.generation, sp.head.Generation) + 1
	sp.set.reset()
	return nil
}

// manySpaces is how many spaces must have been open for their map to be made anew when few are
// left: a map does not shrink.
const manySpaces = 1024

// forget removes a space from the ones that are open, if it is the latest.
func (s *Store) forget(sp *Space) {
	s.spaces.mu.Lock()
	if s.spaces.byID[sp.id] == sp {
		delete(s.spaces.byID, sp.id)
		if n := len(s.spaces.byID); s.spaces.most > manySpaces && n < s.spaces.most/8 {
			s.spaces.byID, s.spaces.most = maps.Collect(maps.All(s.spaces.byID)), n
		}
	}
	s.spaces.mu.Unlock()
}

// usable returns why the space cannot commit. REQUIRES: sp.mu.
func (sp *Space) usable() error {
	switch {
	case sp.closed:
		return ErrClosed
	case sp.fenced:
		return ErrFenced
	default:
		return nil
	}
}

// ID returns the id of the actor.
func (sp *Space) ID() keyspace.ActorID { return sp.id }

// Head returns what the last commit wrote, with the generation of this space.
func (sp *Space) Head() Head {
	h := sp.head.Head
	h.Generation = sp.generation
	return h
}

// SetLimits makes the space obey limits of its own instead of the store's. Fields that are zero
// mean their defaults; l must not be changed afterwards, so that many spaces can share it. It
// returns the faults of the limits, joined.
func (sp *Space) SetLimits(l *Limits) error {
	full := *l
	full.EnsureDefaults()
	if err := full.Validate(); err != nil {
		return err
	}
	if full != *l {
		l = &full
	}
	sp.limits = l
	return nil
}

// Durable returns the version of the last commit of this space that is durable,
// 0 before the first.
func (sp *Space) Durable() Version { return Version(sp.durable.Load()) }

// Writes returns the write set of the space. There is one; a commit empties it.
func (sp *Space) Writes() *WriteSet { return &sp.set }

// Fence keeps the space from committing ever again: its Commit returns ErrFenced. Unlike the other
// methods it may be called by any goroutine, to take an actor away from one that will not give it
// up.
func (sp *Space) Fence() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.fence()
}

// fence no longer counts the memory of written, but does not touch it, since a turn may be using
// it. REQUIRES: sp.mu.
func (sp *Space) fence() {
	sp.fenced = true
	sp.written.spend(&sp.store.written, -sp.written.bytes)
}

// Close drops the write set. Commits that were applied become durable and are
// told all the same. A second Close does nothing.
func (sp *Space) Close() {
	sp.mu.Lock()
	closed := sp.closed
	sp.closed = true
	sp.written.drop(&sp.store.written)
	sp.mu.Unlock()
	if closed {
		return
	}
	sp.set.drop()
	sp.store.forget(sp)
}
