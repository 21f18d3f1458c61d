package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// An author writes random statements that are often right. It remembers the schema as far as that
// is useful. SQLite alone evaluates expressions; here they are of each kind of value, and some
// fail.
type author struct {
	*rand.Rand
}

func (a *author) pick(of ...string) string { return of[a.IntN(len(of))] }

func (a *author) table() string  { return a.pick("t0", "t1", "t2", "t3") }
func (a *author) column() string { return a.pick("a", "b", "c", "d", "rowid") }

func (a *author) literal() string {
	return a.pick(fmt.Sprint(a.IntN(40)-4), fmt.Sprint(a.IntN(40)-4), "NULL", a.pick("''", "'x'", "'abéab'", "'10'"),
		fmt.Sprintf("x'%x'", a.Uint32()),
		fmt.Sprintf("%g", a.NormFloat64()), fmt.Sprintf("zeroblob(%d)",
			a.IntN(3000)), fmt.Sprintf("printf('%%.*c', %d, 'k')", a.IntN(9000)))
}

func (a *author) expression(deep int) string {
	if deep <= 0 || a.IntN(3) == 0 {
		return a.pick(a.column(), a.literal())
	}
	x, y := a.expression(deep-1), a.expression(deep-1)
	return a.pick("("+x+a.pick(" + ", " % ", " || ", " < ", " = ", " IS NOT ", " AND ", " LIKE ")+y+")",
		a.pick("abs", "length", "typeof", "hex", "json_array", "trim")+"("+x+")",
		"CAST("+x+" AS "+a.pick("INTEGER", "TEXT", "REAL", "BLOB")+")",
		"(SELECT "+a.pick("count(*)", "max(a)", "sum(length(c))")+" FROM "+a.table()+")")
}

func (a *author) where() string {
	if a.IntN(4) == 0 {
		return ""
	}
	return " WHERE " + a.expression(2)
}

func (a *author) orElse() string {
	return a.pick("", "", "", "OR IGNORE ", "OR REPLACE ", "OR ABORT ", "OR FAIL ")
}

