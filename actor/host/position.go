package host

import (
	"strconv"
	"strings"

	"github.com/google/uuid"
)

// A Position is a place in the events of an actor, or in one of its streams.
//
// Sequences begin at 1 again when an actor was destroyed and created anew, so a sequence alone does
// not name a place. Life does: it is the id of the actor from its creation to its destruction.
type Position struct {
	// Sequence is the sequence of the last event or item before the place; 0 is the beginning.
	Sequence uint64
	// Life is the id of the actor's life, or "" for the life at the time when the position is used.
	Life string
}

// String returns the form that [ParsePosition] reads: the sequence and, if the life is known, "@"
// and its id, as in "17@0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14".
func (p Position) String() string { return string(p.Append(nil)) }

// Append appends the form of String.
func (p Position) Append(b []byte) []byte {
	b = strconv.AppendUint(b, p.Sequence, 10)
	if p.Life != "" {
		b = append(append(b, '@'), p.Life...)
	}
	return b
}

// ParsePosition reads the form of [Position.String]. The error has the code InvalidArgument and
// says what is expected; it names no field.
func ParsePosition(text string) (Position, *Error) {
	number, life, named := strings.Cut(text, "@")
	n, err := strconv.ParseUint(number, 10, 64)
	if err != nil || number[0] == '+' || named && !validLife(life) {
		return Position{}, Errorf(InvalidArgument,
			"%q is not a position: it must be a number, or a number, @ and the id of the actor, as in 17@0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14", text)
	}
	return Position{Sequence: n, Life: life}, nil
}

// CheckLife checks the id of an actor's life, "" for none. The error has the code InvalidArgument
// and names the field life.
func CheckLife(id string) *Error {
	if id == "" || validLife(id) {
		return nil
	}
	return Errorf(InvalidArgument,
		"life is %q; it must be the id of the actor, as in 0a3f6931-52b4-8a01-9c3e-5d0f2b7c8e14", id).
		With("field", "life")
}

// validLife reports whether an id has the form of actors' ids: a UUID in lower case.
func validLife(id string) bool {
	u, err := uuid.Parse(id)
	return err == nil && u.String() == id // in the one form in which ids are written
}
