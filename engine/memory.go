package engine

import "sync/atomic"

// writeStep is the number of bytes by which write sets reserve memory of the store. Smaller sets
// reserve none, so a usual turn does not touch memory that all actors share.
const writeStep = 64 << 10

// writeMemory bounds the memory of the write sets of all actors.
type writeMemory struct {
	limit int64
	used  atomic.Int64
}

// reserve reserves memory until the overlay has need bytes, or returns ErrBusy if there is not
// enough.
func (o *overlay) reserve(m *writeMemory, need int64) error {
	if need <= o.reserved {
		return nil
	}
	more := (need - o.reserved + writeStep - 1) / writeStep * writeStep
	if m.used.Add(more) > m.limit {
		m.used.Add(-more)
		return ErrBusy
	}
	o.reserved, o.of = o.reserved+more, m
	return nil
}
