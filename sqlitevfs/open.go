package sqlitevfs

import (
	"context"
	"database/sql"
)

// A DB is one database in a Store of the caller's. Its methods may be called from any goroutine.
type DB struct{}

// Open returns the database of a store. Its Migrations are applied first, in an Update of their own.
func Open(ctx context.Context, s Store, ms []Migration, o Options) (*DB, error) { panic("seam") }

// Update runs f in one transaction: what it changes is committed by the store if f returns nil, and vanishes otherwise.
func (db *DB) Update(ctx context.Context, f func(*sql.DB) error) error { panic("seam") }

// View runs f on the last commit, beside updates and other views. f cannot write.
func (db *DB) View(ctx context.Context, f func(*sql.DB) error) error { panic("seam") }

// Close waits for the updates and views that run.
func (db *DB) Close() error { panic("seam") }
