//go:build unix

package engine

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table is made shorter step by step before it is removed; other files, and one that has another name, are removed as they are.
func TestLargeFileIsRemovedInSteps(t *testing.T) {
	t.Parallel()
	const size = 3*shrinkStep + 1000
	content := bytes.Repeat([]byte("x"), size)
	for _, c := range []struct {
		name   string
		linked bool
		pauses int
	}{{"000007.sst", false, 3}, {"000008.log", false, 3}, {"000007.sst", true, 0}, {"MANIFEST-000001", false, 0}} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.name)
			must(t, os.WriteFile(path, content, 0o600))
			if c.linked {
				must(t, os.Link(path, path+".kept"))
			}
			g := newGuard(privateFS{vfs.Default}, nil)
			g.real = true
			began := time.Now()
			must(t, g.Remove(path))
			same(t, time.Since(began), time.Duration(c.pauses)*shrinkPause)
			_, err := os.Lstat(path)
			fatalIf(t, !os.IsNotExist(err), "%s is there: %v", c.name, err)
			if c.linked {
				kept, err := os.ReadFile(path + ".kept")
				fatalIf(t, err != nil || !bytes.Equal(kept, content), "the other name has %d bytes: %v", len(kept), err)
			}
		})
	}
}

// A file is not made shorter while the store is being closed or its disk is frozen, nor when removals follow each other for long.
func TestRemovalsThatFallBehindAreNotSlow(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(privateFS{vfs.Default}, nil)
		g.real = true
		path := filepath.Join(t.TempDir(), "000001.sst")
		remove := func() (took time.Duration) {
			t.Helper()
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Truncate(path, 64<<20)) // a hole
			began := time.Now()
			must(t, g.Remove(path))
			return time.Since(began)
		}
		slow := remove()
		same(t, slow, 127*shrinkPause)
		for range shrinkMost/slow + 1 {
			remove()
		}
		for range 3 {
			time.Sleep(shrinkGap)
			same(t, remove(), 0)
		}
		time.Sleep(2 * shrinkGap)
		same(t, remove(), slow)
		time.Sleep(2 * shrinkGap)
		time.AfterFunc(shrinkPause*9/2, func() { g.hurried.Store(true) })
		same(t, remove(), 5*shrinkPause)
		g.frozen.Store(true)
		remove()
		info, err := os.Lstat(path)
		fatalIf(t, err != nil || info.Size() != 64<<20, "%v %v", info, err)
	})
}
