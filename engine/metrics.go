package engine

// Metrics are counts and sizes of a store since it was opened.
type Metrics struct {
	Commits     uint64 // commits applied
	CommitBytes uint64 // bytes of their batches
	Waiting     int    // commits that are not durable yet
	Stalls      uint64 // times that Pebble held writes back
	Spaces      int    // spaces open

	DiskBytes     uint64 // bytes of all files of the store
	LogBytes      uint64 // of these, live bytes of the write-ahead log
	MemTableBytes uint64
	WriteBytes    int64 // memory that write sets of more than 64 KiB have reserved
	CacheBytes    int64
	CacheHits     int64
	CacheMisses   int64
	ReadAmp       int
	Compactions   int64
	Flushes       int64
	DebtBytes     uint64 // bytes that compactions are behind
}

// Metrics returns counts and sizes of the store; the zero value when closed.
func (s *Store) Metrics() Metrics {
	if s.enter() != nil {
		return Metrics{}
	}
	defer s.leave()
	p := s.db.Metrics()
	m := Metrics{
		Commits:       s.metrics.commits.Load(),
		CommitBytes:   s.metrics.commitBytes.Load(),
		Stalls:        s.metrics.stalls.Load(),
		DiskBytes:     p.DiskSpaceUsage(),
		LogBytes:      p.WAL.Size,
		MemTableBytes: p.MemTable.Size,
		WriteBytes:    s.writing.used.Load(),
		CacheBytes:    p.BlockCache.Size,
		CacheHits:     p.BlockCache.Hits,
		CacheMisses:   p.BlockCache.Misses,
		ReadAmp:       p.ReadAmp(),
		Compactions:   p.Compact.Count,
		Flushes:       p.Flush.Count,
		DebtBytes:     p.Compact.EstimatedDebt,
	}
	s.gate.mu.Lock()
	m.Waiting = len(s.gate.queue)
	s.gate.mu.Unlock()
	s.spaces.mu.Lock()
	m.Spaces = len(s.spaces.byID)
	s.spaces.mu.Unlock()
	return m
}
