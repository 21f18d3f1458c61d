package engine

import (
	"io"
	"io/fs"
	"log/slog"
	"os"
	"runtime"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// Modes of what a store makes: nobody else on the machine may read it.
const (
	dirMode  fs.FileMode = 0o700
	fileMode fs.FileMode = 0o600
)

// privateFS is the operating system's disk, where files that are made are private whatever the umask is.
type privateFS struct{ vfs.FS }

func (p privateFS) Unwrap() vfs.FS { return p.FS }

func (p privateFS) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := p.FS.Create(name, category)
	return made(name, f, err)
}

func (p privateFS) OpenReadWrite(name string, category vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
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

// made makes a file private that was made a moment ago, or closes it.
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

// warnIfOpenToOthers tells of a directory, made by an older version or by hand, that others on the machine can look into.
func warnIfOpenToOthers(log *slog.Logger, disk vfs.FS, dir string) {
	if runtime.GOOS == "windows" { // has no such modes
		return
	}
	info, err := disk.Stat(dir)
	if err != nil || info.Mode().Perm()&^dirMode == 0 {
		return
	}
	log.Warn("others on this machine can look into the data directory; make it private with chmod 700",
		"dir", dir, "mode", info.Mode().Perm().String())
}
