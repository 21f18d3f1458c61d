package sqlitevfs

import "errors"

// What errors of this package are, for errors.Is.
var (
	ErrFull            = errors.New("database or disk is full")      // quota, TurnBytes, Temporary
	ErrMemory          = errors.New("out of memory")                 // ConnMemory
	ErrBusy            = errors.New("too many databases are in use") // MaxOpen; or a second write session
	ErrInterrupted     = errors.New("interrupted")                   // wraps the cause of the context too
	ErrReadOnly        = errors.New("read-only")                     // a write in a read session
	ErrClosed          = errors.New("the session is over")           // or the database, or the pool
	ErrOpenTransaction = errors.New("a transaction was left open")   // at Commit
	ErrRefused         = errors.New("not allowed here")              // ATTACH, VACUUM INTO, pragmas, host files
	ErrConstraint      = errors.New("constraint failed")             // all SQLITE_CONSTRAINT codes
	ErrUnique          = errors.New("unique constraint failed")      // SQLITE_CONSTRAINT_UNIQUE, _PRIMARYKEY, _ROWID
	ErrForeignKey      = errors.New("foreign key constraint failed") // SQLITE_CONSTRAINT_FOREIGNKEY
	ErrCorrupt         = errors.New("the database is corrupt")       // SQLITE_CORRUPT, SQLITE_NOTADB, a missing page
)

// An Error is an error of SQLite. It is one of the variables above for errors.Is.
type Error struct {
	Code    int    // SQLite's extended result code, https://sqlite.org/rescode.html
	Message string // SQLite's own, as in "UNIQUE constraint failed: note.id"
	SQL     string // from where the error is, at most 200 bytes; may be empty
	Err     error  // the cause: of a Reader or Writer, of a context; may be nil
}
