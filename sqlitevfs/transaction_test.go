package sqlitevfs

import (
	"context"
	"database/sql"
	"slices"
	"strings"
	"testing"
)

func mustBegin(t testing.TB, db *sql.DB, o *sql.TxOptions) *sql.Tx {
	t.Helper()
	tx, err := db.BeginTx(context.Background(), o)
	if err != nil {
		t.Fatal(err)
	}
	return tx
}

func TestTransactionsNest(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	r.turn(func(db *sql.DB) {
		run(t, db, "INSERT INTO t VALUES ('before')")
		outer := mustBegin(t, db, nil)
		run(t, outer, "INSERT INTO t VALUES ('outer')")
		inner := mustBegin(t, db, nil)
		run(t, inner, "INSERT INTO t VALUES ('lost')")
		run(t, db, "INSERT INTO t VALUES ('lost too, for it was in the transaction')")
		if err := inner.Rollback(); err != nil {
			t.Fatal(err)
		}
		inner = mustBegin(t, db, nil)
		run(t, inner, "INSERT INTO t VALUES ('inner')")
		if err := inner.Commit(); err != nil {
			t.Fatal(err)
		}
		if err := outer.Commit(); err != nil {
			t.Fatal(err)
		}
		wantText(t, ask(t, db, "SELECT a FROM t"), "before,outer,inner")
	})
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a FROM t"), "before,outer,inner") })
}

func TestTransactionsEndInReverseOrder(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	t.Run("a commit that does not fails", func(t *testing.T) {
		err := r.try(context.Background(), func(db *sql.DB) error {
			outer, inner := mustBegin(t, db, nil), mustBegin(t, db, nil)
			wantError(t, outer.Commit(), nil, "cannot be committed before the one that was begun in it")
			return inner.Commit()
		})
		wantError(t, err, ErrOpenTransaction, "")
	})
	t.Run("a rollback that does not takes the inner ones along", func(t *testing.T) {
		r.turn(func(db *sql.DB) {
			outer, inner := mustBegin(t, db, nil), mustBegin(t, db, nil)
			run(t, inner, "INSERT INTO t VALUES (1)")
			if err := outer.Rollback(); err != nil {
				t.Fatal(err)
			}
			_, err := inner.Exec("INSERT INTO t VALUES (2)")
			wantError(t, err, nil, "the transaction is over")
			wantError(t, inner.Commit(), nil, "the transaction is over")
			inner = mustBegin(t, db, nil)
			run(t, inner, "INSERT INTO t VALUES (3)")
			if err := inner.Commit(); err != nil {
				t.Fatal(err)
			}
			wantText(t, ask(t, db, "SELECT a FROM t"), "3")
		})
	})
}

func TestTransactionLeftOpenFailsTheCommit(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	for name, leave := range map[string]func(db *sql.DB){
		"BeginTx":   func(db *sql.DB) { tx := mustBegin(t, db, nil); run(t, tx, "INSERT INTO t VALUES (1)") },
		"BEGIN":     func(db *sql.DB) { run(t, db, "BEGIN; INSERT INTO t VALUES (1)") },
		"SAVEPOINT": func(db *sql.DB) { run(t, db, "SAVEPOINT s; INSERT INTO t VALUES (1)") },
		"RELEASE":   func(db *sql.DB) { run(t, db, "SAVEPOINT s; SAVEPOINT s; INSERT INTO t VALUES (1); RELEASE s") },
	} {
		err := r.try(context.Background(), func(db *sql.DB) error { leave(db); return nil })
		if err == nil {
			t.Errorf("%s: committed", name)
			continue
		}
		wantError(t, err, ErrOpenTransaction, "")
	}
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT count(*) FROM t"), "0") })
}

func TestAShutSessionRefusesAllButItsEnd(t *testing.T) {
	t.Parallel()
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
	_, err := s.DB().Exec("INSERT INTO t VALUES (2)")
	wantError(t, err, ErrClosed, "")
	wantError(t, tx.Rollback(), ErrClosed, "")
	_, err = s.Commit()
	wantError(t, err, ErrOpenTransaction, "")

	s, tx = begin()
	if err := tx.Commit(); err != nil {
		t.Fatal(err)
	}
	s.Shut()
	if changed, err := s.Commit(); err != nil || !changed {
		t.Fatalf("changed %t, %v", changed, err)
	}
}

