package sqlitevfs

import (
	"crypto/sha256"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
)

func migrationsOf(texts ...string) []Migration {
	var ms []Migration
	for i, text := range texts {
		ms = append(ms, Migration{Name: fmt.Sprintf("%04d", i+1), SQL: text})
	}
	return ms
}

// migrate applies migrations in their own turn.
func (r *rig) migrate(ms []Migration) ([]string, error) {
	x := r.write()
	defer x.Rollback()
	applied, err := x.Migrate(ms)
	if err == nil {
		err = x.commit()
	}
	return applied, err
}

// wantMigrationError fails unless err is a *MigrationError with a text, or with any.
func wantMigrationError(t *testing.T, err error, says string, where ...any) {
	t.Helper()
	_, ok := errors.AsType[*MigrationError](err)
	errorIf(t, !ok || says != "" && err.Error() != says, "%v\n got %v\nwant %s", where, err, says)
}

func TestMigrateAppliesWhatIsMissingInOrderAndOnce(t *testing.T) {
	r := newRig(t, Options{})
	ms := migrationsOf(
		`CREATE TABLE a (x); INSERT INTO a VALUES (1)`,
		"-- adds a row\nINSERT INTO a SELECT max(x) + 1 FROM a; /* and */ ; INSERT INTO a SELECT max(x) + 1 FROM a;",
		`CREATE VIRTUAL TABLE f USING fts5 (t); INSERT INTO f VALUES ('found'); SELECT count(*) FROM a`,
	)
	for n := range len(ms) + 1 {
		applied, err := r.again(Options{}).migrate(ms[:n])
		errorIf(t, err != nil || len(applied) != min(n, 1), "%d: applied %v, %v", n, applied, err)
		m := r.meta()
		errorIf(t, !m.Current(ms[:n]) || n < len(ms) && m.Current(ms[:n+1]) || int(m.Migrations) != n, "after %d: %+v", n, m)
	}
	before := r.meta()
	applied, err := r.migrate(ms)
	errorIf(t, err != nil || len(applied) > 0 || r.meta() != before, "again: %v, %v", applied, err)
	r.sound(`SELECT group_concat(x) FROM a`, "1,2,3", `SELECT t FROM f WHERE f MATCH 'found'`, "found",
		`SELECT position || ' ' || name FROM cairn_migration WHERE applied LIKE '20__-__-__T%Z' AND length(checksum) = 64`, "1 0001,2 0002,3 0003")
	x := r.read()
	wantErr(t, errOf(x.Migrate(ms)), ErrReadOnly)
}

func TestMigrateRefusesAnotherHistory(t *testing.T) {
	r := newRig(t, Options{})
	ms := migrationsOf(`CREATE TABLE a (x)`, `CREATE TABLE b (x)`, `CREATE TABLE c (x)`, `CREATE TABLE d (x)`)
	must(t, errOf(r.migrate(ms[:3])))
	before := fmt.Sprint(r.store.keys)
	for _, test := range []struct {
		name  string
		ms    []Migration
		says  string
		newer bool
	}{
		{"changed text", slices.Concat(ms[:1], []Migration{{Name: "0002", SQL: `CREATE TABLE b (x, y)`}}, ms[2:]),
			`migration "0002": its text was changed after it was applied`, false},
		{"renamed", slices.Concat(ms[:1], []Migration{{Name: "b", SQL: ms[1].SQL}}, ms[2:]),
			`migration "b": as number 2 the database has "0002": what was applied must stay where it was in the list`, false},
		{"one in between", slices.Concat(ms[:1], ms[3:], ms[1:3]),
			`migration "0004": as number 2 the database has "0002": what was applied must stay where it was in the list`, false},
		{"one more", ms[:2],
			`migration "0003": the database has a migration that this program does not know: a newer program wrote it`, true},
		{"more", ms[:1], `migration "0002": the database has 2 more migrations than this program knows: a newer program wrote it`, true},
		{"none known", nil, `migration "0001": the database has 3 more migrations than this program knows: a newer program wrote it`, true},
	} {
		err, pending := errOf(r.migrate(test.ms)), errOf(r.meta().Pending(test.ms))
		wantMigrationError(t, err, test.says, test.name)
		wantMigrationError(t, pending, "", test.name)
		errorIf(t, errors.Is(err, ErrNewer) != test.newer ||
			errors.Is(pending, ErrNewer) != test.newer, "%s: %v, %v", test.name, err, pending)
	}
	errorIf(t, fmt.Sprint(r.store.keys) != before, "the refused lists changed the database")
	pending, err := r.meta().Pending(ms)
	errorIf(t, err != nil || !slices.Equal(pending, []string{"0004"}), "pending %v, %v", pending, err)
}

