//go:build unix && !solaris && !aix

package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// lockDir locks the directory itself, besides the file in it that Pebble locks. That file can be
// removed while it is locked, and a second process would then lock another one. It returns
// ErrLocked if another process has the lock. If the filesystem locks no directories, only the file
// is locked.
func lockDir(dir string) (io.Closer, error) {
	f, err := os.Open(dir)
	if err != nil {
		return nil, err
	}
	err = syscall.Flock(int(f.Fd()), syscall.LOCK_EX|syscall.LOCK_NB)
	if errors.Is(err, syscall.EWOULDBLOCK) {
		_ = f.Close()
		return nil, fmt.Errorf("%w (only its file LOCK was removed: %w)", ErrLocked, err)
	}
	return &dirLock{f}, nil
}

// A dirLock is a locked directory.
type dirLock struct{ f *os.File }

// Close releases the lock, even while a process that another goroutine is starting has a copy of
// the descriptor.
func (l *dirLock) Close() error {
	_ = syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN) // it fails only if locking did
	return l.f.Close()
}
