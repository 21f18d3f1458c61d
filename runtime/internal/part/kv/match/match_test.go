package match

import (
	"context"
	"database/sql"
	"fmt"
	"strings"
	"testing"

	"github.com/cairn-run/cairn/keyspace/testutil"
	"github.com/cairn-run/cairn/sqlitevfs"
)

var fields = []string{"title", "a.b", "a.b:c"}

func TestCompile(t *testing.T) {
	for _, c := range []struct{ text, want string }{
		{`red`, `"red"`},
		{`red apple`, `("red" AND "apple")`},
		{`red AND apple`, `("red" AND "apple")`},
		{`"red apple"`, `"red apple"`},
		{`"a ""b"" c"`, `"a ""b"" c"`},
		{`app*`, `"app" *`},
		{`"red app"*`, `"red app" *`},
		{`red OR green blue`, `("red" OR ("green" AND "blue"))`},
		{`(red OR green) blue`, `(("red" OR "green") AND "blue")`},
		{`apple NOT red`, `("apple" NOT "red")`},
		{`apple -red -"dark green" x`, `(("apple" AND "x") NOT ("red" OR "dark green"))`},
		{`NOT red apple`, `("apple" NOT "red")`},
		{`NEAR(red apple)`, `NEAR("red" "apple", 10)`},
		{`NEAR(red "apple pie"*, 5)`, `NEAR("red" "apple pie" *, 5)`},
		{`NEAR(red)`, `"red"`},
		{`title:red`, `(c0 : ("red"))`},
		{`title:"red apple" a.b:(x OR y)`, `((c0 : ("red apple")) AND (c1 : (("x" OR "y"))))`},
		{`a.b:c:x`, `(c2 : ("x"))`},
		{`title:NEAR(a b, 0)`, `(c0 : (NEAR("a" "b", 0)))`},
		{`a b a a`, `("a" AND "b")`}, {`a a*`, `("a" AND "a" *)`}, {`a OR "a" OR (a a)`, `"a"`},
		{strings.Repeat("a ", 100), `"a"`},
		{`rock & roll`, `("rock" AND "roll")`},
		{`O'Brien`, `"O'Brien"`},
		{`x-ray`, `"x-ray"`},
		{`or and not near`, `("or" AND "and" AND "not" AND "near")`},
		{`NEARBY`, `"NEARBY"`},
		{"a\x00b", `("a" AND "b")`},
	} {
		got, err := Compile(c.text, fields, "unicode61")
		errorIf(t, err != nil || got != c.want, "%s: %s, %v; want %s", c.text, got, err, c.want)
	}
}

func TestCompileRefuses(t *testing.T) {
	for text, want := range map[string]string{
		``: "has no word", ` `: "has no word", `***`: "has no word", `& !`: "has no word", `""`: "has no word", `NEAR(& , 3)`: "has no word", `()`: "has parentheses without a word",
		`"a`: "has a quote that nothing closes", `(a`: "has a ( that nothing closes", `a)`: "has a ) that nothing opens", `a OR`: "has nothing after OR", `a OR OR b`: "has nothing before OR", `(a OR)`: "has nothing after OR",
		`OR a`: "has nothing before OR", `AND a`: "has nothing before AND", `a AND`: "has nothing after AND", `a NOT`: "has nothing after NOT", `a AND OR b`: "has nothing after AND",
		`-a`: "says only what to leave out", `a OR -b`: "says only what to leave out", `NOT a`: "says only what to leave out",
		`NEAR(a b`: "has a NEAR( that nothing closes", `NEAR(a (b))`: "has a NEAR of more than words and phrases",
		`NEAR(a b, x)`: "has a NEAR whose words are not followed by a comma, 0 to 1000, and )", `NEAR(a b, 1001)`: "has a NEAR whose words are not followed by a comma, 0 to 1000, and )",
		`name:x`: `names the field "name", which the index does not have; put in quotes what is none`, `title:`: "has a field without a word",
		`((((((((((((((((((a))))))))))))))))))`: "has more than 16 parentheses around each other",
	} {
		got, err := Compile(text, fields, "unicode61")
		errorIf(t, err == nil || err.Error() != want, "%s: %s, %v; want %s", text, got, err, want)
	}
	_, err := Compile("ab", fields, "trigram")
	errorIf(t, err == nil || err.Error() != "has no word of 3 characters, which trigram needs", "%v", err)
	if got, err := Compile("é€", fields, "ascii"); err != nil || got != `"é€"` {
		t.Error(got, err)
	}
}