func TestFailedMigrationNamesItsStatementAndChangesNothing(t *testing.T) {
	const inside = " cannot be in a migration, which is in a transaction: not allowed here"
	const orphan = "it leaves row 1 of table child without the row of table a that it refers to: foreign key constraint failed"
	first := Migration{Name: "0001",
		SQL: `CREATE TABLE a (x INTEGER PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE child (x REFERENCES a)`}
	r := newRig(t, Options{})
	must(t, errOf(r.migrate([]Migration{first})))
	before := fmt.Sprint(r.store.keys)
	for _, test := range []struct{ text, says string }{
		{`CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)`, `at INSERT INTO nowhere VALUES (1): no such table: nowhere`},
		{`INSERT INTO a VALUES (1)`, `at INSERT INTO a VALUES (1): UNIQUE constraint failed: a.x`},
		{"CREATE TABLE c (x);\n-- why\n  SELEKT  1;", `at SELEKT 1;: near "SELEKT": syntax error`},
		{`CREATE TABLE c (x); VACUUM`, `at VACUUM: VACUUM cannot run in a migration, which is in a transaction: not allowed here`},
		{`BEGIN; CREATE TABLE c (x); COMMIT`, `at BEGIN; CREATE TABLE c (x); COMMIT: BEGIN` + inside},
		{`CREATE TABLE c (x); end`, `at end: END` + inside},
		{`SAVEPOINT s`, `at SAVEPOINT s: SAVEPOINT` + inside},
		{`ROLLBACK TRANSACTION`, `at ROLLBACK TRANSACTION: ROLLBACK` + inside},
		{`INSERT INTO child VALUES (7)`, `at INSERT INTO child VALUES (7): FOREIGN KEY constraint failed`},
		{`PRAGMA defer_foreign_keys = on; INSERT INTO child VALUES (7)`, orphan},
		{`PRAGMA foreign_keys=OFF; DROP TABLE a; CREATE TABLE a (x INTEGER PRIMARY KEY); INSERT INTO child VALUES (9); PRAGMA foreign_keys=ON`, orphan},
		{`SELECT '` + strings.Repeat("é", 100) + `' FROM nowhere`, `at SELECT '` + strings.Repeat("é", 36) + `...: no such table: nowhere`},
		{`ATTACH 'file:/etc/passwd' AS x`,
			`at ATTACH 'file:/etc/passwd' AS x: not allowed here: ATTACH: a turn writes its own database only`},
		{`DROP TABLE cairn_migration`,
			`at DROP TABLE cairn_migration: not allowed here: changes of the table cairn_migration: it says which migrations were applied`},
		{`CREATE TABLE foo (x); ALTER TABLE foo RENAME TO cairn_migration`,
			`at ALTER TABLE foo RENAME TO cairn_migration: there is already another table or index with this name: cairn_migration`},
	} {
		x := r.write()
		applied, err := x.Migrate([]Migration{first, {Name: "0002", SQL: test.text}})
		wantMigrationError(t, err, `migration "0002": `+test.says, test.text)
		changed, err := x.Session.Commit()
		errorIf(t, err == nil || changed || applied != nil ||
			fmt.Sprint(x.w.keys) != before, "%s: applied %v, changed %v, commit: %v", test.text, applied, changed, err)
	}
	wantError(t, errOf(r.migrate([]Migration{{}})), nil, "the name has 0 bytes")
	applied, err := r.migrate([]Migration{first, {Name: "0002", SQL: "SELECT 1"}})
	errorIf(t, err != nil || len(applied) != 1, "afterwards: %v, %v", applied, err)
}

