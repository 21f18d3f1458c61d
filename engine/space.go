package engine

import (
	"maps"
	"sync"
	"sync/atomic"

	"github.com/cairn-run/cairn/keyspace"
)

// Space is the keyspace of one awake actor. Its keys are read and written through it. Its claims:
//
//  1. It is the only space of the actor that can commit, until the actor is opened again; then its
//     commits return ErrFenced.
//  2. head, state and written are as the last commits wrote them. Nothing else changes the actor's
//     rows, so they are right until the space is fenced.
//  3. Idle, it holds no buffers: a commit gives back those of the write set. Only written stays, if
//     keys were written repeatedly.
//
// The methods of a Space and of its WriteSet are called by one goroutine at a time. Snapshot, ID
// and Durable may be called by any.
type Space struct {
	store      *Store
	id         keyspace.ActorID
	generation Generation
	limits     *Limits // never changed through this pointer

	mu      sync.Mutex // held during a commit; guards the fields below
	fenced  bool
	closed  bool
	oldHead bool   // the store has the head in a row of its own
	asides  asides // kinds that Aside wrote

	head    head
	state   stateCache
	written written
	durable atomic.Uint64
	listing *listingName // of an actor with written attributes, as of the last commit; nil if not known
	set     WriteSet
}

// stateCache is the state in the store, so that waking an actor and rewriting the state read
// nothing else.
type stateCache struct {
	exists bool
	meta   metadata
	value  []byte // if it has no data rows
}

// OpenSpace opens the space of an actor, which may not exist yet. A space of the same actor that is
// open is fenced. The generation is one more than that of the last activation; it becomes durable
// with the first commit.
//
// It returns ErrDestroyed if only a tombstone of the actor is left; a destroyed actor with kept
// keys can be opened. A CorruptError says that the head cannot be read, or was lost with accepted
// damage.
func (s *Store) OpenSpace(id keyspace.ActorID) (*Space, error) {
	return s.openSpace(id, (*Space).load)
}

// NewSpace is OpenSpace for an actor without rows in the store, and reads nothing. The id must come
// from NewActorID: if the store has rows of it, its counts are wrong from then on. The exception is
// an actor that the caller destroys: its rows may be damaged.
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
		// Waits for a running commit of the old space, so the head read below includes it.
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
		} else if named || a.state.exists { // other rows of it must not become those of a new actor
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

// manySpaces is how many spaces must have been open for their map to be rebuilt when few are left:
// a map does not shrink.
const manySpaces = 1024

// forget removes a space from the open ones, if it is the latest of its actor.
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

// Head returns the head of the last commit, with the generation of this space.
func (sp *Space) Head() Head {
	h := sp.head.Head
	h.Generation = sp.generation
	return h
}

// SetLimits sets limits of the space instead of the store's. Fields that are zero mean their
// defaults; l must not be changed afterwards, so many spaces can share it. It returns the faults of
// the limits, joined.
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

// Fence stops the space from committing: its Commit returns ErrFenced from then on. Unlike the
// other methods, any goroutine may call it, to take the actor from a goroutine that does not give
// it up.
func (sp *Space) Fence() {
	sp.mu.Lock()
	defer sp.mu.Unlock()
	sp.fence()
}

// fence no longer counts the memory of written, but does not touch it, since a turn may use it.
// REQUIRES: sp.mu.
func (sp *Space) fence() {
	sp.fenced = true
	sp.written.spend(&sp.store.written, -sp.written.bytes)
}

// Close drops the write set. Applied commits still become durable and are notified. A second Close
// does nothing.
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
