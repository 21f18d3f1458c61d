package sqlitevfs

import (
	"bytes"
	"cmp"
	"context"
	"database/sql"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// A sorted is a store in memory, as fast as one can be: what is left is SQLite and this package.
type sorted struct {
	values map[string][]byte
	keys   []string // in order, of values
}

func (s *sorted) Get(dst, key []byte) ([]byte, bool, error) {
	v, ok := s.values[string(key)]
	return append(dst, v...), ok, nil
}

func (s *sorted) Scan(start, end []byte, f func(key, value []byte) bool) error {
	i, _ := slices.BinarySearch(s.keys, string(start))
	for ; i < len(s.keys) && (end == nil || s.keys[i] < string(end)); i++ {
		if !f([]byte(s.keys[i]), s.values[s.keys[i]]) {
			return nil
		}
	}
	return nil
}

func (s *sorted) Put(key, value []byte, old int) error {
	v, ok := s.values[string(key)]
	if !ok {
		i, _ := slices.BinarySearch(s.keys, string(key))
		s.keys = slices.Insert(s.keys, i, string(key))
	}
	s.values[string(key)] = append(v[:0], value...)
	return nil
}

func (s *sorted) DeleteRange(start, end []byte) error {
	s.keys = slices.DeleteFunc(s.keys, func(k string) bool {
		gone := bytes.Compare([]byte(k), start) >= 0 && (end == nil || cmp.Compare(k, string(end)) < 0)
		if gone {
			delete(s.values, k)
		}
		return gone
	})
	return nil
}

func (s *sorted) Room() int64 { return 1 << 40 }

// A benchmarked is a database with a table.
type benchmarked struct {
	b        *testing.B
	store    *sorted
	pool     *Pool
	database *Database
}

const (
	benchTable  = "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v INTEGER, body TEXT)"
	benchInsert = "INSERT INTO t(k, v, body) VALUES(?, ?, ?)"
	benchPoint  = "SELECT v, body FROM t WHERE id = ?"
)

var benchBody = strings.Repeat("a body of some length. ", 4)[:90]

func newBenchmarked(b *testing.B, rows int) *benchmarked {
	b.Helper()
	pool, err := NewPool(Options{})
	must(b, err)
	x := &benchmarked{b, &sorted{values: make(map[string][]byte)}, pool, pool.Database("bench")}
	b.Cleanup(func() {
		x.database.Close()
		check(b, pool.Close())
	})
	x.write(func(db *sql.DB) {
		x.exec(db, benchTable)
		for i := range rows {
			x.exec(db, benchInsert, "a key", i, benchBody)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	return x
}

func (x *benchmarked) exec(db *sql.DB, text string, args ...any) {
	must(x.b, errOf(db.Exec(text, args...)))
}

func (x *benchmarked) write(f func(*sql.DB)) {
	s := x.database.Write(context.Background(), x.store)
	f(s.DB())
	must(x.b, errOf(s.Commit()))
}

func (x *benchmarked) read(f func(*sql.DB)) {
	s := x.database.Read(context.Background(), x.store)
	f(s.DB())
	s.Rollback()
}

func (x *benchmarked) point(row *sql.Row) {
	var v int
	var body string
	must(x.b, row.Scan(&v, &body))
}

// reopen closes the connections.
func (x *benchmarked) reopen() {
	x.database.Close()
	x.database = x.pool.Database("bench")
}

// BenchmarkSession has sessions from their begin to their end.
func BenchmarkSession(b *testing.B) {
	const rows = 1000
	for name, f := range map[string]func(x *benchmarked, i int){
		"insert": func(x *benchmarked, i int) {
			x.write(func(db *sql.DB) { x.exec(db, benchInsert, "a key", i, benchBody) })
		},
		"select": func(x *benchmarked, i int) {
			x.read(func(db *sql.DB) { x.point(db.QueryRow(benchPoint, 1+i%rows)) })
		},
		"open, select, close": func(x *benchmarked, i int) {
			x.read(func(db *sql.DB) { x.point(db.QueryRow(benchPoint, 1+i%rows)) })
			x.reopen()
		},
		"create": func(x *benchmarked, _ int) { // a database with a table and a row
			x.reopen()
			x.store = &sorted{values: make(map[string][]byte)}
			x.write(func(db *sql.DB) {
				x.exec(db, benchTable)
				x.exec(db, benchInsert, "a key", 1, benchBody)
			})
		},
	} {
		b.Run(name, func(b *testing.B) {
			x := newBenchmarked(b, rows)
			for i := range b.N {
				f(x, i)
			}
		})
	}
}

// BenchmarkInsertMany inserts with one statement, in write sessions of 100,000 rows. Its figure is per row.
func BenchmarkInsertMany(b *testing.B) {
	x := newBenchmarked(b, 0)
	for done := 0; done < b.N; {
		x.write(func(db *sql.DB) {
			stmt, err := db.Prepare(benchInsert)
			must(b, err)
			defer stmt.Close()
			for range min(100_000, b.N-done) {
				must(b, errOf(stmt.Exec("a key", done, benchBody)))
				done++
			}
		})
	}
}

// BenchmarkPoint selects by key in one read session. The large table does not fit into the page cache.
func BenchmarkPoint(b *testing.B) {
	for name, rows := range map[string]int{"cached": 1000, "large": 100_000} {
		b.Run(name, func(b *testing.B) {
			x := newBenchmarked(b, rows)
			x.read(func(db *sql.DB) {
				stmt, err := db.Prepare(benchPoint)
				must(b, err)
				defer stmt.Close()
				for range b.N {
					x.point(stmt.QueryRow(1 + rand.IntN(rows)))
				}
			})
		})
	}
}

// BenchmarkScan reads 100,000 rows in a read session: on the connection that is there, and on a new one.
func BenchmarkScan(b *testing.B) {
	const rows = 100_000
	for _, name := range []string{"warm", "new"} {
		b.Run(name, func(b *testing.B) {
			x := newBenchmarked(b, rows)
			for range b.N {
				if name == "new" {
					x.reopen()
				}
				x.read(func(db *sql.DB) {
					all, err := db.Query("SELECT id, k, v, body FROM t")
					must(b, err)
					defer all.Close()
					n := 0
					for ; all.Next(); n++ {
						var id, v int
						var k, body string
						must(b, all.Scan(&id, &k, &v, &body))
					}
					fatalIf(b, all.Err() != nil || n != rows, "%d rows, %v", n, all.Err())
				})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
