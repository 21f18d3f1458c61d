package engine

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"
	"slices"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of the files that a store creates: no other user of the machine may read them.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// privateFS is the operating system's disk; it creates private files regardless of the umask.
type privateFS struct{ vfs.FS }

func (p privateFS) Unwrap() vfs.FS { return p.FS }

func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return made(name, f, err)
}

func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory,
	opts ...vfs.OpenOption) (vfs.File, error) {
	_, missing := os.Stat(name)
	f, err := p.FS.OpenReadWrite(name, category, opts...)
	if missing == nil {
		return f, err
	}
	return made(name, f, err)
}

func (p privateFS) Lock(name string) (io.Closer, error) {
	c, err := p.FS.Lock(name)
	return made(name, c, err)
}

// made makes a file private that was just created, or closes it.
func made[F io.Closer](name string, f F, err error) (F, error) {
	if err != nil {
		return f, err
	}
	if err := os.Chmod(name, fileMode); err != nil {
		_ = f.Close()
		var none F
		return none, err
	}
	return f, nil
}

// warnIfOpenToOthers logs the first path that other users of the machine can read: one of the
// directories, or a file in the last of them. An older version or a chmod may have left it so.
func warnIfOpenToOthers(log *slog.Logger, disk vfs.FS, dirs ...string) {
	if runtime.GOOS == "windows" { // has no such modes
		return
	}
	paths := slices.Clone(dirs)
	last := dirs[len(dirs)-1]
	names, _ := disk.List(last) // opening the store reports errors
	for _, name := range names {
		paths = append(paths, disk.PathJoin(last, name))
	}
	for _, path := range paths {
		info, err := disk.Stat(path)
		if err != nil || info.Mode().Perm()&0o077 == 0 {
			continue
		}
		log.Warn("others on this machine can look into the data; make it private with chmod -R go= "+dirs[0],
			"path", path, "mode", info.Mode().Perm().String())
		return
	}
}
