package sqlitevfs

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	"github.com/ncruces/go-sqlite3"
)

// A Migration is one step of a schema, applied once, in order.
//
// Its statements run in order, and all or none take effect. They may change tables and rows, but
// not begin or end transactions, and not VACUUM. PRAGMA foreign_keys=OFF, which table rebuilds
// need, works and ends with the migration. After that no row may violate a foreign key.
type Migration struct {
	Name string // unique, 1 to MaxMigrationName bytes; shown in errors and in the table cairn_migration
	SQL  string // one or more statements, at most MaxMigrationSQL bytes
}

// Limits of a [Migration], in bytes.
const (
	MaxMigrationName = 128
	MaxMigrationSQL  = 1_000_000
)

// ErrNewer is in the chain of a [MigrationError] if the database has all migrations of the list,
// and more.
var ErrNewer = errors.New("a newer program wrote it")

// ValidateMigrations returns the faults of a list of migrations, joined: of each name and each
// text.
func ValidateMigrations(ms []Migration) error {
	var errs []error
	fault := func(i int, format string, args ...any) {
		errs = append(errs, fmt.Errorf("migration %d (%q): %s", i+1, shorten(ms[i].Name), fmt.Sprintf(format, args...)))
	}
	seen := make(map[string]int, len(ms))
	for i, m := range ms {
		if n := len(m.Name); n == 0 || n > MaxMigrationName {
			fault(i, "the name has %d bytes, want 1 to %d", n, MaxMigrationName)
		}
		if !utf8.ValidString(m.Name) || strings.ContainsRune(m.Name, 0) {
			fault(i, "the name is not UTF-8 without zero bytes")
		}
		if first, ok := seen[m.Name]; ok {
			fault(i, "the name is that of migration %d", first+1)
		} else {
			seen[m.Name] = i
		}
		if n := len(m.SQL); n > MaxMigrationSQL {
			fault(i, "the text has %d bytes, at most %d are allowed", n, MaxMigrationSQL)
		}
		if !utf8.ValidString(m.SQL) || strings.ContainsRune(m.SQL, 0) {
			fault(i, "the text is not UTF-8 without zero bytes")
		}
		if skipSpace(m.SQL) == "" {
			fault(i, "the text has no statement")
		}
	}
	return errors.Join(errs...)
}

// Fingerprint identifies a list of migrations: names and texts, in order. That of an empty list is
// zero.
func Fingerprint(ms []Migration) [16]byte { return fingerprint(rowsOf(ms)) }

// migrationRow is the part of a row of the table cairn_migration that identifies a migration.
type migrationRow struct{ name, checksum string }

func rowsOf(ms []Migration) []migrationRow {
	rows := make([]migrationRow, len(ms))
	for i, m := range ms {
		rows[i] = migrationRow{m.Name, checksum(m.SQL)}
	}
	return rows
}

// checksum is the SHA-256 of the text's bytes in hexadecimal, as sha256sum prints it.
func checksum(text string) string {
	sum := sha256.Sum256([]byte(text))
	return hex.EncodeToString(sum[:])
}

// fingerprint hashes names and checksums instead of texts, so it can be computed from the table
// too.
func fingerprint(rows []migrationRow) (f [16]byte) {
	if len(rows) == 0 {
		return f
	}
	var b []byte
	for _, r := range rows {
		for _, s := range []string{r.name, r.checksum} {
			b = binary.AppendUvarint(b, uint64(len(s)))
			b = append(b, s...)
		}
	}
	sum := sha256.Sum256(b)
	copy(f[:], sum[:])
	return f
}

// Current reports whether exactly ms were applied to a database with metadata m.
func (m Metadata) Current(ms []Migration) bool {
	return int(m.Migrations) == len(ms) && m.Fingerprint == Fingerprint(ms)
}

