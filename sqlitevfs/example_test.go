package sqlitevfs_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"

	"github.com/cairn-run/cairn/sqlitevfs"
)

// check stands for a program's error handling.
func check(err error) {
	if err != nil {
		panic(err)
	}
}

// A memoryStore is about the smallest store for a database: a map in memory. A commit replaces the
// map, so a snapshot is the current map. A store on a disk has the same methods, and its Update
// returns when everything is on the disk.
type memoryStore struct {
	updating sync.Mutex
	mu       sync.Mutex
	last     keys // as of the last commit; never changed, only replaced
}

func (m *memoryStore) Snapshot(context.Context) (sqlitevfs.Snapshot, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.last, nil
}

func (m *memoryStore) Update(_ context.Context, f func(sqlitevfs.Writer) error) error {
	m.updating.Lock()
	defer m.updating.Unlock()
	next := keys{}
	maps.Copy(next, m.last)
	if err := f(next); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	m.last = next
	return nil
}

// keys are a [sqlitevfs.Snapshot], and in an update a [sqlitevfs.Writer].
type keys map[string][]byte

func (k keys) Get(dst, key []byte) ([]byte, bool, error) {
	value, ok := k[string(key)]
	return append(dst, value...), ok, nil
}

func (k keys) Scan(start, end []byte, f func(key, value []byte) bool) error {
	for _, key := range slices.Sorted(maps.Keys(k)) {
		if key >= string(start) && key < string(end) && !f([]byte(key), k[key]) {
			break
		}
	}
	return nil
}

func (k keys) Put(key, value []byte, _ int) error {
	k[string(key)] = bytes.Clone(value)
	return nil
}

func (k keys) DeleteRange(start, end []byte) error {
	maps.DeleteFunc(k, func(key string, _ []byte) bool { return key >= string(start) && key < string(end) })
	return nil
}

func (k keys) Room() int64 { return math.MaxInt64 }

func (k keys) Close() error { return nil }

var migrations = []sqlitevfs.Migration{
	{Name: "0001_notes", SQL: `CREATE TABLE note (id INTEGER PRIMARY KEY, text TEXT NOT NULL)`},
	{Name: "0002_search", SQL: `
		CREATE VIRTUAL TABLE note_text USING fts5 (text, content = 'note', content_rowid = 'id');
		CREATE TRIGGER note_added AFTER INSERT ON note BEGIN
			INSERT INTO note_text (rowid, text) VALUES (new.id, new.text);
		END;`},
}

