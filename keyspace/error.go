package keyspace

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/keyspace/tuple"
)

// SyntaxError says where and why bytes, or the text of an actor id, are wrong.
type SyntaxError struct {
	What   string // the input's type, such as "row" or "alarm key"
	Offset int    // of the byte at fault, or the length of the input if it ends too early
	Reason string // short, lower-case
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("keyspace: %s: byte %d: %s", e.What, e.Offset, e.Reason)
}

// inside converts an error of the tuple decoder, which began at byte base of the input.
func inside(what string, base int, err error) *SyntaxError {
	if syntax, ok := errors.AsType[*tuple.SyntaxError](err); ok {
		return &SyntaxError{what, base + syntax.Offset, syntax.Reason}
	}
	return &SyntaxError{what, base, err.Error()}
}
