package sqlitevfs

import (
	"context"
	"fmt"
	"testing"

	"github.com/ncruces/go-sqlite3"
)

// BenchmarkInsertTurn is a turn of one INSERT, below the handle, without a store.
func BenchmarkInsertTurn(b *testing.B) {
	p := newTestPool(b, Options{})
	d, w := p.Database("bench"), newMapStore().writer()
	s := d.Write(context.Background(), w)
	mustExec(b, s, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT)")
	if _, err := s.Commit(); err != nil {
		b.Fatal(err)
	}
	var insert *sqlite3.Stmt
	b.ReportAllocs()
	for b.Loop() {
		s := d.Write(context.Background(), w)
		c, err := s.enter(context.Background())
		if err != nil {
			b.Fatal(err)
		}
		if insert == nil {
			insert, _, err = c.db.Prepare("INSERT INTO t (v) VALUES ('some text that is not very long')")
		}
		if err == nil {
			err = insert.Exec()
		}
		s.leave()
		if err != nil {
			b.Fatal(err)
		}
		if _, err := s.Commit(); err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkReadSession is a read session of one SELECT on a connection that is open, beside others that are idle.
func BenchmarkReadSession(b *testing.B) {
	for _, idle := range []int{0, 1000} {
		b.Run(fmt.Sprintf("idle=%d", idle), func(b *testing.B) {
			p := newTestPool(b, Options{})
			d, m := p.Database("bench"), newMapStore()
			writeStore(b, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t (v) VALUES ('a')")
			r := m.snapshot()
			for i := range idle {
				s := p.Database(fmt.Sprint(i)).Read(context.Background(), r)
				if _, err := s.enter(context.Background()); err != nil {
					b.Fatal(err)
				}
				s.leave()
				s.Rollback()
			}
			var query *sqlite3.Stmt
			b.ReportAllocs()
			for b.Loop() {
				s := d.Read(context.Background(), r)
				c, err := s.enter(context.Background())
				if err != nil {
					b.Fatal(err)
				}
				if query == nil {
					query, _, err = c.db.Prepare("SELECT v FROM t WHERE id = 1")
				}
				if err != nil || !query.Step() {
					b.Fatal("no row")
				}
				query.Reset()
				s.leave()
				s.Rollback()
			}
		})
	}
}

// BenchmarkOpen opens a connection and gets a first answer of one table.
func BenchmarkOpen(b *testing.B) {
	for _, write := range []bool{false, true} {
		b.Run(fmt.Sprintf("write=%v", write), func(b *testing.B) {
			p := newTestPool(b, Options{})
			d, m := p.Database("bench"), newMapStore()
			writeStore(b, m, d, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); INSERT INTO t (v) VALUES ('a')")
			w := m.writer()
			b.ReportAllocs()
			for b.Loop() {
				d := p.Database("bench")
				s := d.Read(context.Background(), w)
				if write {
					s = d.Write(context.Background(), w)
				}
				wantRows(b, s, "SELECT v FROM t WHERE id = 1", "a")
				s.Rollback()
				d.Close()
			}
		})
	}
}

// BenchmarkScan reads a table of 100,000 rows through a connection that is new to it.
func BenchmarkScan(b *testing.B) {
	p := newTestPool(b, Options{})
	d, w := p.Database("bench"), newMapStore().writer()
	s := d.Write(context.Background(), w)
	mustExec(b, s, "CREATE TABLE t (id INTEGER PRIMARY KEY, v TEXT); WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i+1 FROM n WHERE i < 100000) INSERT INTO t SELECT i, 'some text that is a hundred bytes long, or so it is hoped by the one who has written it some day ago' FROM n")
	if _, err := s.Commit(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	for b.Loop() {
		w.gets, w.scans = 0, 0
		s := d.Read(context.Background(), w)
		wantRows(b, s, "SELECT sum(length(v)) FROM t", "10000000")
		s.Rollback()
		d.Discard()
	}
	b.ReportMetric(float64(w.gets), "gets/op")
	b.ReportMetric(float64(w.scans), "scans/op")
}