// A database in your own store: Open applies missing migrations, Update is a transaction, View
// reads the last commit.
func Example() {
	ctx := context.Background()
	db, err := sqlitevfs.Open(ctx, &memoryStore{}, migrations, sqlitevfs.Options{})
	check(err)
	defer db.Close()

	err = db.Update(ctx, func(tx *sql.DB) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO note (text) VALUES (?), (?)`, "buy milk", "sell the cow")
		return err
	})
	fmt.Println("update:", err)

	// The changes of a failed update vanish.
	err = db.Update(ctx, func(tx *sql.DB) error {
		_, err := tx.ExecContext(ctx, `DELETE FROM note`)
		check(err)
		return errors.New("second thoughts")
	})
	fmt.Println("update:", err)

	err = db.View(ctx, func(tx *sql.DB) error {
		var count int
		var found string
		if err := tx.QueryRowContext(ctx, `SELECT count(*) FROM note`).Scan(&count); err != nil {
			return err
		}
		if err := tx.QueryRowContext(ctx, `SELECT text FROM note_text WHERE note_text MATCH 'milk'`).Scan(&found); err != nil {
			return err
		}
		fmt.Println(count, "notes, found:", found)
		return nil
	})
	fmt.Println("view:", err)
	// Output:
	// update: <nil>
	// update: second thoughts
	// 2 notes, found: buy milk
	// view: <nil>
}

// Transactions inside an update are savepoints of it, so code with its own begins and commits works
// unchanged.
func ExampleDB_Update() {
	ctx := context.Background()
	db, err := sqlitevfs.Open(ctx, &memoryStore{}, migrations, sqlitevfs.Options{})
	check(err)
	defer db.Close()

	err = db.Update(ctx, func(handle *sql.DB) error {
		for _, text := range []string{"kept", "not kept"} {
			tx, err := handle.BeginTx(ctx, nil)
			if err != nil {
				return err
			}
			if _, err := tx.ExecContext(ctx, `INSERT INTO note (text) VALUES (?)`, text); err != nil {
				return errors.Join(err, tx.Rollback())
			}
			if text == "not kept" {
				err = tx.Rollback()
			} else {
				err = tx.Commit()
			}
			if err != nil {
				return err
			}
		}
		var all string
		err := handle.QueryRowContext(ctx, `SELECT group_concat(text) FROM note`).Scan(&all)
		fmt.Println(all)
		return err
	})
	fmt.Println(err)
	// Output:
	// kept
	// <nil>
}

// Sessions are below Update and View. Owners of a store use them to commit a database together with
// other keys.
func ExampleDatabase_Write() {
	ctx := context.Background()
	store := &memoryStore{}
	pool, err := sqlitevfs.NewPool(sqlitevfs.Options{MaxOpen: 100})
	check(err)
	defer pool.Close()
	database := pool.Database("account 7")
	defer database.Close()

	err = store.Update(ctx, func(w sqlitevfs.Writer) error {
		s := database.Write(ctx, w)
		defer s.Rollback() // does nothing after Commit
		if _, err := s.DB().ExecContext(ctx, `CREATE TABLE entry (amount INTEGER); INSERT INTO entry VALUES (40), (2)`); err != nil {
			return err
		}
		if err := w.Put([]byte{1}, []byte("two entries"), -1); err != nil {
			return err
		}
		changed, err := s.Commit() // now the pages are in w
		fmt.Println("changed:", changed)
		return err
	})
	if err != nil {
		database.Discard() // the connection must not remember pages that the store did not commit
		panic(err)
	}

	snapshot, err := store.Snapshot(ctx)
	check(err)
	defer snapshot.Close()
	s := database.Read(ctx, snapshot)
	defer s.Rollback()
	var sum int
	if err := s.DB().QueryRowContext(ctx, `SELECT sum(amount) FROM entry`).Scan(&sum); err != nil {
		panic(err)
	}
	state, _, _ := snapshot.Get(nil, []byte{1})
	fmt.Printf("%s, sum %d\n", state, sum)
	// Output:
	// changed: true
	// two entries, sum 42
}

// Migrations are tried out on a Scratch writer, which keeps the changes to itself.
func ExampleSession_Migrate() {
	ctx := context.Background()
	store := &memoryStore{}
	pool, err := sqlitevfs.NewPool(sqlitevfs.Options{})
	check(err)
	defer pool.Close()
	database := pool.Database("notes")
	defer database.Close()

	// What would happen? A trial has its own Database, because others cannot use the connection's
	// caches.
	try := func(r sqlitevfs.Reader, ms []sqlitevfs.Migration) ([]string, error) {
		d := pool.Database("trial")
		defer d.Close()
		s := d.Write(ctx, sqlitevfs.Scratch(r, 64<<20))
		defer s.Rollback()
		return s.Migrate(ms)
	}
	snapshot, err := store.Snapshot(ctx)
	check(err)
	defer snapshot.Close()
	applied, err := try(snapshot, migrations)
	fmt.Println("trial:", applied, err)

	// Do it, in the caller's transaction.
	err = store.Update(ctx, func(w sqlitevfs.Writer) error {
		s := database.Write(ctx, w)
		defer s.Rollback()
		applied, err := s.Migrate(migrations)
		if err != nil {
			return err
		}
		fmt.Println("applied:", applied)
		_, err = s.Commit()
		return err
	})
	check(err)

	// The metadata shows the pending migrations without a connection, here in a program with one
	// more migration.
	after, err := store.Snapshot(ctx)
	check(err)
	defer after.Close()
	m, _, err := sqlitevfs.ReadMetadata(after)
	check(err)
	pending, err := m.Pending(append(migrations[:2:2], sqlitevfs.Migration{Name: "0003_tags", SQL: "CREATE TABLE tag (name TEXT)"}))
	fmt.Println("pending:", pending, err)

	// A text that was changed after it was applied is refused.
	changed := slices.Clone(migrations)
	changed[0].SQL = strings.Replace(changed[0].SQL, "NOT NULL", "", 1)
	_, err = try(after, changed)
	fmt.Println(err)
	// Output:
	// trial: [0001_notes 0002_search] <nil>
	// applied: [0001_notes 0002_search]
	// pending: [0003_tags] <nil>
	// migration "0001_notes": its text was changed after it was applied
}

// A database is exported as a plain file while it is in use, and a plain file replaces a database.
func ExampleDB_Export() {
	ctx := context.Background()
	db, err := sqlitevfs.Open(ctx, &memoryStore{}, migrations, sqlitevfs.Options{})
	check(err)
	defer db.Close()
	err = db.Update(ctx, func(tx *sql.DB) error {
		_, err := tx.ExecContext(ctx, `INSERT INTO note (text) VALUES ('exported')`)
		return err
	})
	check(err)
	var file bytes.Buffer
	if _, err := db.Export(ctx, &file); err != nil {
		panic(err)
	}
	fmt.Printf("%q\n", file.Bytes()[:15])

	other, err := sqlitevfs.Open(ctx, &memoryStore{}, nil, sqlitevfs.Options{})
	check(err)
	defer other.Close()
	m, err := other.Import(ctx, &file, 1<<20)
	check(err)
	fmt.Println("of these migrations:", m.Current(migrations))
	err = other.View(ctx, func(tx *sql.DB) error {
		var text string
		err := tx.QueryRowContext(ctx, `SELECT text FROM note`).Scan(&text)
		fmt.Println(text)
		return err
	})
	check(err)

	_, err = other.Import(ctx, strings.NewReader("a letter, perhaps"), 1<<20)
	var fault *sqlitevfs.ImportError
	fmt.Println(errors.As(err, &fault), err)
	// Output:
	// "SQLite format 3"
	// of these migrations: true
	// exported
	// true the file cannot be imported: it is not a SQLite database, or it is encrypted
}
