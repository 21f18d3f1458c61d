package sqlitevfs_test

import (
	"bytes"
	"context"
	"database/sql"
	"errors"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cairn-run/cairn/sqlitevfs"
)

func mustOpen(t *testing.T, s sqlitevfs.Store, ms []sqlitevfs.Migration) *sqlitevfs.DB {
	t.Helper()
	db, err := sqlitevfs.Open(t.Context(), s, ms, sqlitevfs.Options{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := db.Close(); err != nil {
			t.Error(err)
		}
	})
	return db
}

func runs(text string, args ...any) func(*sql.DB) error {
	return func(tx *sql.DB) error {
		_, err := tx.Exec(text, args...)
		return err
	}
}

func view(t *testing.T, db *sqlitevfs.DB, text string) (result string) {
	t.Helper()
	if err := db.View(t.Context(), func(tx *sql.DB) error { return tx.QueryRow(text).Scan(&result) }); err != nil {
		t.Errorf("%s: %v", text, err)
	}
	return result
}

// failing is a store whose commits fail after everything was put.
type failing struct {
	memoryStore
	fault error
}

func (f *failing) Update(ctx context.Context, g func(sqlitevfs.Writer) error) error {
	return f.memoryStore.Update(ctx, func(w sqlitevfs.Writer) error { return errors.Join(g(w), f.fault) })
}

func TestCommitThatTheStoreRefusesLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	store := &failing{}
	db := mustOpen(t, store, migrationsOf(`CREATE TABLE a (x)`))
	if err := db.Update(t.Context(), runs(`INSERT INTO a VALUES (1)`)); err != nil {
		t.Fatal(err)
	}
	store.fault = errors.New("no disk")
	for _, text := range []string{`INSERT INTO a VALUES (2)`, `CREATE TABLE b (x)`, `VACUUM`} {
		if err := db.Update(t.Context(), runs(text)); !errors.Is(err, store.fault) {
			t.Errorf("%s: %v", text, err)
		}
	}
	store.fault = nil
	if err := db.Update(t.Context(), runs(`INSERT INTO a VALUES (3); CREATE TABLE b (x)`)); err != nil {
		t.Fatal(err)
	}
	if got := view(t, db, `SELECT group_concat(x) || ' ' || (SELECT * FROM pragma_integrity_check) FROM a`); got != "1,3 ok" {
		t.Errorf("rows %s", got)
	}
}

func TestUpdateThatFailsOrPanicsLeavesNothingBehind(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, &memoryStore{}, migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES (1)`))
	fault := errors.New("fault")
	for name, end := range map[string]func() error{
		"error": func() error { return fault },
		"panic": func() error { panic(fault) },
	} {
		for _, text := range []string{`INSERT INTO a VALUES (2)`, `DELETE FROM a; CREATE TABLE b (x)`, `DELETE FROM a; VACUUM`} {
			func() {
				defer func() {
					if p := recover(); (p != nil) != (name == "panic") {
						t.Errorf("%s: %s: panic %v", name, text, p)
					}
				}()
				err := db.Update(t.Context(), func(tx *sql.DB) error {
					if err := runs(text)(tx); err != nil {
						t.Errorf("%s: %s: %v", name, text, err)
					}
					return end()
				})
				if err != fault {
					t.Errorf("%s: %s: %v", name, text, err)
				}
			}()
		}
	}
	if got := view(t, db, `SELECT group_concat(x) || ' ' || (SELECT count(*) FROM sqlite_schema WHERE name = 'b') FROM a`); got != "1 0" {
		t.Errorf("rows %s", got)
	}
}

func TestViewReadsTheLastCommitAndCannotWrite(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, &memoryStore{}, migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES (1)`))
	err := db.View(t.Context(), runs(`INSERT INTO a VALUES (2)`))
	if !errors.Is(err, sqlitevfs.ErrReadOnly) {
		t.Errorf("write in a view: %v", err)
	}
	err = db.View(t.Context(), func(before *sql.DB) error {
		err := db.Update(t.Context(), func(tx *sql.DB) error {
			if err := runs(`INSERT INTO a VALUES (2)`)(tx); err != nil {
				return err
			}
			if got := view(t, db, `SELECT count(*) FROM a`); got != "1" {
				t.Errorf("a view inside an update sees %s rows", got)
			}
			return nil
		})
		if err != nil {
			return err
		}
		var n int
		if err := before.QueryRow(`SELECT count(*) FROM a`).Scan(&n); err != nil || n != 1 {
			t.Errorf("a view from before a commit sees %d rows, %v", n, err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
	if got := view(t, db, `SELECT count(*) FROM a`); got != "2" {
		t.Errorf("a view after it sees %s rows", got)
	}
}

func TestUpdatesTakeTurnsBesideViews(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, &memoryStore{}, migrationsOf(`CREATE TABLE a (n INTEGER, m INTEGER); INSERT INTO a VALUES (0, 0)`))
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 25 {
				err := db.Update(t.Context(), func(tx *sql.DB) error {
					var n int
					if err := tx.QueryRow(`SELECT n FROM a`).Scan(&n); err != nil {
						return err
					}
					return errors.Join(runs(`UPDATE a SET n = ?`, n+1)(tx), runs(`UPDATE a SET m = ?`, n+1)(tx))
				})
				if err != nil {
					t.Error(err)
				}
			}
		})
		wg.Go(func() {
			for range 25 {
				if got := view(t, db, `SELECT CASE n WHEN m THEN 'same' ELSE n || ' and ' || m END FROM a`); got != "same" {
					t.Errorf("a view sees half of an update: %s", got)
				}
			}
		})
	}
	wg.Wait()
	if got := view(t, db, `SELECT n FROM a`); got != "100" {
		t.Errorf("%s updates of 100 are there", got)
	}
}