func TestCompileBoundsPhrases(t *testing.T) {
	var b strings.Builder
	for i := range maxPhrases {
		fmt.Fprintf(&b, `"a""%d" `, i)
	}
	if _, err := Compile(b.String(), fields, "unicode61"); err != nil {
		t.Error(err)
	}
	for _, more := range []string{"b", `"b c"`, "NEAR(b c)", "title:b"} {
		got, err := Compile(b.String()+more, fields, "unicode61")
		errorIf(t, err == nil || err.Error() != "has more than 32 words and phrases", "%v %v", got, err)
	}
}

// nothing is an empty database.
type nothing struct{}

func (nothing) Get(dst, _ []byte) ([]byte, bool, error)                { return dst, false, nil }
func (nothing) Scan(_, _ []byte, _ func(key, value []byte) bool) error { return nil }

var tokenizers = []string{"unicode61 remove_diacritics 2", "porter unicode61 remove_diacritics 2", "ascii", "trigram"}

// tables returns a database with a table for each tokenizer.
func tables(t testing.TB) *sql.DB {
	pool, err := sqlitevfs.NewPool(sqlitevfs.Options{})
	must(t, err)
	s := pool.Database("test").Write(context.Background(), sqlitevfs.Scratch(nothing{}, 64<<20))
	t.Cleanup(func() {
		s.Rollback()
		check(t, pool.Close())
	})
	for i, name := range tokenizers {
		for _, text := range []string{
			"CREATE VIRTUAL TABLE t" + Column(i) + " USING fts5 (c0, c1, key UNINDEXED, tokenize='" + name + "')",
			"INSERT INTO t" + Column(i) + " VALUES ('The red apple', 'a dark green leaf', 'apple'), ('Émile', 'x-ray 12:30', 'red')",
		} {
			_, err := s.DB().Exec(text)
			must(t, err)
		}
	}
	return s.DB()
}

var short = []string{"unicode61", "porter", "ascii", "trigram"}

// FuzzCompile checks that FTS5 accepts everything that Compile passes, with each tokenizer.
func FuzzCompile(f *testing.F) {
	for _, text := range []string{
		"red", `"red apple"*`, "NEAR(red apple, 2) -leaf", "title:(red OR green) NOT a.b:x*", "a\x00b", `""`, "'; DROP TABLE t --", "{c0} : x", "c0:x", "^red", "red + apple", "a b c d e f g h",
		"((((((((((((((((a))))))))))))))))", "-a -b c OR d -e", "😀 ñ \xff", "ab abc", "\uFFFD", "\u0301", "NEAR(a, 1) NEAR(b c)*", "title:title:title:a", "AND", "a AND NOT b", "²", "\ue000",
	} {
		f.Add(text)
	}
	db := tables(f)
	f.Fuzz(func(t *testing.T, text string) {
		if len(text) > 1000 {
			return
		}
		for i, name := range short {
			query, err := Compile(text, []string{"title", "a.b"}, name)
			if err != nil {
				continue
			}
			var n int
			err = db.QueryRow("SELECT count(*) FROM t"+Column(i)+" WHERE t"+Column(i)+" MATCH ?", query).Scan(&n)
			errorIf(t, err != nil, "%q becomes %s for %s: %v", text, query, name, err)
		}
	})
}

func TestMatches(t *testing.T) {
	db := tables(t)
	for _, c := range []struct {
		text string
		of   int
		want int
	}{
		{"apple", 0, 1}, {"emile", 0, 1}, {"12\\:30", 0, 0}, {`"12:30"`, 0, 1}, {"x-ray", 0, 1}, {"ray-x", 0,
			0}, {"leaves", 1, 0}, {"leafs", 1, 1}, {"pple", 3, 1}, {"title:leaf", 0, 0},
		{"a.b:leaf", 0, 1}, {"app*", 0, 1}, {"NEAR(the apple, 1)", 0, 1}, {"NEAR(the apple, 0)", 0, 0}, {"red -green",
			0, 0}, {"red OR émile", 0, 2}, {"rock & red", 0, 0}, {"& red", 0, 1},
		{"émile", 2, 0}, {"Émile", 2, 1},
	} {
		query, err := Compile(c.text, []string{"title", "a.b"}, short[c.of])
		if err != nil {
			errorIf(t, c.want != 0, "%v %v", c.text, err)
			continue
		}
		var n int
		err = db.QueryRow("SELECT count(*) FROM t"+Column(c.of)+" WHERE t"+Column(c.of)+" MATCH ?", query).Scan(&n)
		errorIf(t, err != nil || n != c.want, "%s: %d, %v; want %d", c.text, n, err, c.want)
	}
}

var must, check, errorIf = testutil.Must, testutil.Check, testutil.ErrorIf
