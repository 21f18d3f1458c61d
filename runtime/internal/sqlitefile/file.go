// Package sqlitefile reads and writes SQLite database files outside of any actor. The pages are in
// a temporary file, so a large database takes little memory after it is loaded.
package sqlitefile

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"log/slog"
	"os"

	"github.com/cairn-run/cairn/sqlitevfs"
)

// MaxBytes bounds a database. Load has it in memory as a whole while it is checked.
const MaxBytes = 1 << 30

// A File is a database in a temporary file. It is used by one goroutine at a time.
type File struct {
	pool     *sqlitevfs.Pool
	database *sqlitevfs.Database
	pages    *pages
}

// New makes an empty database. The caller must close it.
func New() (*File, error) {
	temporary, err := os.CreateTemp("", "cairn-sqlite-*")
	if err != nil {
		return nil, err
	}
	f := &File{pages: &pages{file: temporary}}
	f.pool, err = sqlitevfs.NewPool(sqlitevfs.Options{
		MaxOpen: 2, TurnBytes: MaxBytes, MaxTemporary: 2 * MaxBytes, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		return nil, errors.Join(err, f.pages.close())
	}
	f.database = f.pool.Database("file")
	return f, nil
}

// Load replaces the database by that of a file, which is checked first. A log of the file,
// FILE-wal, is not read.
func (f *File) Load(ctx context.Context, file io.Reader) error {
	_, err := f.database.Import(ctx, f.pages, file, MaxBytes)
	return err
}

// View runs do, which can only read.
func (f *File) View(ctx context.Context, do func(*sql.DB) error) error {
	s := f.database.Read(ctx, f.pages)
	defer s.Rollback()
	return do(s.DB())
}

// Update runs do in one transaction. After an error the database must not be used.
func (f *File) Update(ctx context.Context, do func(*sql.DB) error) error {
	s := f.database.Write(ctx, f.pages)
	defer s.Rollback() // nothing after Commit
	if err := do(s.DB()); err != nil {
		return err
	}
	_, err := s.Commit()
	return err
}

// WriteFile writes the database as a plain file.
func (f *File) WriteFile(ctx context.Context, w io.Writer) error {
	_, err := sqlitevfs.Export(ctx, w, f.pages)
	return err
}

// Close removes the temporary file.
func (f *File) Close() error {
	f.database.Close()
	return errors.Join(f.pool.Close(), f.pages.close())
}
