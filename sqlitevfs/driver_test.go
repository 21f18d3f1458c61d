package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"
)

func TestResultsSayWhatTheLastStatementDid(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db handle) {
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
			must(t, err, c.text)
			id, _ := res.LastInsertId()
			changes, _ := res.RowsAffected()
			errorIf(t, id != c.id || changes != c.changes,
				"%q: id %d, changes %d; want %d, %d", c.text, id, changes, c.id, c.changes)
		}
	})
}

func TestArgumentsFindTheirParameters(t *testing.T) {
	r := newRig(t, Options{})
	r.turn(func(db handle) {
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
			{"CREATE TABLE t (a, b); INSERT INTO t VALUES (?, ?); UPDATE t SET b = ?; SELECT a, b, ? FROM t",
				[]any{1, 2, 3, 4}, "1|3|4", ""},
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
		for _, n := range []int{10, keptBound + 1, 20} { // a missing argument is not taken from the run before
			db.want("SELECT length(?), ?", fmt.Sprintf("%d|b", n), strings.Repeat("a", n), "b")
			db.fails(nil, "parameters", "SELECT length(?), ?", "a")
		}
		for level := sql.LevelDefault; level <= sql.LevelLinearizable; level++ { // all levels are accepted
			tx, err := db.BeginTx(t.Context(), &sql.TxOptions{Isolation: level})
			must(t, err, level)
			must(t, tx.Commit(), level)
		}
		wantError(t, errOf(db.Driver().Open("file:x.db")), nil, "opened by its session")
		must(t, db.PingContext(t.Context()))
	})
}

func TestPreparedStatementIsUsedWhileItsOwnRowsAreRead(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3); CREATE TABLE b (x)")
	r.turn(func(db handle) {
		wantError(t, errOf(db.Prepare("SELECT 1; SELECT 2")), nil, "several statements")
		empty, err := db.Prepare("SELECT 1; -- one\n /* and */ ;")
		must(t, err)
		empty.Close()
		tx, err := db.Begin()
		must(t, err)
		defer tx.Rollback()
		st, err := tx.Prepare("SELECT a FROM t WHERE a >= ? ORDER BY a")
		must(t, err)
		outer, err := st.Query(1)
		must(t, err)
		for outer.Next() {
			var a, b int
			must(t, outer.Scan(&a))
			inner, err := st.Query(a)
			must(t, err)
			for inner.Next() {
				must(t, inner.Scan(&b))
				must(t, errOf(tx.Exec("INSERT INTO b VALUES (?)", 10*a+b)))
			}
		}
		must(t, outer.Err())
		must(t, tx.Commit())
	})
	r.sound("SELECT x FROM b", "11,12,13,22,23,33")
}

func TestHandleIsUsedByManyGoroutines(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE n (v); INSERT INTO n VALUES (0)")
	r.turn(func(db handle) {
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
					cancel() // database/sql closes the rows from its own goroutine
					rows.Close()
				}
			})
		}
		wg.Wait()
	})
	r.sound("SELECT v FROM n", "400")
}

func TestNothingWorksAfterTheSession(t *testing.T) {
	ctx := context.Background()
	for _, end := range []func(*turn){func(x *turn) { must(t, x.commit()) }, func(x *turn) { x.Rollback() }} {
		r := newRig(t, Options{}, "CREATE TABLE t (a); INSERT INTO t VALUES (1), (2), (3)")
		x := r.write()
		conn, err := x.handle.Conn(ctx)
		must(t, err)
		st, err := conn.PrepareContext(ctx, "SELECT a FROM t")
		must(t, err)
		rows, err := x.Query("SELECT a FROM t")
		must(t, err)
		fatalIf(t, !rows.Next(), "there is no row")
		end(x)
		r.turn(func(db handle) { // the connection serves another session now
			mine := db.ask("SELECT a FROM t")
			errorIf(t, rows.Next(), "rows go on after the end of their session")
			wantErr(t, rows.Err(), ErrClosed)
			rows.Close()
			wantErr(t, errOf(conn.ExecContext(ctx, "DELETE FROM t")), ErrClosed)
			wantErr(t, errOf(st.Query()), ErrClosed)
			wantErr(t, errOf(conn.BeginTx(ctx, nil)), ErrClosed)
			wantErr(t, conn.PingContext(ctx), ErrClosed)
			x.fails(nil, "closed", "DELETE FROM t")
			db.want("SELECT a FROM t", mine)
		})
		conn.Close()
	}
}

