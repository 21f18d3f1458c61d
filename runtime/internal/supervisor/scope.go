package supervisor

import (
	"time"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/keyspace"
)

// A scope is what a turn and a query have in common: rows of an actor as of one version, which a handler may read until it
// returns.
type scope interface {
	// enter locks the scope for one operation of the handler, and leave unlocks it.
	enter() error
	leave()
	// reader returns the rows.
	//
	// REQUIRES: enter
	reader() (engine.Reader, error)
	// Now is the time as of which they are read, and id the actor's.
	Now() time.Time
	id() keyspace.ActorID
	actorType() *actorType
}

// reading reads rows of a scope.
func reading[T any](s scope, read func(engine.Reader) (T, error)) (v T, err error) {
	if err := s.enter(); err != nil {
		return v, err
	}
	defer s.leave()
	rows, err := s.reader()
	if err != nil {
		return v, err
	}
	return read(rows)
}
