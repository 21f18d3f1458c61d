package main

import (
	"database/sql"
	"os"
	"path/filepath"
	"strconv"
	"time"

	"github.com/ncruces/go-sqlite3/driver"

	"github.com/cairn-run/cairn/runtime"
	"github.com/cairn-run/cairn/runtime/bench/internal/usage"
)

// A library keeps databases in files, in WAL mode, where each commit is synced.
type library struct {
	name string
	open func(path string) (*sql.DB, error)
}

// sameLibrary is the library that the databases of actors run on. It is opened without its name for
// database/sql, which mattn/go-sqlite3 has too.
var sameLibrary = library{"files of the same library", func(path string) (*sql.DB, error) {
	return driver.Open("file:" + path +
		"?_pragma=busy_timeout(10000)&_pragma=journal_mode(wal)&_pragma=synchronous(full)")
}}

func (l library) must(path string) *sql.DB {
	db, err := l.open(path)
	check(err)
	return db
}

// files runs f with an empty directory.
func (b *bench) files(f func(dir string)) {
	dir, err := os.MkdirTemp(b.dir, "files-")
	check(err)
	defer os.RemoveAll(dir)
	f(dir)
}

// file runs f with a database that has the table with n rows.
func (b *bench) file(l library, n int, f func(path string, db *sql.DB)) {
	b.files(func(dir string) {
		path := filepath.Join(dir, "db")
		db := l.must(path)
		_, err := db.Exec(sqlSchema)
		check(err)
		fillFile(db, n)
		f(path, db)
		check(db.Close())
	})
}

func fillFile(db *sql.DB, n int) {
	tx, err := db.Begin()
	check(err)
	stmt, err := tx.Prepare(sqlInsert)
	check(err)
	for i := range n {
		k, v, body := sqlArgs(i)
		_, err := stmt.Exec(k, v, body)
		check(err)
	}
	check(stmt.Close())
	check(tx.Commit())
}

// inserter returns a prepared insert of one row.
func inserter(db *sql.DB) func(i int) {
	stmt, err := db.Prepare(sqlInsert)
	check(err)
	return func(i int) {
		k, v, body := sqlArgs(i)
		_, err := stmt.Exec(k, v, body)
		check(err)
	}
}

func (b *bench) fileInsert(l library) (v float64) {
	b.file(l, 0, func(_ string, db *sql.DB) { v = b.p50(inserter(db)) })
	return v
}

func (b *bench) fileInserts(l library, n int) (v float64) {
	b.files(func(dir string) {
		open := openFiles(l, dir, n)
		v = b.load(n, func(w, i int) { open[w].insert(i) })
		closeFiles(open)
	})
	return v
}

// A fileTable is an open database with its insert.
type fileTable struct {
	db     *sql.DB
	insert func(i int)
}

func openFiles(l library, dir string, n int) []fileTable {
	open := make([]fileTable, n)
	rateOnce(8, n, func(i int) {
		db := l.must(filepath.Join(dir, "db-"+strconv.Itoa(i)))
		_, err := db.Exec(sqlSchema)
		check(err)
		open[i] = fileTable{db, inserter(db)}
		open[i].insert(0)
	})
	return open
}

func closeFiles(open []fileTable) {
	for _, t := range open {
		check(t.db.Close())
	}
}

// fileMixed is what a turn does, by somebody whose rows are in a file: five statements that commit,
// the state and the entry each in a turn.
func (b *bench) fileMixed(l library) (v float64) {
	b.file(l, 0, func(_ string, db *sql.DB) {
		b.shop(runtime.Options{}, func(s shopNode) {
			insert := inserter(db)
			v = b.load(1, func(_, i int) {
				for range mixedStatements {
					insert(i)
				}
				s.call(sqlState, "one", i)
				s.call(sqlNote, "one", i)
			})
		})
	})
	return v
}

func (b *bench) filePoints(l library) (v float64) {
	b.file(l, sqlTable, func(_ string, db *sql.DB) {
		stmt, err := db.Prepare(sqlPoint)
		check(err)
		v = b.load(1, func(int, int) {
			_, err := sqlPointOf(stmt.QueryRow(randomID()))
			check(err)
		})
	})
	return v
}

func (b *bench) fileBulk(l library) (v float64) {
	b.file(l, 0, func(_ string, db *sql.DB) {
		begin, spent := time.Now(), usage.Processor()
		fillFile(db, sqlTable)
		v = sqlTable / time.Since(begin).Seconds()
		b.spend(spent, sqlTable)
	})
	return v
}

// fileScans reads all rows again and again, on a new connection each time if cold.
func (b *bench) fileScans(l library, cold bool) (v float64) {
	b.file(l, sqlTable, func(path string, db *sql.DB) {
		_, err := sqlScanOf(db)
		check(err)
		again := db
		v = sqlTable / b.p50Before(func(int) {
			if cold {
				again = l.must(path)
			}
			_, err := sqlScanOf(again)
			check(err)
		}, func() {
			if cold {
				check(again.Close())
			}
		})
		b.cpu /= sqlTable
	})
	return v
}

// fileCreates makes databases: the file, the table, the first row.
func (b *bench) fileCreates(l library) (v float64) {
	b.files(func(dir string) {
		var db *sql.DB
		v = b.p50Before(func(i int) {
			db = l.must(filepath.Join(dir, strconv.Itoa(i)))
			_, err := db.Exec(sqlSchema)
			check(err)
			k, n, body := sqlArgs(i)
			_, err = db.Exec(sqlInsert, k, n, body)
			check(err)
		}, func() { check(db.Close()) })
	})
	return v
}

// fileOpens opens a database that is there and reads a row.
func (b *bench) fileOpens(l library) (v float64) {
	b.file(l, smallTable, func(path string, _ *sql.DB) {
		var db *sql.DB
		v = b.p50Before(func(i int) {
			db = l.must(path)
			_, err := sqlPointOf(db.QueryRow(sqlPoint, 1+i%smallTable))
			check(err)
		}, func() { check(db.Close()) })
	})
	return v
}
