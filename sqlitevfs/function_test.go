package sqlitevfs

import (
	"database/sql"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"
	"time"

	"github.com/ncruces/go-sqlite3"
)

// TestFunctionsReturnWhatThoseOfSQLiteReturn compares them with a connection of the library's, on values of each kind.
func TestFunctionsReturnWhatThoseOfSQLiteReturn(t *testing.T) {
	t.Parallel()
	plain, err := sqlite3.Open(":memory:")
	if err != nil {
		t.Fatal(err)
	}
	defer plain.Close()
	random := rand.New(rand.NewPCG(1, 2))
	pieces := []string{"a", "b", "ab", "é", "\u20ac", "\U0001f600", " ", "aa"}
	value := func() string {
		switch random.IntN(12) {
		case 0:
			return "NULL"
		case 1:
			return "12.5"
		case 2:
			return "''"
		case 3:
			return "x''"
		case 4:
			return "21"
		case 5:
			return "char(0)||'a'"
		case 6:
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
	r.view(func(db *sql.DB) {
		for range 1500 {
			call := []string{"instr(%s, %s)", "trim(%s, %s)", "ltrim(%s, %s)", "rtrim(%s, %s)", "replace(%s, %s, %s)"}[random.IntN(5)]
			args := []any{value(), value(), value()}
			call = fmt.Sprintf(call, args[:strings.Count(call, "%")]...)
			text := "SELECT typeof(v) || ' ' || hex(v) || ' ' || length(CAST(v AS BLOB)) FROM (SELECT " + call + " AS v)"
			st, _, err := plain.Prepare(text)
			if err != nil {
				t.Fatal(text, err)
			}
			st.Step()
			want := "NULL"
			if st.ColumnType(0) != sqlite3.NULL {
				want = st.ColumnText(0)
			}
			st.Close()
			if got := ask(t, db, text); got != want {
				t.Errorf("%s is %s, want %s", call, got, want)
			}
		}
	})
}

func TestFunctionsOfLongArgumentsEnd(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.view(func(db *sql.DB) {
		start := time.Now()
		for text, want := range map[string]string{
			"instr(zeroblob(2000000), zeroblob(100000) || x'01')":                                                                       "0",
			"instr(zeroblob(2000000) || x'01', zeroblob(100000) || x'01')":                                                              "1900001",
			"length(replace(printf('%.*c', 2000000, 'a'), printf('%.*c', 100000, 'a') || 'b', 'c'))":                                    "2000000",
			"length(trim(printf('%.*c', 2000000, 'a'), replace(hex(zeroblob(100000)), '0', char(233)) || printf('%.*c', 9, 'b')||'a'))": "0",
		} {
			wantText(t, ask(t, db, "SELECT "+text), want)
		}
		// These take less than a second. SQLite's own need from 10 s to minutes for each, and some 20 times that with the race
		// detector.
		limit := 20 * time.Second
		if RaceDetector {
			limit = 2 * time.Minute
		}
		if took := time.Since(start); took > limit {
			t.Errorf("took %v", took)
		}
		_, err := answer(db, "SELECT replace(printf('%.*c', 2000000, 'a'), 'a', 'bbbbbbbbbbbb')")
		var e *Error
		if !errors.As(err, &e) || e.Code != int(sqlite3.TOOBIG) {
			t.Errorf("a result that is too long: %v", err)
		}
		_, err = answer(db, "SELECT 'a' LIKE printf('%.*c', 1001, '%')")
		wantError(t, err, nil, "pattern too complex")
	})
}

func TestFunctionsMayBeInASchema(t *testing.T) {
	t.Parallel()
	r := newRig(t, Options{})
	r.exec(`CREATE TABLE t (a, b AS (replace(a, 'x', 'y')) STORED, CHECK (instr(a, 'z') = 0));
		CREATE INDEX i ON t (trim(a, 'x')); INSERT INTO t (a) VALUES ('xax')`)
	r.view(func(db *sql.DB) {
		wantText(t, ask(t, db, "SELECT b FROM t INDEXED BY i WHERE trim(a, 'x') = 'a'"), "yay")
	})
}

func BenchmarkInstr(b *testing.B) {
	r := newRig(b, Options{})
	r.view(func(db *sql.DB) {
		for b.Loop() {
			ask(b, db, "WITH RECURSIVE c (x) AS (SELECT 1 UNION ALL SELECT x + 1 FROM c LIMIT 1000) SELECT sum(instr('some text that is found', 'found')) FROM c")
		}
	})
}
