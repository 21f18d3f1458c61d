package keyspace

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// SyntaxError says where bytes (or, for an actor id, text) stop being what they
// should be.
type SyntaxError struct {
	What   string // what was being parsed, such as "row" or "alarm key"
	Offset int    // of the byte at fault, or the length of the input if it ends too early
	Reason string // short, lower-case
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("keyspace: %s: byte %d: %s", e.What, e.Offset, e.Reason)
}

// within converts an error of the tuple decoder, which began at byte base of a key.
func within(kind Kind, base int, err error) error {
	if err == nil {
		return nil // before a text is made
	}
	return inside(what(kind), base, err)
}

// inside converts an error of the tuple decoder.
func inside(what string, base int, err error) error {
	if err == nil {
		return nil
	}
	if syntax, ok := errors.AsType[*tuple.SyntaxError](err); ok {
		return &SyntaxError{what, base + syntax.Offset, syntax.Reason}
	}
	return &SyntaxError{what, base, err.Error()}
}
