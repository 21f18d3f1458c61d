package engine

import (
	"bytes"
	"errors"
	"log/slog"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"
)

func TestFilesOfAStoreArePrivate(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("no modes of files")
	}
	above := filepath.Join(t.TempDir(), "data")
	o := small(Options{Dir: filepath.Join(above, "store"), MemTableBytes: 64 << 10})
	var log bytes.Buffer
	o.Logger = slog.New(slog.NewTextHandler(&log, nil))
	s := mustOpen(t, o)
	sp := openSpace(t, s, 1)
	for range 4 {
		put(t, sp.Writes(), []byte{1}, strings.Repeat("x", 30_000))
		commit(t, sp)
	}
	if err := s.db.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := s.Close(); err != nil {
		t.Fatal(err)
	}
	files := 0
	err := filepath.Walk(above, func(path string, info os.FileInfo, err error) error {
		if err != nil {
			return err
		}
		want := fileMode
		if info.IsDir() {
			want = dirMode
		} else {
			files++
		}
		if info.Mode().Perm() != want {
			t.Errorf("%s has mode %v", path, info.Mode())
		}
		return nil
	})
	if err != nil || files < 6 {
		t.Errorf("%d files, %v", files, err)
	}
	if strings.Contains(log.String(), "chmod -R go= "+o.Dir) {
		t.Errorf("logged: %s", &log)
	}
	if err := os.Chmod(o.Dir, 0o755); err != nil {
		t.Fatal(err)
	}
	openTest(t, o)
	if !strings.Contains(log.String(), "chmod -R go= "+o.Dir) {
		t.Errorf("a directory that is open to others is not told of: %s", &log)
	}
}

// TestRemovedLockFileLetsNobodyIn runs itself as the second process, which finds no lock file.
func TestRemovedLockFileLetsNobodyIn(t *testing.T) {
	const second = "CAIRN_TEST_SECOND_PROCESS"
	if dir := os.Getenv(second); dir != "" {
		s, err := Open(t.Context(), small(Options{Dir: dir}))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrLocked) {
			t.Fatalf("opened by a second process: %v", err)
		}
		return
	}
	if runtime.GOOS == "windows" {
		t.Skip("an open file cannot be removed")
	}
	dir := t.TempDir()
	openTest(t, Options{Dir: dir})
	if err := os.Remove(filepath.Join(dir, "LOCK")); err != nil {
		t.Fatal(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestRemovedLockFileLetsNobodyIn$")
	cmd.Env = append(os.Environ(), second+"="+dir)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, out)
	}
}

func TestNearlyFullDiskLetsThroughWhatMakesSpace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		o := small(Options{MinFreeBytes: 100_000})
		s := mustOpen(t, o)
		defer s.Close()
		sp := openSpace(t, s, 1)
		for _, name := range []string{"a", "b", "c", "d"} {
			put(t, sp.Writes(), kv(name), strings.Repeat("x", 1000))
		}
		commit(t, sp)
		remove := func(name string) {
			t.Helper()
			if ok, err := sp.Writes().Delete(kv(name)); !ok || err != nil {
				t.Fatal(ok, err)
			}
		}
		o.Disk.SetFree(99_999)
		time.Sleep(freeSpaceInterval)
		remove("a")
		commit(t, sp)
		before := sp.Writes().Savepoint()
		remove("b")
		put(t, sp.Writes(), kv("e"), strings.Repeat("x", 2000))
		if _, err := sp.Commit(nil); !errors.Is(err, ErrDiskFull) {
			t.Fatalf("an actor that grows: %v", err)
		}
		sp.Writes().Rollback(before)
		o.Disk.SetFree(24_999)
		time.Sleep(freeSpaceInterval)
		remove("b")
		if _, err := sp.Commit(nil); !errors.Is(err, ErrDiskFull) {
			t.Fatalf("a deletion on a full disk: %v", err)
		}
		o.Disk.SetFree(99_999)
		time.Sleep(freeSpaceInterval)
		if err := sp.Writes().Destroy(); err != nil {
			t.Fatal(err)
		}
		commit(t, sp)
	})
}