// A table that others refer to is rebuilt in the twelve steps of
// https://sqlite.org/lang_altertable.html, which ORMs write too.
func TestMigrationRebuildsATableThatOthersReferTo(t *testing.T) {
	r := newRig(t, Options{})
	ms := migrationsOf(
		`CREATE TABLE parent (id INTEGER PRIMARY KEY, x); CREATE TABLE child (id INTEGER PRIMARY KEY, p NOT NULL REFERENCES parent ON DELETE CASCADE);
			INSERT INTO parent VALUES (1, 'one'), (2, 'two'); INSERT INTO child VALUES (10, 1), (20, 2)`,
		`PRAGMA foreign_keys=OFF;
			CREATE TABLE new_parent (id INTEGER PRIMARY KEY, x TEXT NOT NULL);
			INSERT INTO new_parent SELECT id, x FROM parent;
			DROP TABLE parent;
			ALTER TABLE new_parent RENAME TO parent;
			PRAGMA foreign_key_check;
			PRAGMA foreign_keys=ON;`,
		// And afterwards the keys hold, even if a migration does not switch them on again.
		`PRAGMA foreign_keys(0); DROP TABLE parent; CREATE TABLE parent (id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1), (2)`,
		`INSERT INTO child VALUES (30, 3)`,
	)
	must(t, errOf(r.migrate(ms[:2])))
	r.sound(`SELECT x FROM child JOIN parent ON p = parent.id`, "one,two")
	wantError(t, errOf(r.migrate(ms)), ErrForeignKey, `migration "0004"`)
}

// SQLite does not ask whether a table may be renamed to the name of the table of migrations.
func TestMigrateTakesNoTableForItsOwnThatItDidNotMake(t *testing.T) {
	ms := migrationsOf(`CREATE TABLE a (x)`, `CREATE TABLE b (x)`)
	for kind, r := range map[string]*rig{
		"a table": newRig(t, Options{},
			`CREATE TABLE foo (position INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied TEXT NOT NULL)`,
			fmt.Sprintf(`INSERT INTO foo VALUES (1, '0001', '%x', '')`,
				sha256.Sum256([]byte(ms[0].SQL))), `ALTER TABLE foo RENAME TO Cairn_Migration`),
		"a virtual table": newRig(t, Options{}, `CREATE VIRTUAL TABLE foo USING fts5 (position, name, checksum)`,
			`ALTER TABLE foo RENAME TO cairn_migration`),
	} {
		wantMigrationError(t, errOf(r.migrate(ms)), "there is "+kind+" cairn_migration, which no migration made: rename it or drop it")
		r.exec(`ALTER TABLE cairn_migration RENAME TO bar; DROP TABLE bar`) // the owner can repair that
		applied, err := r.migrate(ms)
		errorIf(t, err != nil || len(applied) != 2, "afterwards: applied %v, %v", applied, err)
	}
}

func TestTableOfMigrationsIsForReading(t *testing.T) {
	r := newRig(t, Options{})
	ms := migrationsOf("CREATE TABLE t (a)")
	x := r.write()
	refuses := func(db handle) {
		for _, text := range []string{
			"INSERT INTO cairn_migration VALUES (2, 'x', 'y', 'z')",
			"UPDATE main.Cairn_Migration SET name = 'x'",
			"DELETE FROM cairn_migration",
			"DROP TABLE cairn_migration",
			"ALTER TABLE cairn_migration RENAME TO gone",
			"ALTER TABLE cairn_migration ADD COLUMN x",
			"CREATE INDEX i ON cairn_migration (name)",
			"CREATE TRIGGER x AFTER INSERT ON cairn_migration BEGIN SELECT 1; END",
			"CREATE TRIGGER x AFTER INSERT ON t BEGIN DELETE FROM cairn_migration; END; INSERT INTO t VALUES (1)",
			"CREATE TEMP TABLE cairn_migration (a)",
			"CREATE TEMP VIEW cairn_migration AS SELECT 1",
			"WITH x AS (SELECT 1) INSERT INTO cairn_migration SELECT 2, 'x', 'y', 'z'",
			"REPLACE INTO cairn_migration VALUES (1, 'x', 'y', 'z')",
		} {
			db.fails(ErrRefused, "", text)
			db.run("DROP TRIGGER IF EXISTS x")
		}
		db.want("SELECT position, name FROM cairn_migration", "1|0001")
	}
	must(t, errOf(x.Migrate(ms)))
	refuses(x.handle)
	applied, err := x.Migrate(ms)
	errorIf(t, err != nil || applied != nil, "again: applied %v, %v", applied, err)
	must(t, x.commit())
	r.turn(refuses)
}