func TestReadOnlyTransactionRefusesWrites(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	r.turn(func(db *sql.DB) {
		for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ {
			tx := mustBegin(t, db, &sql.TxOptions{Isolation: level, ReadOnly: true})
			wantText(t, ask(t, tx, "SELECT a FROM t"), "1")
			for _, text := range []string{"INSERT INTO t VALUES (2)", "DROP TABLE t", "DELETE FROM t RETURNING a", "CREATE TEMP TABLE x (a)", "PRAGMA user_version = 3"} {
				_, err := tx.Exec(text)
				wantError(t, err, ErrReadOnly, "read-only transaction")
			}
			if err := tx.Commit(); err != nil {
				t.Fatal(err)
			}
		}
	})
}

// A step of a script is a statement and its result: rows, or an error message after an exclamation mark.
type step struct{ text, want string }

func TestTransactionsInTextAreSavepoints(t *testing.T) {
	t.Parallel()
	for name, script := range map[string][]step{
		"commit": {
			{"BEGIN", ""}, {"INSERT INTO t VALUES (1)", ""}, {"COMMIT", ""}, {"SELECT * FROM t", "1"},
			{"COMMIT", "!cannot commit - no transaction is active"}, {"END", "!cannot commit - no transaction is active"},
		},
		"rollback": {
			{"INSERT INTO t VALUES (0)", ""}, {"BEGIN IMMEDIATE", ""}, {"INSERT INTO t VALUES (1)", ""}, {"ROLLBACK", ""}, {"SELECT * FROM t", "0"},
			{"ROLLBACK TRANSACTION", "!cannot rollback - no transaction is active"},
		},
		"all spellings": {
			{"begin", ""}, {"END TRANSACTION", ""}, {"BEGIN DEFERRED TRANSACTION", ""}, {"commit transaction", ""},
			{"/* x */ BEGIN -- y", ""}, {"ROLLBACK", ""}, {" BEGIN EXCLUSIVE ; ", ""}, {"end", ""},
		},
		"begin within": {
			{"BEGIN", ""}, {"BEGIN", "!cannot start a transaction within a transaction"}, {"COMMIT", ""},
			{"SAVEPOINT a", ""}, {"BEGIN", "!cannot start a transaction within a transaction"}, {"COMMIT", ""},
		},
		"savepoints": {
			{"SAVEPOINT a", ""}, {"INSERT INTO t VALUES (1)", ""}, {"SAVEPOINT b", ""}, {"INSERT INTO t VALUES (2)", ""},
			{"ROLLBACK TO a", ""}, {"SELECT count(*) FROM t", "0"}, {"INSERT INTO t VALUES (3)", ""},
			{"RELEASE b", "!no such savepoint: b"}, {"RELEASE SAVEPOINT A", ""}, {"SELECT * FROM t", "3"}, {"RELEASE a", "!no such savepoint: a"},
		},
		"the same name twice": {
			{"SAVEPOINT a", ""}, {"INSERT INTO t VALUES (1)", ""}, {"SAVEPOINT a", ""}, {"INSERT INTO t VALUES (2)", ""},
			{"ROLLBACK TO a", ""}, {"RELEASE a", ""}, {"SELECT * FROM t", "1"}, {"ROLLBACK TO a", ""}, {"SELECT count(*) FROM t", "0"}, {"RELEASE a", ""},
		},
		"commit takes savepoints along": {
			{"BEGIN", ""}, {"SAVEPOINT a", ""}, {"INSERT INTO t VALUES (1)", ""}, {"SAVEPOINT b", ""}, {"COMMIT", ""},
			{"RELEASE a", "!no such savepoint: a"}, {"SELECT * FROM t", "1"},
		},
		"rollback takes savepoints along": {
			{"SAVEPOINT a", ""}, {"INSERT INTO t VALUES (1)", ""}, {"SAVEPOINT b", ""}, {"ROLLBACK", ""},
			{"ROLLBACK TO a", "!no such savepoint: a"}, {"SELECT count(*) FROM t", "0"},
		},
		"the session's names are not reserved": {
			{"BEGIN", ""}, {"INSERT INTO t VALUES (1)", ""}, {"RELEASE cairn_1", "!no such savepoint: cairn_1"},
			{"SAVEPOINT cairn_1", ""}, {"INSERT INTO t VALUES (2)", ""}, {"ROLLBACK TO cairn_1", ""}, {"COMMIT", ""}, {"SELECT * FROM t", "1"},
		},
		"several in one text": {
			{"BEGIN; INSERT INTO t VALUES (1); SAVEPOINT x; INSERT INTO t VALUES (2); ROLLBACK TO x; COMMIT; SELECT * FROM t", "1"},
		},
		"explaining is not doing": {
			{"EXPLAIN QUERY PLAN BEGIN", ""}, {"COMMIT", "!no transaction is active"},
		},
		"kept statements": {
			{"BEGIN", ""}, {"COMMIT", ""}, {"BEGIN", ""}, {"COMMIT", ""}, {"SAVEPOINT a", ""}, {"CREATE TABLE u (a)", ""},
			{"ROLLBACK TO a", ""}, {"RELEASE a", ""}, {"SAVEPOINT a", ""}, {"RELEASE a", ""}, {"SELECT * FROM u", "!no such table: u"},
		},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, Options{})
			r.turn(func(db *sql.DB) {
				run(t, db, "CREATE TABLE t (a)")
				for i, s := range script {
					got, err := answer(db, s.text)
					if says, fails := strings.CutPrefix(s.want, "!"); fails {
						wantError(t, err, nil, says)
					} else if err != nil || got != s.want {
						t.Fatalf("step %d: %s: %q, %v; want %q", i, s.text, got, err, s.want)
					}
				}
			})
		})
	}
}

