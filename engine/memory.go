package engine

import "sync/atomic"

// writeStep is in how many bytes write sets take memory of the store's. Smaller sets take none, so
// that a usual turn does not touch what all actors share.
const writeStep = 64 << 10

// writeMemory bounds what the write sets of all actors hold.
type writeMemory struct {
	limit int64
	used  atomic.Int64
}

// reserve takes memory until the overlay has need bytes of it, and returns ErrBusy if there is not
// so much.
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
