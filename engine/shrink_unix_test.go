//go:build unix

package engine

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// A table is shortened step by step before it is removed. Other files, and one with another name,
// are removed as they are.
func TestLargeFileIsRemovedInSteps(t *testing.T) {
	t.Parallel()
	const size = 3*shrinkStep + 1000
	content := bytes.Repeat([]byte("x"), size)
	for _, c := range []struct {
		name   string
		linked bool
		pauses int
	}{{"000007.sst", false, 4}, {"000008.log", false, 4}, {"000007.sst", true, 0}, {"MANIFEST-000001", false, 0}} {
		synctest.Test(t, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), c.name)
			must(t, os.WriteFile(path, content, 0o600))
			if c.linked {
				must(t, os.Link(path, path+".kept"))
			}
			g := newGuard(privateFS{vfs.Default}, nil)
			g.stepwise.Store(true)
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

// Steps grow while removals follow each other. There are none while the store is being closed, and
// a frozen disk keeps the file.
func TestRemovalsKeepUp(t *testing.T) {
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		g := newGuard(privateFS{vfs.Default}, nil)
		g.stepwise.Store(true)
		path := filepath.Join(t.TempDir(), "000001.sst")
		remove := func() (took time.Duration) {
			t.Helper()
			must(t, os.WriteFile(path, nil, 0o600))
			must(t, os.Truncate(path, 64<<20)) // a hole
			began := time.Now()
			must(t, g.Remove(path))
			return time.Since(began)
		}
		const slow = 64 << 20 / shrinkStep * shrinkPause
		same(t, remove(), slow)
		began := time.Now()
		for time.Since(began) < 4*shrinkLonger {
			remove()
			time.Sleep(shrinkGap)
		}
		same(t, remove(), slow/16)
		time.Sleep(2 * shrinkGap)
		same(t, remove(), slow)
		time.Sleep(2 * shrinkGap)
		time.AfterFunc(shrinkPause*9/2, func() { g.stepwise.Store(false) })
		same(t, remove(), 5*shrinkPause)
		g.stepwise.Store(true)
		time.AfterFunc(shrinkPause*9/2, func() { g.frozen.Store(true) })
		same(t, remove(), 5*shrinkPause)
		info, err := os.Lstat(path)
		fatalIf(t, err != nil || info.Size() != 64<<20-5*shrinkStep, "%v %v", info, err)
	})
}

// A crash in the middle of a removal leaves a file that is shorter than it was. The next Open
// removes it.
func TestFilesThatWereMadeShorterAreNoDamage(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Dir: t.TempDir()})
	for i := range 2 {
		r.put(kv(fmt.Sprint(i)), "x")
		must(t, databaseOf(r.Store).Flush())
		r.again()
	}
	must(t, r.Close())
	var left []string
	for i, name := range []string{"000001.sst", "000002.sst", "000001.log"} {
		left = append(left, filepath.Join(r.o.Dir, name))
		must(t, os.WriteFile(left[i], bytes.Repeat([]byte{7}, 1000*i), 0o600))
	}
	r.start()
	for i := range 2 {
		r.want(kv(fmt.Sprint(i)), "x")
	}
	must(t, r.Close())
	for _, path := range left {
		_, err := os.Lstat(path)
		errorIf(t, !os.IsNotExist(err), "%s is there: %v", path, err)
	}
}
