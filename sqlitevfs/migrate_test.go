package sqlitevfs

import (
	"context"
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

func newPool(t *testing.T) *Pool {
	t.Helper()
	pool, err := NewPool(Options{})
	must(t, err)
	t.Cleanup(func() {
		check(t, pool.Close())
	})
	return pool
}

// migrate opens a database of its own over the keys, migrates and commits.
func migrate(t *testing.T, k keys, ms []Migration) ([]string, error) {
	t.Helper()
	d := newPool(t).Database(t.Name())
	defer d.Close()
	s := d.Write(t.Context(), k)
	defer s.Rollback()
	applied, err := s.Migrate(ms)
	if err != nil {
		return applied, err
	}
	_, err = s.Commit()
	return applied, err
}

func query(t *testing.T, k keys, text string) string {
	t.Helper()
	d := newPool(t).Database(t.Name())
	defer d.Close()
	s := d.Read(t.Context(), k)
	defer s.Rollback()
	var result string
	must(t, s.DB().QueryRow(text).Scan(&result), text)
	return result
}

func metadata(t *testing.T, k keys) Metadata {
	t.Helper()
	m, _, err := ReadMetadata(k)
	must(t, err)
	return m
}

func TestMigrateAppliesWhatIsMissingInOrderAndOnce(t *testing.T) {
	k := keys{}
	ms := migrationsOf(
		`CREATE TABLE a (x); INSERT INTO a VALUES (1)`,
		"-- adds a row\nINSERT INTO a SELECT max(x) + 1 FROM a; /* and */ ; INSERT INTO a SELECT max(x) + 1 FROM a;",
		`CREATE VIRTUAL TABLE f USING fts5 (t); INSERT INTO f VALUES ('found'); SELECT count(*) FROM a`,
	)
	for n := range len(ms) + 1 {
		applied, err := migrate(t, k, ms[:n])
		must(t, err)
		want := n - max(n-1, 0)
		errorIf(t, len(applied) != want, "%d applied %v", n, applied)
		m := metadata(t, k)
		errorIf(t, !m.Current(ms[:n]) || n < len(ms) && m.Current(ms[:n+1]) || int(m.Migrations) != n, "after %d: %+v", n, m)
	}
	before := metadata(t, k)
	applied, err := migrate(t, k, ms)
	errorIf(t, err != nil || len(applied) > 0, "again: %v, %v", applied, err)
	same(t, metadata(t, k), before)
	same(t, query(t, k, `SELECT group_concat(x) FROM a`), "1,2,3")
	same(t, query(t, k, `SELECT group_concat(position || ' ' || name, ', ') FROM cairn_migration WHERE applied LIKE '20__-__-__T%Z' AND length(checksum) = 64`), "1 0001, 2 0002, 3 0003")
	same(t, query(t, k, `SELECT t FROM f WHERE f MATCH 'found'`), "found")
}

func TestMigrateRefusesAnotherHistory(t *testing.T) {
	k := keys{}
	ms := migrationsOf(`CREATE TABLE a (x)`, `CREATE TABLE b (x)`, `CREATE TABLE c (x)`, `CREATE TABLE d (x)`)
	must(t, errOf(migrate(t, k, ms[:3])))
	before := fmt.Sprint(k)
	tests := []struct {
		name  string
		ms    []Migration
		want  string
		newer bool
	}{
		{"changed text", slices.Concat(ms[:1], []Migration{{Name: "0002", SQL: `CREATE TABLE b (x, y)`}}, ms[2:]),
			`migration "0002": its text was changed after it was applied`, false},
		{"renamed", slices.Concat(ms[:1], []Migration{{Name: "b", SQL: ms[1].SQL}}, ms[2:]),
			`migration "b": as number 2 the database has "0002": what was applied must stay where it was in the list`, false},
		{"one in between", slices.Concat(ms[:1], ms[3:], ms[1:3]),
			`migration "0004": as number 2 the database has "0002": what was applied must stay where it was in the list`, false},
		{"one more", ms[:2], `migration "0003": the database has a migration that this program does not know: a newer program wrote it`, true},
		{"more", ms[:1], `migration "0002": the database has 2 more migrations than this program knows: a newer program wrote it`, true},
		{"none known", nil, `migration "0001": the database has 3 more migrations than this program knows: a newer program wrote it`, true},
	}
	for _, test := range tests {
		_, err := migrate(t, k, test.ms)
		var fault *MigrationError
		errorIf(t, !errors.As(err, &fault) || err.Error() != test.want || errors.Is(err, ErrNewer) != test.newer,
			"%s: %v, want %s", test.name, err, test.want)
		_, err = metadata(t, k).Pending(test.ms)
		errorIf(t, !errors.As(err, &fault) || errors.Is(err, ErrNewer) != test.newer, "%s: pending says %v", test.name, err)
	}
	errorIf(t, fmt.Sprint(k) != before, "the refused lists changed the database")
	pending, err := metadata(t, k).Pending(ms)
	errorIf(t, err != nil || !slices.Equal(pending, []string{"0004"}), "pending %v, %v", pending, err)
}

func TestFailedMigrationNamesItsStatementAndChangesNothing(t *testing.T) {
	tests := []struct{ text, want string }{
		{`CREATE TABLE b (x); INSERT INTO nowhere VALUES (1)`, `migration "0002": at INSERT INTO nowhere VALUES (1): no such table: nowhere`},
		{`INSERT INTO a VALUES (1)`, `migration "0002": at INSERT INTO a VALUES (1): UNIQUE constraint failed: a.x`},
		{"CREATE TABLE c (x);\n-- why\n  SELEKT  1;", `migration "0002": at SELEKT 1;: near "SELEKT": syntax error`},
		{`CREATE TABLE c (x); VACUUM`, `migration "0002": at VACUUM: VACUUM cannot run in a migration, which is in a transaction: not allowed here`},
		{`BEGIN; CREATE TABLE c (x); COMMIT`, `migration "0002": at BEGIN; CREATE TABLE c (x); COMMIT: BEGIN cannot be in a migration, which is in a transaction: not allowed here`},
		{`CREATE TABLE c (x); end`, `migration "0002": at end: END cannot be in a migration, which is in a transaction: not allowed here`},
		{`SAVEPOINT s`, `migration "0002": at SAVEPOINT s: SAVEPOINT cannot be in a migration, which is in a transaction: not allowed here`},
		{`ROLLBACK TRANSACTION`, `migration "0002": at ROLLBACK TRANSACTION: ROLLBACK cannot be in a migration, which is in a transaction: not allowed here`},
		{`INSERT INTO child VALUES (7)`, `migration "0002": at INSERT INTO child VALUES (7): FOREIGN KEY constraint failed`},
		{`PRAGMA defer_foreign_keys = on; INSERT INTO child VALUES (7)`,
			`migration "0002": it leaves row 1 of table child without the row of table a that it refers to: foreign key constraint failed`},
		{`PRAGMA foreign_keys=OFF; DROP TABLE a; CREATE TABLE a (x INTEGER PRIMARY KEY); INSERT INTO child VALUES (9); PRAGMA foreign_keys=ON`,
			`migration "0002": it leaves row 1 of table child without the row of table a that it refers to: foreign key constraint failed`},
		{`SELECT '` + strings.Repeat("é", 100) + `' FROM nowhere`, `migration "0002": at SELECT '` + strings.Repeat("é", 36) + `...: no such table: nowhere`},
		{`ATTACH 'file:/etc/passwd' AS x`, ``},
		{`DROP TABLE cairn_migration`, ``},
	}
	for _, test := range tests {
		k := keys{}
		ms := migrationsOf(`CREATE TABLE a (x INTEGER PRIMARY KEY); INSERT INTO a VALUES (1); CREATE TABLE child (x REFERENCES a)`)
		must(t, errOf(migrate(t, k, ms)))
		before := fmt.Sprint(k)
		applied, err := migrate(t, k, append(ms, Migration{Name: "0002", SQL: test.text}))
		var fault *MigrationError
		errorIf(t, !errors.As(err, &fault) || test.want != "" && err.Error() != test.want || applied != nil,
			"%s\n got %v, %v\nwant %s", test.text, applied, err, test.want)
		errorIf(t, fmt.Sprint(k) != before, "%s: it failed and changed the database", test.text)
	}
}

func TestSessionOfAFailedMigrationCannotBeCommitted(t *testing.T) {
	k := keys{}
	d := newPool(t).Database("x")
	defer d.Close()
	s := d.Write(t.Context(), k)
	_, err := s.Migrate(migrationsOf(`CREATE TABLE a (x)`, `nonsense`))
	fatalIf(t, err == nil, "no error")
	changed, err := s.Commit()
	errorIf(t, err == nil || changed || len(k) > 0, "commit: %v, %v; %d keys", changed, err, len(k))
	s.Rollback()
	again := ended(t, d.Write(t.Context(), k))
	applied, err := again.Migrate(migrationsOf(`CREATE TABLE a (x)`))
	errorIf(t, err != nil || len(applied) != 1, "afterwards: %v, %v", applied, err)
}

// A table that others refer to is rebuilt in the twelve steps of https://sqlite.org/lang_altertable.html, which ORMs write too.
func TestMigrationRebuildsATableThatOthersReferTo(t *testing.T) {
	k := keys{}
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
	)
	must(t, errOf(migrate(t, k, ms)))
	same(t, query(t, k, `SELECT group_concat(x) FROM child JOIN parent ON p = parent.id`), "one,two")
	// And afterwards the keys hold, also if a migration does not switch them on again.
	ms = append(ms, Migration{Name: "0003", SQL: `PRAGMA foreign_keys(0); DROP TABLE parent; CREATE TABLE parent (id INTEGER PRIMARY KEY); INSERT INTO parent VALUES (1), (2)`},
		Migration{Name: "0004", SQL: `INSERT INTO child VALUES (30, 3)`})
	_, err := migrate(t, k, ms)
	errorIf(t, !errors.Is(err, ErrForeignKey) || !strings.HasPrefix(err.Error(), `migration "0004"`), "a violation: %v", err)
}

