//go:build unix && !solaris && !aix

package engine

import (
	"syscall"
	"testing"
)

// A process that is just being started by another goroutine has copies of all descriptors until it runs its program. The lock ends
// with the store nevertheless.
func TestClosedDirectoryIsFreeAlthoughAProcessIsBeingStarted(t *testing.T) {
	dir := t.TempDir()
	lock, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	child, err := syscall.Dup(int(lock.(*dirLock).f.Fd()))
	if err != nil {
		t.Fatal(err)
	}
	defer syscall.Close(child)
	if err := lock.Close(); err != nil {
		t.Fatal(err)
	}
	again, err := lockDir(dir)
	if err != nil {
		t.Fatal(err)
	}
	if err := again.Close(); err != nil {
		t.Fatal(err)
	}
}