// Pending returns the names of the migrations of ms that a database with metadata m lacks. The
// error is a *MigrationError if the applied migrations are not the beginning of ms. Unlike
// [Session.Migrate], it cannot say which one differs.
func (m Metadata) Pending(ms []Migration) ([]string, error) {
	n := int(m.Migrations)
	if n > len(ms) {
		return nil, newer("", n-len(ms))
	}
	if m.Fingerprint != Fingerprint(ms[:n]) {
		return nil, &MigrationError{Reason: fmt.Sprintf("the %d migrations that were applied to the database are not the first %d of the list: "+
			"one was changed, renamed or moved since", n, n)}
	}
	var names []string
	for _, m := range ms[n:] {
		names = append(names, m.Name)
	}
	return names, nil
}

// A MigrationError says why a database cannot be brought to a list of migrations.
type MigrationError struct {
	Name      string // of the migration; may be empty
	Statement string // that failed, its beginning; may be empty
	Reason    string // may be empty if Err says it all
	Err       error  // of SQLite, or ErrNewer; may be nil
}

func (e *MigrationError) Error() string {
	var parts []string
	if e.Name != "" {
		parts = append(parts, fmt.Sprintf("migration %q", e.Name))
	}
	if e.Statement != "" {
		parts = append(parts, "at "+e.Statement)
	}
	if e.Reason != "" {
		parts = append(parts, e.Reason)
	}
	if e.Err != nil {
		parts = append(parts, e.Err.Error())
	}
	return strings.Join(parts, ": ")
}

// Unwrap returns the error of SQLite.
func (e *MigrationError) Unwrap() error { return e.Err }

func newer(name string, more int) error {
	what := fmt.Sprintf("the database has %d more migrations than this program knows", more)
	if more == 1 {
		what = "the database has a migration that this program does not know"
	}
	return &MigrationError{Name: name, Reason: what, Err: ErrNewer}
}

// compare returns how many of want are in have, or a *MigrationError if have is not the beginning
// of want.
func compare(have, want []migrationRow) (int, error) {
	for i := range min(len(have), len(want)) {
		h, w := have[i], want[i]
		if h == w {
			continue
		}
		if h.name == w.name {
			return 0, &MigrationError{Name: w.name, Reason: "its text was changed after it was applied"}
		}
		return 0, &MigrationError{Name: w.name,
			Reason: fmt.Sprintf("as number %d the database has %q: what was applied must stay where it was in the list", i+1, h.name)}
	}
	if more := len(have) - len(want); more > 0 {
		return 0, newer(have[len(want)].name, more)
	}
	return len(have), nil
}

const createMigrations = `CREATE TABLE main.cairn_migration (position INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied TEXT NOT NULL) STRICT`

// readMigrations returns the rows of the table cairn_migration, none if there is no such table.
func readMigrations(db *sqlite3.Conn) ([]migrationRow, error) {
	what, err := whatIsMigrations(db)
	if err != nil || what == "" {
		return nil, err
	}
	if what != "table" {
		return nil, &MigrationError{Reason: "the " + what + " cairn_migration is somebody else's"}
	}
	var rows []migrationRow
	err = eachRow(db, `SELECT position, name, checksum FROM main.cairn_migration ORDER BY position`,
		func(s *sqlite3.Stmt) error {
			rows = append(rows, migrationRow{s.ColumnText(1), s.ColumnText(2)})
			if at := s.ColumnInt64(0); at != int64(len(rows)) {
				return &MigrationError{Reason: fmt.Sprintf("the table cairn_migration has the position %d where %d is due: it was changed by others", at, len(rows))}
			}
			return nil
		})
	var e *Error
	if errors.As(err, &e) && e.Code == int(sqlite3.ERROR) {
		return nil, &MigrationError{Reason: "the table cairn_migration is somebody else's", Err: err}
	}
	return rows, err
}

// whatIsMigrations returns the type of the object named cairn_migration: "table", "virtual table",
// "view", or "" if there is none.
func whatIsMigrations(db *sqlite3.Conn) (what string, err error) {
	err = eachRow(db, `SELECT type, rootpage FROM main.sqlite_schema WHERE type IN ('table', 'view') AND name = 'cairn_migration' COLLATE NOCASE`, func(s *sqlite3.Stmt) error {
		if what = s.ColumnText(0); what == "table" && s.ColumnInt(1) == 0 {
			what = "virtual table"
		}
		return nil
	})
	return what, err
}