func (a *author) statement() string {
	switch n := a.IntN(100); {
	case n < 26:
		rows := make([]string, 1+a.IntN(4))
		for i := range rows {
			rows[i] = "(" + a.literal() + ", " + a.literal() + ", " + a.literal() + ")"
		}
		return "INSERT " + a.orElse() + "INTO " + a.table() + " (a, b, c) VALUES " + strings.Join(rows, ", ") +
			a.pick("", "", " ON CONFLICT DO NOTHING", " ON CONFLICT (a) DO UPDATE SET b = excluded.b", " RETURNING a, b, rowid")
	case n < 30:
		return fmt.Sprintf("INSERT %sINTO %s (a, b, c) SELECT value, %s, %s FROM generate_series(%d, %d)",
			a.orElse(), a.table(), a.pick("value * 2", "'v' || value", "value % 7"), a.literal(), a.IntN(50), 50+a.IntN(60))
	case n < 44:
		return "UPDATE " + a.orElse() + a.table() + " SET " + a.pick("a", "b", "c") + " = " +
			a.expression(2) + a.where() + a.pick("", "", " RETURNING a")
	case n < 54:
		return "DELETE FROM " + a.table() + a.where() + a.pick("", "", " RETURNING rowid")
	case n < 72:
		// Without this order, the first rows, and the row for a group, are not determined.
		return "SELECT " + a.pick("rowid, *", "a, b, rowid", a.expression(3)+", rowid") + " FROM " +
			a.table() + a.where() + " ORDER BY rowid" + a.pick("", " DESC", " LIMIT 3 OFFSET 1")
	case n < 73:
		return "SELECT " + a.pick("count(*), sum(a), max(b)", "min(b), count(*), total(length(c))") + " FROM " +
			a.table() + a.where() + a.pick("", " GROUP BY b ORDER BY 1, 2, 3")
	case n < 75:
		return "SELECT x.a, y.b FROM " + a.table() + " x " + a.pick("JOIN ", "LEFT JOIN ") + a.table() +
			" y ON x.a = y.b ORDER BY 1, 2 LIMIT 20"
	case n < 79:
		return a.createTable()
	case n < 82:
		return a.pick("", "", "/* x */ ") + "CREATE " + a.pick("", "UNIQUE ") + "INDEX " +
			a.pick("", "IF NOT EXISTS ") + a.pick("i0", "i1", "i2") + " ON " + a.table() +
			" (" + a.pick("a", "b", "b, c", "length(c)", "b DESC") + ")" + a.pick("", " WHERE b > 3")
	case n < 84:
		return a.pick("DROP INDEX i0", "DROP INDEX IF EXISTS i1", "DROP TABLE "+a.table(), "DROP TRIGGER IF EXISTS g",
			"DROP VIEW IF EXISTS v", "REINDEX", "ANALYZE")
	case n < 86:
		return a.pick("ALTER TABLE "+a.table()+" ADD COLUMN d DEFAULT 5", "ALTER TABLE "+a.table()+" DROP COLUMN d",
			"ALTER TABLE "+a.table()+" RENAME TO "+a.table(),
			"ALTER TABLE "+a.table()+" RENAME COLUMN d TO a")
	case n < 88:
		return a.pick("CREATE TRIGGER IF NOT EXISTS g AFTER INSERT ON t0 BEGIN UPDATE t1 SET c = new.a WHERE a = new.b; END",
			"CREATE TRIGGER IF NOT EXISTS g BEFORE DELETE ON t1 WHEN old.a % 5 = 0 BEGIN SELECT RAISE(ABORT, 'not five'); END",
			"CREATE VIEW IF NOT EXISTS v AS SELECT a, count(*) AS n FROM t0 GROUP BY a", "SELECT * FROM v ORDER BY 1, 2")
	case n < 98:
		return a.pick("BEGIN", "BEGIN IMMEDIATE", "BEGIN DEFERRED TRANSACTION", "begin", "/* x */ BEGIN -- y",
			" BEGIN EXCLUSIVE ; ", "EXPLAIN QUERY PLAN BEGIN",
			"COMMIT", "COMMIT", "END", "end", "END TRANSACTION", "commit transaction", "ROLLBACK", "ROLLBACK TRANSACTION", "SAVEPOINT p", "SAVEPOINT p", "SAVEPOINT q", "SAVEPOINT cairn_1",
			"RELEASE p", "RELEASE SAVEPOINT P", "RELEASE q", "RELEASE cairn_1", "RELEASE cairn_2", "ROLLBACK TO p", "ROLLBACK TO q", "ROLLBACK TRANSACTION TO cairn_1", "ROLLBACK TO cairn_2")
	}
	return a.pick("PRAGMA user_version = 5", "PRAGMA user_version", "PRAGMA integrity_check", "PRAGMA table_info(t1)",
		"SELECT", "DELETE t1", "SELECT changes() >= 0")
}

func (a *author) createTable() string {
	return "CREATE TABLE " + a.pick("", "IF NOT EXISTS ") + a.table() + " (a " +
		a.pick("INTEGER PRIMARY KEY", "INTEGER PRIMARY KEY AUTOINCREMENT", "UNIQUE", "TEXT", "INT NOT NULL") +
		", b " + a.pick("", "TEXT", "REAL", "INTEGER CHECK (b < 1000)", "COLLATE NOCASE") + ", c" +
		a.pick("", " DEFAULT 'dflt'", " BLOB", " REFERENCES t1 (a)") + ")"
}

// outcome is the result of a statement: rows, columns, or the code of its error.
func outcomeOf(columns []string, rows []string, err error) string {
	if err != nil {
		var e *Error
		if errors.As(err, &e) {
			return fmt.Sprintf("error %d: %s", e.Code, e.Message)
		}
		return "error: " + err.Error()
	}
	return strings.Join(columns, "|") + "\n" + strings.Join(rows, "\n")
}

// controls are statements about transactions.
var controls = regexp.MustCompile(`(?i)^(/\*.*\*/)? *(BEGIN|COMMIT|END|ROLLBACK|SAVEPOINT|RELEASE)\b`)

// plainSQL runs a statement on a connection of the library alone.
func plainSQL(c *sqlite3.Conn, text string) string {
	st, _, err := c.Prepare(text)
	if err != nil {
		return outcomeOf(nil, nil, wrap(err, text))
	}
	defer st.Close()
	var columns, rows []string
	for i := range st.ColumnCount() {
		columns = append(columns, st.ColumnName(i))
	}
	for st.Step() {
		values := make([]any, len(columns))
		if err := st.Columns(values...); err != nil {
			return outcomeOf(nil, nil, wrap(err, text))
		}
		rows = append(rows, rowText(values, "%q"))
	}
	return outcomeOf(columns, rows, wrap(st.Err(), text))
}