func TestUpdateWaitsNoLongerThanItsContext(t *testing.T) {
	t.Parallel()
	db := mustOpen(t, &memoryStore{}, nil)
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("why")
	err := db.Update(t.Context(), func(*sql.DB) error {
		cancel(why)
		if err := db.Update(ctx, func(*sql.DB) error { return nil }); !errors.Is(err, sqlitevfs.ErrInterrupted) || !errors.Is(err, why) {
			t.Errorf("a waiting update: %v", err)
		}
		return nil
	})
	if err != nil {
		t.Error(err)
	}
}

func TestCloseWaitsForWhatRuns(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		db, err := sqlitevfs.Open(t.Context(), &memoryStore{}, migrationsOf(`CREATE TABLE a (x)`), sqlitevfs.Options{})
		if err != nil {
			t.Fatal(err)
		}
		release := make(chan struct{})
		var closed atomic.Bool
		go func() {
			err := db.View(t.Context(), func(tx *sql.DB) error {
				<-release
				if closed.Load() {
					t.Error("closed under a view")
				}
				return runs(`SELECT * FROM a`)(tx)
			})
			if err != nil {
				t.Error(err)
			}
		}()
		synctest.Wait()
		go func() {
			if err := db.Close(); err != nil {
				t.Error(err)
			}
			closed.Store(true)
		}()
		synctest.Wait()
		if err := db.View(t.Context(), runs(`SELECT 1`)); !errors.Is(err, sqlitevfs.ErrClosed) || closed.Load() {
			t.Errorf("a view while it closes: %v; closed %v", err, closed.Load())
		}
		close(release)
		synctest.Wait()
		if !closed.Load() {
			t.Error("not closed")
		}
		if err := db.Update(t.Context(), runs(`SELECT 1`)); !errors.Is(err, sqlitevfs.ErrClosed) {
			t.Errorf("an update afterwards: %v", err)
		}
	})
}

func TestOpenAppliesMigrationsOnceAndFailsWithoutATrace(t *testing.T) {
	t.Parallel()
	store := &memoryStore{}
	ms := migrationsOf(`CREATE TABLE a (x)`, `nonsense`)
	var fault *sqlitevfs.MigrationError
	if _, err := sqlitevfs.Open(t.Context(), store, ms, sqlitevfs.Options{}); !errors.As(err, &fault) || fault.Name != "0002" || len(store.last) > 0 {
		t.Errorf("%v, %d keys", err, len(store.last))
	}
	mustOpen(t, store, ms[:1])
	before := store.last
	mustOpen(t, store, ms[:1])
	mustOpen(t, store, nil)
	if len(before) != len(store.last) || metadata(t, before) != metadata(t, store.last) {
		t.Error("opening it again wrote something")
	}
	if _, err := sqlitevfs.Open(t.Context(), store, ms[:0], sqlitevfs.Options{}); !errors.Is(err, sqlitevfs.ErrNewer) {
		t.Errorf("opened by an older program: %v", err)
	}
	if _, err := sqlitevfs.Open(t.Context(), store, nil, sqlitevfs.Options{MaxOpen: -1}); err == nil {
		t.Error("options with a fault were taken")
	}
}

func TestImportThatTheStoreRefusesLeavesTheOldDatabase(t *testing.T) {
	t.Parallel()
	from := mustOpen(t, &memoryStore{}, migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES ('new')`))
	var file bytes.Buffer
	if _, err := from.Export(t.Context(), &file); err != nil {
		t.Fatal(err)
	}
	store := &failing{}
	db := mustOpen(t, store, migrationsOf(`CREATE TABLE a (x); INSERT INTO a VALUES ('old')`))
	store.fault = errors.New("no disk")
	if _, err := db.Import(t.Context(), bytes.NewReader(file.Bytes()), 1<<20); !errors.Is(err, store.fault) {
		t.Error(err)
	}
	store.fault = nil
	if err := db.Update(t.Context(), runs(`INSERT INTO a VALUES ('more')`)); err != nil {
		t.Fatal(err)
	}
	if got := view(t, db, `SELECT group_concat(x) FROM a`); got != "old,more" {
		t.Errorf("rows %s", got)
	}
	if _, err := db.Import(t.Context(), &file, 1<<20); err != nil {
		t.Fatal(err)
	}
	if err := db.Update(t.Context(), runs(`INSERT INTO a VALUES ('more')`)); err != nil {
		t.Fatal(err)
	}
	if got := view(t, db, `SELECT group_concat(x) FROM a`); got != "new,more" {
		t.Errorf("rows %s", got)
	}
}
