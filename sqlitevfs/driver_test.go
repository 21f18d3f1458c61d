package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"reflect"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestResultsSayWhatTheLastStatementDid(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		for _, c := range []struct {
			text        string
			id, changes int64
		}{
			{"CREATE TABLE t (a INTEGER PRIMARY KEY, b)", 0, 0},
			{"INSERT INTO t VALUES (7, 'x'), (8, 'y')", 8, 2},
			{"SELECT * FROM t", 0, 0},
			{"UPDATE t SET b = 'z'", 8, 2},
			{"UPDATE t SET b = 'z' WHERE a = 99", 8, 0},
			{"CREATE INDEX i ON t (b)", 8, 0},
			{"INSERT OR IGNORE INTO t VALUES (7, 'w')", 8, 0},
			{"DELETE FROM t WHERE a = 7; DELETE FROM t", 8, 1},
			{"INSERT INTO t VALUES (1, 1); CREATE TABLE u (a)", 1, 0},
			{"", 0, 0},
			{"  -- nothing\n ;; /* at all */", 0, 0},
		} {
			res, err := db.Exec(c.text)
			fatalIf(t, err != nil, "%s: %v", c.text, err)
			id, _ := res.LastInsertId()
			changes, _ := res.RowsAffected()
			errorIf(t, id != c.id || changes != c.changes,
				"%q: id %d, changes %d; want %d, %d", c.text, id, changes, c.id, c.changes)
		}
	})
}

func TestArgumentsFindTheirParameters(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		for _, c := range []struct {
			text string
			args []any
			want string
			err  string
		}{
			{"SELECT ?, ?", []any{1, "b"}, "1|b", ""},
			{"SELECT ?2, ?1", []any{1, "b"}, "b|1", ""},
			{"SELECT ?1, ?1", []any{5}, "5|5", ""},
			{"SELECT :a, @b, $c", []any{sql.Named("c", 3), sql.Named("b", 2), sql.Named("a", 1)}, "1|2|3", ""},
			{"SELECT :a, @a, $a, :a", []any{sql.Named("a", 1)}, "1|1|1|1", ""},
			{"SELECT :a, :b", []any{1, 2}, "1|2", ""},
			{"SELECT ?, :a, ?", []any{1, sql.Named("a", 2), 3}, "1|2|3", ""},
			{"SELECT :a", []any{sql.Named("a", 1), sql.Named("unused", 1)}, "1", ""},
			{"SELECT ?", nil, "", "0 arguments for a statement with 1 parameters"},
			{"SELECT ?", []any{1, 2}, "", "2 arguments for statements with 1 parameters"},
			{"SELECT 1", []any{1}, "", "1 arguments for statements with 0 parameters"},
			{"SELECT :a, :b", []any{sql.Named("a", 1)}, "", "no argument for the parameter :b"},
			{"SELECT ?, :a", []any{sql.Named("a", 1)}, "", "no argument for the parameter in place 1"},
			{"SELECT 1; SELECT ?, ?", []any{2, 3}, "2|3", ""},
			{"CREATE TABLE t (a, b); INSERT INTO t VALUES (?, ?); UPDATE t SET b = ?; SELECT a, b, ? FROM t", []any{1, 2, 3, 4}, "1|3|4", ""},
			{"UPDATE t SET a = :x; SELECT a, :y FROM t", []any{sql.Named("x", 8), sql.Named("y", 9)}, "8|9", ""},
			{"SELECT ?; SELECT ?", []any{1}, "", "0 arguments for a statement with 1 parameters"},
		} {
			got, err := answer(db, c.text, c.args...)
			if c.err != "" {
				wantError(t, err, nil, c.err)
				continue
			}
			errorIf(t, err != nil || got != c.want, "%s: %q, %v; want %q", c.text, got, err, c.want)
		}
	})
}

func TestSeveralStatementsCannotBePreparedAsOne(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		wantError(t, errOf(db.Prepare("SELECT 1; SELECT 2")), nil, "several statements")
		st, err := db.Prepare("SELECT 1; -- one\n /* and */ ;")
		must(t, err)
		st.Close()
	})
}

func TestPreparedStatementIsUsedWhileItsOwnRowsAreRead(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
		tx, err := db.Begin()
		must(t, err)
		defer tx.Rollback()
		st, err := tx.Prepare("SELECT a FROM t WHERE a >= ? ORDER BY a")
		must(t, err)
		var got []int
		outer, err := st.Query(1)
		must(t, err)
		for outer.Next() {
			var a, b int
			outer.Scan(&a)
			inner, err := st.Query(a)
			must(t, err)
			for inner.Next() {
				inner.Scan(&b)
				got = append(got, 10*a+b)
			}
		}
		want := []int{11, 12, 13, 22, 23, 33}
		fatalIf(t, !reflect.DeepEqual(got, want), "got %v, want %v", got, want)
		tx.Commit()
	})
}

