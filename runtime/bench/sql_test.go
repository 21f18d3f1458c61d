package main

import (
	"database/sql"
	"testing"
	"time"
)

// TestFilesSyncEachCommit holds the twins to what the databases of actors promise.
func TestFilesSyncEachCommit(t *testing.T) {
	b := &bench{dir: t.TempDir()}
	for _, l := range append(otherLibraries(), sameLibrary) {
		b.file(l, 1, func(_ string, db *sql.DB) {
			var mode string
			var synchronous int
			check(db.QueryRow("PRAGMA journal_mode").Scan(&mode))
			check(db.QueryRow("PRAGMA synchronous").Scan(&synchronous))
			if mode != "wal" || synchronous != 2 {
				t.Errorf("%s: journal_mode %s, synchronous %d", l.name, mode, synchronous)
			}
		})
	}
}

// TestSQLMeasurements runs the measurements that fill no large table for a moment; they end the
// program if rows are missing.
func TestSQLMeasurements(t *testing.T) {
	b := &bench{dir: t.TempDir(), time: 5 * time.Millisecond}
	l := sameLibrary
	for name, measure := range map[string]func() float64{
		"insert":             b.sqlInsert,
		"insert, engine":     b.engineInsert,
		"insert, file":       func() float64 { return b.fileInsert(l) },
		"inserts":            func() float64 { return b.sqlInserts(10) },
		"inserts, files":     func() float64 { return b.fileInserts(l, 10) },
		"mixed":              b.sqlMixed,
		"mixed, turns":       b.sqlMixedApart,
		"mixed, file":        func() float64 { return b.fileMixed(l) },
		"creates":            b.sqlCreates,
		"creates, file":      func() float64 { return b.fileCreates(l) },
		"opens, engine":      b.engineOpens,
		"opens, file":        func() float64 { return b.fileOpens(l) },
		"reopens":            func() float64 { return b.sqlReopens(2 * fewOpen) },
		"asked, actors":      func() float64 { return b.databases("actors", 20).asked },
		"written to, actors": func() float64 { return b.databases("actors", 20).written },
		"asked, files":       func() float64 { return b.databases(l.name, 20).asked },
		"written to, files":  func() float64 { return b.databases(l.name, 20).written },
	} {
		t.Run(name, func(t *testing.T) {
			if v := measure(); v <= 0 {
				t.Error(v)
			}
		})
	}
}
