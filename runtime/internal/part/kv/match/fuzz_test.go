package match

import (
	"context"
	"database/sql"
	"testing"

	"github.com/cairn-run/cairn/sqlitevfs"
)

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

// FuzzCompile checks that FTS5 takes whatever Compile lets through, with each tokenizer.
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
		{"apple", 0, 1}, {"emile", 0, 1}, {"12\\:30", 0, 0}, {`"12:30"`, 0, 1}, {"x-ray", 0, 1}, {"ray-x", 0, 0}, {"leaves", 1, 0}, {"leafs", 1, 1}, {"pple", 3, 1}, {"title:leaf", 0, 0},
		{"a.b:leaf", 0, 1}, {"app*", 0, 1}, {"NEAR(the apple, 1)", 0, 1}, {"NEAR(the apple, 0)", 0, 0}, {"red -green", 0, 0}, {"red OR émile", 0, 2}, {"rock & red", 0, 0}, {"& red", 0, 1},
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
