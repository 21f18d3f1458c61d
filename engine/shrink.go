package engine

import (
	"os"
	"sync"
	"time"
)

// A table or a log is made shorter by shrinkStep after each shrinkPause before it is removed. So at
// most 128 MiB go in a second. While files follow each other, a step is twice as long after each
// shrinkLonger, so that removing them keeps up with what Pebble no longer needs.
//
// To remove a large file at once holds up the syncs of other files: a loop that writes to a file
// and syncs it, on ext4 with online discard, waited up to 190 ms beside removals of 64 MiB, up to
// 11 beside these steps, and up to 4 beside nothing.
const (
	shrinkStep   = 512 << 10
	shrinkPause  = 4 * time.Millisecond
	shrinkLonger = 4 * time.Second
	shrinkGap    = 40 * time.Millisecond // files follow each other if there is less between them
)

// A shrinker makes files shorter before they are removed, one at a time.
type shrinker struct {
	mu    sync.Mutex
	began time.Time // when the first of the files was begun that followed each other
	ended time.Time // when the last one was done
}

// shrink makes a file that is removed next shorter, a step whenever pause returns true, until one
// step is left. It leaves a file alone that has another name too, whose content that name keeps.
func (s *shrinker) shrink(path string, pause func() bool) {
	info, err := os.Lstat(path)
	if err != nil || !info.Mode().IsRegular() || names(info) != 1 {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if time.Since(s.ended) > shrinkGap {
		s.began = time.Now()
	}
	for size := info.Size(); pause(); {
		longer := min(time.Since(s.began)/shrinkLonger, 20)
		if size -= shrinkStep << longer; size <= 0 || os.Truncate(path, size) != nil {
			break
		}
	}
	s.ended = time.Now()
}