func TestMigrateAfterTheTableWasLostSaysSo(t *testing.T) {
	ms := migrationsOf(`CREATE TABLE a (x)`)
	r, other := newRig(t, Options{}), newRig(t, Options{}, `CREATE TABLE a (x); CREATE TABLE b (x)`)
	must(t, errOf(r.migrate(ms)))
	other.store.keys["\x09\x00\x00"] = r.store.keys["\x09\x00\x00"] // a database without migrations, under the metadata of one with
	same(t, int(r.meta().Pages), len(other.store.keys)-1)
	wantError(t, errOf(other.again(Options{}).migrate(ms)), nil, "is gone")
}

func TestValidateMigrationsReportsEveryFault(t *testing.T) {
	long := strings.Repeat("n", MaxMigrationName)
	ok := []Migration{{Name: long, SQL: "SELECT 1"}, {Name: "b", SQL: "SELECT " + strings.Repeat(" ", MaxMigrationSQL-8) + "1"}}
	check(t, ValidateMigrations(ok))
	err := ValidateMigrations([]Migration{
		{Name: "", SQL: "SELECT 1"},
		{Name: long + "n", SQL: "SELECT 1"},
		{Name: "a", SQL: " ;; -- nothing\n /* at all"},
		{Name: "a", SQL: "SELECT 1"},
		{Name: "b", SQL: strings.Repeat(" ", MaxMigrationSQL) + "1"},
		{Name: "c\x00", SQL: "SELECT 1\x00"},
		{Name: "d\xff", SQL: "SELECT '\xff'"},
	})
	want := []string{
		`migration 1 (""): the name has 0 bytes, want 1 to 128`,
		`migration 2 ("` + long[:80] + `..."): the name has 129 bytes, want 1 to 128`,
		`migration 3 ("a"): the text has no statement`,
		`migration 4 ("a"): the name is that of migration 3`,
		`migration 5 ("b"): the text has 1000001 bytes, at most 1000000 are allowed`,
		`migration 6 ("c\x00"): the name is not UTF-8 without zero bytes`,
		`migration 6 ("c\x00"): the text is not UTF-8 without zero bytes`,
		`migration 7 ("d\xff"): the name is not UTF-8 without zero bytes`,
		`migration 7 ("d\xff"): the text is not UTF-8 without zero bytes`,
	}
	errorIf(t, err == nil || err.Error() != strings.Join(want, "\n"),
		"got\n%v\nwant\n%s", err, strings.Join(want, "\n"))
}

func TestFingerprintTellsNamesTextsAndOrder(t *testing.T) {
	a, b := Migration{Name: "a", SQL: "x"}, Migration{Name: "b", SQL: "y"}
	seen := map[[16]byte]bool{}
	for i, l := range [][]Migration{nil, {a}, {b}, {a, b}, {b, a}, {{Name: "ax", SQL: ""}}, {{Name: "", SQL: "ax"}},
		{{Name: "ab", SQL: "xy"}}} {
		f := Fingerprint(l)
		errorIf(t, seen[f], "list %d has the fingerprint of another", i)
		seen[f] = true
	}
	errorIf(t, Fingerprint(nil) != [16]byte{}, "that of no migrations is not zero")
	// It is on disk: it never changes.
	same(t, fmt.Sprintf("%x", Fingerprint([]Migration{a, b})), "3931fa9e582542d2cbcbe35a56f33915")
}

func TestScratchIsBounded(t *testing.T) {
	const limit = 4 << 10
	w := Scratch(keys{"b": []byte("1")}, limit)
	must(t, w.DeleteRange([]byte("a"), []byte("z")))
	for range limit/(1<<10) - 1 {
		must(t, w.Put(fmt.Append(nil, "big ", w.Room()), make([]byte, 1<<10), -1))
	}
	room := w.Room()
	wantErr(t, w.Put([]byte("too big"), make([]byte, 1<<10), -1), ErrFull)
	same(t, w.Room(), room)
	must(t, w.DeleteRange([]byte("big"), []byte("bih")))
	errorIf(t, w.Room() < limit-100, "room %d after all was deleted", w.Room())
}