// SQLite does not ask whether a table may be renamed to the name of that of migrations.
func TestMigrateTakesNoTableForItsOwnThatItDidNotMake(t *testing.T) {
	ms := migrationsOf(`CREATE TABLE a (x)`, `CREATE TABLE b (x)`)
	forged := keys{}
	change(t, forged, `CREATE TABLE foo (position INTEGER PRIMARY KEY, name TEXT NOT NULL, checksum TEXT NOT NULL, applied TEXT NOT NULL)`,
		fmt.Sprintf(`INSERT INTO foo VALUES (1, '0001', '%x', '')`, sha256.Sum256([]byte(ms[0].SQL))), `ALTER TABLE foo RENAME TO Cairn_Migration`)
	virtual := keys{}
	change(t, virtual, `CREATE VIRTUAL TABLE foo USING fts5 (position, name, checksum)`, `ALTER TABLE foo RENAME TO cairn_migration`)
	for want, k := range map[string]keys{"a table cairn_migration": forged, "a virtual table cairn_migration": virtual} {
		var fault *MigrationError
		if applied, err := migrate(t, k, ms); !errors.As(err, &fault) || !strings.Contains(err.Error(), want+", which no migration made") {
			t.Errorf("%s: applied %v, %v", want, applied, err)
		}
		// Its owner can put that right.
		change(t, k, `ALTER TABLE cairn_migration RENAME TO bar`, `DROP TABLE bar`)
		applied, err := migrate(t, k, ms)
		errorIf(t, err != nil || len(applied) != 2, "afterwards: applied %v, %v", applied, err)
	}
	// Nor one that a migration brings.
	var fault *MigrationError
	_, err := migrate(t, keys{}, migrationsOf(`CREATE TABLE foo (x); ALTER TABLE foo RENAME TO cairn_migration`))
	errorIf(t, !errors.As(err, &fault) || !strings.Contains(err.Error(), "already exists"), "by a migration: %v", err)
}