// appliedMigrations returns the rows of the table cairn_migration. It compares them with the
// session's metadata, because any SQL can make a table of that name by a rename.
func (s *Session) appliedMigrations(c *conn) ([]migrationRow, error) {
	known := c.file.meta
	if s.pending != nil {
		known = *s.pending
	}
	if known.Migrations == 0 {
		what, err := whatIsMigrations(c.db)
		if err == nil && what != "" {
			err = &MigrationError{Reason: "there is a " + what +
				" cairn_migration, which no migration made: rename it or drop it"}
		}
		return nil, err
	}
	rows, err := readMigrations(c.db)
	switch {
	case err != nil:
		return nil, err
	case len(rows) == 0:
		return nil, &MigrationError{Reason: fmt.Sprintf("%d migrations were applied, but the table cairn_migration that says which is gone", known.Migrations)}
	case len(rows) != int(known.Migrations) || fingerprint(rows) != known.Fingerprint:
		return nil, &MigrationError{Reason: "the table cairn_migration does not say what was applied: it was changed by others"}
	}
	return rows, nil
}

func eachRow(db *sqlite3.Conn, query string, f func(*sqlite3.Stmt) error) error {
	stmt, _, err := db.Prepare(query)
	if err != nil {
		return wrap(err, query)
	}
	defer stmt.Close()
	for stmt.Step() {
		if err := f(stmt); err != nil {
			return err
		}
	}
	return wrap(stmt.Err(), query)
}

// Migrate applies those of ms that the database lacks, and returns their names. The error is a
// *MigrationError if one of them failed, or if the migrations applied before are not the beginning
// of ms; or that of [ValidateMigrations]. After an error the session can only be rolled back, so no
// part of a list is ever committed.
//
// The table cairn_migration of the database records the applied migrations; the first migration
// creates it. The [Metadata] has a summary.
func (s *Session) Migrate(ms []Migration) (applied []string, err error) {
	if err := ValidateMigrations(ms); err != nil {
		return nil, err
	}
	untouched := !s.Used()
	c, err := s.enter(context.Background())
	if err != nil {
		return nil, err
	}
	defer s.leave()
	if !c.write {
		return nil, ErrReadOnly
	}
	defer func() {
		if p := recover(); p != nil {
			err = s.recovered(p)
		}
		if err != nil {
			applied = nil
			s.poison(err)
		}
	}()
	want := rowsOf(ms)
	var have []migrationRow
	// else the database is new, and has no such table
	if m := c.file.meta; !untouched || m.Pages > 0 || m.Migrations > 0 {
		if err := c.internally(func() error {
			have, err = s.appliedMigrations(c)
			return err
		}); err != nil {
			return nil, s.wrap(context.Background(), err, "")
		}
	}
	done, err := compare(have, want)
	if err != nil {
		return nil, err
	}
	for i, m := range ms[done:] {
		if err := s.migrate(c, m, want[done+i], done+i+1); err != nil {
			return nil, err
		}
		applied = append(applied, m.Name)
	}
	s.migrated(uint32(len(ms)), fingerprint(want))
	return applied, nil
}

