package store

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
)

// The errors of methods, for errors.Is. Other errors are from the node, and are of type
// *actor.Error.
var (
	// ErrNotFound means that there is no such key.
	ErrNotFound = errors.New("not found")
	// ErrQuotaExceeded means that the change exceeds a quota. Nothing was done.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrClosed means that the store is closed, or nil. The outcome of a running call is unknown.
	ErrClosed = errors.New("store is closed")
)

// fault returns err with the name of the method; nil for nil.
func (s *Store) fault(op string, err error) error {
	kind := error(nil)
	switch {
	case err == nil:
		return nil
	case s.closed() && !errors.Is(err, ErrClosed):
		kind = ErrClosed
	case host.CodeOf(err) == host.QuotaExceeded:
		kind = ErrQuotaExceeded
	}
	if kind != nil {
		return fmt.Errorf("store.%s: %w: %w", op, kind, err)
	}
	return fmt.Errorf("store.%s: %w", op, err)
}
