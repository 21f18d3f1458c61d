package call

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
	"github.com/cairn-run/cairn/runtime/internal/kernel"
)

// A Scope is common to turns and queries: rows of an actor as of one version, which a handler may
// read until it returns.
type Scope interface {
	// Enter locks the scope for one operation of the handler, and Leave unlocks it.
	Enter() error
	Leave()
	// Reader returns the rows.
	//
	// REQUIRES: Enter
	Reader() (engine.Reader, error)
	// Now returns the time as of which they are read, and ID the actor's id.
	Now() time.Time
	ID() keyspace.ActorID
	Type() *kernel.Type
}

// Reading reads rows of a scope.
func Reading[T any](s Scope, read func(engine.Reader) (T, error)) (v T, err error) {
	if err := s.Enter(); err != nil {
		return v, err
	}
	defer s.Leave()
	rows, err := s.Reader()
	if err != nil {
		return v, err
	}
	return read(rows)
}

// A Lister is common to a turn's write set and a query's snapshot.
type Lister interface {
	List(engine.ListQuery) (engine.Page, error)
}