func TestRowsAreReadWhileOtherStatementsWrite(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE TABLE a (x); CREATE TABLE b (x)")
		run(t, db, "INSERT INTO a SELECT value FROM generate_series(1, 500)")
		rows, err := db.Query("SELECT x FROM a ORDER BY x")
		must(t, err)
		for rows.Next() {
			var x int
			must(t, rows.Scan(&x))
			run(t, db, "INSERT INTO b VALUES (?)", 2*x)
		}
		must(t, rows.Err())
	})
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT count(*), sum(x) FROM b"), "500|250500") })
}

func TestHandleIsUsedByManyGoroutines(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE n (v); INSERT INTO n VALUES (0)")
	r.turn(func(db *sql.DB) {
		var wg sync.WaitGroup
		for range 8 {
			wg.Go(func() {
				for range 50 {
					ctx, cancel := context.WithCancel(context.Background())
					check(t, errOf(db.ExecContext(ctx, "UPDATE n SET v = v + 1")))
					var v int
					check(t, db.QueryRowContext(ctx, "SELECT v FROM n").Scan(&v))
					rows, err := db.QueryContext(ctx, "SELECT value FROM generate_series(1, 100)")
					if err != nil {
						t.Error(err)
						cancel()
						return
					}
					rows.Next()
					cancel() // database/sql closes the rows from a goroutine of its own
					rows.Close()
				}
			})
		}
		wg.Wait()
	})
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT v FROM n"), "400") })
}

func TestNothingWorksAfterTheSession(t *testing.T) {
	for _, end := range []string{"commit", "rollback"} {
		r := newRig(t, Options{})
		r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
		w := r.writer()
		s := r.db.Write(context.Background(), w)
		db := s.DB()
		ctx := context.Background()
		conn, err := db.Conn(ctx)
		must(t, err)
		st, err := conn.PrepareContext(ctx, "SELECT a FROM t")
		must(t, err)
		rows, err := db.Query("SELECT a FROM t")
		must(t, err)
		fatalIf(t, !rows.Next(), "there is no row")
		if end == "commit" {
			must(t, errOf(s.Commit()))
		}
		s.Rollback()
		// The connection serves another session now.
		r.turn(func(db *sql.DB) {
			mine := ask(t, db, "SELECT a FROM t")
			errorIf(t, rows.Next(), "rows go on after the end of their session")
			wantError(t, rows.Err(), ErrClosed, "")
			rows.Close()
			wantError(t, errOf(conn.ExecContext(ctx, "DELETE FROM t")), ErrClosed, "")
			wantError(t, errOf(st.Query()), ErrClosed, "")
			wantError(t, errOf(conn.BeginTx(ctx, nil)), ErrClosed, "")
			wantError(t, conn.PingContext(ctx), ErrClosed, "")
			wantError(t, errOf(s.DB().Exec("DELETE FROM t")), nil, "closed")
			wantText(t, ask(t, db, "SELECT a FROM t"), mine)
		})
		conn.Close()
	}
}

func TestRowsLeftOpenDoNotHinderTheCommit(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	var left []*sql.Rows
	r.turn(func(db *sql.DB) {
		run(t, db, "INSERT INTO t VALUES (1), (2), (3)")
		for _, text := range []string{"SELECT a FROM t", "INSERT INTO t VALUES (4), (5) RETURNING a", "UPDATE t SET a = a + 10 RETURNING a"} {
			rows, err := db.Query(text)
			must(t, err)
			rows.Next()
			left = append(left, rows)
		}
	})
	for _, rows := range left {
		check(t, rows.Close())
	}
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a FROM t ORDER BY a"), "11,12,13,14,15") })
}

func TestQueriesThatChangeSomethingDoSoUnread(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE TABLE t (a INTEGER PRIMARY KEY, b UNIQUE)")
		rows, err := db.Query("INSERT INTO t (b) VALUES ('x')")
		must(t, err)
		rows.Close()
		var id int
		if err := db.QueryRow("INSERT INTO t (b) VALUES ('y'), ('z') RETURNING a").Scan(&id); err != nil || id != 2 {
			t.Fatal(id, err)
		}
		wantError(t, errOf(db.Query("INSERT INTO t (b) VALUES ('x') RETURNING a")), ErrUnique, "UNIQUE constraint failed: t.b")
		wantText(t, ask(t, db, "SELECT a, b FROM t ORDER BY a"), "1|x,2|y,3|z")
	})
}

func TestKeptStatementsFollowTheSchema(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	r.turn(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT * FROM t"), "1")
		run(t, db, "ALTER TABLE t ADD COLUMN b BOOLEAN DEFAULT 1")
		wantText(t, ask(t, db, "SELECT * FROM t"), "1|true")
		run(t, db, "ALTER TABLE t RENAME COLUMN b TO c")
		rows, err := db.Query("SELECT * FROM t")
		must(t, err)
		columns, _ := rows.Columns()
		rows.Close()
		wantText(t, strings.Join(columns, " "), "a c")
		run(t, db, "DROP TABLE t; CREATE TABLE t (x, y, z); INSERT INTO t VALUES (1, 2, 3)")
		wantText(t, ask(t, db, "SELECT * FROM t"), "1|2|3")
	})
}

