// Package file writes files that appear as a whole, and reads lines of bounded length.
package file

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
)

// Write writes a file that is there only when it is complete and durable, and returns its size. A
// file of that name is replaced if force is set, and an error that is fs.ErrExist otherwise. Only
// the owner may read it.
func Write(name string, force bool, write func(io.Writer) error) (size int64, err error) {
	taken := func() error {
		info, err := os.Lstat(name)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case err != nil:
			return err
		case info.IsDir():
			return fmt.Errorf("%s is a directory", name)
		case !force:
			return &fs.PathError{Op: "create", Path: name, Err: fs.ErrExist}
		}
		return nil
	}
	if err := taken(); err != nil {
		return 0, err
	}
	file, err := os.CreateTemp(filepath.Dir(name), "."+filepath.Base(name)+".*")
	if err != nil {
		return 0, err
	}
	defer func() {
		if err != nil {
			file.Close()
			os.Remove(file.Name())
		}
	}()
	buffered := bufio.NewWriterSize(file, 256<<10)
	if err := write(buffered); err != nil {
		return 0, err
	}
	if err := buffered.Flush(); err != nil {
		return 0, err
	}
	if err := file.Sync(); err != nil {
		return 0, err
	}
	info, err := file.Stat()
	if err != nil {
		return 0, err
	}
	if err := file.Close(); err != nil {
		return 0, err
	}
	if err := taken(); err != nil { // another process may have been faster
		return 0, err
	}
	return info.Size(), os.Rename(file.Name(), name)
}
