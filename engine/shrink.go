package engine

import (
	"os"
	"sync"
	"time"
)

// A table or a log is made shorter by shrinkStep after each shrinkPause before it is removed, 128 MiB in a second, unless that
// went on for shrinkMost: then it may never catch up with what Pebble no longer needs.
//
// To remove a large file at once holds up the syncs of other files: beside removals of 64 MiB, on ext4 with online discard, syncs
// of a log took up to 190 ms; beside these steps up to 11, and up to 4 beside nothing.
const (
	shrinkStep  = 512 << 10
	shrinkPause = 4 * time.Millisecond
	shrinkMost  = 10 * time.Second
	shrinkGap   = 40 * time.Millisecond // files follow each other if there is less between them
)

// A shrinker makes files shorter before they are removed.
type shrinker struct {
	mu    sync.Mutex
	began time.Time // when the first of the files was begun that followed each other
	ended time.Time // when the last one was done
}

// begin reports whether a file may be made shorter: it may not if files have followed each other for too long.
func (s *shrinker) begin() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := time.Now()
	if now.Sub(s.ended) > shrinkGap {
		s.began = now
	}
	s.ended = now
	return now.Sub(s.began) < shrinkMost
}

func (s *shrinker) end() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.ended = time.Now()
}

// shrink makes a file that is removed next shorter, a step whenever pause returns true, until one step is left. It leaves a
// file alone that has another name too, whose content that name keeps.
func (s *shrinker) shrink(path string, pause func() bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || names(info) != 1 || !s.begin() {
		return
	}
	defer s.end()
	for size := info.Size() - shrinkStep; size > 0 && pause(); size -= shrinkStep {
		if os.Truncate(path, size) != nil {
			return
		}
	}
}
