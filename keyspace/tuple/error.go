package tuple

import (
	"errors"
	"fmt"
)

// Reasons why an element cannot be packed. They are wrapped in an [*ElementError].
var (
	// ErrType is an element of a Go type that has no encoding, or a nil *big.Int.
	ErrType = errors.New("type has no tuple encoding")
	// ErrRange is an integer whose magnitude needs more than MaxBigIntBytes bytes.
	ErrRange = errors.New("integer of more than 255 bytes")
	// ErrIncomplete is a versionstamp without a transaction version.
	ErrIncomplete = errors.New("incomplete versionstamp")
	// ErrDepth is a tuple that nests deeper than MaxDepth.
	ErrDepth = errors.New("tuples nest too deep")
)

// ElementError says which element of a tuple cannot be packed. Err is one of
// [ErrType], [ErrRange], [ErrIncomplete] and [ErrDepth].
type ElementError struct {
	Index int    // of the element in the outermost tuple, from 0
	Type  string // Go type of the offending element, which may be nested in element Index
	Err   error
}

func (e *ElementError) Error() string {
	return fmt.Sprintf("tuple: element %d (%s): %v", e.Index, e.Type, e.Err)
}

// Unwrap returns Err.
func (e *ElementError) Unwrap() error { return e.Err }

// SyntaxError says where bytes stop being the packed form of a tuple, or of
// the element that the caller asked for.
type SyntaxError struct {
	Offset int    // of the byte that is wrong, or the length of the input if it ends too early
	Reason string // short, lower-case, without the offset
}

func (e *SyntaxError) Error() string {
	return fmt.Sprintf("tuple: byte %d: %s", e.Offset, e.Reason)
}
