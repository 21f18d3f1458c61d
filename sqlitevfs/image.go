package sqlitevfs

import (
	"errors"
	"io"

	"github.com/ncruces/go-sqlite3"
	"github.com/ncruces/go-sqlite3/vfs"
)

// An image is a database file in memory, for the one connection that checks or converts it.
type image struct{ temporary }

// newImage returns an empty file. A write beyond max bytes, rounded up to chunks, fails with
// SQLITE_FULL. Its memory counts in all until release.
func newImage(max int64, all *sharedBudget) *image {
	b := all.part((max + chunkSize - 1) / chunkSize * chunkSize)
	return &image{temporary{budget: &b}}
}

// release empties the file.
func (m *image) release() { m.temporary.Close() }

var errTooLong = errors.New("longer than allowed")

// readImage reads a file to its end. If it is longer than max bytes the error is errTooLong.
func readImage(r io.Reader, max int64, all *sharedBudget) (_ *image, err error) {
	m := newImage(max, all)
	defer func() {
		if err != nil {
			m.release()
		}
	}()
	buf := make([]byte, chunkSize)
	for {
		n, err := io.ReadFull(r, buf)
		if m.size+int64(n) > max {
			return nil, errTooLong
		}
		if _, full := m.WriteAt(buf[:n], m.size); full != nil {
			return nil, m.budget.refusal(chunkSize, "the file")
		}
		switch err {
		case nil:
		case io.EOF, io.ErrUnexpectedEOF:
			return m, nil
		default:
			return nil, err
		}
	}
}

// page returns a page of PageSize.
func (m *image) page(index uint32) []byte {
	off := int64(index) * PageSize
	at := off % chunkSize
	return m.chunks[off/chunkSize][at : at+PageSize]
}

// Close keeps the bytes: the creator of the image reads them afterwards.
func (m *image) Close() error { return nil }

// images is a file system of images by name, and of temporary files.
type images struct {
	files map[string]*image
	temp  budget
}

// Open opens an image or a temporary file.
func (v *images) Open(name string, flags vfs.OpenFlag) (vfs.File, vfs.OpenFlag, error) {
	if name == "" {
		return &temporary{budget: &v.temp}, flags | vfs.OPEN_MEMORY, nil
	}
	m := v.files[name]
	if m == nil || flags&vfs.OPEN_MAIN_DB == 0 {
		return nil, flags, sqlite3.CANTOPEN
	}
	// VACUUM does not change the page size of a database that is marked as in memory. So the one
	// that is read is not; it is opened read-only and needs no journal. The one that is written is,
	// or it would open a journal.
	if flags&vfs.OPEN_READONLY == 0 {
		flags |= vfs.OPEN_MEMORY
	}
	return m, flags, nil
}

// Delete finds nothing to delete.
func (*images) Delete(string, bool) error { return sqlite3.IOERR_DELETE_NOENT }

// Access returns false: there is no journal.
func (*images) Access(string, vfs.AccessFlag) (bool, error) { return false, nil }

// FullPathname returns the name.
func (*images) FullPathname(name string) (string, error) { return name, nil }
