package sqlitevfs

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strings"
	"testing"
)

func TestExtensionsWork(t *testing.T) {
	for name, s := range map[string]struct{ setup, query, want string }{
		"fts5": {
			`CREATE VIRTUAL TABLE doc USING fts5 (title, body);
			 INSERT INTO doc VALUES ('one', 'the quick brown fox'), ('two', 'a lazy dog'), ('three', 'the fox and the dog')`,
			`SELECT title, highlight(doc, 1, '[', ']') FROM doc('fox') ORDER BY bm25(doc), title`,
			"one|the quick brown [fox],three|the [fox] and the dog",
		},
		"fts5 by a trigger": {
			`CREATE TABLE note (id INTEGER PRIMARY KEY, body); CREATE VIRTUAL TABLE doc USING fts5 (body, content = 'note', content_rowid = 'id');
			 CREATE TRIGGER note_in AFTER INSERT ON note BEGIN INSERT INTO doc (rowid, body) VALUES (new.id, new.body); END;
			 INSERT INTO note (body) VALUES ('renew passport'), ('buy milk')`,
			`SELECT rowid, body FROM doc WHERE doc MATCH 'milk'`, "2|buy milk",
		},
		"rtree": {
			`CREATE VIRTUAL TABLE box USING rtree (id, x0, x1, y0, y1); INSERT INTO box VALUES (1, 0, 1, 0, 1), (2, 5, 6, 5, 6), (3, 0, 10, 0, 10)`,
			`SELECT id FROM box WHERE x0 <= 5.5 AND x1 >= 5.5 AND y0 <= 5.5 AND y1 >= 5.5 ORDER BY id`, "2,3",
		},
		"geopoly": {
			`CREATE VIRTUAL TABLE area USING geopoly (name); INSERT INTO area (_shape, name) VALUES ('[[0,0],[4,0],[4,4],[0,4],[0,0]]', 'square')`,
			`SELECT name, geopoly_area(_shape) FROM area WHERE geopoly_contains_point(_shape, 1, 1)`, "square|16",
		},
		"vec1": {
			`CREATE TABLE point (id INTEGER PRIMARY KEY, v); INSERT INTO point (v) VALUES (vec1_from_json('[0,0]')), (vec1_from_json('[3,4]')), (vec1_from_json('[1,0]'))`,
			`SELECT id, vec1_l2_distance(v, vec1_from_json('[3,4]')) AS d FROM point ORDER BY d LIMIT 1`, "2|0",
		},
		"functions in a schema": {
			`CREATE TABLE t (a, b AS (replace(a, 'x', 'y')) STORED, CHECK (instr(a, 'z') = 0)); CREATE INDEX i ON t (trim(a, 'x')); INSERT INTO t (a) VALUES ('xax')`,
			`SELECT b FROM t INDEXED BY i WHERE trim(a, 'x') = 'a'`, "yay",
		},
		"functions": {
			`CREATE TABLE n (v); INSERT INTO n SELECT value FROM generate_series(1, 4)`,
			`SELECT sum(sqrt(v * v)), percent_rank() OVER (ORDER BY v), decimal_add('0.1', '0.2'), 'abc' REGEXP '^a.c$', jsonb('[7]') ->> 0 FROM n GROUP BY 1 > 2`,
			"10|0|0.3|1|7",
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			r := newRig(t, Options{})
			r.turn(func(db handle) {
				db.run(s.setup)
				db.want(s.query, s.want)
			})
			r.sound(s.query, s.want)
			r.db.Discard() // closes the connection that wrote
			r.turn(func(db handle) { db.sound(s.query, s.want) })
			fresh := r.again(Options{}) // does not know the needed extensions
			fresh.sound(s.query, s.want)
			fresh.turn(func(db handle) {
				db.run("VACUUM")
				db.want(s.query, s.want)
			})
		})
	}
}

func TestExtensionIsFoundForSchemasThatCannotBeReadWithoutIt(t *testing.T) {
	r := newRig(t, Options{}, "CREATE VIRTUAL TABLE doc USING fts5 (body); CREATE VIEW v AS SELECT body FROM doc; CREATE TABLE p (s)",
		"CREATE INDEX i ON p (geopoly_area(s)); INSERT INTO p VALUES ('[[0,0],[1,0],[1,1],[0,0]]')")
	for _, text := range []string{"ALTER TABLE p RENAME TO q", "SELECT * FROM v", "SELECT geopoly_area(s) FROM p",
		"INSERT INTO p VALUES (NULL)", "PRAGMA integrity_check", "VACUUM", "DROP TABLE doc"} {
		r.again(Options{}).write().run(text)
	}
}