func TestTableOfMigrationsIsForReadingInTheTurnThatMakesIt(t *testing.T) {
	d := newPool(t).Database("x")
	defer d.Close()
	s := ended(t, d.Write(t.Context(), keys{}))
	ms := migrationsOf(`CREATE TABLE a (x)`)
	must(t, errOf(s.Migrate(ms)))
	for _, text := range []string{`DELETE FROM cairn_migration`, `DROP TABLE cairn_migration`, `ALTER TABLE cairn_migration RENAME TO x`} {
		wantErr(t, errOf(s.DB().Exec(text)), ErrRefused, text)
	}
	applied, err := s.Migrate(ms)
	errorIf(t, err != nil || applied != nil, "again: applied %v, %v", applied, err)
}

func TestMigrateAfterTheTableWasLostSaysSo(t *testing.T) {
	k := keys{}
	must(t, errOf(migrate(t, k, migrationsOf(`CREATE TABLE a (x)`))))
	other := keys{} // a database without migrations, under the metadata of one with
	must(t, errOf(migrate(t, other, nil)))
	d := newPool(t).Database("x")
	defer d.Close()
	s := ended(t, d.Write(t.Context(), other))
	must(t, errOf(s.DB().Exec(`CREATE TABLE a (x); CREATE TABLE b (x)`)))
	must(t, errOf(s.Commit()))
	other["\x09\x00\x00"] = k["\x09\x00\x00"]
	m, n := metadata(t, k), len(other)-1
	fatalIf(t, int(m.Pages) != n, "the test has %d pages, %d in the metadata", n, m.Pages)
	_, err := migrate(t, other, migrationsOf(`CREATE TABLE a (x)`))
	errorIf(t, err == nil || !strings.Contains(err.Error(), "is gone"), "%v", err)
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
	_, err = migrate(t, keys{}, []Migration{{}})
	errorIf(t, err == nil, "Migrate took a list with faults")
}

