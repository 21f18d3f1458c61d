package engine

import "time"

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

	// Sync has the times that the gate waited for syncs of the log, and Gate the times from the
	// application of commits until they were durable: of the first commit of each of its rounds.
	Sync, Gate Latency
	Stalled    time.Duration // how long Pebble held writes back

	Levels             []Level // of the tree of tables, from the top
	WriteAmp           float64 // bytes written to the log and to tables for each byte of the log
	MemTables          int64
	CompactionsRunning int64
	CompactionTime     time.Duration // of all compactions together
	TableCacheHits     int64         // of open tables
	TableCacheMisses   int64
	Tombstones         uint64 // about how many deletions the tables have

	Writable  bool   // commits are accepted
	FreeBytes uint64 // of the disk; 0 if it cannot say
	MinFree   uint64 // below that, commits are refused
}

// A Level is one level of the tree of tables.
type Level struct {
	Tables    int64
	Bytes     int64
	Sublevels int32
	Read      uint64 // bytes that compactions into the level read
	Written   uint64 // bytes that flushes and compactions wrote to it
	Score     float64
}

// Metrics returns counts and sizes of the store; the zero value when closed.
func (s *Store) Metrics() Metrics {
	if s.enter() != nil {
		return Metrics{}
	}
	defer s.leave()
	p := databaseOf(s).Metrics()
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

		Sync:               s.metrics.sync.read(),
		Gate:               s.metrics.gate.read(),
		Stalled:            time.Duration(s.metrics.stalled.Load()),
		MemTables:          p.MemTable.Count,
		CompactionsRunning: p.Compact.NumInProgress,
		CompactionTime:     p.Compact.Duration,
		TableCacheHits:     p.FileCache.Hits,
		TableCacheMisses:   p.FileCache.Misses,
		Tombstones:         p.Keys.TombstoneCount,
		Writable:           s.readOnly() == nil && s.free.check() == nil,
		MinFree:            s.free.min,
	}
	if began := s.metrics.stallBegan.Load(); began != 0 {
		m.Stalled += time.Duration(max(0, time.Now().UnixNano()-began))
	}
	total := p.Total()
	m.WriteAmp = total.WriteAmp()
	for i := range p.Levels {
		l := &p.Levels[i]
		m.Levels = append(m.Levels, Level{
			Tables: l.TablesCount, Bytes: l.TablesSize, Sublevels: l.Sublevels, Score: l.Score,
			Read: l.TableBytesRead, Written: l.TableBytesFlushed + l.TableBytesCompacted,
		})
	}
	if usage, err := s.free.fs.GetDiskUsage(s.free.dir); err == nil {
		m.FreeBytes = usage.AvailBytes
	}
	s.gate.mu.Lock()
	m.Waiting = len(s.gate.queue)
	s.gate.mu.Unlock()
	s.spaces.mu.Lock()
	m.Spaces = len(s.spaces.byID)
	s.spaces.mu.Unlock()
	return m
}