// TestFunctionsReturnWhatThoseOfSQLiteReturn compares them with a plain connection of the library,
// on values of each kind.
func TestFunctionsReturnWhatThoseOfSQLiteReturn(t *testing.T) {
	t.Parallel()
	plain := newPlain(t)
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "ab", "é", "\u20ac", "\U0001f600", " ", "aa"}
	value := func() string {
		fixed := []string{"NULL", "12.5", "''", "x''", "21", "char(0)||'a'"}
		switch n := random.IntN(12); {
		case n < len(fixed):
			return fixed[n]
		case n == len(fixed):
			return fmt.Sprintf("x'%x'", [...]string{"\x82", "\xac", "\x00a", "\xe2", "a\x82", "\x82b", "\xe2\x82"}[random.IntN(7)])
		}
		var b strings.Builder
		for range random.IntN(6) {
			b.WriteString(pieces[random.IntN(len(pieces))])
		}
		if random.IntN(3) == 0 {
			return fmt.Sprintf("x'%x'", b.String())
		}
		return "'" + b.String() + "'"
	}
	r := newRig(t, Options{})
	r.view(func(db handle) {
		for range 800 {
			call := []string{"instr(%s, %s)", "trim(%s, %s)", "ltrim(%s, %s)", "rtrim(%s, %s)", "replace(%s, %s, %s)"}[random.IntN(5)]
			args := []any{value(), value(), value()}
			call = fmt.Sprintf(call, args[:strings.Count(call, "%")]...)
			text := "SELECT typeof(v), hex(v), length(CAST(v AS BLOB)) FROM (SELECT " + call + " AS v)"
			same(t, sessionSQL(db.DB, text), plainSQL(plain, text), call)
		}
	})
}

// TestFunctionsOfLongArgumentsEnd makes calls that take less than a second. With SQLite's own
// functions each takes from 10 s to minutes.
func TestFunctionsOfLongArgumentsEnd(t *testing.T) {
	newRig(t, Options{}).view(func(db handle) {
		for text, want := range map[string]string{
			"instr(zeroblob(2000000), zeroblob(100000) || x'01')":                                                                       "0",
			"instr(zeroblob(2000000) || x'01', zeroblob(100000) || x'01')":                                                              "1900001",
			"length(replace(printf('%.*c', 2000000, 'a'), printf('%.*c', 100000, 'a') || 'b', 'c'))":                                    "2000000",
			"length(trim(printf('%.*c', 2000000, 'a'), replace(hex(zeroblob(100000)), '0', char(233)) || printf('%.*c', 9, 'b')||'a'))": "0",
		} {
			db.want("SELECT "+text, want)
		}
		db.fails(ErrTooBig, "", "SELECT replace(printf('%.*c', 2000000, 'a'), 'a', 'bbbbbbbbbbbb')")
		db.fails(nil, "pattern too complex", "SELECT 'a' LIKE printf('%.*c', 1001, '%')")
	})
}

func BenchmarkInstr(b *testing.B) {
	r := newRig(b, Options{})
	r.view(func(db handle) {
		for b.Loop() {
			db.ask("WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000) SELECT sum(instr('some text that is found', 'found')) FROM c")
		}
	})
}

// nested returns a chain of views that C's stack is too small for.
func nested(n int) string {
	var b strings.Builder
	b.WriteString("CREATE TABLE v0 (a);")
	for i := range n {
		fmt.Fprintf(&b, "CREATE VIEW v%d AS SELECT a + 1 AS a FROM v%d WHERE a > 1;", i+1, i)
	}
	return b.String()
}

// newLogged returns a rig and its log, which reports lost memory.
func newLogged(t *testing.T, texts ...string) (*rig, *bytes.Buffer) {
	log := new(bytes.Buffer)
	return newRig(t, Options{Logger: slog.New(slog.NewTextHandler(log, nil))}, texts...), log
}

