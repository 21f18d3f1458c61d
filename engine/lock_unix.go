//go:build unix && !solaris && !aix

package engine

import (
	"errors"
	"fmt"
	"io"
	"os"
	"syscall"
)

// lockDir locks a directory itself, beside the file in it that Pebble locks: that file can be
// removed while the lock on it is held, and a second process would then lock another one. It
// returns ErrLocked if another process has the lock. A filesystem that locks no directories leaves
// it at the file.
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

// Close gives the lock up, also while a process that another goroutine is starting has a copy of
// the descriptor.
func (l *dirLock) Close() error {
	_ = syscall.Flock(int(l.f.Fd()), syscall.LOCK_UN) // it fails where locking did
	return l.f.Close()
}
