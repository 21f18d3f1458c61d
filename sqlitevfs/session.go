package sqlitevfs

import (
	"context"
	"database/sql"
)

// A Database is one database in one keyspace, as long as its owner, an awake actor, is the only one to change it.
// Its methods may be called from any goroutine.
type Database struct{}

// Write begins the write session. It opens nothing: the first statement does. There is one at a time; the statements of a
// second fail with [ErrBusy]. ctx is asked for its Err while statements run, and never for Done; when it has ended they fail
// with an error that wraps [ErrInterrupted] and its cause. w is used only by the goroutine that runs a statement, or Commit.
func (d *Database) Write(ctx context.Context, w Writer) *Session { panic("seam") }

// Read begins a read session on what r shows.
func (d *Database) Read(ctx context.Context, r Reader) *Session { panic("seam") }

// Discard says that something which a Commit of this database handed to a Writer, or that an Import put there, was dropped by
// the writer's owner, or that the keys were changed by others: what connections remember is forgotten. There must be no write session.
func (d *Database) Discard() { panic("seam") }

// Close closes the connections of the database, those in use when their session ends. Sessions begun later fail with [ErrClosed].
func (d *Database) Close() { panic("seam") }

// A Session is a transaction on a database.
type Session struct{}

// DB returns the session's handle. Its connections are cheap and share the session's transaction and see each other's
// changes, so rows may be read while other statements run. BeginTx, and BEGIN in SQL, set savepoints, which end in
// reverse order. After the session everything about it fails with [ErrClosed].
func (s *Session) DB() *sql.DB { panic("seam") }

// Used reports whether a statement was run.
func (s *Session) Used() bool { panic("seam") }

// Commit ends a write session and puts the pages that it changed into its Writer; changed is false if there are none. If it
// fails nothing was put there, as far as the writer allows, and the session is rolled back: [ErrFull] if there is no room,
// [ErrOpenTransaction] if a transaction that was begun in the session was neither committed nor rolled back, [ErrConstraint]
// for a deferred foreign key.
func (s *Session) Commit() (changed bool, err error) { panic("seam") }

// Rollback ends a session without changes. It does nothing after Commit. If it returns true, pages had been put into the
// Writer already, as VACUUM does, and the owner of the writer has to drop them; Discard was done.
func (s *Session) Rollback() (published bool) { panic("seam") }