// sessionSQL does the same in a session.
func sessionSQL(db asker, text string) string {
	rows, err := db.QueryContext(context.Background(), text)
	if err != nil {
		return outcomeOf(nil, nil, err)
	}
	return outcomeOf(readRows(rows, "%q"))
}

// newPlain returns a plain database in memory, without turns.
func newPlain(t *testing.T) *sqlite3.Conn {
	t.Helper()
	plain, err := sqlite3.Open(":memory:")
	must(t, err)
	t.Cleanup(func() { plain.Close() })
	plain.Limit(sqlite3.LIMIT_LENGTH, DefaultMaxLength)
	plain.Limit(sqlite3.LIMIT_LIKE_PATTERN_LENGTH, 1000)
	return plain
}

// Random statements have the same outcome in a session as in a plain database. Turns end where no
// transaction is open, and now and then everything is read back from the store. Between them are
// turns that are rolled back, which the plain database does not run.
func TestStatementsHaveTheOutcomeThatTheyHaveInAPlainDatabase(t *testing.T) {
	runs, length := 6, 300
	if os.Getenv("CAIRN_LONG") != "" {
		runs, length = 200, 2000
	}
	for seed := range runs {
		t.Run(fmt.Sprint(seed), func(t *testing.T) {
			t.Parallel()
			differential(t, uint64(seed), length)
		})
	}
}

func differential(t *testing.T, seed uint64, length int) {
	a := &author{Rand: rand.New(rand.NewPCG(seed, 7))}
	o := Options{CacheBytes: 16 * PageSize}
	if seed%2 == 0 {
		o = Options{}
	}
	r, plain := newRig(t, o), newPlain(t)
	for i := range 4 {
		_, rest, _ := strings.Cut(a.createTable(), " (")
		text := fmt.Sprintf("CREATE TABLE t%d (%s", i, rest)
		must(t, plain.Exec(text), text)
		r.exec(text)
	}
	var log []string
	fail := func(format string, args ...any) {
		t.Helper()
		t.Fatalf("%s\nafter\n%s", fmt.Sprintf(format, args...), strings.Join(log[max(0, len(log)-40):], ";\n"))
	}
	var x *turn
	var conn *sql.Conn
	begin := func() {
		x = r.write()
		var err error
		conn, err = x.handle.Conn(context.Background())
		must(t, err)
	}
	end := func(commit bool) {
		conn.Close()
		if !commit {
			x.Rollback()
		} else if err := x.commit(); err != nil {
			fail("commit: %v", err)
		}
	}
	compare := func(text string) {
		t.Helper()
		// A statement of a turn is in a transaction. That matters: SQLite undoes less of some
		// failed statements.
		alone := plain.GetAutocommit() && !controls.MatchString(text)
		if alone {
			must(t, plain.Exec("BEGIN"), text)
		}
		want := plainSQL(plain, text)
		if alone {
			must(t, plain.Exec("COMMIT"), text)
		}
		got := sessionSQL(conn, text)
		log = append(log, text)
		if got != want {
			fail("%s\nin a session: %.2000s\nplain: %.2000s", text, got, want)
		}
	}
	begin()
	for range length {
		compare(a.statement())
		if a.IntN(12) > 0 || len(x.tx) > 0 {
			continue
		}
		if !plain.GetAutocommit() {
			fail("the plain database has a transaction and the session has none")
		}
		compare("PRAGMA integrity_check")
		end(true)
		switch a.IntN(6) {
		case 0: // uncommitted changes leave no trace
			begin()
			for range 5 {
				if text := a.statement(); !strings.HasPrefix(text, "PRAGMA") {
					sessionSQL(conn, text)
				}
			}
			end(false)
		case 1:
			r.db.Discard()
		case 2:
			r.pool.Close()
			r = r.again(o)
		}
		begin()
		for i := range 4 {
			compare(fmt.Sprintf("SELECT rowid, * FROM t%d ORDER BY rowid", i))
		}
		compare("SELECT type, name, tbl_name, sql FROM sqlite_schema ORDER BY name")
	}
}