func TestRunawayStatementIsInterrupted(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a)")
	const endless = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) "
	cause := errors.New("enough")
	// late executes a statement with a deadline that passes while it runs. On a slow machine a
	// short one may pass before the statement begins; then package database/sql returns the error
	// itself.
	const soon = 20 * time.Millisecond
	late := func(db handle, after time.Duration, text string) (err error) {
		for ; after < time.Minute; after *= 2 {
			ctx, cancel := context.WithTimeoutCause(context.Background(), after, cause)
			_, err = db.ExecContext(ctx, text)
			cancel()
			if err != context.DeadlineExceeded {
				break
			}
		}
		wantError(t, err, ErrInterrupted, "")
		return err
	}
	r.turn(func(db handle) { // by the context of the call
		wantErr(t, late(db, soon, endless+"SELECT count(*) FROM n"), cause)
		db.run("INSERT INTO t VALUES (1)") // reading was interrupted: nothing is lost
	})
	// And an interrupted write ends the turn too.
	wantErr(t, r.try(context.Background(), func(db handle) (err error) {
		for after := soon; err == nil && after < time.Minute; after *= 2 { // until one has begun to write
			late(db, after, endless+"INSERT INTO t SELECT i FROM n")
			err = errOf(db.Exec("SELECT 1"))
		}
		wantError(t, err, ErrInterrupted, "cannot go on")
		return nil
	}), ErrInterrupted)
	r.sound("SELECT a FROM t", "1")
	// By the context of the session. The owner decides whether the turn counts.
	ctx, cancel := context.WithCancelCause(context.Background())
	x := r.session(r.db.Write(ctx, r.store.writer()), nil)
	x.run("CREATE TABLE u (v)")
	go cancel(cause)
	for _, text := range []string{endless + "SELECT count(*) FROM n", "SELECT 1"} {
		err := errOf(x.Exec(text))
		wantErr(t, err, ErrInterrupted, text)
		wantErr(t, err, cause, text)
	}
	changed, err := x.Session.Commit()
	fatalIf(t, err != nil || !changed, "Commit = %v, %v", changed, err)
	x = r.session(r.db.Write(ctx, r.store.writer()), nil)
	wantErr(t, errOf(x.Migrate(migrationsOf(endless+"SELECT sum(i) FROM n"))), cause)
}

// wantBound checks that an error is target, and names the bound and the actual value.
func wantBound(t *testing.T, err, target error, what string, limit, actual int64) {
	t.Helper()
	e, ok := errors.AsType[*LimitError](err)
	errorIf(t, !ok || !errors.Is(err, target) || e.What != what || e.Limit != limit || e.Actual != actual,
		"%v: %+v, want %s of %d over %d", err, e, what, actual, limit)
}

func TestMemoryIsBounded(t *testing.T) {
	r := newRig(t, Options{ConnMemory: 4 << 20, MaxLength: 64 << 20}, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	wantErr(t, r.try(context.Background(), func(db handle) error {
		db.run("INSERT INTO t VALUES (2)")
		_, err := db.Exec("INSERT INTO t SELECT hex(randomblob(20000000))")
		wantBound(t, err, ErrMemory, "SQL memory", 4<<20, 4<<20+1)
		db.fails(ErrMemory, "", "SELECT 1")
		return nil
	}), ErrMemory)
	r.exec("INSERT INTO t VALUES (3)")
	r.view(func(db handle) {
		wantBound(t, errOf(answer(db, "SELECT hex(randomblob(5000000))")), ErrMemory, "SQL memory", 4<<20, 4<<20+1)
	})
	r.sound("SELECT a FROM t", "1,3")
	newRig(t, Options{MaxLength: 1 << 20}).turn(func(db handle) {
		for _, c := range []struct {
			text          string
			arg           any
			what          string
			limit, actual int64
		}{
			{"SELECT hex(randomblob(40000000))", nil, "SQL value", 1 << 20, 1<<20 + 1},
			{"SELECT length(?)", strings.Repeat("x", 2<<20), "SQL value", 1 << 20, 2 << 20},
			{"SELECT 1 --" + strings.Repeat("x", 1<<20), nil, "SQL statement", maxStatement, 1<<20 + 11},
			{"SELECT " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000), nil, "SQL parser depth", maxDepth, maxDepth + 1},
			{"SELECT 1" + strings.Repeat("+1", 600), nil, "SQL expression depth", maxDepth, maxDepth + 1},
			{"SELECT 1" + strings.Repeat(" UNION ALL SELECT 1", 200), nil, "terms of a compound SELECT", maxCompound, maxCompound + 1},
		} {
			var args []any
			if c.arg != nil {
				args = append(args, c.arg)
			}
			wantBound(t, errOf(db.Exec(c.text, args...)), ErrTooBig, c.what, c.limit, c.actual)
		}
	})
}