// migrate applies one migration and records it in the table.
func (s *Session) migrate(c *conn, m Migration, row migrationRow, position int) (err error) {
	internal := func(sql string, args ...string) error {
		return s.wrap(context.Background(), c.internally(func() error { return execute(c.db, sql, args...) }), sql)
	}
	unchecked := false // whether foreign keys were off for a while
	defer func() {
		if unchecked {
			err = errors.Join(err, c.setForeignKeys(true))
		}
	}()
	for rest := skipSpace(m.SQL); rest != ""; rest = skipSpace(rest) {
		fail := func(reason string, err error) error {
			return &MigrationError{Name: m.Name, Statement: shorten(rest), Reason: reason, Err: err}
		}
		word := firstWord(rest)
		if word == "VACUUM" {
			return fail("VACUUM cannot run in a migration, which is in a transaction", ErrRefused)
		}
		st, tail, err := c.statement(rest)
		if err != nil {
			return fail("", s.wrap(context.Background(), err, rest))
		}
		switch st.class {
		case runOrdinary:
			err = s.wrap(context.Background(), c.run(st), rest)
		case runNothing:
		case runForeignKeys:
			off := st.name == "off"
			unchecked = unchecked || off
			err = c.setForeignKeys(!off)
		default:
			err = fail(word+" cannot be in a migration, which is in a transaction", ErrRefused)
		}
		if reset := c.cache.put(st); err == nil {
			err = s.wrap(context.Background(), reset, rest)
		}
		if err != nil {
			var refused *MigrationError
			if !errors.As(err, &refused) {
				err = fail("", err)
			}
			return err
		}
		rest = tail
	}
	if err := checkForeignKeys(c, m.Name, unchecked); err != nil {
		return err
	}
	if position == 1 {
		if err := internal(createMigrations); err != nil {
			return &MigrationError{Name: m.Name, Reason: "creating the table cairn_migration", Err: err}
		}
		c.auth.migrated = true
	}
	err = internal("INSERT INTO main.cairn_migration VALUES (?, ?, ?, ?)",
		strconv.Itoa(position), row.name, row.checksum, time.Now().UTC().Format("2006-01-02T15:04:05.000Z"))
	if err != nil {
		return &MigrationError{Name: m.Name, Reason: "writing to the table cairn_migration", Err: err}
	}
	return nil
}

// checkForeignKeys names a row that violates a foreign key. SQLite counts the violations that are
// deferred to the end of the transaction, so it looks for the row only if there is one or if
// enforcement was off.
func checkForeignKeys(c *conn, name string, unchecked bool) error {
	deferred, _, err := c.db.Status(sqlite3.DBSTATUS_DEFERRED_FKS, false)
	if err != nil {
		return wrap(err, "")
	}
	if deferred == 0 && !unchecked {
		return nil
	}
	return c.internally(func() error {
		err := eachRow(c.db, "PRAGMA main.foreign_key_check", func(s *sqlite3.Stmt) error {
			return &MigrationError{Name: name, Err: ErrForeignKey,
				Reason: fmt.Sprintf("it leaves row %s of table %s without the row of table %s that it refers to", s.ColumnText(1), s.ColumnText(0), s.ColumnText(2))}
		})
		if err == nil && deferred > 0 && !unchecked {
			// The count is wrong after a table was dropped and rebuilt. SQLite will refuse to
			// commit because of it.
			err = &MigrationError{Name: name, Err: ErrForeignKey,
				Reason: "SQLite will not commit it: a table that others refer to was dropped; use PRAGMA foreign_keys=OFF for that"}
		}
		return err
	})
}

// execute runs one statement without results.
func execute(db *sqlite3.Conn, sql string, args ...string) error {
	stmt, _, err := db.Prepare(sql)
	if err != nil {
		return wrap(err, sql)
	}
	defer stmt.Close()
	for i, a := range args {
		if err := stmt.BindText(i+1, a); err != nil {
			return wrap(err, sql)
		}
	}
	return wrap(stmt.Exec(), sql)
}

// skipSpace returns a text from its first statement on, without white space, semicolons, comments
// and byte order marks before it.
func skipSpace(s string) string {
	for {
		before := len(s)
		s = strings.TrimLeft(s, " \t\n\f\r;\uFEFF")
		if strings.HasPrefix(s, "--") {
			_, s, _ = strings.Cut(s, "\n")
		} else if strings.HasPrefix(s, "/*") {
			_, s, _ = strings.Cut(s[2:], "*/")
		}
		if len(s) == before {
			return s
		}
	}
}

// firstWord returns the first keyword of a statement, in capitals.
func firstWord(s string) string {
	end := strings.IndexFunc(s, func(r rune) bool { return (r < 'a' || r > 'z') && (r < 'A' || r > 'Z') })
	if end < 0 {
		end = len(s)
	}
	return strings.ToUpper(s[:end])
}

// shorten returns the beginning of a text on one line.
func shorten(s string) string {
	const limit = 80
	if len(s) > 4*limit {
		s = s[:4*limit]
	}
	s = strings.Join(strings.Fields(s), " ")
	if len(s) <= limit {
		return s
	}
	cut := limit
	for cut > 0 && !utf8.RuneStart(s[cut]) {
		cut--
	}
	return s[:cut] + "..."
}
