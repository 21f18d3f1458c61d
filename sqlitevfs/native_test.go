package sqlitevfs

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"
)

// nested returns a chain of views that C's stack is too small for.
func nested(n int) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE v0 (a);")
	for i := range n {
		fmt.Fprintf(&b, "CREATE VIEW v%d AS SELECT a + 1 AS a FROM v%d WHERE a > 1;", i+1, i)
	}
	return b.String()
}

func TestStatementThatIsTooComplexCostsItsSessionOnly(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRig(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	r.exec(nested(300))
	for _, text := range []string{
		"SELECT * FROM v300",
		"WITH c0 AS (SELECT 1 AS a)" + func() (s string) {
			for i := range 900 {
				s += fmt.Sprintf(", c%d AS (SELECT a + 1 AS a FROM c%d WHERE a > 1)", i+1, i)
			}
			return s
		}() + " SELECT * FROM c900",
	} {
		err := r.try(context.Background(), func(db *sql.DB) error {
			run(t, db, "INSERT INTO v0 VALUES (1)")
			rows, err := db.Query("SELECT 1 UNION ALL SELECT 2") // is open meanwhile
			if err != nil {
				t.Fatal(err)
			}
			defer rows.Close()
			tx, err := db.Begin()
			if err != nil {
				t.Fatal(err)
			}
			defer tx.Rollback()
			_, err = answer(db, text)
			wantError(t, err, ErrMemory, "too complex")
			wantBound(t, err, "SQL stack", stackBytes, stackBytes+1)
			var e *Error
			if !errors.As(err, &e) {
				t.Fatalf("%T is not an *Error", err)
			}
			_, err = answer(db, "SELECT 1")
			wantError(t, err, ErrMemory, "the session cannot go on")
			return nil
		})
		wantError(t, err, ErrMemory, "too complex")
		r.view(func(db *sql.DB) {
			if _, err := answer(db, text); !errors.Is(err, ErrMemory) {
				t.Errorf("in a query: %v", err)
			}
		})
		if s := r.pool.Stats(); s.Open != 0 || s.Bytes != 0 {
			t.Errorf("a broken connection is still counted: %+v", s)
		}
	}
	r.view(func(db *sql.DB) { wantText(t, ask(t, db, "SELECT count(*) FROM v0"), "0") })
	if log.Len() > 0 {
		t.Errorf("memory was lost: %s", &log)
	}
}

func TestMemoryOfABrokenConnectionIsReleased(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec(nested(300))
	s := r.db.Read(context.Background(), r.store.snapshot())
	if _, err := answer(s.DB(), "SELECT * FROM v300"); !errors.Is(err, ErrMemory) {
		t.Fatal(err)
	}
	c := s.conn
	s.Rollback()
	if !c.broken || len(*c.memory) != 0 {
		t.Fatalf("broken is %v, and it has %d bytes", c.broken, len(*c.memory))
	}
}

func TestLimitsStopStatementsBeforeTheStackEnds(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	deep := func(before, inner, after string, n int) string {
		return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	r.view(func(db *sql.DB) {
		for _, text := range []string{
			deep("SELECT * FROM (", "SELECT 1", ")", 400),
			deep("SELECT sum(a) OVER () AS a FROM (", "SELECT 1 AS a", ")", 150),
			deep("SELECT count(*) AS a FROM (", "SELECT 1 AS a", ") GROUP BY a", 300),
			"SELECT " + deep("NOT ", "random()", "", 600),
			"SELECT random()" + strings.Repeat("+1", 600),
			"SELECT random()" + strings.Repeat(" UNION ALL SELECT random()", 300),
		} {
			if _, err := answer(db, text); err == nil || errors.Is(err, ErrMemory) {
				t.Errorf("%.40s: %v", text, err)
			}
		}
		for _, text := range []string{ // what the limits leave
			deep("SELECT * FROM (", "SELECT 1", ")", 60),
			deep("SELECT sum(a) OVER () AS a FROM (", "SELECT 1 AS a", ")", 60),
			"SELECT 1 WHERE random()" + strings.Repeat(" AND random()", 480),
			"SELECT random()" + strings.Repeat("+1", 480),
			"SELECT random()" + strings.Repeat(" UNION SELECT random() UNION ALL SELECT random()", 74) + " ORDER BY 1",
		} {
			if _, err := answer(db, text); err != nil {
				t.Errorf("%.40s: %v", text, err)
			}
		}
	})
}

func TestLongNamesAreErrors(t *testing.T) {
	t.Parallel()
	var log bytes.Buffer
	r := newRig(t, Options{Logger: slog.New(slog.NewTextHandler(&log, nil))})
	long := strings.Repeat("n", 1_100_000)
	for _, text := range []string{
		`SELECT 1 AS "` + long + `"`, `SAVEPOINT "` + long + `"`, `PRAGMA user_version='` + long + `'`, `SELECT :` + long,
		`CREATE TABLE "` + long + `" (a)`, `CREATE TABLE z (a "` + long + `")`, `SELECT "` + long + `"()`,
	} {
		err := r.try(context.Background(), func(db *sql.DB) error {
			_, err := answer(db, text)
			return err
		})
		var e *Error
		if !errors.As(err, &e) {
			t.Errorf("%.20s: %.100v", text, err)
		}
	}
	for _, name := range []string{"table_info", "index_list", "foreign_key_check", "integrity_check"} {
		err := r.try(context.Background(), func(db *sql.DB) error {
			_, err := answer(db, "SELECT * FROM pragma_"+name+"(?)", long)
			return err
		})
		var e *Error
		if err != nil && !errors.As(err, &e) {
			t.Errorf("pragma_%s: %.100v", name, err)
		}
	}
	r.view(func(db *sql.DB) { // just short enough
		rows, err := db.Query(`SELECT 1 AS "` + long[:999_900] + `"`)
		if err != nil {
			t.Fatal(err)
		}
		rows.Close()
	})
	if log.Len() > 0 {
		t.Errorf("memory was lost: %.300s", &log)
	}
}

// panicky is a store that panics when its pages are read.
type panicky struct{ Reader }

func (p panicky) Get(dst, key []byte) ([]byte, bool, error) {
	if len(key) == pageKeySize && key[pageKeySize-1] == 1 {
		panic("the store's")
	}
	return p.Reader.Get(dst, key)
}

func TestPanicOfTheStoreIsPassedOn(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec("CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	s := r.db.Read(context.Background(), panicky{r.store.snapshot()})
	func() {
		defer func() {
			if p := recover(); p != "the store's" {
				t.Errorf("recovered %v", p)
			}
		}()
		answer(s.DB(), "SELECT * FROM t")
	}()
	if _, err := answer(s.DB(), "SELECT 1"); err == nil {
		t.Error("the session goes on")
	}
	s.Rollback()
	if st := r.pool.Stats(); st.Open != 1 || st.InUse != 0 { // the one that wrote
		t.Errorf("%+v", st)
	}
}

// badMetadata is a store that panics when the database is opened.
type badMetadata struct{ Reader }

func (badMetadata) Get([]byte, []byte) ([]byte, bool, error) { panic("the store's") }

func TestPanicAtTheBeginLocksNothing(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	s := r.db.Read(context.Background(), badMetadata{r.store.snapshot()})
	func() {
		defer func() { recover() }()
		s.enter(context.Background())
	}()
	if !s.mu.TryLock() {
		t.Fatal("the session is locked")
	}
	s.mu.Unlock()
	s.Rollback()
	if st := r.pool.Stats(); st.Open != 0 || st.InUse != 0 {
		t.Fatalf("%+v", st)
	}
}
