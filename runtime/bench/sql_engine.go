package main

import (
	"context"
	"database/sql"
	"os"

	"github.com/cairn-run/cairn/engine"
	"github.com/cairn-run/cairn/sqlitevfs"
)

// A space is a database in a keyspace of a store, without actors: what is left of an insert when
// the kernel is not there.
type space struct {
	*engine.Space
	pool     *sqlitevfs.Pool
	database *sqlitevfs.Database
}

// pages is the write set of a space as a database sees it.
type pages struct{ *engine.WriteSet }

// Get implements sqlitevfs.Reader.
func (p pages) Get(dst, key []byte) ([]byte, bool, error) { return p.AppendValue(dst, key) }

// Put implements sqlitevfs.Writer.
func (p pages) Put(key, value []byte, old int) error {
	return p.WriteSet.Put(key, value, engine.PutOptions{Known: true, Old: old})
}

// DeleteRange implements sqlitevfs.Writer.
func (p pages) DeleteRange(start, end []byte) error {
	_, err := p.WriteSet.DeleteRange(start, end)
	return err
}

// snapshot is what a database sees of a snapshot.
type snapshot struct{ *engine.Snapshot }

// Get implements sqlitevfs.Reader.
func (s snapshot) Get(dst, key []byte) ([]byte, bool, error) { return s.AppendValue(dst, key) }

// space runs f with an empty database in a store of its own.
func (b *bench) space(f func(s *space)) {
	dir, err := os.MkdirTemp(b.dir, "space-")
	check(err)
	defer os.RemoveAll(dir)
	store, err := engine.Open(context.Background(),
		engine.Options{Dir: dir, Limits: engine.Limits{MaxWriteSet: 256 << 20}})
	check(err)
	pool, err := sqlitevfs.NewPool(sqlitevfs.Options{})
	check(err)
	i := engine.Identity{Namespace: "default", Type: "shop", Key: []string{"one"}}
	sp, err := store.OpenSpace(store.NewActorID(i))
	check(err)
	check(sp.Writes().Create(i))
	s := &space{sp, pool, pool.Database("one")}
	s.update(func(db *sql.DB) {
		_, err := db.Exec(sqlSchema)
		check(err)
	})
	f(s)
	s.database.Close()
	check(pool.Close())
	sp.Close()
	check(store.Close())
}

// update runs f in a transaction, and returns when it is durable.
func (s *space) update(f func(db *sql.DB)) {
	s.Writes().Advance(0)
	session := s.database.Write(context.Background(), pages{s.Writes()})
	f(session.DB())
	_, err := session.Commit()
	check(err)
	done := make(chan error, 1)
	_, err = s.Commit(func(err error) { done <- err })
	check(err)
	check(<-done)
}

func (s *space) fill(n int) {
	s.update(func(db *sql.DB) {
		stmt, err := db.Prepare(sqlInsert)
		check(err)
		for i := range n {
			k, v, body := sqlArgs(i)
			_, err := stmt.Exec(k, v, body)
			check(err)
		}
		check(stmt.Close())
	})
}

func (b *bench) engineInsert() (v float64) {
	b.space(func(s *space) {
		v = b.p50(func(i int) {
			s.update(func(db *sql.DB) {
				k, v, body := sqlArgs(i)
				_, err := db.Exec(sqlInsert, k, v, body)
				check(err)
			})
		})
	})
	return v
}

// opened measures f on the last commit, on a database that is opened for it.
func (s *space) opened(b *bench, f func(db *sql.DB)) float64 {
	at := s.Snapshot()
	defer at.Close()
	var d *sqlitevfs.Database
	return b.p50Before(func(int) {
		d = s.pool.Database("one")
		session := d.Read(context.Background(), snapshot{at})
		f(session.DB())
		session.Rollback()
	}, func() { d.Close() })
}

func (b *bench) engineScansCold() (v float64) {
	b.space(func(s *space) {
		s.fill(sqlTable)
		v = sqlTable / s.opened(b, func(db *sql.DB) {
			_, err := sqlScanOf(db)
			check(err)
		})
		b.cpu /= sqlTable
	})
	return v
}

func (b *bench) engineOpens() (v float64) {
	b.space(func(s *space) {
		s.fill(smallTable)
		v = s.opened(b, func(db *sql.DB) {
			_, err := sqlPointOf(db.QueryRow(sqlPoint, smallTable/2))
			check(err)
		})
	})
	return v
}
