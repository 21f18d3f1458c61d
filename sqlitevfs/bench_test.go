package sqlitevfs

import (
	"context"
	"database/sql"
	"math/rand/v2"
	"strings"
	"testing"
)

// A benchmarked is a database with a table, whose sessions commit to one writer.
type benchmarked struct {
	*rig
	b *testing.B
	w *mapWriter
}

const (
	benchTable  = "CREATE TABLE t(id INTEGER PRIMARY KEY, k TEXT, v INTEGER, body TEXT)"
	benchInsert = "INSERT INTO t(k, v, body) VALUES(?, ?, ?)"
	benchPoint  = "SELECT v, body FROM t WHERE id = ?"
)

var benchBody = strings.Repeat("a body of some length. ", 4)[:90]

func newBenchmarked(b *testing.B, rows int) *benchmarked {
	b.Helper()
	r := newRig(b, Options{})
	x := &benchmarked{r, b, r.store.writer()}
	x.write(func(db handle) {
		db.run(benchTable)
		for i := range rows {
			db.run(benchInsert, "a key", i, benchBody)
		}
	})
	b.ReportAllocs()
	b.ResetTimer()
	return x
}

func (x *benchmarked) write(f func(handle)) {
	s := x.db.Write(context.Background(), x.w)
	f(handle{x.b, s.DB()})
	must(x.b, errOf(s.Commit()))
}

func (x *benchmarked) read(f func(handle)) {
	s := x.db.Read(context.Background(), x.w)
	f(handle{x.b, s.DB()})
	s.Rollback()
}

// point reads a row.
func (x *benchmarked) point(row *sql.Row) {
	var v int
	var body string
	must(x.b, row.Scan(&v, &body))
}

// reopen closes the connections.
func (x *benchmarked) reopen() {
	x.db.Close()
	x.open("bench")
}

// BenchmarkSession runs sessions from begin to end.
func BenchmarkSession(b *testing.B) {
	const rows = 1000
	for name, f := range map[string]func(x *benchmarked, i int){
		"insert": func(x *benchmarked, i int) {
			x.write(func(db handle) { db.run(benchInsert, "a key", i, benchBody) })
		},
		"select": func(x *benchmarked, i int) {
			x.read(func(db handle) { x.point(db.QueryRow(benchPoint, 1+i%rows)) })
		},
		"open, select, close": func(x *benchmarked, i int) {
			x.read(func(db handle) { x.point(db.QueryRow(benchPoint, 1+i%rows)) })
			x.reopen()
		},
		"create": func(x *benchmarked, _ int) { // a database with a table and a row
			x.reopen()
			x.w = (&mapStore{keys: keys{}}).writer()
			x.write(func(db handle) {
				db.run(benchTable)
				db.run(benchInsert, "a key", 1, benchBody)
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

// BenchmarkInsertMany inserts with one statement, in write sessions of 100,000 rows. Its figure is
// per row.
func BenchmarkInsertMany(b *testing.B) {
	x := newBenchmarked(b, 0)
	for done := 0; done < b.N; {
		x.write(func(db handle) {
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

// BenchmarkPoint selects by key in one read session. The large table does not fit into the page
// cache.
func BenchmarkPoint(b *testing.B) {
	for name, rows := range map[string]int{"cached": 1000, "large": 100_000} {
		b.Run(name, func(b *testing.B) {
			x := newBenchmarked(b, rows)
			x.read(func(db handle) {
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

// BenchmarkScan reads 100,000 rows in a read session: on the connection that is there, and on a new
// one.
func BenchmarkScan(b *testing.B) {
	const rows = 100_000
	for _, name := range []string{"warm", "new"} {
		b.Run(name, func(b *testing.B) {
			x := newBenchmarked(b, rows)
			for range b.N {
				if name == "new" {
					x.reopen()
				}
				x.read(func(db handle) {
					all, err := db.Query("SELECT id, k, v, body FROM t")
					must(b, err)
					defer all.Close()
					n := 0
					for ; all.Next(); n++ {
						var id, v int
						var k, body string
						must(b, all.Scan(&id, &k, &v, &body))
					}
					if all.Err() != nil || n != rows {
						b.Fatal(n, all.Err())
					}
				})
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/rows, "ns/row")
		})
	}
}
