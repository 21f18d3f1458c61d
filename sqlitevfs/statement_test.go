package sqlitevfs

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"
)

func TestBlankTextIsFound(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]bool{
		"": true, " \t\r\n\f;": true, "-- x": true, "-- x\n;": true, "/* x": true, "/**/": true, "/* -- */ -- /*\n": true,
		"x": false, "-- x\ny": false, "/* x */ y": false, "-": false, "/": false, "/*/ */": true, "'": false,
	} {
		if got := blank(text); got != want {
			t.Errorf("blank(%q) is %v", text, got)
		}
	}
}

func TestStatementsAreKeptUpToTheLimit(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{Statements: 4})
	w := r.writer()
	s := r.db.Write(context.Background(), w)
	defer s.Rollback()
	db := s.DB()
	kept := func() (texts []string) {
		s.mu.Lock()
		defer s.mu.Unlock()
		k := &s.conn.cache
		for st := k.newest; st != nil; st = st.older {
			texts = append(texts, st.text)
		}
		if len(texts) != len(k.table) {
			t.Errorf("%d statements in the list and %d in the table", len(texts), len(k.table))
		}
		return texts
	}
	for i := range 10 {
		ask(t, db, fmt.Sprintf("SELECT %d", i))
	}
	wantText(t, strings.Join(kept(), ","), "SELECT 9,SELECT 8,SELECT 7,SELECT 6")
	ask(t, db, "SELECT 7")
	wantText(t, strings.Join(kept(), ","), "SELECT 7,SELECT 9,SELECT 8,SELECT 6")

	// In use, a statement is not closed; a second use of it is compiled apart and not kept.
	rows, err := db.Query("SELECT 6")
	if err != nil {
		t.Fatal(err)
	}
	wantText(t, ask(t, db, "SELECT 6"), "6")
	for i := range 10 {
		ask(t, db, fmt.Sprintf("SELECT 1%d", i))
	}
	wantText(t, strings.Join(kept(), ","), "SELECT 19,SELECT 18,SELECT 17,SELECT 6")
	if !rows.Next() {
		t.Error("the row is gone")
	}
	rows.Close()
	wantText(t, strings.Join(kept(), ","), "SELECT 6,SELECT 19,SELECT 18,SELECT 17")

	// What is not kept: pragmas, long texts, statements with others.
	before := strings.Join(kept(), ",")
	ask(t, db, "PRAGMA user_version")
	ask(t, db, "SELECT 1 --"+strings.Repeat("x", maxCachedText))
	run(t, db, "SELECT 1; SELECT 2")
	_, err = db.Exec("SELECT nix()")
	wantError(t, err, nil, "")
	after := strings.Join(kept(), ",")
	wantText(t, after, strings.Replace(" SELECT 2,"+before, ",SELECT 17", "", 1))
	s.mu.Lock()
	defer s.mu.Unlock()
	open := 0
	for range s.conn.db.Stmts() {
		open++
	}
	if open > 4+3 { // BEGIN, and what else the session has of its own
		t.Errorf("%d statements are open", open)
	}
}

func TestZeroByteInAStatementIsRefused(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		run(t, db, "CREATE TABLE t (a)")
		for _, text := range []string{"\x00", "SELECT 1\x00; DROP TABLE t", "SELECT 1;\x00DROP TABLE t"} {
			_, err := db.Exec(text)
			wantError(t, err, nil, "a zero byte")
		}
	})
}

func TestArgumentsAreForgottenAfterUse(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.turn(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT ?1, ?2", 1, 2), "1|2")
		_, err := db.Query("SELECT ?1, ?2", 3)
		wantError(t, err, nil, "1 arguments")
		wantText(t, ask(t, db, "SELECT ?1, ?2", nil, 5), "NULL|5")
	})
}

func BenchmarkDriverPointSelect(b *testing.B) {
	r := newRig(b, Options{})
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
	r.exec("INSERT INTO t SELECT value, 'name ' || value, value * 2 FROM generate_series(1, 10000)")
	for _, prepared := range []bool{false, true} {
		b.Run(fmt.Sprintf("prepared=%v", prepared), func(b *testing.B) {
			r.view(func(db *sql.DB) {
				st, err := db.Prepare("SELECT name, n FROM t WHERE id = ?")
				if err != nil {
					b.Fatal(err)
				}
				b.ReportAllocs()
				for i := 0; b.Loop(); i++ {
					var name string
					var n int64
					var row *sql.Row
					if prepared {
						row = st.QueryRow(i%10000 + 1)
					} else {
						row = db.QueryRow("SELECT name, n FROM t WHERE id = ?", i%10000+1)
					}
					if err := row.Scan(&name, &n); err != nil {
						b.Fatal(err)
					}
				}
			})
		})
	}
}

func BenchmarkDriverScan(b *testing.B) {
	r := newRig(b, Options{})
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
	r.exec("INSERT INTO t SELECT value, 'name ' || value, value * 2 FROM generate_series(1, 100000)")
	r.view(func(db *sql.DB) {
		b.ReportAllocs()
		for b.Loop() {
			rows, err := db.Query("SELECT id, name, n FROM t")
			if err != nil {
				b.Fatal(err)
			}
			var id, n int64
			var name string
			for rows.Next() {
				if err := rows.Scan(&id, &name, &n); err != nil {
					b.Fatal(err)
				}
			}
			if err := rows.Err(); err != nil {
				b.Fatal(err)
			}
		}
	})
}

func BenchmarkDriverInsert(b *testing.B) {
	r := newRig(b, Options{})
	r.exec("CREATE TABLE t (id INTEGER PRIMARY KEY, name TEXT, n INTEGER)")
	r.turn(func(db *sql.DB) {
		st, err := db.Prepare("INSERT INTO t (name, n) VALUES (?, ?)")
		if err != nil {
			b.Fatal(err)
		}
		b.ReportAllocs()
		for i := 0; b.Loop(); i++ {
			if _, err := st.Exec("a name", i); err != nil {
				b.Fatal(err)
			}
		}
	})
}
