package host

import (
	"context"
	"encoding/json"
	"io"
)

// A Migration is one step of the schema of an actor type's SQLite databases. Each actor applies it
// once, in order, when it wakes; it must not change afterwards.
type Migration struct {
	// Name is unique within the type, 1 to 128 bytes.
	Name string
	// SQL is one or more statements.
	SQL string
}

// SQLInput is one or more SQL statements with arguments.
type SQLInput struct {
	SQL string `json:"sql"`
	// Args are for the parameters ?1, ?2 and so on: strings, numbers, booleans, null, or {"base64":
	// "..."} for bytes. Each statement takes as many of the remaining arguments as it has
	// parameters.
	Args []any `json:"args,omitempty" max:"32766"`
	// Limit bounds the rows of the answer: 1 to 10,000; absent means 1,000. The answer is bounded
	// by 8 MiB too.
	Limit int `json:"limit,omitempty" range:"1,10000"`
	// Reason says why the statement is run, in up to 1,024 bytes. sql.exec logs it, as an
	// operator's or, for a type with OpenSQL, as a caller's, and requires it from operators.
	// Operators may run it during a pause, unless the type has OpenSQL.
	Reason string `json:"reason,omitempty"`
}

// SQLOutput is the result of the last statement. Earlier statements run to their end.
type SQLOutput struct {
	Columns []SQLColumn `json:"columns"`
	// Rows hold strings, numbers, null, and {"base64": "..."} for bytes. Integers are exact, in
	// JSON too.
	Rows [][]any `json:"rows"`
	// Truncated is set if there are more rows.
	Truncated bool `json:"truncated,omitempty"`
	// Changes counts the rows that the statements inserted, updated and deleted; LastInsertID is
	// the last rowid inserted.
	Changes      int64 `json:"changes"`
	LastInsertID int64 `json:"last_insert_id,omitempty"`
}

// SQLColumn describes a column of an answer.
type SQLColumn struct {
	Name string `json:"name"`
	// Type is the declared type, "" for an expression.
	Type string `json:"type,omitempty"`
}

// SQLMigrateInput applies the type's migrations.
type SQLMigrateInput struct {
	// DryRun tries them on a copy, and changes nothing.
	DryRun bool `json:"dry_run,omitempty"`
}

// SQLMigrateOutput lists the migrations that were applied, or would be.
type SQLMigrateOutput struct {
	Applied []string `json:"applied"`
	// Error is why a dry run failed, and Migration the failed one; "" if it succeeded.
	Error     string `json:"error,omitempty"`
	Migration string `json:"migration,omitempty"`
}

// SQLStatusOutput describes an actor's database.
type SQLStatusOutput struct {
	// Exists is set if the actor has one. The first statement that changes something creates it.
	Exists bool  `json:"exists"`
	Bytes  int64 `json:"bytes"` // of its pages
	// Sequence counts the commits that changed it.
	Sequence uint64 `json:"sequence"`
	// Migrations counts the applied migrations, and Pending names missing ones of the type.
	Migrations int      `json:"migrations"`
	Pending    []string `json:"pending,omitempty"`
}

// Databases exports and imports whole databases. A local node implements it.
type Databases interface {
	// ExportSQL writes an actor's database as a plain SQLite file, as of one commit, without waking
	// the actor. The error code is NotFound if the actor or its database does not exist.
	ExportSQL(ctx context.Context, a Address, w io.Writer) error
	// ImportSQL replaces an actor's database by a plain SQLite file, in one commit. It creates the
	// actor if need be. The reason is logged. The error code is InvalidArgument for a file that is
	// not a sound database, TooLarge or QuotaExceeded for a file that does not fit.
	ImportSQL(ctx context.Context, a Address, file io.Reader, reason string) (SQLStatusOutput, error)
	// QueryMany runs a statement on the databases of many actors, without waking them.
	QueryMany(ctx context.Context, in *QueryManyInput) (QueryManyOutput, error)
}

// QueryManyInput is one read-only statement over the databases of many actors of a type.
type QueryManyInput struct {
	Type string `json:"type"`
	// Prefix, Where and Sort select the actors, and order them, as in a ListQuery.
	Prefix []string `json:"prefix,omitempty"`
	Where  []string `json:"where,omitempty"`
	Sort   string   `json:"sort,omitempty"`
	SQL    string   `json:"sql"`
	// Args are for the parameters, as in an SQLInput.
	Args []json.RawMessage `json:"args,omitempty" max:"32766"`
	// Limit bounds the rows of the answer: 1 to 10,000; absent means 1,000. The answer is bounded
	// by 8 MiB, 10,000 actors and 10 seconds, too.
	Limit int `json:"limit,omitempty" range:"1,10000"`
	// Cursor continues after an earlier answer to the same query.
	Cursor string `json:"cursor,omitempty"`
}

// QueryManyOutput has the rows of the actors. The rows of one actor are of one commit, and rows of
// different actors may be of different times.
type QueryManyOutput struct {
	// Columns are the columns of the first actor with rows.
	Columns []SQLColumn `json:"columns"`
	Actors  []ActorRows `json:"actors"`
	// Read counts the actors whose databases were read. Others have none.
	Read int `json:"read"`
	// Cursor is "" if no selected actor is left.
	Cursor string `json:"cursor,omitempty"`
}

// ActorRows are the rows of one actor.
type ActorRows struct {
	Key []string `json:"key"`
	// Columns are set if they differ from the columns of the output.
	Columns []SQLColumn `json:"columns,omitempty"`
	Rows    [][]any     `json:"rows"`
	// Truncated is set if the actor has more rows than the answer has room for.
	Truncated bool `json:"truncated,omitempty"`
	// Error says why the actor has no rows, such as a missing table or a statement that ran for 2
	// seconds.
	Error *Error `json:"error,omitempty"`
}
