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

// pebbleOptions returns the options for many small actors that commit small
// batches all the time:
//
//   - One memtable of 64 MiB. A batch of more than half a memtable is flushed on
//     its own, off the fast path; with the default write set limit that is a
//     rare turn. Four memtables let a burst go on while three are flushed.
//   - Pebble takes memtables out of the cache: without room for them a store that
//     is written to caches nothing.
//   - The log is synced once for all commits that wait (there is no minimum interval: a lone commit
//     should not wait), and its files are recycled by Pebble, or begin as a spare (spareLog).
//     Sstables are synced in steps of 1 MiB, so that a flush does not end in one long sync which
//     commits queue behind.
//   - A write stall is felt by every actor. So compaction out of level 0 starts
//     at 4 files and writes stop only at 36.
//   - Blocks of 8 KiB below level 0. To wake an actor that nobody used for long
//     reads a block and takes it apart, which takes half as long again with 32
//     KiB, and twice as long if rows are small; their files are a quarter
//     smaller. Level 0 keeps 4 KiB: it is read by point.
//   - Snappy on every level. Zstd on the last one makes files a third smaller,
//     but compactions and wakes take half as long again, and pages twice as
//     long. MinLZ is no better, and the build before could not read it.
//   - A bloom filter on every level but the last, where Pebble's Get does not
//     ask for it, and which has most of the rows. Splitting at the logical key
//     makes one filter entry serve the metadata row and all chunks.
//   - The cache is the caller's choice: a small one costs little where any actor
//     may be next, and one that holds most of what is in use halves the time of
//     pages and lists.
//   - docs/benchmarks.md, "Tables of the store", has the figures.
//   - The format version is pinned, so that a store can be opened again by the build before. Value
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
		// The scheduler that Pebble takes by default polls ten times a second, only
		// for limits that change, and this one does not. A test in virtual time that
		// lets a day pass would do little else.
		p.Experimental.CompactionScheduler = pebble.NewConcurrencyLimitSchedulerWithNoPeriodicGrantingForTest()
	}
	// No compactions because of reads, which can write far more than they save
	// (cockroachdb/pebble#1143, for which CockroachDB turned them off). To sample reads takes a
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
// Pebble calls Fatalf where it sees no way on, and goes on if Fatalf returns,
// which it does here: nothing ends the process. The store turns read-only
// instead, and the guard has frozen the disk before Pebble came to that point if
// the reason was an I/O error of the log or the manifest, so that nothing wrong
// reaches it. What remains are violated invariants of Pebble itself.
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

// backgroundError is called by Pebble when a flush or a compaction failed, with
// its locks held. Pebble will try again. A full disk may have space again by
// then, so it only stops commits until the next look at the disk; anything else
// turns the store read-only.
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
