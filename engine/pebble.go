package engine

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"syscall"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/sstable"
)

// memTables is how many memtables there may be before writes wait.
const memTables = 4

// pebbleOptions returns the options for many small actors that commit small batches all the time:
//
//   - One memtable of 64 MiB. A batch of more than half a memtable is flushed on its own, off the
//     fast path; with the default write set limit that is a rare turn. With four memtables a burst
//     continues while three are flushed.
//   - Pebble takes memtables from the cache: without room for them, a store under writes caches
//     nothing.
//   - The log is synced once for all commits that wait (there is no minimum interval: a lone commit
//     should not wait), and its files are recycled by Pebble, or begin as a spare (spareLog).
//     Sstables are synced in steps of 1 MiB, so a flush does not end in one long sync that commits
//     wait for.
//   - A write stall delays every actor. So compaction out of level 0 starts at 4 files and writes
//     stop only at 36.
//   - Blocks of 8 KiB below level 0. Waking an actor after a long time reads and decodes a block.
//     With 32 KiB that takes half as long again, and twice as long if rows are small, but files are
//     a quarter smaller. Level 0 keeps 4 KiB: it is read by point.
//   - Snappy on every level. Zstd on the last one makes files a third smaller, but compactions and
//     wakes take half as long again, and pages twice as long. MinLZ is no better, and the previous
//     build could not read it.
//   - A bloom filter on every level except the last, which has most of the rows, and where Pebble's
//     Get does not use it. Splitting at the logical key gives the metadata row and all chunks one
//     filter entry.
//   - The cache is the caller's choice: a small one costs little if any actor may be next, and one
//     that holds most of the active rows halves the time of pages and lists.
//   - docs/benchmarks.md, "Tables of the store", has the figures.
//   - The format version is pinned, so the previous build can open the store again. Value
//     separation into files of their own, experimental in this version of Pebble, is off.
func pebbleOptions(o Options, fs *guardFS, s *Store) *pebble.Options {
	p := &pebble.Options{
		Comparer:                    newComparer(),
		Merger:                      newMerger(),
		FS:                          fs,
		FormatMajorVersion:          pebble.FormatWALSyncChunks,
		CacheSize:                   o.CacheBytes + memTables*int64(o.MemTableBytes),
		MemTableSize:                o.MemTableBytes,
		MemTableStopWritesThreshold: memTables,
		BytesPerSync:                1 << 20,
		L0CompactionThreshold:       4,
		L0CompactionFileThreshold:   500,
		L0StopWritesThreshold:       36,
		LBaseMaxBytes:               64 << 20,
		MaxOpenFiles:                4096,
		Logger:                      pebbleLog{s},
		EventListener: &pebble.EventListener{
			BackgroundError: s.backgroundError,
			DataCorruption: func(info pebble.DataCorruptionInfo) {
				s.fail(tableDamage(info.Path, info.Details))
			},
			WriteStallBegin: func(pebble.WriteStallBeginInfo) {
				s.metrics.stalls.Add(1)
				s.metrics.stallBegan.Store(time.Now().UnixNano())
			},
			WriteStallEnd: func() {
				if began := s.metrics.stallBegan.Swap(0); began != 0 {
					s.metrics.stalled.Add(max(0, time.Now().UnixNano()-began))
				}
			},
		},
	}
	if o.Disk != nil {
		// Pebble's default scheduler polls ten times a second for limits that change. This one does
		// not. A test that passes a day of virtual time would do little else.
		p.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	// No compactions because of reads, which can write far more than they save
	// (cockroachdb/pebble#1143, for which CockroachDB turned them off). Sampling reads takes a
	// tenth of each step of an iterator.
	p.Experimental.ReadSamplingMultiplier = -1
	for i := range p.Levels {
		p.Levels[i].FilterPolicy = bitsPerKey
		p.Levels[i].Compression = func() *sstable.CompressionProfile { return sstable.SnappyCompression }
		if i > 0 {
			p.Levels[i].BlockSize = 8 << 10
		}
	}
	p.Levels[len(p.Levels)-1].FilterPolicy = pebble.NoFilterPolicy
	return p
}

// pebbleLog sends Pebble's log to slog.
//
// Pebble calls Fatalf if it cannot continue, and continues if Fatalf returns. Here it returns, so
// the process does not end, and the store turns read-only. After an I/O error of the log or the
// manifest, the guard has frozen the disk before that, so nothing wrong reaches it. The remaining
// causes are violated invariants of Pebble itself.
type pebbleLog struct{ s *Store }

func (l pebbleLog) Infof(format string, args ...any)  { l.log(slog.LevelDebug, format, args) }
func (l pebbleLog) Errorf(format string, args ...any) { l.log(slog.LevelDebug, format, args) }
func (l pebbleLog) Fatalf(format string, args ...any) {
	l.s.fail(fmt.Errorf("engine: pebble: "+format, args...))
}

func (l pebbleLog) log(level slog.Level, format string, args []any) {
	logger := l.s.opts.Logger
	if logger.Enabled(context.Background(), level) {
		logger.Log(context.Background(), level, fmt.Sprintf(format, args...), "component", "pebble")
	}
}

// backgroundError is called by Pebble when a flush or a compaction failed, with its locks held.
// Pebble will try again. A full disk may have space again by then, so it only stops commits until
// the disk is checked again; any other error turns the store read-only.
func (s *Store) backgroundError(err error) {
	if errors.Is(err, syscall.ENOSPC) {
		s.free.full.Store(true)
		s.free.low.Store(true)
		return
	}
	if errors.Is(err, pebble.ErrCancelledCompaction) {
		return
	}
	s.fail(fmt.Errorf("engine: background write: %w", damaged(err)))
}