func TestTextDoesNotEndTransactionsOfBeginTx(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE TABLE t (a); SAVEPOINT a")
		tx := mustBegin(t, db, nil)
		run(t, tx, "INSERT INTO t VALUES (1); SAVEPOINT b")
		for text, says := range map[string]string{
			"COMMIT": "begun by BeginTx", "ROLLBACK": "begun by BeginTx", "RELEASE a": "no such savepoint: a",
			"ROLLBACK TO a": "no such savepoint: a", "BEGIN": "within a transaction",
		} {
			_, err := tx.Exec(text)
			wantError(t, err, nil, says)
		}
		if err := tx.Commit(); err != nil { // with the savepoint b
			t.Fatal(err)
		}
		run(t, db, "RELEASE a")
		wantText(t, ask(t, db, "SELECT a FROM t"), "1")
	})
}

func TestStatementThatRollsBackEverythingPoisonsTheSession(t *testing.T) {
	t.Parallel()
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
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			rows.Next()
			tx := mustBegin(t, db, nil)
			_, first := tx.Exec(text)
			wantError(t, first, ErrConstraint, "")
			_, err = db.Exec("SELECT 1")
			wantError(t, err, ErrConstraint, "cannot go on")
			_, err = db.Begin()
			wantError(t, err, ErrConstraint, "cannot go on")
			for rows.Next() {
				t.Error("rows go on")
			}
			wantError(t, rows.Err(), nil, "")
			tx.Rollback()
			return nil
		})
		if err == nil {
			t.Fatalf("%s: committed", text)
		}
		r.turn(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a, b FROM t"), "1|kept") })
	}
}

func TestForeignKeysAreCheckedWhenATransactionEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE p (a INTEGER PRIMARY KEY); CREATE TABLE c (a REFERENCES p DEFERRABLE INITIALLY DEFERRED)")
	t.Run("by COMMIT", func(t *testing.T) {
		r.turn(func(db *sql.DB) {
			run(t, db, "BEGIN; INSERT INTO c VALUES (1)")
			_, err := db.Exec("COMMIT")
			wantError(t, err, ErrForeignKey, "FOREIGN KEY constraint failed")
			run(t, db, "INSERT INTO p VALUES (1); COMMIT")
		})
	})
	t.Run("by Commit, which then rolls back", func(t *testing.T) {
		r.turn(func(db *sql.DB) {
			tx := mustBegin(t, db, nil)
			run(t, tx, "INSERT INTO c VALUES (2)")
			wantError(t, tx.Commit(), ErrForeignKey, "FOREIGN KEY constraint failed")
			wantText(t, ask(t, db, "SELECT a FROM c"), "1")
		})
	})
	t.Run("not by the end of an inner one", func(t *testing.T) {
		r.turn(func(db *sql.DB) {
			outer, inner := mustBegin(t, db, nil), mustBegin(t, db, nil)
			run(t, inner, "INSERT INTO c VALUES (3)")
			if err := inner.Commit(); err != nil {
				t.Fatal(err)
			}
			run(t, outer, "INSERT INTO p VALUES (3)")
			if err := outer.Commit(); err != nil {
				t.Fatal(err)
			}
		})
	})
	t.Run("by the end of the turn", func(t *testing.T) {
		err := r.try(context.Background(), func(db *sql.DB) error { run(t, db, "INSERT INTO c VALUES (4)"); return nil })
		wantError(t, err, ErrForeignKey, "")
	})
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a FROM c"), "1,3") })
}