func TestRunawayStatementIsInterrupted(t *testing.T) {
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a)")
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	cause := errors.New("enough")
	// late executes a statement with a deadline that passes while it runs. On a slow machine a short one may have passed before
	// the statement was begun, which package database/sql notices by itself.
	const soon = 20 * time.Millisecond
	late := func(db *sql.DB, after time.Duration, text string) (err error) {
		for ; after < time.Minute; after *= 2 {
			ctx, cancel := context.WithTimeoutCause(context.Background(), after, cause)
			_, err = db.ExecContext(ctx, text)
			cancel()
			if err != context.DeadlineExceeded {
				break
			}
		}
		return err
	}
	t.Run("by the context of the call", func(t *testing.T) {
		r.turn(func(db *sql.DB) {
			err := late(db, soon, endless+"SELECT count(*) FROM n")
			wantError(t, err, ErrInterrupted, "")
			wantError(t, err, cause, "")
			run(t, db, "INSERT INTO t VALUES (1)") // reading was interrupted: nothing is lost
		})
	})
	t.Run("by the context of the turn", func(t *testing.T) {
		ctx, cancel := context.WithTimeoutCause(context.Background(), 20*time.Millisecond, cause)
		defer cancel()
		err := r.try(ctx, func(db *sql.DB) error {
			wantError(t, errOf(db.Exec(endless+"SELECT count(*) FROM n")), cause, "")
			return errOf(db.Exec("SELECT 1"))
		})
		wantError(t, err, ErrInterrupted, "")
	})
	t.Run("and a write that is takes the turn with it", func(t *testing.T) {
		err := r.try(context.Background(), func(db *sql.DB) error {
			var err error
			for after := soon; err == nil && after < time.Minute; after *= 2 { // until one has begun to write
				wantError(t, late(db, after, endless+"INSERT INTO t SELECT i FROM n"), ErrInterrupted, "")
				_, err = db.Exec("SELECT 1")
			}
			wantError(t, err, ErrInterrupted, "cannot go on")
			return nil
		})
		wantError(t, err, ErrInterrupted, "")
	})
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT a FROM t"), "1") })
}

// wantBound checks that an error names the bound that is passed, and by what.
func wantBound(t *testing.T, err error, what string, limit, actual int64) {
	t.Helper()
	e, ok := errors.AsType[*LimitError](err)
	errorIf(t, !ok || e.What != what || e.Limit != limit || e.Actual != actual,
		"%v: %+v, want %s of %d over %d", err, e, what, actual, limit)
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t, Options{ConnMemory: 4 << 20, MaxLength: 64 << 20})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	err := r.try(context.Background(), func(db *sql.DB) error {
		run(t, db, "INSERT INTO t VALUES (2)")
		_, err := db.Exec("INSERT INTO t SELECT hex(randomblob(20000000))")
		wantError(t, err, ErrMemory, "")
		wantBound(t, err, "SQL memory", 4<<20, 4<<20+1)
		wantError(t, errOf(db.Exec("SELECT 1")), ErrMemory, "")
		return nil
	})
	wantError(t, err, ErrMemory, "")
	r.turn(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT a FROM t"), "1")
		run(t, db, "INSERT INTO t VALUES (3)")
	})
	r.view(func(db *sql.DB) {
		_, err := answer(db, "SELECT hex(randomblob(5000000))")
		wantError(t, err, ErrMemory, "")
		wantBound(t, err, "SQL memory", 4<<20, 4<<20+1)
	})
	small := newRig(t, Options{MaxLength: 1 << 20})
	small.turn(func(db *sql.DB) {
		_, err := db.Exec("SELECT hex(randomblob(40000000))")
		wantError(t, err, ErrTooBig, "too big")
		wantBound(t, err, "SQL value", 1<<20, 1<<20+1)
		_, err = db.Exec("SELECT length(?)", strings.Repeat("x", 2<<20))
		wantError(t, err, ErrTooBig, "too big")
		wantBound(t, err, "SQL value", 1<<20, 2<<20)
		text := "SELECT 1 --" + strings.Repeat("x", 1<<20)
		_, err = db.Exec(text)
		wantBound(t, err, "SQL statement", maxStatement, int64(len(text)))
		for what, text := range map[string]string{
			"SQL parser depth":     "SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000),
			"SQL expression depth": "SELECT 1" + strings.Repeat("+1", 600),
		} {
			_, err = db.Exec(text)
			wantError(t, err, ErrTooBig, "")
			wantBound(t, err, what, maxDepth, maxDepth+1)
		}
		_, err = db.Exec("SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 200))
		wantError(t, err, ErrTooBig, "")
		wantBound(t, err, "terms of a compound SELECT", maxCompound, maxCompound+1)
	})
}
