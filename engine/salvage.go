package engine

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"strings"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/atomicfs"
)

// salvagedName is a file that exists from the beginning of a salvage until the listing index is
// marked as not built.
const salvagedName = "salvaged"

// salvage changes a damaged directory so that it can be opened, without the lost data. Its claims:
//
//  1. It loses nothing more: every file is kept, as it was, in a new directory inside the store's.
//  2. The rest of the logs is a prefix of the history. Whole commits after a hole are left out,
//     because they may depend on missing ones. So each actor has a state that it once had.
//  3. It can be repeated after a crash in the middle. A file says that it was begun, until the
//     listing index is marked as not built: a later Open may find no damage but a wrong index.
func (s *Store) salvage(found *survey) error {
	log, dir := s.opts.Logger, s.opts.Dir
	for _, d := range found.damages {
		log.Error("damage is accepted", "dir", dir, "file", d.File, "offset", d.Offset, "reason", d.Reason)
	}
	kept, err := keepFiles(s.guard, dir)
	if err != nil {
		return fmt.Errorf("keep the damaged files: %w", err)
	}
	log.Error("the files as they were before are kept", "dir", kept)
	begun, err := s.guard.Create(s.guard.PathJoin(dir, salvagedName), vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(begun.Close(), syncDir(s.guard, dir)); err != nil {
		return err
	}
	if found.cut != nil {
		for _, num := range found.logs {
			if num < found.cut.num {
				continue
			}
			name := logName(num)
			if num == found.cut.num && found.cut.offset > 0 {
				err = cutFile(s.guard, dir, name, found.cut.offset)
				log.Error("commits of a log are left out", "file", name, "from", found.cut.offset)
			} else {
				err = s.guard.Remove(s.guard.PathJoin(dir, name))
				log.Error("commits of a log are left out", "file", name, "from", 0)
			}
			if err != nil {
				return err
			}
		}
	}
	if found.options != "" {
		if err := s.guard.Remove(s.guard.PathJoin(dir, found.options)); err != nil {
			return err
		}
	}
	if found.noMarker {
		if err := moveMarker(s.guard, dir, "manifest", found.manifest); err != nil {
			return err
		}
	}
	if found.noFormat {
		if err := moveMarker(s.guard, dir, "format-version",
			fmt.Sprintf("%03d", pebble.FormatWALSyncChunks)); err != nil {
			return err
		}
	}
	// The mark describes the part that is left out now.
	if err := s.guard.Remove(s.guard.PathJoin(dir, markName)); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// keepFiles links or copies every file of the directory into a new one inside it, and returns the
// name of the new one.
func keepFiles(fs vfs.FS, dir string) (string, error) {
	names, err := fs.List(dir)
	if err != nil {
		return "", err
	}
	kept := ""
	for n := 1; ; n++ {
		kept = fs.PathJoin(dir, fmt.Sprintf("damaged-%d", n))
		if _, err := fs.Stat(kept); err != nil {
			break
		}
	}
	if err := fs.MkdirAll(kept, 0o700); err != nil {
		return "", err
	}
	for _, name := range names {
		path := fs.PathJoin(dir, name)
		info, err := fs.Stat(path)
		if err != nil {
			return "", err
		}
		switch {
		case info.IsDir(), name == "LOCK", name == spareName:
			continue
		case name == markName: // it is written in place
			err = vfs.Copy(fs, path, fs.PathJoin(kept, name))
		default: // not every filesystem has links
			if err = fs.Link(path, fs.PathJoin(kept, name)); err != nil {
				err = vfs.Copy(fs, path, fs.PathJoin(kept, name))
			}
		}
		if err != nil {
			return "", err
		}
	}
	return kept, errors.Join(syncDir(fs, kept), syncDir(fs, dir))
}

// cutFile replaces a file by its first bytes.
func cutFile(fs vfs.FS, dir, name string, size int64) error {
	path, temporary := fs.PathJoin(dir, name), fs.PathJoin(dir, strings.TrimSuffix(name, ".log")+".dbtmp")
	from, err := fs.Open(path)
	if err != nil {
		return err
	}
	defer from.Close()
	to, err := fs.Create(temporary, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	_, err = io.CopyN(to, from, size)
	if err = errors.Join(err, to.Sync(), to.Close()); err != nil {
		return err
	}
	if err := fs.Rename(temporary, path); err != nil {
		return err
	}
	return syncDir(fs, dir)
}

func moveMarker(fs vfs.FS, dir, name, value string) error {
	marker, _, err := atomicfs.LocateMarker(fs, dir, name)
	if err != nil {
		return err
	}
	return errors.Join(marker.Move(value), marker.Close())
}

func syncDir(fs vfs.FS, dir string) error {
	f, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(f.Sync(), f.Close())
}