func TestStatementThatIsTooComplexCostsItsSessionOnly(t *testing.T) {
	r, log := newLogged(t, nested(300))
	chain := "WITH c0 AS (SELECT 1 AS a)"
	for i := range 900 {
		chain += fmt.Sprintf(", c%d AS (SELECT a + 1 AS a FROM c%d WHERE a > 1)", i+1, i)
	}
	for _, text := range []string{"SELECT * FROM v300", chain + " SELECT * FROM c900"} {
		wantError(t, r.try(context.Background(), func(db handle) error {
			db.run("INSERT INTO v0 VALUES (1)")
			rows, err := db.Query("SELECT 1 UNION ALL SELECT 2") // stays open meanwhile
			must(t, err)
			defer rows.Close()
			tx, err := db.Begin()
			must(t, err)
			defer tx.Rollback()
			err = errOf(answer(db, text))
			wantError(t, err, ErrMemory, "too complex")
			wantBound(t, err, ErrMemory, "SQL stack", stackBytes, stackBytes+1)
			db.fails(ErrMemory, "the session cannot go on", "SELECT 1")
			return nil
		}), ErrMemory, "too complex")
		r.view(func(db handle) { db.fails(ErrMemory, "", text) })
		s := r.pool.Stats()
		errorIf(t, s.Open != 0 || s.Bytes != 0, "a broken connection is still counted: %+v", s)
	}
	r.sound("SELECT count(*) FROM v0", "0")
	errorIf(t, log.Len() > 0, "memory was lost: %s", log)
}

func TestLimitsStopStatementsBeforeTheStackEnds(t *testing.T) {
	deep := func(before, inner, after string, n int) string {
		return strings.Repeat(before, n) + inner + strings.Repeat(after, n)
	}
	newRig(t, Options{}).view(func(db handle) {
		for _, text := range []string{
			deep("SELECT * FROM (", "SELECT 1", ")", 400),
			deep("SELECT sum(a) OVER () AS a FROM (", "SELECT 1 AS a", ")", 150),
			"SELECT " + deep("NOT ", "random()", "", 600),
		} {
			err := errOf(answer(db, text))
			errorIf(t, err == nil || errors.Is(err, ErrMemory), "%.40s: %v", text, err)
		}
		for _, text := range []string{ // the limits allow these
			deep("SELECT * FROM (", "SELECT 1", ")", 60),
			deep("SELECT sum(a) OVER () AS a FROM (", "SELECT 1 AS a", ")", 60),
			"SELECT 1 WHERE random()" + strings.Repeat(" AND random()", 480),
			"SELECT random()" + strings.Repeat(" UNION SELECT random() UNION ALL SELECT random()", 74) + " ORDER BY 1",
		} {
			db.ask(text)
		}
	})
}

func TestLongNamesAreErrors(t *testing.T) {
	r, log := newLogged(t)
	long := strings.Repeat("n", 1_100_000)
	for _, text := range []string{
		`SELECT 1 AS "` + long + `"`, `SAVEPOINT "` + long + `"`, `PRAGMA user_version='` + long + `'`, `SELECT :` + long,
		`CREATE TABLE "` + long + `" (a)`, `CREATE TABLE z (a "` + long + `")`, `SELECT "` + long + `"()`,
	} {
		err := r.tryExec(text)
		_, ok := errors.AsType[*Error](err)
		errorIf(t, !ok, "%.20s: %.100v", text, err)
	}
	for _, name := range []string{"table_info", "index_list", "foreign_key_check", "integrity_check"} {
		r.tryExec("SELECT * FROM pragma_"+name+"(?)", long) // may be empty, or an error
	}
	r.exec(`SELECT 1 AS "` + long[:999_900] + `"`) // just short enough
	errorIf(t, log.Len() > 0, "memory was lost: %.300s", log)
}

// panicky is a store that panics when its pages are read, or even when the database is opened.
type panicky struct {
	Reader
	opened bool
}

func (p panicky) Get(dst, key []byte) ([]byte, bool, error) {
	if p.opened && (len(key) < pageKeySize || key[pageKeySize-1] == 0) {
		return p.Reader.Get(dst, key)
	}
	panic("the store's")
}

func TestPanicOfTheStoreIsPassedOn(t *testing.T) {
	r := newRig(t, Options{}, "CREATE TABLE t (a); INSERT INTO t VALUES (1)")
	for _, opened := range []bool{true, false} {
		x := r.readFrom(panicky{r.store.snapshot(), opened})
		func() {
			defer func() { same(t, recover(), "the store's") }()
			answer(x.handle, "SELECT * FROM t")
		}()
		fatalIf(t, !x.mu.TryLock(), "the session is locked")
		x.mu.Unlock()
		if opened {
			x.fails(nil, "cannot go on: panic", "SELECT 1")
		}
		x.Rollback()
		s := r.pool.Stats()
		errorIf(t, s.Open != 1 || s.InUse != 0, "%+v", s) // the connection that wrote
	}
}