func TestForeignKeysAreSwitchedOutsideTransactions(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec(`CREATE TABLE p (a INTEGER PRIMARY KEY); INSERT INTO p VALUES (1);
		CREATE TABLE c (a REFERENCES p ON DELETE CASCADE); INSERT INTO c VALUES (1)`)
	r.turn(func(db *sql.DB) {
		wantText(t, ask(t, db, "PRAGMA foreign_keys"), "1")
		run(t, db, "BEGIN; PRAGMA foreign_keys = OFF")
		wantText(t, ask(t, db, "PRAGMA foreign_keys"), "1")
		run(t, db, "COMMIT; PRAGMA foreign_keys = off")
		wantText(t, ask(t, db, "PRAGMA foreign_keys"), "0")
		// How tables are rebuilt: with the keys on, DROP TABLE would delete the rows of c.
		tx := mustBegin(t, db, nil)
		run(t, tx, "CREATE TABLE new_p (a INTEGER PRIMARY KEY, b); INSERT INTO new_p (a) SELECT a FROM p; DROP TABLE p; ALTER TABLE new_p RENAME TO p")
		if err := tx.Commit(); err != nil {
			t.Fatal(err)
		}
		run(t, db, "PRAGMA foreign_keys = on")
		wantText(t, ask(t, db, "PRAGMA foreign_key_check"), "")
		wantText(t, ask(t, db, "SELECT a FROM c"), "1")
		run(t, db, "PRAGMA foreign_keys = 0")
	})
	r.turn(func(db *sql.DB) {
		wantText(t, ask(t, db, "PRAGMA foreign_keys"), "1")
		_, err := db.Exec("INSERT INTO c VALUES (2)")
		wantError(t, err, ErrForeignKey, "")
	})
}

func TestVacuumWorksBetweenTransactions(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t SELECT randomblob(1000) FROM generate_series(1, 1000)")
	before := len(r.store.keys)
	r.turn(func(db *sql.DB) {
		run(t, db, "DELETE FROM t WHERE rowid % 10 > 0")
		for _, hindrance := range []string{"BEGIN", "SAVEPOINT s"} {
			run(t, db, hindrance)
			_, err := db.Exec("VACUUM")
			wantError(t, err, nil, "cannot VACUUM from within a transaction")
			run(t, db, "COMMIT")
		}
		rows, err := db.Query("SELECT a FROM t")
		if err != nil {
			t.Fatal(err)
		}
		rows.Next()
		_, err = db.Exec("VACUUM")
		wantError(t, err, nil, "SQL statements in progress")
		rows.Close()
		_, err = db.Exec("VACUUM INTO 'stolen.db'")
		wantError(t, err, ErrRefused, "VACUUM INTO")
		_, err = db.Exec("/* x */ vacuum main INTO 'stolen' || '.db'")
		wantError(t, err, ErrRefused, "VACUUM INTO")
		run(t, db, "VACUUM")
		wantText(t, ask(t, db, "VACUUM"), "")
		wantText(t, ask(t, db, "SELECT count(*) FROM t; PRAGMA integrity_check"), "ok")
		run(t, db, "INSERT INTO t VALUES ('after')")
	})
	if after := len(r.store.keys); after > before/5 {
		t.Errorf("%d keys before and %d after", before, after)
	}
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT count(*), sum(a = 'after') FROM t"), "101|1")
		_, err := db.Exec("VACUUM")
		wantError(t, err, ErrReadOnly, "")
	})
}

func TestRollbackAfterVacuumSaysThatPagesWerePublished(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	w := r.writer()
	s := r.db.Write(context.Background(), w)
	run(t, s.DB(), "INSERT INTO t VALUES (2)")
	_, err := s.DB().Exec("VACUUM INTO 'x'")
	wantError(t, err, ErrRefused, "")
	run(t, s.DB(), "VACUUM")
	if !s.Rollback() {
		t.Error("Rollback does not say that pages were published")
	}
	r.turn(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a FROM t"), "1") })
}

func TestRowsOfStatementsThatWriteOutliveSavepoints(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a UNIQUE)")
	r.turn(func(db *sql.DB) {
		read := func(rows *sql.Rows) (got []int) {
			for rows.Next() {
				var a int
				if err := rows.Scan(&a); err != nil {
					t.Fatal(err)
				}
				got = append(got, a)
			}
			if err := rows.Err(); err != nil {
				t.Fatal(err)
			}
			return got
		}
		query := func(db asker, text string) *sql.Rows {
			rows, err := db.QueryContext(context.Background(), text)
			if err != nil {
				t.Fatal(err)
			}
			return rows
		}
		rows := query(db, "INSERT INTO t VALUES (1), (2), (3) RETURNING a")
		rows.Next()
		tx := mustBegin(t, db, nil)
		if got := read(rows); !slices.Equal(got, []int{2, 3}) {
			t.Errorf("BeginTx left the rows %v", got)
		}
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
