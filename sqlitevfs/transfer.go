package sqlitevfs

import (
	"context"
	"io"
)

// Export writes a database as a plain SQLite file, of which stock SQLite's integrity_check says ok, and returns its
// length. It reads keys only and needs no connection. Of a database that does not exist it writes an empty one.
func Export(ctx context.Context, w io.Writer, r Reader) (int64, error) { panic("seam") }

// Import replaces a database by a plain SQLite file. It is checked first, converted if its pages are not of [PageSize] bytes
// or if it is in WAL mode, and bounded by maxBytes. The error is an *ImportError, which says what is wrong with the file, or [ErrFull].
func (d *Database) Import(ctx context.Context, w Writer, file io.Reader, maxBytes int64) (Metadata, error) {
	panic("seam")
}

// An ImportError says why a file cannot be imported.
type ImportError struct{ Reason string }

func (e *ImportError) Error() string { return "the file cannot be imported: " + e.Reason }
