package sqlitevfs

import (
	"context"
	"database/sql"
	"errors"
	"io"
	"sync"
)

// openMaxOpen is how many connections a DB has by default: a writer, and readers.
const openMaxOpen = 8

// A DB is one database in the caller's Store. Its methods may be called from any goroutine.
type DB struct {
	store    Store
	pool     *Pool
	database *Database
	turn     chan struct{} // has one token, so updates run one at a time

	mu      sync.Mutex
	closed  bool
	running sync.WaitGroup // updates and views; Add under mu, and not after closed
}

// Open returns the database of a store; its first write creates it. Open first applies migrations,
// in their own Update. If none is pending it only reads the store, and if ms is nil it does not
// even read it. If o.MaxOpen is zero it is 8.
func Open(ctx context.Context, s Store, ms []Migration, o Options) (*DB, error) {
	if o.MaxOpen == 0 {
		o.MaxOpen = openMaxOpen
	}
	pool, err := NewPool(o)
	if err != nil {
		return nil, err
	}
	db := &DB{store: s, pool: pool, database: pool.Database("main"), turn: make(chan struct{}, 1)}
	db.database.EnableDecimal()
	if ms != nil {
		if err := db.migrate(ctx, ms); err != nil {
			return nil, errors.Join(err, db.Close())
		}
	}
	return db, nil
}

func (db *DB) migrate(ctx context.Context, ms []Migration) error {
	current := false
	err := db.snapshot(ctx, func(r Reader) error {
		m, _, err := ReadMetadata(r)
		current = m.Current(ms)
		return err
	})
	if err != nil || current {
		return err
	}
	return db.session(ctx, func(s *Session) error {
		_, err := s.Migrate(ms)
		return err
	})
}

// Update runs f in one transaction. The store commits its changes if f returns nil, and otherwise
// they vanish. Updates wait for each other; f must not call Update. View in f reads the last
// commit, without the changes of f.
func (db *DB) Update(ctx context.Context, f func(*sql.DB) error) error {
	return db.session(ctx, func(s *Session) error { return f(s.DB()) })
}

func (db *DB) session(ctx context.Context, f func(*Session) error) error {
	return db.change(ctx, func(w Writer) (bool, error) {
		s := db.database.Write(ctx, w)
		defer s.Rollback() // nothing after Commit; for an error or a panic of f
		if err := f(s); err != nil {
			return false, err
		}
		return s.Commit()
	})
}

// change runs f in an Update of the store. f returns whether it changed the writer.
func (db *DB) change(ctx context.Context, f func(Writer) (bool, error)) error {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.running.Done()
	select {
	case db.turn <- struct{}{}:
	case <-ctx.Done():
		return interrupted(ctx)
	}
	defer func() { <-db.turn }()
	changed, committed := false, false
	defer func() {
		// Pages that the store's writer dropped must not stay in the connection's cache.
		if changed && !committed {
			db.database.Discard()
		}
	}()
	err := db.store.Update(ctx, func(w Writer) (err error) {
		changed, err = f(w)
		return err
	})
	committed = err == nil
	return err
}

// View runs f on the last commit, concurrently with updates and other views. f cannot write.
func (db *DB) View(ctx context.Context, f func(*sql.DB) error) error {
	return db.view(ctx, func(r Reader) error {
		s := db.database.Read(ctx, r)
		defer s.Rollback()
		return f(s.DB())
	})
}

func (db *DB) view(ctx context.Context, f func(Reader) error) error {
	if err := db.begin(); err != nil {
		return err
	}
	defer db.running.Done()
	return db.snapshot(ctx, f)
}

func (db *DB) snapshot(ctx context.Context, f func(Reader) error) (err error) {
	sn, err := db.store.Snapshot(ctx)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, sn.Close()) }()
	return f(sn)
}

// Export writes the database as of its last commit as a plain SQLite file, as [Export] does,
// concurrently with updates and views.
func (db *DB) Export(ctx context.Context, w io.Writer) (n int64, err error) {
	err = db.view(ctx, func(r Reader) error {
		n, err = Export(ctx, w, r)
		return err
	})
	return n, err
}

// Import replaces the database by a plain SQLite file, as [Database.Import] does, in its own
// Update. It applies no migrations; the next Open applies those of the program.
func (db *DB) Import(ctx context.Context, file io.Reader, maxBytes int64) (m Metadata, err error) {
	err = db.change(ctx, func(w Writer) (bool, error) {
		m, err = db.database.Import(ctx, w, file, maxBytes)
		return true, err
	})
	return m, err
}

func (db *DB) begin() error {
	db.mu.Lock()
	defer db.mu.Unlock()
	if db.closed {
		return ErrClosed
	}
	db.running.Add(1)
	return nil
}

// Close waits for running updates and views. Those begun later fail with [ErrClosed].
func (db *DB) Close() error {
	db.mu.Lock()
	db.closed = true
	db.mu.Unlock()
	db.running.Wait()
	db.database.Close()
	return db.pool.Close()
}
