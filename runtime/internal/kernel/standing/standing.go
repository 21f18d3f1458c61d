// Package standing records which rows at 0 of the wake index an actor has. A start of the node
// finds such a row: it means that work of the actor is under way that nothing else would take up.
package standing

import "github.com/cairn-run/cairn/keyspace"

// Kinds bounds the kinds of rows of the wake index. There is room for kinds that a part from
// outside adds.
const Kinds = 16

// A Set has the known states of an actor's rows at 0: two bits for each kind. No row of the zero
// Set is known.
type Set uint32

// A State is the known state of a row.
type State uint8

// The states of a row.
const (
	Unsure State = iota // the row may stand or not
	Disarmed
	Armed // the row stands
)

// Of returns the state of the row of a kind.
func (s Set) Of(kind keyspace.WakeKind) State { return State(s >> (2 * kind) & 3) }

// Note records the state of the row of a kind.
func (s *Set) Note(kind keyspace.WakeKind, is State) {
	*s = *s&^(3<<(2*kind)) | Set(is)<<(2*kind)
}
