package sqlitevfs

import (
	"context"
	"database/sql"
	"slices"
	"testing"
)

func mustBegin(t testing.TB, db *sql.DB, o *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), o)
	must(t, err)
	return tx
}

func TestAShutSessionRefusesAllButItsEnd(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	begin := func() (*Session, *sql.Tx) {
		s := r.db.Write(context.Background(), r.writer())
		run(t, s.DB(), "INSERT INTO t VALUES (1)")
		return s, mustBegin(t, s.DB(), nil)
	}
	s, tx := begin()
	s.Shut()
	s.Wait()
	wantError(t, errOf(s.DB().Exec("INSERT INTO t VALUES (2)")), ErrClosed, "")
	wantError(t, tx.Rollback(), ErrClosed, "")
	wantError(t, errOf(s.Commit()), ErrOpenTransaction, "")

	s, tx = begin()
	must(t, tx.Commit())
	s.Shut()
	changed, err := s.Commit()
	fatalIf(t, err != nil || !changed, "changed %t, %v", changed, err)
}

func TestReadOnlyTransactionRefusesWrites(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	r.turn(func(db *sql.DB) {
		for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ {
			tx := mustBegin(t, db, &sql.TxOptions{Isolation: level, ReadOnly: true})
			wantText(t, ask(t, tx, "SELECT a FROM t"), "1")
			for _, text := range []string{"INSERT INTO t VALUES (2)", "DROP TABLE t", "DELETE FROM t RETURNING a", "CREATE TEMP TABLE x (a)", "PRAGMA user_version = 3"} {
				wantError(t, errOf(tx.Exec(text)), ErrReadOnly, "read-only transaction")
			}
			must(t, tx.Commit())
		}
	})
}

// A step of a script is a statement and its result: rows, or an error message after an exclamation mark.
type step struct{ text, want string }

func TestStatementThatRollsBackEverythingPoisonsTheSession(t *testing.T) {
	for _, text := range []string{
		"INSERT OR ROLLBACK INTO t VALUES (1, 'x')",
		"UPDATE OR ROLLBACK t SET a = 1",
		"INSERT INTO strict VALUES (1), (1)",
		"INSERT INTO t VALUES (99, 'raise')",
		"INSERT INTO t VALUES (99, 'raise') RETURNING a",
	} {
		r := newRig(t, Options{})
		r.exec(`CREATE TABLE t (a INTEGER PRIMARY KEY, b); CREATE TABLE strict (a UNIQUE ON CONFLICT ROLLBACK);
			CREATE TRIGGER x BEFORE INSERT ON t WHEN new.b = 'raise' BEGIN SELECT RAISE(ROLLBACK, 'by a trigger'); END;
			INSERT INTO t VALUES (1, 'kept')`)
		err := r.try(context.Background(), func(db *sql.DB) error {
			run(t, db, "INSERT INTO t VALUES (2, 'lost')")
			rows, err := db.Query("SELECT a FROM t")
			must(t, err)
			defer rows.Close()
			rows.Next()
			tx := mustBegin(t, db, nil)
			_, first := tx.Exec(text)
			wantError(t, first, ErrConstraint, "")
			wantError(t, errOf(db.Exec("SELECT 1")), ErrConstraint, "cannot go on")
			wantError(t, errOf(db.Begin()), ErrConstraint, "cannot go on")
			for rows.Next() {
				t.Error("rows go on")
			}
			wantError(t, rows.Err(), nil, "")
			tx.Rollback()
			return nil
		})
		fatalIf(t, err == nil, "%s: committed", text)
		r.turn(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a, b FROM t"), "1|kept") })
	}
}

func TestVacuumWorksBetweenTransactions(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 1000)")
	before := len(r.store.keys)
	r.turn(func(db *sql.DB) {
		run(t, db, "DELETE FROM t WHERE rowid % 10 > 0")
		for _, hindrance := range []string{"BEGIN", "SAVEPOINT s"} {
			run(t, db, hindrance)
			wantError(t, errOf(db.Exec("VACUUM")), nil, "cannot VACUUM from within a transaction")
			run(t, db, "COMMIT")
		}
		rows, err := db.Query("SELECT a FROM t")
		must(t, err)
		rows.Next()
		wantError(t, errOf(db.Exec("VACUUM")), nil, "SQL statements in progress")
		rows.Close()
		wantError(t, errOf(db.Exec("VACUUM INTO 'stolen.db'")), ErrRefused, "VACUUM INTO")
		wantError(t, errOf(db.Exec("/* x */ vacuum main INTO 'stolen' || '.db'")), ErrRefused, "VACUUM INTO")
		run(t, db, "VACUUM")
		wantText(t, ask(t, db, "VACUUM"), "")
		wantText(t, ask(t, db, "SELECT count(*) FROM t; PRAGMA integrity_check"), "ok")
		run(t, db, "INSERT INTO t VALUES ('after')")
	})
	after := len(r.store.keys)
	errorIf(t, after > before/5, "%d keys before and %d after", before, after)
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT count(*), sum(a = 'after') FROM t"), "101|1")
		wantError(t, errOf(db.Exec("VACUUM")), ErrReadOnly, "")
	})
}

func TestRowsOfStatementsThatWriteOutliveSavepoints(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a UNIQUE)")
	r.turn(func(db *sql.DB) {
		read := func(rows *sql.Rows) (got []int) {
			for rows.Next() {
				var a int
				must(t, rows.Scan(&a))
				got = append(got, a)
			}
			must(t, rows.Err())
			return got
		}
		query := func(db asker, text string) *sql.Rows {
			rows, err := db.QueryContext(context.Background(), text)
			must(t, err)
			return rows
		}
		rows := query(db, "INSERT INTO t VALUES (1), (2), (3) RETURNING a")
		rows.Next()
		tx := mustBegin(t, db, nil)
		got := read(rows)
		errorIf(t, !slices.Equal(got, []int{2, 3}), "BeginTx left the rows %v", got)
		inside, outside := query(tx, "INSERT INTO t VALUES (4), (5) RETURNING a"), query(db, "UPDATE t SET a = a + 10 WHERE a < 3 RETURNING a")
		inside.Next()
		if err := tx.Commit(); err != nil { // database/sql closes the rows that are read in the transaction
			t.Fatal(err)
		}
		if got := read(outside); !slices.Equal(got, []int{11, 12}) {
			t.Errorf("Commit left the rows %v", got)
		}
		wantText(t, ask(t, db, "SELECT a FROM t ORDER BY a"), "3,4,5,11,12")
		run(t, db, "BEGIN")
		rows = query(db, "DELETE FROM t WHERE a > 10 RETURNING a")
		run(t, db, "ROLLBACK")
		if got := read(rows); !slices.Equal(got, []int{11, 12}) {
			t.Errorf("ROLLBACK left the rows %v", got)
		}
		wantText(t, ask(t, db, "SELECT a FROM t ORDER BY a"), "3,4,5,11,12")
	})
}
