package sqlitevfs

import (
	"errors"
	"strings"

	"github.com/ncruces/go-sqlite3"
)

// An authorizer decides which actions of SQL are allowed, and records what the driver must do
// itself. SQLite calls it while it compiles a statement: for a new text, and again for a kept
// statement after the schema has changed.
//
//  1. No statement reaches a file of the host, or another database: ATTACH and VACUUM INTO are
//     denied, and no function reads or writes files.
//  2. No statement ends the transaction of the session: BEGIN, COMMIT, ROLLBACK, SAVEPOINT and
//     RELEASE compile to nothing, and the session works with savepoints instead.
//  3. Changes that a statement makes to the connection, outside the database, end with the session:
//     they stain the connection, which is then closed.
//  4. The table of migrations is read-only. A table of that name that Migrate did not make, such as
//     from an import or a rename, is an ordinary table, and Migrate refuses to use it.
//  5. Tables whose names begin with ReservedPrefix are for sessions with Session.AllowReserved.
//     Other statements neither read nor change them, except that integrity_check, ANALYZE and
//     VACUUM work on the whole database. The owner's views and triggers never do.
//
// The rules of each pragma are in pragmas.
type authorizer struct {
	c        *conn
	maxCache int64 // the largest page cache that a statement may set, in bytes; 0 means half of DefaultConnMemory

	internal  bool // the statements are the session's own: all is allowed
	vacuuming bool // VACUUM runs, which attaches a nameless temporary file
	reserved  bool // the session may use reserved tables
	checking  bool // the running statement is PRAGMA integrity_check or quick_check, which reads virtual tables
	watching  bool // a text of the user is being compiled
	migrated  bool // the table of migrations was made on this connection
	saw       sight
	refusal   string // of the last statement that was denied
	rules     map[string]pragmaRule
}

// A sight is the authorizer's record of a statement.
type sight struct {
	class   class
	name    string // of the savepoint; "on" or "off" of the foreign keys
	alters  bool   // it is ALTER TABLE
	checks  bool   // it is PRAGMA integrity_check or quick_check
	pragma  bool   // it must be compiled anew each time: some pragmas work while they are compiled
	instead string // runs in its place
}

// migrationTable is the table in which Migrate records the applied migrations.
const migrationTable = "cairn_migration"

// isDecimal reports whether a function belongs to the exact decimals. Their time grows with the
// square of the length of a number, and even more with an exponent.
func isDecimal(function string) bool {
	return function == "decimal" || strings.HasPrefix(function, "decimal_")
}

// watch begins a record, and unwatch returns it.
func (a *authorizer) watch() {
	a.watching, a.saw = !a.internal && !a.vacuuming, sight{}
}

func (a *authorizer) unwatch() sight {
	a.watching = false
	return a.saw
}

func (a *authorizer) deny(what, why string) sqlite3.AuthorizerReturnCode {
	a.refusal = refusalText(what, why)
	return sqlite3.AUTH_DENY
}

// takeOver makes the session run the statement itself.
func (a *authorizer) takeOver(k class, name string) sqlite3.AuthorizerReturnCode {
	if a.watching {
		a.saw.class, a.saw.name = k, name
	}
	return sqlite3.AUTH_IGNORE
}

// decide is called by SQLite. See its list of action codes for the meaning of the names.
func (a *authorizer) decide(action sqlite3.AuthorizerActionCode, third, fourth, _,
	inside string) sqlite3.AuthorizerReturnCode {
	if a.internal {
		return sqlite3.AUTH_OK
	}
	if a.vacuuming {
		if action == sqlite3.AUTH_ATTACH && third != "" {
			return a.deny("VACUUM INTO", "it writes a file of the host")
		}
		return sqlite3.AUTH_OK
	}
	if (!a.reserved || inside != "") && usesReserved(action, third, fourth) &&
		!(a.checking && action == sqlite3.AUTH_READ) {
		return a.deny("tables whose names begin with "+ReservedPrefix, "the runtime keeps them")
	}
	switch action {
	case sqlite3.AUTH_SELECT, sqlite3.AUTH_READ, sqlite3.AUTH_RECURSIVE, sqlite3.AUTH_REINDEX, sqlite3.AUTH_ANALYZE:
		return sqlite3.AUTH_OK

	case sqlite3.AUTH_PRAGMA:
		return a.pragma(strings.ToLower(third), fourth)
	case sqlite3.AUTH_FUNCTION:
		switch name := strings.ToLower(fourth); name {
		case "load_extension", "fts3_tokenizer", "readfile", "writefile", "edit":
			return a.deny(name+"()", "it reaches outside the database")
		case "vec1_config":
			a.stain("vec1_config()")
		default:
			if isDecimal(name) && !a.c.database.decimal {
				return a.deny(name+"()", "the exact decimals are not enabled for this database")
			}
		}

	case sqlite3.AUTH_ATTACH:
		return a.deny("ATTACH", "a turn writes its own database only")
	case sqlite3.AUTH_DETACH:
		return a.deny("DETACH", "nothing can be attached")

	case sqlite3.AUTH_TRANSACTION:
		switch third {
		case "BEGIN":
			return a.takeOver(runBegin, "")
		case "COMMIT":
			return a.takeOver(runCommit, "")
		}
		return a.takeOver(runRollback, "")
	case sqlite3.AUTH_SAVEPOINT:
		switch third {
		case "BEGIN":
			return a.takeOver(runSavepoint, fourth)
		case "RELEASE":
			return a.takeOver(runRelease, fourth)
		}
		return a.takeOver(runRollbackTo, fourth)

	case sqlite3.AUTH_ALTER_TABLE:
		a.saw.alters = a.watching
	case sqlite3.AUTH_CREATE_TEMP_INDEX, sqlite3.AUTH_CREATE_TEMP_TABLE,
		sqlite3.AUTH_CREATE_TEMP_TRIGGER, sqlite3.AUTH_CREATE_TEMP_VIEW:
		a.stain("a temporary table")
	}
	if makesMigrationTable(action, third) ||
		changesMigrationTable(action, third, fourth) && (a.migrated || a.c.file.meta.Migrations > 0) {
		return a.deny("changes of the table "+migrationTable, "it says which migrations were applied")
	}
	return sqlite3.AUTH_OK
}

