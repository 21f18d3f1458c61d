package store

import (
	"errors"
	"fmt"

	"github.com/cairn-run/cairn/actor/host"
)

// The errors that errors.Is finds in those of the methods. Other errors are of the node, an
// *actor.Error each.
var (
	// ErrNotFound: there is no such key.
	ErrNotFound = errors.New("not found")
	// ErrQuotaExceeded: the change passes a quota. Nothing was done.
	ErrQuotaExceeded = errors.New("quota exceeded")
	// ErrClosed: the store is closed, or nil. What a call that was running has done is not known.
	ErrClosed = errors.New("store is closed")
)

// fault returns the error of a method, with its name; nil for nil.
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
