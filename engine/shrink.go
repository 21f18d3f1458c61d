package engine

import (
	"os"
	"sync"
	"time"
)

// A table or a log is made shorter by shrinkStep after each shrinkPause before it is removed. So at
// most 128 MiB are removed in a second. While files follow each other, the step doubles after each
// shrinkLonger, so removal keeps up with the files that Pebble no longer needs.
//
// Removing a large file at once delays the syncs of other files. A loop that writes to a file and
// syncs it, on ext4 with online discard, waited up to 190 ms during removals of 64 MiB, up to 11 ms
// during these steps, and up to 4 ms alone.
const (
	shrinkStep   = 512 << 10
	shrinkPause  = 4 * time.Millisecond
	shrinkLonger = 4 * time.Second
	shrinkGap    = 40 * time.Millisecond // files follow each other if there is less between them
)

// A shrinker makes files shorter before they are removed, one at a time.
type shrinker struct {
	mu    sync.Mutex
	began time.Time // when the first of the files that follow each other was begun
	ended time.Time // when the last one was done
}

// shrink shortens a file before its removal, one step each time pause returns true, until one step
// is left. It leaves a file alone that also has another name, since that name keeps the content.
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