// makesMigrationTable reports whether an action makes a table or view with the name of the table of
// migrations. It does not detect a rename: SQLite passes only the old name.
func makesMigrationTable(action sqlite3.AuthorizerActionCode, third string) bool {
	switch action {
	case sqlite3.AUTH_CREATE_TABLE, sqlite3.AUTH_CREATE_TEMP_TABLE, sqlite3.AUTH_CREATE_VIEW,
		sqlite3.AUTH_CREATE_TEMP_VIEW, sqlite3.AUTH_CREATE_VTABLE:
		return strings.EqualFold(third, migrationTable)
	}
	return false
}

// changesMigrationTable reports whether an action changes the table of migrations, or removes it.
func changesMigrationTable(action sqlite3.AuthorizerActionCode, third, fourth string) bool {
	switch action {
	case sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE,
		sqlite3.AUTH_DROP_TABLE, sqlite3.AUTH_DROP_VTABLE, sqlite3.AUTH_DROP_VIEW:
		return strings.EqualFold(third, migrationTable)
	case sqlite3.AUTH_ALTER_TABLE, sqlite3.AUTH_CREATE_INDEX, sqlite3.AUTH_DROP_INDEX,
		sqlite3.AUTH_CREATE_TRIGGER, sqlite3.AUTH_CREATE_TEMP_TRIGGER, sqlite3.AUTH_DROP_TRIGGER:
		return strings.EqualFold(fourth, migrationTable)
	}
	return false
}

// ReservedPrefix begins the names of tables that belong to the runtime and not to the owner of the
// database.
const ReservedPrefix = "cairn_kv_"

// usesReserved reports whether an action reads, makes or changes a reserved table or an index or
// trigger of it, or makes something of such a name. It does not detect a rename to such a name.
func usesReserved(action sqlite3.AuthorizerActionCode, third, fourth string) bool {
	switch action {
	case sqlite3.AUTH_READ, sqlite3.AUTH_INSERT, sqlite3.AUTH_UPDATE, sqlite3.AUTH_DELETE,
		sqlite3.AUTH_CREATE_TABLE, sqlite3.AUTH_CREATE_TEMP_TABLE, sqlite3.AUTH_CREATE_VIEW, sqlite3.AUTH_CREATE_TEMP_VIEW, sqlite3.AUTH_CREATE_VTABLE,
		sqlite3.AUTH_DROP_TABLE, sqlite3.AUTH_DROP_TEMP_TABLE, sqlite3.AUTH_DROP_VIEW, sqlite3.AUTH_DROP_TEMP_VIEW, sqlite3.AUTH_DROP_VTABLE:
		return isReserved(third)
	case sqlite3.AUTH_ALTER_TABLE, sqlite3.AUTH_CREATE_INDEX, sqlite3.AUTH_CREATE_TEMP_INDEX,
		sqlite3.AUTH_DROP_INDEX, sqlite3.AUTH_DROP_TEMP_INDEX,
		sqlite3.AUTH_CREATE_TRIGGER, sqlite3.AUTH_CREATE_TEMP_TRIGGER, sqlite3.AUTH_DROP_TRIGGER, sqlite3.AUTH_DROP_TEMP_TRIGGER:
		return isReserved(fourth) || isReserved(third)
	}
	return false
}

func isReserved(name string) bool {
	return len(name) >= len(ReservedPrefix) && strings.EqualFold(name[:len(ReservedPrefix)], ReservedPrefix)
}

// refuseReserved returns the error for an ALTER TABLE whose text has a reserved name, such as the
// new name of a rename. That name is known only from the text, which contains it with any quoting.
func (a *authorizer) refuseReserved(saw sight, text string) error {
	if !saw.alters || a.reserved || !strings.Contains(strings.ToLower(text), ReservedPrefix) {
		return nil
	}
	return refuse("names that begin with "+ReservedPrefix, "the runtime keeps them")
}

// stain marks the connection to be closed at the end of the session.
func (a *authorizer) stain(why string) {
	if a.c.stained == "" {
		a.c.stained = why
	}
}

// refuse returns an error for which errors.Is finds ErrRefused.
func refuse(what, why string) error {
	return &Error{Code: int(sqlite3.AUTH), Message: refusalText(what, why)}
}

func refusalText(what, why string) string {
	return ErrRefused.Error() + ": " + what + ": " + why
}

// explain replaces SQLite's error for a refused action by one that says why.
func (c *conn) explain(err error) error {
	if err == nil {
		return nil
	}
	var code sqlite3.ErrorCode
	// For a function, SQLite's "not authorized" error may have any code.
	if c.auth.refusal != "" && errors.As(err, &code) &&
		(code == sqlite3.AUTH || strings.Contains(err.Error(), ": not authorized to use function: ")) {
		err = &Error{Code: int(sqlite3.AUTH), Message: c.auth.refusal}
	}
	c.auth.refusal = ""
	if strings.Contains(err.Error(), "no such function: load_extension") {
		return refuse("load_extension()", "it reaches outside the database")
	}
	return err
}
