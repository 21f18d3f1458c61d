package engine

import (
	"context"
	"fmt"
)

// afterAllRows is greater than every row: the space that a row begins with is a smaller byte.
var afterAllRows = []byte{0xFF}

// Compact rewrites the tables of the store until deleted and overwritten rows take no space in
// them, except rows that a snapshot still reads. It returns when it is done, or with the error of
// ctx. Commits continue meanwhile and may be left out; Close waits. A store compacts itself while
// it runs: call Compact for measurements, or before a directory is copied.
func (s *Store) Compact(ctx context.Context) error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.leave()
	if err := s.Err(); err != nil {
		return err
	}
	if err := databaseOf(s).Compact(ctx, nil, afterAllRows, true); err != nil {
		return fmt.Errorf("engine: compact: %w", damaged(err))
	}
	return nil
}