func TestFingerprintTellsNamesTextsAndOrder(t *testing.T) {
	a, b := Migration{Name: "a", SQL: "x"}, Migration{Name: "b", SQL: "y"}
	lists := [][]Migration{nil, {a}, {b}, {a, b}, {b, a}, {a, a}, {{Name: "ax", SQL: ""}}, {{Name: "", SQL: "ax"}}, {{Name: "a", SQL: "y"}}, {{Name: "ab", SQL: "xy"}}}
	seen := map[[16]byte]int{}
	for i, l := range lists {
		f := Fingerprint(l)
		j, ok := seen[f]
		errorIf(t, ok, "lists %d and %d have the same fingerprint", i, j)
		seen[f] = i
	}
	errorIf(t, Fingerprint(nil) != [16]byte{}, "that of no migrations is not zero")
	// It is on disk: it never changes.
	same(t, fmt.Sprintf("%x", Fingerprint([]Migration{a, b})), "3931fa9e582542d2cbcbe35a56f33915")
}

func TestScratchShowsItsChangesAndLeavesTheReaderAlone(t *testing.T) {
	under := keys{"b": []byte("1"), "d": []byte("2"), "f": []byte("3")}
	before := fmt.Sprint(under)
	const limit = 4 << 10
	w := Scratch(under, limit)
	model := keys{"b": []byte("1"), "d": []byte("2"), "f": []byte("3")}
	both := []Writer{w, model}
	listing := func(r Reader, start, end string, limit int) (all []string) {
		err := r.Scan([]byte(start), []byte(end), func(k, v []byte) bool {
			all = append(all, string(k)+"="+string(v))
			return len(all) != limit
		})
		fatalIf(t, err != nil, "%v", err)
		return all
	}
	steps := []func(w Writer) error{
		func(w Writer) error { return w.Put([]byte("a"), []byte("10"), -1) },
		func(w Writer) error { return w.Put([]byte("d"), []byte("20"), 1) },
		func(w Writer) error { return w.DeleteRange([]byte("b"), []byte("d")) },
		func(w Writer) error { return w.Put([]byte("c"), []byte("30"), -1) },
		func(w Writer) error { return w.Put([]byte("g"), []byte("40"), -1) },
		func(w Writer) error { return w.DeleteRange([]byte("a"), []byte("e")) },
		func(w Writer) error { return w.Put([]byte("b"), nil, -1) },
		func(w Writer) error { return w.DeleteRange([]byte("f"), []byte("z")) },
	}
	for i, step := range steps {
		for _, w := range both {
			must(t, step(w))
		}
		for _, r := range [][2]string{{"a", "z"}, {"b", "d"}, {"d", "g"}} {
			for _, limit := range []int{-1, 1, 2} {
				got, want := listing(w, r[0], r[1], limit), listing(model, r[0], r[1], limit)
				errorIf(t, !slices.Equal(got, want), "step %d, %v: %v, want %v", i, r, got, want)
			}
		}
		for _, key := range []string{"a", "b", "c", "d", "e", "f", "g"} {
			got, ok, _ := w.Get([]byte("x"), []byte(key))
			want, there, _ := model.Get([]byte("x"), []byte(key))
			errorIf(t, string(got) != string(want) || ok != there,
				"step %d, %s: %q, %v, want %q, %v", i, key, got, ok, want, there)
		}
	}
	errorIf(t, fmt.Sprint(under) != before, "the reader was changed")
	big := make([]byte, 1<<10)
	for range limit/len(big) - 1 {
		must(t, w.Put(fmt.Appendf(nil, "big %d", w.Room()), big, -1))
	}
	room := w.Room()
	err := w.Put([]byte("too big"), big, -1)
	errorIf(t, !errors.Is(err, ErrFull) || w.Room() != room, "beyond the bound: %v", err)
	err = w.DeleteRange([]byte("big"), []byte("bih"))
	errorIf(t, err != nil || w.Room() < limit-100, "room %d after all was deleted, %v", w.Room(), err)
}

func TestMigrateInAReadSessionIsRefused(t *testing.T) {
	k := keys{}
	must(t, errOf(migrate(t, k, migrationsOf(`CREATE TABLE a (x)`))))
	d := newPool(t).Database("x")
	defer d.Close()
	s := ended(t, d.Read(t.Context(), k))
	wantErr(t, errOf(s.Migrate(migrationsOf(`CREATE TABLE a (x)`))), ErrReadOnly)
}

func TestMigrationEndsWithTheContext(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	d := newPool(t).Database("x")
	defer d.Close()
	k := keys{}
	s := ended(t, d.Write(ctx, k))
	must(t, errOf(s.Migrate(migrationsOf(`CREATE TABLE a (x)`))))
	cancel(why)
	_, err := s.Migrate(migrationsOf(`CREATE TABLE a (x)`, `WITH RECURSIVE n (i) AS (VALUES (1) UNION ALL SELECT i + 1 FROM n) SELECT sum(i) FROM n`))
	errorIf(t, !errors.Is(err, ErrInterrupted) || !errors.Is(err, why), "%v", err)
}
