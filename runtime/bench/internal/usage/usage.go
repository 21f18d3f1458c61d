// Package usage reads what a process and a store have used.
package usage

import (
	"io/fs"
	"path/filepath"
	"syscall"
	"time"
)

// Processor returns the processor time of this process so far, of user and system together, in
// seconds.
func Processor() float64 {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		panic(err) // the arguments are constant
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// Tables returns the bytes of all tables of Pebble in a directory whose store is closed.
func Tables(dir string) (size float64, err error) {
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err != nil || filepath.Ext(path) != ".sst" {
			return err
		}
		info, err := d.Info()
		if err == nil {
			size += float64(info.Size())
		}
		return err
	})
	return size, err
}
