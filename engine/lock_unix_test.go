//go:build unix && !solaris && !aix

package engine

import (
	"syscall"
	"testing"
)

// A process that is just being started by another goroutine has copies of all descriptors until it
// runs its program. The lock ends with the store nevertheless.
func TestClosedDirectoryIsFreeAlthoughAProcessIsBeingStarted(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	must(t, err)
	child, err := syscall.Dup(int(lock.(*dirLock).f.Fd()))
	must(t, err)
	defer syscall.Close(child)
	must(t, lock.Close())
	again, err := lockDir(dir)
	must(t, err)
	must(t, again.Close())
}
