package supervisor

// streamAppend appends items to a stream in a turn that touches no instance.
func (c *core) streamAppend(h *turn, stream string, items [][]byte) (uint64, error) {
	return h.StreamAppend(stream, items)
}
